"""The quadratic programme behind one-class SVM and SVDD: min ½αᵀKα + pᵀα, Σα = 1, 0 ≤ α ≤ 1/(νn).

Small problems go to scikit-learn's libsvm. Large ones are solved by decomposition: the variables that violate
the optimality conditions most are optimised together by compiled SMO, with their kernel columns computed by
matrix products, so memory stays O(n · working set).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.svm import OneClassSVM as LibsvmOneClass

from tellwhy.core.errors import NotConverged
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.optimise._compiled_smo import smo

SMALL = 2_000
WORKING_SET = 512
MAX_ROUNDS = 2_000

Columns = Callable[[Integers], Floats]  # indices of columns -> K[:, columns], shape (n, len(columns))


@dataclass(frozen=True)
class Solution:
    """Weights, the gradient Kα + p of every row, and how far from optimal they are."""

    weights: Floats
    gradient: Floats
    level: float  # gradient of the rows on the boundary: ρ for the one-class SVM
    violation: float


def solve(
    columns: Columns, n: int, *, nu: float, linear: Floats | None = None, tol: float, solver: str
) -> Solution:
    """Solve the programme to a violation of at most `tol` times the gradient's scale.

    Parameters
    ----------
    columns
        Gives columns of K.
    n
        Number of rows.
    nu
        Share of the rows that may lie outside: weights are at most 1/(νn).
    linear
        The vector p; zeros by default.
    tol
        Violation of the optimality conditions that is allowed.
    solver
        "libsvm", "smo" (decomposition), or "auto": the former where K is small.
    """
    cap = 1.0 / (nu * n)
    p = np.zeros(n) if linear is None else linear
    if cap * n <= 1 + 1e-12:  # ν = 1 leaves one feasible point
        weights = np.full(n, 1.0 / n)
        return _finish_solution(weights, p + _multiply_by_kernel(columns, weights), cap, tol)
    # libsvm has no linear term, and wants all of K at once.
    use_libsvm = linear is None and (solver == "libsvm" or (solver == "auto" and n <= SMALL))
    if use_libsvm:
        K = columns(np.arange(n))
        weights = _solve_by_libsvm(K, nu, tol)
        gradient = K @ weights
        return _finish_solution(weights, gradient, cap, tol)
    weights, gradient = _decompose(columns, p, cap, tol)
    return _finish_solution(weights, gradient, cap, tol)


def _solve_by_libsvm(K: Floats, nu: float, tol: float) -> Floats:
    # libsvm stops at an absolute violation of νn·g, which is at least ν·k(0) on average.
    absolute = tol * nu * float(np.abs(np.diagonal(K)).mean())
    model = LibsvmOneClass(kernel="precomputed", nu=nu, tol=absolute, cache_size=500).fit(K)
    weights = np.zeros(len(K))
    weights[model.support_] = model.dual_coef_[0]
    return weights / weights.sum()


def _decompose(columns: Columns, p: Floats, cap: float, tol: float) -> tuple[Floats, Floats]:
    """Optimise a few hundred weights at a time; return all weights, and the gradient."""
    n = len(p)
    weights = _make_feasible_start(n, cap)
    gradient = p + _multiply_by_kernel(columns, weights)
    size = min(n, WORKING_SET)
    chosen, block = np.empty(0, dtype=np.int64), np.empty((n, 0))
    for _ in track(range(MAX_ROUNDS), MAX_ROUNDS, "fitting the one-class model"):
        violation, scale = _measure_violation(weights, gradient, cap)
        if violation <= tol * scale:
            break
        # Half of the working set stays: its columns are there already, and sets that change completely may
        # take turns in undoing each other's work.
        kept = chosen[len(chosen) - size // 2 :] if len(chosen) else chosen
        new = _find_worst_violators(weights, gradient, cap, size - len(kept), excluded=kept)
        block = np.hstack([block[:, len(chosen) - len(kept) :], columns(new)])
        chosen = np.concatenate([kept, new])
        local, local_gradient = weights[chosen], gradient[chosen]
        # The part is solved only a little better than the whole: the rest of the rows will change it again.
        local_tol = max(0.1 * violation, 0.5 * tol * scale)
        smo(np.ascontiguousarray(block[chosen]), local_gradient, local, cap, local_tol, 100 * size)
        gradient += block @ (local - weights[chosen])
        weights[chosen] = local
    return weights, gradient


def _make_feasible_start(n: int, cap: float) -> Floats:
    """Weight at the cap on as many rows as it takes, spread over the data."""
    order = np.random.default_rng(0).permutation(n)
    weights = np.zeros(n)
    full = min(int(1.0 / cap), n)
    weights[order[:full]] = cap
    if full < n:
        weights[order[full]] = max(1.0 - full * cap, 0.0)
    return weights


def _multiply_by_kernel(columns: Columns, weights: Floats) -> Floats:
    """Kα over the columns that have weight, in blocks."""
    support = np.flatnonzero(weights)
    total = np.zeros(len(weights))
    batches = cut_batches(len(support), 8 * len(weights), limit=2**25)
    for part in track(batches, len(batches), "preparing the one-class model"):
        total += columns(support[part]) @ weights[support[part]]
    return total


def _measure_violation(weights: Floats, gradient: Floats, cap: float) -> tuple[float, float]:
    """Largest violation of the optimality conditions, and the gradient's scale to compare it with."""
    can_grow, can_shrink = gradient[weights < cap], gradient[weights > 0]
    if not len(can_grow):
        return 0.0, 1.0
    scale = max(abs(float(can_shrink.max())), abs(float(can_grow.min())), np.finfo(float).tiny)
    return float(can_shrink.max() - can_grow.min()), scale


