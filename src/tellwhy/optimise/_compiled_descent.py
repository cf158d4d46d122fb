"""Compiled descent of smooth problems: what `descent` does to numpy arrays, one problem after the other.

Tables have a row per problem: places = (U, G, D, best_U, best_G), numbers = (f, best_f, promise, before,
longest, t, low, high), counts = (n_tried, iteration, has_moved, converged), past = (steps, changes, rho,
count). Rules = (tolerances by iteration, share, tops): a decrease of share·(tops − f) may be left undone.
"""

import numba
import numpy as np

from tellwhy.optimise._compiled_bfgs import first_loop, second_loop

ARMIJO, WOLFE = 1e-4, 0.9
TRIALS, ENOUGH_TRIALS = 24, 4  # a problem that has gone down by then, or has nowhere to go, ends its search
FARTHEST = 1e9
STALLED = 1e-8  # of 1 + |f|: a decrease that is next to nothing where rounding lets no step go down any more
ROUNDING = 1e-11  # values closer than this may differ by rounding only; slopes then tell which point is lower


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _dot(a, b):
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _largest(a):
    found = 0.0
    for j in range(len(a)):
        found = max(found, abs(a[j]))
    return found


@numba.njit(nogil=True, cache=True)
def _copy(a, b, factor):
    for j in range(len(a)):
        b[j] = factor * a[j]


@numba.njit(nogil=True, cache=True)
def _direct(p, G, D, past, alphas):
    """Set D = −H·G; return the decrease that it promises. A direction that does not go down is replaced."""
    steps, changes, rho, count = past
    _copy(G[p], D[p], 1.0)
    scale = first_loop(D[p], steps[p], changes[p], rho[p], count[p], alphas)
    if scale == 0.0:
        scale = 1.0 / max(_largest(D[p]), 1.0)
    _copy(D[p], D[p], -scale)
    _copy(alphas, alphas, -1.0)  # the second loop on −q
    second_loop(D[p], steps[p], changes[p], rho[p], count[p], alphas)
    promise = -_dot(G[p], D[p])
    if not promise > 0.0:
        _copy(G[p], D[p], -1.0 / max(_largest(G[p]), 1.0))
        _copy(rho[p], rho[p], 0.0)
        promise = -_dot(G[p], D[p])
    return promise


@numba.njit(nogil=True, cache=True)
def _aim(p, places, numbers, counts, past, rules, alphas):
    """Choose a direction; tell whether there is still some way to go."""
    _, G, D, _, _ = places
    f, best_f, promise, before, longest, t, low, high = numbers
    n_tried, iteration, has_moved, converged = counts
    tolerances, share, tops = rules
    if iteration[p] >= len(tolerances):
        return False
    promise[p] = _direct(p, G, D, past, alphas)
    least = tolerances[iteration[p]] * (1.0 + abs(f[p]))
    if promise[p] <= max(least, share * (tops[p] - f[p])):
        converged[p] = True
        return False
    before[p] = -promise[p]
    longest[p] = FARTHEST / max(_largest(D[p]), 1e-300)
    t[p], low[p], high[p] = 1.0, 0.0, np.inf
    best_f[p], has_moved[p], n_tried[p] = f[p], False, 0
    iteration[p] += 1
    return True


@numba.njit(nogil=True, cache=True)
def _move(p, places, numbers, counts, past):
    """Go to the best point of a search; tell whether the problem can go on."""
    U, G, _, best_U, best_G = places
    f, best_f, promise = numbers[:3]
    has_moved, converged = counts[2:]
    steps, changes, rho, count = past
    k, farthest = count[p] % rho.shape[1], 0.0
    for j in range(U.shape[1]):
        farthest = max(farthest, abs(best_U[p, j] - U[p, j]))
    if not (has_moved[p] and farthest > 0.0):
        again = _largest(rho[p]) > 0.0
        _copy(rho[p], rho[p], 0.0)
        if not again:
            converged[p] = promise[p] <= STALLED * (1.0 + abs(f[p]))
        return again
    for j in range(U.shape[1]):
        steps[p, k, j], changes[p, k, j] = best_U[p, j] - U[p, j], best_G[p, j] - G[p, j]
        U[p, j], G[p, j] = best_U[p, j], best_G[p, j]
    step, change = steps[p, k], changes[p, k]
    product = _dot(step, change)
    is_usable = product > 1e-12 * np.sqrt(_dot(step, step) * _dot(change, change))
    rho[p, k] = 1.0 / product if is_usable else 0.0
    count[p] += 1
    f[p] = best_f[p]
    return True


@numba.njit(nogil=True, cache=True)
def _next_length(t, low, high, before, rise):
    if high == np.inf:
        return 2.0 * t
    bend = 2.0 * (rise - before * t)
    if low == 0.0 and bend != 0.0:
        parabola = min(max(-before * t**2 / bend, 0.1 * t), 0.5 * t)
        if np.isfinite(parabola):
            return parabola
    return 0.5 * (low + high)


@numba.njit(nogil=True, cache=True)
def _has_arrived(p, trial, value, slope, places, numbers, counts):
    """Judge the trial of one problem: tell whether its search is over, or set the next length."""
    _, _, D, best_U, best_G = places
    f, best_f, _, before, longest, t, low, high = numbers
    n_tried, _, has_moved, _ = counts
    rise, after = value - f[p], _dot(slope, D[p])
    is_level = abs(after) < 0.5 * abs(before[p])
    is_low = rise <= ARMIJO * t[p] * before[p] or (is_level and rise <= ROUNDING * (1.0 + abs(value)))
    if is_low and (value < best_f[p] or is_level):
        _copy(trial, best_U[p], 1.0)
        _copy(slope, best_G[p], 1.0)
        best_f[p], has_moved[p] = value, True
    n_tried[p] += 1
    is_flat = after >= WOLFE * before[p] or 2.0 * t[p] > longest[p]
    is_noise = -before[p] <= STALLED * (1.0 + abs(f[p]))
    is_enough = (best_f[p] < f[p] or is_noise) and n_tried[p] >= ENOUGH_TRIALS
    if (is_low and is_flat) or is_enough or n_tried[p] >= TRIALS:
        return True
    if is_low:
        low[p] = t[p]
    else:
        high[p] = t[p]
    t[p] = _next_length(t[p], low[p], high[p], before[p], rise)
    return False


@numba.njit(nogil=True, cache=True)
def aim(which, places, numbers, counts, past, rules):
    """Choose the directions of some problems; return those that have some way to go."""
    kept, n = np.empty_like(which), 0
    alphas = np.zeros(past[2].shape[1])
    for p in which:
        _copy(alphas, alphas, 0.0)
        if _aim(p, places, numbers, counts, past, rules, alphas):
            kept[n] = p
            n += 1
    return kept[:n]


@numba.njit(nogil=True, cache=True)
def advance(going, trials, values, slopes, places, numbers, counts, past, rules):
    """Judge the trials of the problems that are going; return those that still are."""
    kept, n = np.empty_like(going), 0
    alphas = np.zeros(past[2].shape[1])
    for i, p in enumerate(going):
        is_going = True
        if _has_arrived(p, trials[i], values[i], slopes[i], places, numbers, counts):
            is_going = _move(p, places, numbers, counts, past)
            if is_going:
                _copy(alphas, alphas, 0.0)
                is_going = _aim(p, places, numbers, counts, past, rules, alphas)
        if is_going:
            kept[n] = p
            n += 1
    return kept[:n]
