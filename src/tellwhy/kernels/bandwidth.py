"""A kernel's bandwidth chosen from the distances between rows."""

from __future__ import annotations

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import random_sample
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit

SAMPLE = 1_000  # rows: their distances are half a million pairs, enough for a median
NEIGHBOUR = 50
WIDTHS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)  # shares of the median distance that are tried


def median_distance(X: Floats) -> float:
    """Median distance between two rows, of a fixed random sample of at most 1,000.

    It follows the data's units, offset and scale. Where more than half of the pairs are equal, the mean of
    the positive distances takes its place.
    """
    squared, unit = _squared_distances(X, np.random.default_rng(0))
    pairs = squared[np.triu_indices(len(squared), k=1)]
    return _first_positive(float(np.sqrt(np.median(pairs))) if len(pairs) else 0.0, pairs) * unit


def neighbour_distance(X: Floats, rng: np.random.Generator) -> float:
    """Mean distance to the 50th nearest neighbour among 1,000 rows drawn at random (Yu et al., 2015).

    Of fewer than 51 rows, the farthest neighbour counts. Where the 50th neighbours are all copies of the row,
    the mean of the positive distances takes their place.
    """
    squared, unit = _squared_distances(X, rng)
    nth = min(NEIGHBOUR, len(squared) - 1)
    length = float(np.sqrt(np.partition(squared, nth, axis=1)[:, nth]).mean())
    return _first_positive(length, squared) * unit


def _squared_distances(X: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    """Squared distances between the rows of a sample, and the unit of their roots."""
    rows = np.asarray(X[random_sample(len(X), SAMPLE, rng)], dtype=np.float64)
    # Distances of order 1, because the squares of very large or small ones leave the range of floats.
    _, unit = centre_and_unit(rows)
    points = ScaledPoints.of(rows, unit)
    return points.squared_distances(points.scaled), unit


def _first_positive(length: float, squared: Floats) -> float:
    """The length, or the mean of the positive distances where it is 0."""
    if length > 0:
        return length
    if not squared.any():
        raise InvalidInput(
            "All rows are equal, so bandwidth='auto' has no scale to learn from. Pass a bandwidth in the "
            "units of the data, or leave constant columns out."
        )
    return float(np.sqrt(squared[squared > 0]).mean())
