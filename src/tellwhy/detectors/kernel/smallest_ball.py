"""The smallest ball around rows, but for a share of them: SVDD in input space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score import Floats
from tellwhy.kernels.distances import squarable_centre_and_unit
from tellwhy.optimise.one_class_qp import solve


@dataclass(frozen=True, eq=False)
class Ball:
    """The smallest ball in input space.

    Its centre is Σ_j α_j u_j over the rows u_j with the weights α. `violation` says how far these are from
    the best ones.
    """

    centre: Floats
    squared_radius: float
    weights: Floats
    violation: float


def fit_linear_ball(X: Floats, *, nu: float, tol: float) -> Ball:
    """Return the smallest ball that leaves out a share ν of the rows at most.

    It minimises t + 1/(νn) Σ_i max(0, ‖c − x_i‖² − t) over the centre c and the squared radius t ≥ 0.
    """
    centre, unit = squarable_centre_and_unit(X, "squared distances")
    centred = (X - centre) / unit
    squared = np.einsum("ij,ij->i", centred, centred)
    # The dual problem: ½‖Σ_i α_i x_i‖² − ½ Σ_i α_i ‖x_i‖², with 0 ≤ α_i ≤ 1/(νn) and Σα = 1.
    solution = solve(
        lambda index: centred @ centred[index].T, len(X), nu=nu, linear=-0.5 * squared, tol=tol, solver="smo"
    )
    middle = solution.weights @ centred
    # `level` is (‖c‖² − t)/2; rounding may put a ball of radius 0 slightly below it.
    squared_radius = max(float(middle @ middle) - 2.0 * solution.level, 0.0) * unit**2
    return Ball(middle * unit + centre, squared_radius, solution.weights, solution.violation)
