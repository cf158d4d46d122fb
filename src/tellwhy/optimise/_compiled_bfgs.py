"""Compiled two-loop recursion of limited-memory BFGS (Nocedal, 1980), and sums over the entries of a row.

The recursion multiplies a slope q by an approximate inverse curvature. The last pairs of a step s and a
change of slope y describe it, with ρ = 1/(s·y). Pairs lie in a ring: pair k of a problem is at place
k % history.

The loops of `_compiled_descent` call these functions, and numba does not notice changes made here in what it
has kept of them: after an edit, delete this folder's `__pycache__`.
"""

import numpy as np

from tellwhy.core.storage.compiled_loops import njit

# Sums may be added in any order (which makes vector instructions of them) and products fused into them. NaN
# and infinity keep their meaning: a score that overflows must not pass for a low one. The two recursions have
# their sums written out: calls of `dot` with rows of a table take a tenth longer, for counting references.
_sums = njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})


@_sums
def dot(a, b):
    """Return Σ_j a_j b_j."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@_sums
def largest(a):
    """Return the largest magnitude, 0 of nothing."""
    found = 0.0
    for j in range(len(a)):
        found = max(found, abs(a[j]))
    return found


@njit(nogil=True, cache=True)
def copy_scaled(a, b, factor):
    """Set b to factor · a; both may be the same."""
    for j in range(len(a)):
        b[j] = factor * a[j]


@_sums
def first_loop(q, steps, changes, rho, count, alphas):
    """First loop for one problem, on q itself: α = ρ s·q and q −= α y, from the newest pair to the oldest.

    Returns 1/curvature along the newest pair with ρ > 0 (0 where there is none).
    """
    history = len(rho)
    scale = 0.0
    for back in range(min(history, count)):
        k = (count - 1 - back) % history
        if rho[k] == 0.0:  # a pair of no use, or a forgotten one
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


@_sums
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


@njit(nogil=True, cache=True)
def take_off_changes(Q, which, pairs):
    """First loop of the problems `which`, on Q itself. Returns α and 1/curvature of each."""
    alphas = np.zeros((len(Q), pairs.rho.shape[1]))
    scale = np.zeros(len(Q))
    for i, p in enumerate(which):
        scale[i] = first_loop(Q[i], pairs.steps[p], pairs.changes[p], pairs.rho[p], pairs.count[p], alphas[i])
    return alphas, scale


@njit(nogil=True, cache=True)
def add_steps(Q, alphas, which, pairs):
    """Second loop of the problems `which`, on Q itself."""
    for i, p in enumerate(which):
        second_loop(Q[i], pairs.steps[p], pairs.changes[p], pairs.rho[p], pairs.count[p], alphas[i])
