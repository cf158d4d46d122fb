"""Whether a model was fitted again since an explainer read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput

State = dict[str, Any]
_MOVED = ("threshold_",)  # set without a new fit


def fitted_state(model: Any) -> State:
    """What a model has learned, by name: of a pipeline, of each of its parts. Nothing is copied."""
    found = {}
    for prefix, part in _parts(model):
        for name, value in getattr(part, "__dict__", {}).items():
            if name.endswith("_") and not name.endswith("__"):
                found[prefix + name] = value
    return found


def changed_names(before: State, model: Any) -> list[str]:
    """Names of what a model learned that is not what it was; a fit that found the same changes nothing."""
    now = fitted_state(model)
    return [name for name, value in before.items() if name not in now or not _is_same(value, now[name])]


def was_fitted_again(changed: list[str]) -> bool:
    """Whether more than a threshold has changed."""
    return any(name.rsplit(".", 1)[-1] not in _MOVED for name in changed)


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """A model, and the estimators that are its parameters (steps of a pipeline, what a wrapper wraps)."""
    yield "", model
    if isinstance(model, type) or not hasattr(model, "get_params"):
        return
    try:
        params = model.get_params(deep=True)
    except Exception:  # somebody else's estimator: without its parameters, it is looked at as a whole
        return
    for name, value in params.items():
        if hasattr(value, "fit") and not isinstance(value, type):
            yield f"{name}.", value


def _is_same(one: Any, other: Any) -> bool:
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, np.ndarray):
        return bool(one.dtype != object and np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    if dataclasses.is_dataclass(one):
        return _is_same(_fields(one), _fields(other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(isinstance(one, (str, bool, int, float, type(None))) and one == other)


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def notice_fit(explainer: Any, *, learns: bool = False) -> None:
    """Have an explainer read its model again where that has changed.

    `learns` says that the explainer is about to be fitted itself. What it learned from background rows before
    belongs to the model of that time: then this is an error.
    """
    seen = vars(explainer)
    changed = changed_names(seen.get("_model_state", {}), explainer.model) if "score" in seen else []
    if was_fitted_again(changed) and seen.get("_has_learned") and not learns:
        raise InvalidInput(
            f"The {type(explainer.model).__name__} was fitted again after the fit of this "
            f"{type(explainer).__name__}, whose background belongs to the model as it was. Call fit(X) of "
            "the explainer again, or make a new one."
        )
    if changed or learns:
        seen.pop("score", None)
    if "score" not in seen:
        explainer._model_state = fitted_state(explainer.model)
    explainer._has_learned = learns or bool(seen.get("_has_learned"))
