"""Choosing a kernel's bandwidth from the data."""

from __future__ import annotations

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit

SAMPLE = 1_000


def median_distance(X: Floats) -> float:
    """Median distance between two rows, of a fixed random sample of at most 1,000.

    It follows the data's units, offset and scale. Where more than half of the pairs are equal, the mean of the
    positive distances takes its place.
    """
    rows = X if len(X) <= SAMPLE else X[np.random.default_rng(0).choice(len(X), SAMPLE, replace=False)]
    _, unit = centre_and_unit(rows)
    points = ScaledPoints.of(rows, unit)
    squared = points.squared_distances(points.scaled)[np.triu_indices(len(rows), k=1)]
    if not squared.any():
        raise InvalidInput(
            "All rows are equal, so bandwidth='auto' has no scale to learn from. Pass a bandwidth in the units of "
            "the data, or leave constant columns out."
        )
    middle = float(np.median(squared))
    length = np.sqrt(middle) if middle > 0 else float(np.sqrt(squared[squared > 0]).mean())
    return float(length * unit)
