"""How far apart patches are, which says what a small difference between them is."""

from __future__ import annotations

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import random_sample
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit

SAMPLE = 1_000  # patches whose nearest neighbours are looked for, among all


def nearest_patch_distance(rows: Floats, level: float, *, otherwise: float | None = None) -> float:
    """Quantile of the distances between patches and their nearest neighbour among all, equal ones apart.

    A clean grid has many equal patches: their distance 0 would be no bandwidth. Where all of them are equal,
    the answer is `otherwise`, or an error without it.

    Examples
    --------
    >>> round(nearest_patch_distance(np.array([[0.0], [0.0], [1.0], [4.0]]), 0.5), 6)
    1.0
    """
    some = random_sample(len(rows), SAMPLE, np.random.default_rng(0))
    _, unit = centre_and_unit(rows)
    points = ScaledPoints.of(rows, unit)
    squared = points.squared_distances(points.scaled[some])
    squared[squared <= 1e-20] = np.inf
    nearest = np.sqrt(squared.min(axis=1))
    nearest = nearest[np.isfinite(nearest)]
    if not len(nearest) and otherwise is not None:
        return otherwise
    if not len(nearest):
        raise InvalidInput(
            "All training patches are equal, so that there is no scale to learn from. Pass inputs that vary, "
            "or a detector with a bandwidth: PatchModel(OneClassSVM(bandwidth=…))."
        )
    return float(np.quantile(nearest, level)) * unit
