"""Compiled two-loop recursion of limited-memory BFGS (Nocedal, 1980)."""

import numba
import numpy as np


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def first_loop(q, steps, changes, rho, count, alphas):
    """First loop of limited-memory BFGS for one problem, on q itself: α = ρ s·q and q −= α y, newest pair first.

    Returns 1/curvature along the newest pair with ρ > 0 (0 where there is none).
    """
    history, scale = len(rho), 0.0
    for back in range(min(history, count)):
        k = (count - 1 - back) % history
        if rho[k] == 0.0:
            continue
        product = 0.0
        for j in range(len(q)):
            product += steps[k, j] * q[j]
        alphas[k] = rho[k] * product
        for j in range(len(q)):
            q[j] -= alphas[k] * changes[k, j]
        if scale == 0.0:
            square = 0.0
            for j in range(len(q)):
                square += changes[k, j] ** 2
            scale = 1.0 / (rho[k] * square)
    return scale


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def second_loop(q, steps, changes, rho, count, alphas):
    """Second loop, on q itself: from the oldest pair to the newest, q += (α − ρ y·q) s."""
    history = len(rho)
    for back in range(min(history, count) - 1, -1, -1):
        k = (count - 1 - back) % history
        if rho[k] == 0.0:
            continue
        product = 0.0
        for j in range(len(q)):
            product += changes[k, j] * q[j]
        factor = alphas[k] - rho[k] * product
        for j in range(len(q)):
            q[j] += factor * steps[k, j]


@numba.njit(nogil=True, cache=True)
def take_off_changes(Q, which, steps, changes, rho, count):
    """First loop of the problems `which`, on Q itself. Returns α and 1/curvature of each."""
    alphas, scale = np.zeros((len(Q), rho.shape[1])), np.zeros(len(Q))
    for i, p in enumerate(which):
        scale[i] = first_loop(Q[i], steps[p], changes[p], rho[p], count[p], alphas[i])
    return alphas, scale


@numba.njit(nogil=True, cache=True)
def add_steps(Q, alphas, which, steps, changes, rho, count):
    """Second loop of the problems `which`, on Q itself."""
    for i, p in enumerate(which):
        second_loop(Q[i], steps[p], changes[p], rho[p], count[p], alphas[i])
