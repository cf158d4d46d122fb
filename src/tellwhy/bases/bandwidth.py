"""A bandwidth for the Gaussian kernel from the distances to near rows."""

from __future__ import annotations

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit

SAMPLE, NEIGHBOUR = 1_000, 50


def neighbour_distance(X: Floats, rng: np.random.Generator) -> float:
    """Mean distance to the 50th nearest neighbour among 1,000 rows drawn at random (Yu et al., 2015).

    Of fewer than 51 rows, the farthest neighbour counts. Where the 50th neighbours are all copies of the row, the mean
    of the positive distances takes their place.
    """
    rows = np.asarray(X if len(X) <= SAMPLE else X[rng.choice(len(X), SAMPLE, replace=False)], dtype=np.float64)
    _, unit = centre_and_unit(rows)
    points = ScaledPoints.of(rows, unit)
    squared = points.squared_distances(points.scaled)
    nth = min(NEIGHBOUR, len(rows) - 1)
    length = float(np.sqrt(np.partition(squared, nth, axis=1)[:, nth]).mean())
    if length == 0 and squared.any():
        length = float(np.sqrt(squared[squared > 0]).mean())
    if length == 0:
        raise InvalidInput(
            "All rows are equal, so bandwidth='auto' has no scale to learn from. Pass a bandwidth in the units of the "
            "data, or rows that differ."
        )
    return length * unit
