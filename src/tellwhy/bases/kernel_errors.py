"""How far inner products of features are from the kernel."""

from __future__ import annotations

import numpy as np

from tellwhy.bases.feature_map import DEPTHS, FeatureMap
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import random_sample
from tellwhy.kernels import ArcCosine, Exponential
from tellwhy.kernels.distances import ScaledPoints

MOST_ROWS = 1_000


def exact_kernel(feature_map: FeatureMap, X: Floats, Y: Floats) -> Floats:
    """Return the kernel matrix that the features of X and Y approximate."""
    if feature_map.kernel == "gaussian":
        points = ScaledPoints.of(Y, feature_map.bandwidth)
        return Exponential(feature_map.bandwidth).of_squared(points.squared_distances(points.rescale(X)))
    return ArcCosine(DEPTHS[feature_map.kernel]).between(X, Y)


def mean_pair_error(feature_map: FeatureMap, X: Floats) -> float:
    """Mean of ½(k(x, x') − φ(x)·φ(x'))² over pairs of different rows, of at most 1,000 drawn rows."""
    rows = X[random_sample(len(X), MOST_ROWS, np.random.default_rng(0))]
    features = feature_map.apply(rows)
    errors = exact_kernel(feature_map, rows, rows) - features @ features.T
    return float(0.5 * (errors[np.triu_indices(len(rows), k=1)] ** 2).mean())