def _find_worst_violators(
    weights: Floats, gradient: Floats, cap: float, room: int, *, excluded: Integers
) -> Integers:
    """Rows that want most to grow, and as many that want most to shrink."""
    free = np.ones(len(weights), dtype=bool)
    free[excluded] = False
    grow = np.flatnonzero(free & (weights < cap))
    grow = grow[np.argsort(gradient[grow], kind="stable")[: room // 2]]
    free[grow] = False
    shrink = np.flatnonzero(free & (weights > 0))
    shrink = shrink[np.argsort(-gradient[shrink], kind="stable")[: room - room // 2]]
    return np.concatenate([grow, shrink])


def _finish_solution(weights: Floats, gradient: Floats, cap: float, tol: float) -> Solution:
    # Weights that are rounding would make support points of rows that are none.
    weights = np.where(weights < 1e-12 * cap, 0.0, weights)
    weights /= weights.sum()
    # Dividing by the sum may have moved weights off the cap by rounding: they count as being at it.
    violation, scale = _measure_violation(weights, gradient, cap * (1 - 1e-9))
    if violation > 10 * tol * scale:
        warnings.warn(
            f"The one-class problem was not solved to tol={tol:g}: the optimality conditions are violated by "
            f"{violation / scale:.1e} of the discriminant. Raise tol, or choose another bandwidth.",
            NotConverged,
            stacklevel=5,
        )
    return Solution(weights, gradient, _find_boundary_level(weights, gradient, cap), violation / scale)


def _find_boundary_level(weights: Floats, gradient: Floats, cap: float) -> float:
    """Gradient on the boundary, low enough that rows on it count as inside.

    Rows with weights between 0 and the cap lie on the boundary, and the solver leaves their gradients within
    its tolerance of each other: the lowest of them counts. Without such rows, any level between those of the
    rows that may grow and those that may shrink is right; half-way is taken.
    """
    inside = (weights > 1e-8 * cap) & (weights < (1 - 1e-8) * cap)
    if inside.any():
        low = float(gradient[inside].min())
        return low - 1e-10 * abs(low)
    can_grow, can_shrink = gradient[weights < (1 - 1e-8) * cap], gradient[weights > 0]
    low = can_grow.min() if len(can_grow) else can_shrink.max()
    return float((low + can_shrink.max()) / 2)
