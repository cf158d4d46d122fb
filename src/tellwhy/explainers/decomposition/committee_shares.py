"""Shares that a score knows itself: the surprise of a committee handed down to the columns."""

from __future__ import annotations

from tellwhy.core.capabilities import HasShares
from tellwhy.core.registry import register
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer, lacks


@register(
    "explainer",
    family="decomposition",
    needs="a score that knows its shares, as that of a Committee does",
    cost="about twice the cost of scoring",
    exactness="exact: each member's surprise is shared as the member's own score is",
    citation="Montavon, Lapuschkin, Binder, Samek, Müller, Pattern Recognition 65 (2017), on handing down",
    applies=lambda score: isinstance(score, HasShares),
    automatic=0,
)
class CommitteeShares(ScoreExplainer):
    """R_i = Σ_m p_m · r_mi / s_m: p_m is the part of member m in the surprise, r_mi that of column i in s_m.

    A row that the model was trained on is judged without itself.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.detectors import Committee
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explanation = CommitteeShares(Committee().fit(X)).explain([[0.1, 9.0, 0.2]])
    >>> int(explanation.values.argmax())
    1
    """

    leaves_rows_out = True

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasShares):
            raise lacks(rows.score, "CommitteeShares", "shares of its own")
        return Attribution(rows.score.shares(rows.X, *rows.without), rows.scores())
