"""Explanations of a classifier of two classes, all rows in terms of one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.extras import Extras
from tellwhy.core.score_function import Floats

if TYPE_CHECKING:
    from tellwhy.core.explanation import Explanation

PREDICTED_CLASS = "the predicted class"
_SAME_SUM = 1e-6  # outputs are in single precision in some libraries
_SIGNED = ("interactions", "group_values")  # extras that change sign with the values


def complement_of(outputs: Floats) -> float | None:
    """Return what the outputs of two classes add up to in every row; None where that differs.

    Margins add up to 0 and probabilities to 1: what speaks for one class then speaks as much against the
    other.

    Examples
    --------
    >>> complement_of(np.array([[0.2, 0.8], [0.5, 0.5]])), complement_of(np.array([[0.2, 0.1], [0.5, 0.5]]))
    (1.0, None)
    """
    sums = outputs.sum(axis=1)
    if outputs.shape[1] != 2 or np.ptp(sums) > _SAME_SUM * (1.0 + np.abs(outputs).max()):
        return None
    return float(np.round(sums.mean(), 6))


def can_be_of_class(explanation: Explanation) -> bool:
    """Whether rows can be told in terms of either class."""
    return explanation.params.get("classes_sum") is not None and "explained" in explanation.extras


def of_class(explanation: Explanation, label: Any) -> Explanation:
    """Return the explanation with every row in terms of one class of two."""
    classes = [str(name) for name in explanation.params.get("classes") or ()]
    if not can_be_of_class(explanation):
        raise InvalidInput(
            "This explanation is not one of a classifier of two classes whose outputs add up to a constant. "
            f"Explain the class itself: tellwhy.explain(model, X, target={label!r})."
        )
    if str(label) not in classes:
        raise InvalidInput(f"There is no class {label!r}. The classes are {', '.join(classes)}.")
    explained = np.array([str(name) for name in explanation.extras["explained"]])
    is_other = explained != str(label)
    return _flipped(explanation, is_other, classes.index(str(label)))


def _flipped(explanation: Explanation, is_other: Any, place: int) -> Explanation:
    """Turn rows of the other class around: its output is the constant less that of this one."""
    total = float(explanation.params["classes_sum"])
    sign = np.where(is_other, -1.0, 1.0)
    name = explanation.params["classes"][place]
    words = str(explanation.params.get("explains", ""))
    for told in (PREDICTED_CLASS, f"class {explanation.params['classes'][1 - place]!r}"):
        words = words.replace(told, f"class {name!r}")
    extras = {
        key: held * sign.reshape(-1, *[1] * (held.ndim - 1)) if key in _SIGNED else held
        for key, held in explanation.extras.held().items()
    }
    extras["explained"] = np.full(len(sign), name)
    if "output" in extras:
        extras["output"] = np.full(len(sign), place)
    return replace(
        explanation,
        values=explanation.values * sign.reshape(-1, *[1] * len(explanation.feature_shape)),
        scores=np.where(is_other, total - explanation.scores, explanation.scores),
        base_values=np.where(is_other, total - explanation.base_values, explanation.base_values),
        params={**explanation.params, "explains": words, "target": str(name)},
        extras=Extras(extras),
    )
