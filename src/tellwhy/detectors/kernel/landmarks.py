"""Many weighted rows of a kernel model replaced by few, called landmarks.

The model is g(x) = Σ_j α_j k(x, u_j) over all rows with weight. It becomes Σ_l β_l k(x, z_l) over landmarks
z_l that are drawn among them. The weights β ≥ 0 with Σβ = 1 make the two functions as equal as possible: they
minimise ½βᵀKβ − βᵀg(z). The kernel itself is used, not an approximation of it. So the score stays −log g: it
grows with the distance and is explained like that of any kernel model.
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
    """Return weights of which at most 1,000 are not zero, and that give nearly the same model."""
    support = np.flatnonzero(weights)
    if len(support) <= LANDMARKS:
        return weights
    share = weights[support] / weights[support].sum()
    # Rows with more weight are likelier landmarks; the same ones in every fit.
    chosen = np.sort(np.random.default_rng(0).choice(support, LANDMARKS, replace=False, p=share))
    # target_l = g(z_l): the model at the landmarks, summed over all rows in batches.
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
