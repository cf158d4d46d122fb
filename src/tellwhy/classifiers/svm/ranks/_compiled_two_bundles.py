"""Compiled sweep over examples against the classes of two bundles at once: another one and their own."""

import numba
import numpy as np

from tellwhy.classifiers.svm._compiled_rows import (
    FAST,
    _add_step,
    _exact_step,
    _listed_scores,
    _one_score,
    _violation,
)

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


@_compiled
def _add_own(at, n, val, base, gains, a):
    """Bring in the n listed variables of the own bundle: their values, and gains from scores; returns Σ values."""
    held = 0.0
    for j in range(n):
        a[j] = val[at + j]
        held += a[j]
        gains[j] += base
    return held


@_compiled
def keep_steps(at, n, cls, val, a, step, at_class, changed):
    """Keep the new values of n listed variables and list their steps behind `changed` others; returns how many."""
    for j in range(n):
        step[changed] = a[j] - val[at + j]
        if step[changed] != 0.0:
            at_class[changed] = cls[at + j]
            val[at + j] = a[j]
            changed += 1
    return changed


@_compiled
def add_own_steps(low, high, indices, values, W_own, label, at_class, step, changed, change):
    """Add the steps of the own bundle's variables to its weights, and all steps, of which others sum to `change`."""
    for j in range(changed):
        change += step[j]
    _add_step(indices, values, low, high, W_own, label, at_class, step, changed, change)


@_compiled
def sweep_two_bundles(
    order, rows, labels, norms, tops, indptr, indices, values, m_own, W_own, own_start, own_count, own_cls, own_val,
    m, W, start, count, cls, val, idle, patience, calm,
):  # fmt: skip
    """Visit Weston–Watkins examples against the classes of another bundle and of their own together.

    The variables of an example are coupled through the weights of its label: solved for by one bundle after
    the other they would only creep towards their balance, while the two bundles together reach it at once.
    Which examples are visited is decided by the variables of the other bundle, as in `sweep_pairs`; returns
    as it does.
    """
    gains, v, a = (
        np.empty(m + m_own, np.float64),
        np.empty(m + m_own, np.float64),
        np.empty(m + m_own, np.float64),
    )
    step, at_class = np.empty(m, W.dtype), np.empty(m, np.int64)
    own_step, own_class, every = (
        np.empty(m_own, W.dtype),
        np.empty(m_own, np.int64),
        np.empty(max(m_own, m), W.dtype),
    )
    worst, summed, visited = 0.0, 0.0, 0
    for r in order:
        n, at = count[r], start[r]
        if n == 0 or idle[r] >= patience:
            continue
        low, high, top = indptr[rows[r]], indptr[rows[r] + 1], tops[r]
        _listed_scores(indices, values, low, high, W, m, cls, at, n, gains, every)
        base = 1.0 - _one_score(indices, values, low, high, W_own, labels[r])
        held, violation = 0.0, 0.0
        for j in range(n):
            a[j] = val[at + j]
            held += a[j]
            gains[j] += base
            violation = max(violation, _violation(gains[j], a[j], top))
        visited += 1
        worst = max(worst, violation)
        summed += violation
        if violation <= calm:
            idle[r] += 1
            continue
        idle[r] = 0
        own, own_at = own_count[r], own_start[r]
        _listed_scores(indices, values, low, high, W_own, m_own, own_cls, own_at, own, gains[n:], every)
        held += _add_own(own_at, own, own_val, base, gains[n:], a[n:])
        _exact_step(gains, a, v, n + own, norms[r], top, np.inf, held)
        changed, change = keep_steps(at, n, cls, val, a, step, at_class, 0), 0.0
        for j in range(changed):
            change += step[j]
        for p in range(low, high):
            x, w = values[p], W[indices[p]]
            for j in range(changed):
                w[at_class[j]] -= x * step[j]
        changed = keep_steps(own_at, own, own_cls, own_val, a[n:], own_step, own_class, 0)
        add_own_steps(low, high, indices, values, W_own, labels[r], own_class, own_step, changed, change)
    return worst, summed, visited
