"""The one-liner: explain any model's scores with the cheapest exact method that applies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.registry import Card, card, cards
from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring import EncodedScore, NetworkOutput, as_score

if TYPE_CHECKING:
    import pandas as pd


def explain(model: Any, X: Any, method: str = "auto", background: Any = None, **params: Any) -> Explanation:
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
        Parameters of the explainer; of `LinearRelevance`, those of its `explain`.

    Examples
    --------
    >>> import numpy as np, tellwhy
    >>> from sklearn.svm import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explanation = tellwhy.explain(OneClassSVM(nu=0.1).fit(X), np.array([[0.0, 9.0, 0.0]]))
    >>> explanation.method, int(explanation.values.argmax())
    ('OneClassDTD', 1)
    """
    network = _named("network explainer", method)
    if network is not None:
        explained: Explanation = network.cls(model, **params).explain(X)
        return explained
    labels = _of_labels(model, method)
    if labels is not None:
        why: Explanation = labels.cls(model).explain(X, **params)
        return why
    score = as_score(model)
    explainer = chosen_card(score, method).cls(score, **params)
    if hasattr(explainer, "fit"):
        explainer.fit(X if background is None else background)
    elif background is not None:
        explainer.remember(background)
    explanation: Explanation = explainer.explain(X)
    if method != "auto":
        return explanation
    return replace(
        explanation, params={**explanation.params, "chosen": "automatically: the cheapest that applies"}
    )


def _named(role: str, method: str) -> Card | None:
    wanted = method.lower().replace("_", "").replace("-", "")
    return next((c for c in cards(role) if c.name.lower() == wanted), None)


def _of_labels(model: Any, method: str) -> Card | None:
    """Return the explainer of labels that is asked for; with 'auto', one that applies to this classifier."""
    if method != "auto":
        return _named("classifier explainer", method)
    return next(
        (c for c in cards("classifier explainer") if c.applies is not None and c.applies(model)), None
    )


def chosen_card(score: ScoreFunction, method: str) -> Card:
    """Return the explainer of that name; for 'auto' the first that applies, in the order they are considered."""
    if method != "auto":
        return card("explainer", method)
    if isinstance(score, NetworkOutput):
        return card(
            "explainer", "IntegratedGradients"
        )  # of any network, from zero, with what is missing stated
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
    listed = [*cards("explainer"), *cards("network explainer"), *cards("graph explainer")]
    listed += cards("classifier explainer")
    return pd.DataFrame([{field: getattr(c, field) for field in fields} for c in listed])
