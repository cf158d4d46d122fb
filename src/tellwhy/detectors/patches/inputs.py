"""Inputs as they are given: an array of them, or a list of arrays of different sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.scoring.scores.flat_score import array_rows


def groups_of_one_size(X: Any) -> list[Floats]:
    """Inputs in groups of one size: an array is one group."""
    if not isinstance(X, (list, tuple)) or len({np.shape(x) for x in X}) < 2:
        return [array_rows(X)]
    if len({np.ndim(x) for x in X}) > 1:
        shapes = sorted({np.shape(x) for x in X}, key=len)
        raise InvalidInput(
            f"X mixes inputs with and without channels, of shapes {shapes[0]} and {shapes[-1]}. Make them "
            "all grey, or all of the same channels."
        )
    shapes = list(dict.fromkeys(np.shape(x) for x in X))
    return [array_rows(np.stack([x for x in X if np.shape(x) == shape])) for shape in shapes]
