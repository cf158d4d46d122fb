"""Compiled sequential minimal optimisation for one-class problems."""

from typing import NamedTuple

import numpy as np

from tellwhy.core.compiled import njit

# Two points that coincide have no curvature between them. A positive floor makes their step long instead of
# infinite, and the limits of the weights then cut it.
LEAST_CURVATURE = 1e-12


class _Pair(NamedTuple):
    """The variables to change, and how far all are from optimal."""

    up: int  # the one that is to grow
    down: int  # the one that is to shrink, −1 if there is none
    violation: float


@njit(nogil=True, cache=True)
def smo(K, gradient, alpha, cap, tol, max_steps):
    """Minimise ½αᵀKα + pᵀα over Σα fixed, 0 ≤ α ≤ cap, in place; `gradient` is Kα + p and is kept up to date.

    Each step moves weight from one variable to another, which keeps the sum, until no pair of them violates
    the optimality conditions by more than `tol`. Returns the largest remaining violation.
    """
    violation = np.inf
    for _ in range(max_steps):
        pair = _choose(K, gradient, alpha, cap)
        violation = pair.violation
        if violation <= tol or pair.down < 0:
            break
        up = pair.up
        down = pair.down
        slope = gradient[down] - gradient[up]
        step = _shift(alpha, up, down, slope / _compute_curvature(K, up, down), cap)
        for k in range(len(alpha)):
            gradient[k] += step * (K[up, k] - K[down, k])
    return violation


@njit(nogil=True, cache=True)
def _compute_curvature(K, i, j):
    return max(K[i, i] + K[j, j] - 2.0 * K[i, j], LEAST_CURVATURE)


@njit(nogil=True, cache=True)
def _choose(K, gradient, alpha, cap):
    """Choose a pair by second-order gain (Fan, Chen and Lin, 2005).

    The first variable has the lowest gradient of those that may grow. The second, of those that may shrink,
    is the one with which a step lowers the value most: (difference of gradients)²/curvature. The best second
    to a given first takes O(n) time; the best of all pairs would take O(n²).
    """
    up = -1
    lowest = np.inf
    for i in range(len(alpha)):
        if alpha[i] < cap and gradient[i] < lowest:
            up = i
            lowest = gradient[i]
    down = -1
    best_gain = 0.0
    highest = -np.inf
    for j in range(len(alpha)):
        if alpha[j] > 0.0:
            highest = max(highest, gradient[j])
            excess = gradient[j] - lowest
            if excess > 0.0:
                gain = excess * excess / _compute_curvature(K, up, j)
                if gain > best_gain:
                    down = j
                    best_gain = gain
    return _Pair(up, down, highest - lowest)


@njit(nogil=True, cache=True)
def _shift(alpha, up, down, step, cap):
    """Move weight from one variable to the other, as far as their limits allow; return how much.

    A variable that meets its limit is set to it, not computed: rounding would leave it a little short, and it
    would be chosen again and again.
    """
    room = cap - alpha[up]
    stock = alpha[down]
    if step >= room and room <= stock:
        alpha[up] = cap
        alpha[down] -= room
        return room
    if step >= stock:
        alpha[down] = 0.0
        alpha[up] += stock
        return stock
    alpha[up] += step
    alpha[down] -= step
    return step
