"""A committee of simple detectors that are explained in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rule, Rules, generator, integer, none, real, seed
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import random_sample
from tellwhy.detectors.base import RememberingDetector, calibration_rows
from tellwhy.detectors.committee.member import ColumnScales
from tellwhy.detectors.committee.neighbours import Neighbours
from tellwhy.detectors.committee.panel import MEMBERS, MemberMaker, Panel, Training, remembered_as
from tellwhy.detectors.committee.score import CommitteeScore

# Chosen on 18 public sets and on generated tables (benchmarks/tables/default_detector.py says how).
WEIGHTS: Mapping[str, float] = {
    "tails": 0.5,
    "near": 2.0,
    "squeezed": 3.0,
    "gaussian": 0.5,
    "dependence": 0.25,
    "pairs": 0.25,
}
LEAST_TRIMMED = 20  # rows; of fewer, none is set aside
# Which rows to set aside is decided by their distance to a third of so few others that a cluster of anomalies
# is a small part of these: it cannot vouch for itself.
FIRST_POINTS = 100
FIRST_NEIGHBOURS = 33

_WEIGHTS = Rule(
    "a mapping from names of members to positive weights",
    lambda value: isinstance(value, Mapping) and len(value) > 0 and all(w > 0 for w in value.values()),
)
_MAKERS = Rule(
    "a mapping from names to functions of the training rows",
    lambda value: isinstance(value, Mapping) and all(callable(maker) for maker in value.values()),
)


@register(
    "detector",
    needs="numeric columns, on any scales",
    cost="fit and score O(n m d), m ≤ max_points remembered rows",
    exactness="closed form",
    citation="Vovk, Wang, Annals of Statistics 49 (2021), on combining; members are classical",
)
class Committee(RememberingDetector):
    """How surprising a row is to several simple detectors together.

    Members look for different things: `tails` for values far out in their column or rare for it, `near` and
    `squeezed` for rows far from their 10 nearest ones (in plain units, and in units that shorten long tails),
    `gaussian` for rows off the directions in which rows spread, `dependence` for cells that the other columns
    contradict, `pairs` for labels that hardly ever come together. Each score becomes −log of the probability
    that an ordinary row scores as high; the outlierness is the same of what they say together (see `Panel`),
    so that exp(−outlierness) is a p-value.

    Rows that are far from most others are set aside before the members learn: equal anomalies would otherwise
    vouch for each other.

    Parameters
    ----------
    members
        Names of members and their weights; None for all, with weights chosen on public data.
    extra
        Further members: a name and a function that takes a `Training` and returns a fitted member. They have
        weight 1 unless `members` says otherwise.
    trim
        Share of rows to set aside; 0 where all rows are known to be ordinary.
    max_points
        How many rows the members that compare rows remember at most.
    contamination
        Share of training rows, each scored as if it were new, above the threshold that `fit` sets.
    random_state
        Seed of the choice of remembered rows.

    Attributes
    ----------
    panel_
        The fitted members.
    remembered_, points_
        Training rows that are remembered, by number, and themselves.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> X[:20, 2] = -999.0
    >>> committee = Committee().fit(X)
    >>> np.sort(np.argsort(committee.training_scores_)[-20:]).tolist() == list(range(20))
    True
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "members": (none, _WEIGHTS),
        "extra": (none, _MAKERS),
        "trim": real(0, 0.5, closed="left"),
        "max_points": integer(10),
        "contamination": real(0, 0.5, closed="right"),
        "random_state": seed,
    }

    def __init__(
        self,
        members: Mapping[str, float] | None = None,
        *,
        extra: Mapping[str, MemberMaker] | None = None,
        trim: float = 0.1,
        max_points: int = 4_000,
        contamination: float = 0.01,
        random_state: int = 0,
    ):
        self.members = members
        self.extra = extra
        self.trim = trim
        self.max_points = max_points
        self.contamination = contamination
        self.random_state = random_state

    def _fit(self, X: Floats) -> None:
        rng = generator(self.random_state)
        raw = X
        self.columns_ = ColumnScales.learn(X)
        X = self.columns_.of(X)
        training = self._training(X, rng)
        self.panel_ = self._panel(training)
        self.remembered_ = training.remembered
        self.points_ = raw[training.remembered]
        self.n_training_ = len(X)
        rows = calibration_rows(len(X))
        score = self.to_score()
        self.training_scores_ = score.panel.value(X[rows], score.points_of(rows))
        self.set_threshold(contamination=self.contamination)

    def _training(self, X: Floats, rng: np.random.Generator) -> Training:
        everyone = Training(X, np.arange(len(X)), np.empty(0, dtype=np.int64))
        kept = self._ordinary(everyone, rng)
        remembered = kept[random_sample(len(kept), int(self.max_points), rng)]
        return replace(everyone, kept=kept, remembered=remembered, known_laws=everyone.laws)

    def _ordinary(self, everyone: Training, rng: np.random.Generator) -> Integers:
        """Rows that are not among the farthest; all where none is to be set aside."""
        X = everyone.X
        if self.trim == 0 or len(X) < LEAST_TRIMMED:
            return everyone.kept
        few = random_sample(len(X), FIRST_POINTS, rng)
        places = remembered_as(replace(everyone, remembered=few))
        # Values beside a spike are no first candidates; far values in long tails are.
        straight = everyone.straight.spikes_alone()
        far = Neighbours.learn(X, few, FIRST_NEIGHBOURS, straight=straight).score(X, places)
        return np.flatnonzero(far <= np.quantile(far, 1 - self.trim))

    def _panel(self, training: Training) -> Panel:
        makers = {**MEMBERS, **(self.extra or {})}
        weights = self.members or {**WEIGHTS, **dict.fromkeys(self.extra or {}, 1.0)}
        for name in weights:
            if name not in makers:
                listed = ", ".join(makers)
                raise InvalidParameter(f"Committee has no member {name!r}. There are: {listed}.")
        rows = calibration_rows(len(training.X))
        return Panel.learn(training, makers, weights, calibration=rows, is_clean=self.trim == 0)

    def to_score(self) -> CommitteeScore:
        """Return the surprise as a score function that knows its shares."""
        check_is_fitted(self)
        return CommitteeScore(
            self.panel_,
            self.columns_,
            self.points_,
            self.remembered_,
            self.n_training_,
            feature_names=self._names,
            threshold=getattr(self, "threshold_", None),
        )
