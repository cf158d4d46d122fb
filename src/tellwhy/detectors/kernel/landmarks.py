"""Many weighted rows of a kernel expansion replaced by few.

g(x) = Σ_j α_j k(x, u_j) over all rows with weight becomes Σ_l β_l k(x, z_l) over landmarks z_l drawn among
them, with β ≥ 0 and Σβ = 1 chosen closest to it in the kernel's own space: min ½βᵀKβ − βᵀg(z). Values of the
exact kernel are used, so that the score stays −log g: positive everywhere, growing with the distance, and
explained like any other.
"""

from __future__ import annotations

import numpy as np

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats
from tellwhy.kernels import Exponential, StudentT
from tellwhy.kernels.distances import ScaledPoints
from tellwhy.optimise.one_class_qp import solve

LANDMARKS = 1_000


def landmark_weights(X: Floats, weights: Floats, kernel: Exponential | StudentT, *, tol: float) -> Floats:
    """Return weights of the rows that are zero but on at most 1,000 of them, for nearly the same expansion."""
    support = np.flatnonzero(weights)
    if len(support) <= LANDMARKS:
        return weights
    share = weights[support] / weights[support].sum()
    chosen = np.sort(np.random.default_rng(0).choice(support, LANDMARKS, replace=False, p=share))
    points = ScaledPoints.of(X[chosen], kernel.bandwidth)
    target = np.zeros(LANDMARKS)
    for rows in tracked_batches(len(support), 8 * (LANDMARKS + X.shape[1]), "choosing landmarks"):
        values = kernel.of_squared(points.squared_distances(points.rescale(X[support[rows]])))
        target += share[rows] @ values
    K = kernel.of_squared(points.squared_distances(points.scaled))
    solution = solve(
        lambda index: K[:, index], LANDMARKS, nu=1 / LANDMARKS, linear=-target, tol=tol, solver="smo"
    )
    out = np.zeros(len(X))
    out[chosen] = solution.weights
    return out
