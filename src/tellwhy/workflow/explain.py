"""The one-liner: explain any model's scores with the cheapest exact method that applies."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.explainer import Explainer, LearnsFromRows, RemembersRows
from tellwhy.core.explanation import Explanation
from tellwhy.core.registry import Card, card, cards, explainer_card, explainer_cards
from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring import EncodedScore, NetworkOutput, as_score

if TYPE_CHECKING:
    import pandas as pd


def explain(
    model: object,
    X: ArrayLike,
    method: str = "auto",
    background: ArrayLike | None = None,
    **params: Any,
) -> Explanation:
    """Explain the score of each row of X.

    Parameters
    ----------
    model
        A fitted detector (of this library, scikit-learn or PyOD), a pipeline, a function giving one number
        per row, high = anomalous, a PyTorch module, or a linear classifier, whose labels are explained.
    X
        Rows to explain: an array or a frame, in the columns the model was fitted on.
    method
        Name of an explainer (see `tellwhy.methods()`), or 'auto': the cheapest exact method that applies,
        named in the result's `method`.
    background
        Ordinary rows, for the methods that need them (X itself by default) and for
        `extras["nearest_normal"]`.
    params
        Parameters of the explainer, and further ones of its `explain`, such as `against` of
        `LinearRelevance`.

    Examples
    --------
    >>> import numpy as np, tellwhy
    >>> from sklearn.svm import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explanation = tellwhy.explain(OneClassSVM(nu=0.1).fit(X), np.array([[0.0, 9.0, 0.0]]))
    >>> explanation.method, int(explanation.values.argmax())
    ('OneClassDTD', 1)
    """
    chosen = _label_card(model) if method == "auto" else explainer_card(method)
    explained = model
    if chosen is None or chosen.role == "explainer":  # these get the score: a model is read only once
        score = explained = as_score(model)
        chosen = chosen or chosen_card(score, method)
    at_explain = {name: params.pop(name) for name in _asked_by_explain(chosen) if name in params}
    explainer: Explainer = chosen.cls(explained, **params)
    _show_ordinary_rows(explainer, X, background)
    explanation = explainer.explain(X, **at_explain)
    if method != "auto" or chosen.role != "explainer":
        return explanation
    return replace(
        explanation, params={**explanation.params, "chosen": "automatically: the cheapest that applies"}
    )


def _label_card(model: object) -> Card | None:
    """Return the explainer of labels that applies to a classifier; None for other models."""
    labels = cards("classifier explainer")
    return next((c for c in labels if c.applies is not None and c.applies(model)), None)


def _asked_by_explain(chosen: Card) -> list[str]:
    """Parameters that a method takes when it explains, such as the class to explain labels against."""
    taken = inspect.signature(chosen.cls.explain).parameters
    return list(taken)[2:]  # after the explainer itself and the rows


def _show_ordinary_rows(explainer: Explainer, X: ArrayLike, background: ArrayLike | None) -> None:
    """Let an explainer learn from the background, or remember it, where it can."""
    if isinstance(explainer, LearnsFromRows):
        explainer.fit(X if background is None else background)
    elif isinstance(explainer, RemembersRows) and background is not None:
        explainer.remember(background)


def chosen_card(score: ScoreFunction, method: str) -> Card:
    """Return the explainer of that name; for 'auto' the first that applies, the cheapest first."""
    if method != "auto":
        return card("explainer", method)
    if isinstance(score, NetworkOutput):  # explained from zero; what is missing is stated
        return card("explainer", "IntegratedGradients")
    seen = score.inner if isinstance(score, EncodedScore) and score.owner is not None else score
    considered = sorted(
        (c for c in cards("explainer") if c.automatic is not None), key=lambda c: c.automatic or 0
    )
    for candidate in considered:
        if candidate.applies is not None and candidate.applies(seen):
            return candidate
    raise UnsupportedModel(f"No explainer applies to {score.describes}.")


def methods() -> pd.DataFrame:
    """Return the table of explainers: name, family, needs, cost, exactness, citation.

    Examples
    --------
    >>> import tellwhy
    >>> "OneClassDTD" in set(tellwhy.methods()["name"])
    True
    """
    import pandas as pd

    fields = ("name", "family", "needs", "cost", "exactness", "citation")
    return pd.DataFrame([{field: getattr(c, field) for field in fields} for c in explainer_cards()])
