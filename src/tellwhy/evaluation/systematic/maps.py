"""Explanations of pictures as maps (n, height, width), which the checks of a data set read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.score_function import Floats, Integers

_CHANNELS = (1, 3, 4)


def picture_maps(explanation: Explanation, owner: str) -> Floats:
    """Values with their channels kept apart, of shape (n, height, width, channels)."""
    values = explanation.values
    if values.ndim == 3:
        return values[..., None]
    if values.ndim != 4:
        raise InvalidInput(
            f"{owner} reads explanations of pictures: features of shape (h, w), (h, w, channels) or "
            f"(channels, h, w). Got {explanation.feature_shape}."
        )
    first = values.shape[1] in _CHANNELS and values.shape[-1] not in _CHANNELS
    return np.moveaxis(values, 1, 3) if first else values


def class_of_rows(explanation: Explanation, classes: Any, owner: str) -> Integers | np.ndarray:
    """The class of each row: as given, or the output that was explained."""
    if classes is None:
        found = explanation.extras.get("output")
        return np.zeros(len(explanation), dtype=np.int64) if found is None else np.asarray(found)
    given = np.asarray(classes)
    if given.shape != (len(explanation),):
        raise InvalidInput(
            f"{owner} needs one class per row: there are {len(explanation)} rows, and classes of shape "
            f"{given.shape}."
        )
    return given
