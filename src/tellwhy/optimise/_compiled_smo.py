"""Compiled sequential minimal optimisation for one-class problems."""

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def smo(K, gradient, alpha, cap, tol, max_steps):
    """Minimise ½αᵀKα + pᵀα over Σα fixed, 0 ≤ α ≤ cap, in place; `gradient` is Kα + p and is kept up to date.

    Each step moves weight from one variable to another, the pair chosen by second-order gain (Fan, Chen and
    Lin, 2005). Returns the largest remaining violation of the optimality conditions.
    """
    n = len(alpha)
    violation = np.inf
    for _ in range(max_steps):
        up, best_up = -1, -np.inf
        for i in range(n):
            if alpha[i] < cap and -gradient[i] > best_up:
                up, best_up = i, -gradient[i]
        down, best_gain, lowest = -1, 0.0, np.inf
        for j in range(n):
            if alpha[j] > 0.0:
                lowest = min(lowest, -gradient[j])
                excess = best_up + gradient[j]
                if excess > 0.0:
                    curvature = max(K[up, up] + K[j, j] - 2.0 * K[up, j], 1e-12)
                    gain = excess * excess / curvature
                    if gain > best_gain:
                        down, best_gain = j, gain
        violation = best_up - lowest
        if violation <= tol or down < 0:
            break
        curvature = max(K[up, up] + K[down, down] - 2.0 * K[up, down], 1e-12)
        step = (gradient[down] - gradient[up]) / curvature
        room, stock = cap - alpha[up], alpha[down]
        if step >= room and room <= stock:
            step = room
            alpha[up] = cap
            alpha[down] -= step
        elif step >= stock:
            step = stock
            alpha[down] = 0.0
            alpha[up] += step
        else:
            alpha[up] += step
            alpha[down] -= step
        for k in range(n):
            gradient[k] += step * (K[up, k] - K[down, k])
    return violation
