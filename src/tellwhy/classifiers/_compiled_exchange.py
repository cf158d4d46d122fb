"""Compiled loops of multi-class SVMs over ranks: which weights a meeting needs, and the sweep over two bundles.

The weights of a few bundles lie in one matrix, (bundle, feature) × class. A meeting names what it needs of them: whole
rows of that matrix, and single entries by their position in it.
"""

import numba
import numpy as np

from tellwhy.classifiers._compiled import _longest
from tellwhy.classifiers._compiled_rows import FAST, _exact_step, _listed_scores, _one_score, _violation

WHOLE = 3  # rows with more than one of so many classes listed ask for whole rows of weights

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


@_compiled
def ask_for_all(order, rows, indptr, indices, first, asked, found, n):
    """Name the rows of weights of all features that some examples have, after n that are named; returns how many."""
    for r in order:
        for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
            at = first + indices[p]
            if not asked[at]:
                asked[at] = True
                found[n] = at
                n += 1
    return n


@_compiled
def ask_for_listed(
    order, rows, indptr, indices, start, count, cls, idle, patience, m, first, asked, found, n, marks, single, n_single,
):  # fmt: skip
    """Name the weights that a sweep over a block will read: rows of them, or where few classes are listed entries.

    Returns how many rows are named, the entries named, which may have grown, and how many they are.
    """
    width = marks.shape[1]
    for r in order:
        listed, at = count[r], start[r]
        if listed == 0 or idle[r] >= patience:
            continue
        low, high = indptr[rows[r]], indptr[rows[r] + 1]
        whole = WHOLE * listed > m
        if not whole and n_single + listed * (high - low) > len(single):
            larger = np.empty(2 * len(single) + listed * (high - low), single.dtype)
            larger[:n_single] = single[:n_single]
            single = larger
        for p in range(low, high):
            row = first + indices[p]
            if asked[row]:
                continue
            if whole:
                asked[row] = True
                found[n] = row
                n += 1
                continue
            mark = marks[row]
            for j in range(at, at + listed):
                if not mark[cls[j]]:
                    mark[cls[j]] = True
                    single[n_single] = row * width + cls[j]
                    n_single += 1
    return n, single, n_single


@_compiled
def forget_marks(found, n, single, n_single, asked, marks):
    """Take back what was marked while weights were named."""
    flat = marks.reshape(-1)
    for i in range(n):
        asked[found[i]] = False
    for i in range(n_single):
        flat[single[i]] = False


@_compiled
def take(weights, whole, single, out):
    """Copy the named weights into `out`: rows first, then entries."""
    flat, width = weights.reshape(-1), weights.shape[1]
    for i in range(len(whole)):
        out[i * width : (i + 1) * width] = weights[whole[i]]
    at = len(whole) * width
    for i in range(len(single)):
        out[at + i] = flat[single[i]]


@_compiled
def put(weights, whole, single, values):
    """Write values that `take` made into the same places."""
    flat, width = weights.reshape(-1), weights.shape[1]
    at = len(whole) * width
    for i in range(len(single)):
        flat[single[i]] = values[at + i]
    for i in range(len(whole)):
        weights[whole[i]] = values[i * width : (i + 1) * width]


@_compiled
def _moved(at, n, cls, val, a, step, at_class, changed):
    """Keep the new values of n listed variables and list their steps after the `changed` first; returns how many."""
    for j in range(n):
        step[changed] = a[j] - val[at + j]
        if step[changed] != 0.0:
            at_class[changed] = cls[at + j]
            val[at + j] = a[j]
            changed += 1
    return changed


@_compiled
def sweep_two_bundles(
    order, rows, labels, norms, tops, indptr, indices, values, m_own, W_own, own_start, own_count, own_cls, own_val,
    m, W, start, count, cls, val, idle, patience, calm,
):  # fmt: skip
    """Visit Weston–Watkins examples against the classes of another bundle and of their own together.

    The variables of an example are coupled through the weights of its label: solved for by one bundle after the other
    they would only creep towards their balance, while the two bundles together reach it at once. Which examples are
    visited is decided by the variables of the other bundle, as in `sweep_pairs`; returns as it does.
    """
    longest = _longest(own_count) + _longest(count)
    scores, v, a = np.empty(longest, np.float64), np.empty(longest, np.float64), np.empty(longest, np.float64)
    step, at_class = np.empty(longest, W.dtype), np.empty(longest, np.int64)
    every = np.empty(max(m_own, m), W.dtype)
    worst, summed, visited = 0.0, 0.0, 0
    for r in order:
        n, at = count[r], start[r]
        if n == 0 or idle[r] >= patience:
            continue
        low, high = indptr[rows[r]], indptr[rows[r] + 1]
        label, k, top = labels[r], norms[r], tops[r]
        _listed_scores(indices, values, low, high, W, m, cls, at, n, scores, every)
        base = 1.0 - _one_score(indices, values, low, high, W_own, label)
        held, violation = 0.0, 0.0
        for j in range(n):
            a[j] = val[at + j]
            held += a[j]
            scores[j] += base
            violation = max(violation, _violation(scores[j], a[j], top))
        visited += 1
        worst = max(worst, violation)
        summed += violation
        if violation <= calm:
            idle[r] += 1
            continue
        idle[r] = 0
        own, own_at = own_count[r], own_start[r]
        _listed_scores(indices, values, low, high, W_own, m_own, own_cls, own_at, own, scores[n:], every)
        for j in range(own):
            a[n + j] = own_val[own_at + j]
            held += a[n + j]
            scores[n + j] += base
        _exact_step(scores, a, v, n + own, k, top, np.inf, held)
        others = _moved(at, n, cls, val, a, step, at_class, 0)
        changed, change = _moved(own_at, own, own_cls, own_val, a[n:], step, at_class, others), 0.0
        for j in range(changed):
            change += step[j]
        for p in range(low, high):
            x, w, w_own = values[p], W[indices[p]], W_own[indices[p]]
            for j in range(others):
                w[at_class[j]] -= x * step[j]
            for j in range(others, changed):
                w_own[at_class[j]] -= x * step[j]
            w_own[label] += x * change
    return worst, summed, visited
