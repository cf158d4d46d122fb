"""Compiled sweeps of dual coordinate ascent for multi-class SVMs.

Weights are feature-major: W[f, c] is the weight of feature f for class c of one bundle, so that a sparse row
touches contiguous class vectors. The dual variables of a block (rows of one group × classes of one bundle)
are ragged lists: row r holds `cls[start[r] : start[r] + count[r]]` and `val[…]`; what is not listed is zero
and not swept.

"Pair" kernels (Weston–Watkins, Crammer–Singer) compare a class with the row's label; "single" kernels
(Lee–Lin–Wahba, one-vs-rest) treat each class on its own. `owned[owned_at[r]:owned_at[r + 1]]` are the row's
labels as positions among the classes of all bundles; the classes of the bundle at hand are the m positions
from `offset` on.
"""

import numba
import numpy as np

from tellwhy.classifiers.svm._compiled_rows import (
    FAST,
    NEVER,
    _all_scores,
    _differences,
    _dot,
    _listed_scores,
    _one_score,
    _settle,
    _total_violation,
    _violation,
    block_level,
    coordinate_steps,
)

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


@_compiled
def _grown(cls, val, needed):
    if needed <= len(cls):
        return cls, val
    size = max(needed, 2 * len(cls))
    more_cls, more_val = np.empty(size, cls.dtype), np.empty(size, val.dtype)
    more_cls[: len(cls)] = cls
    more_val[: len(val)] = val
    return more_cls, more_val


@_compiled
def _longest(count):
    longest = 1
    for r in range(len(count)):
        longest = max(longest, count[r])
    return longest


@_compiled
def sweep_pairs_dense(
    order, rows, labels, norms, tops, totals, owned_at, owned, offset, m,
    indptr, indices, values, W_label, W, start, count, cls, val, used, exact,
):  # fmt: skip
    """Visit every (row, class) of some rows; those that are not zero are listed anew behind the `used` entries.

    Returns the lists, which may have grown, and how much of them is used.
    """
    scores, a, v = np.empty(m, W.dtype), np.zeros(m, np.float64), np.empty(m, np.float64)
    for r in order:
        low, high = indptr[rows[r]], indptr[rows[r] + 1]
        _all_scores(indices, values, low, high, W, m, scores)
        label, k, top, total = labels[r], norms[r], tops[r], totals[r]
        base, held = 1.0 - _one_score(indices, values, low, high, W_label, label), 0.0
        for j in range(start[r], start[r] + count[r]):
            a[cls[j]] = val[j]
            held += val[j]
        for c in range(m):
            v[c] = (base + scores[c]) / k + a[c] + held if exact else base + scores[c]
            scores[c] = a[c]
        for j in range(owned_at[r], owned_at[r + 1]):
            if 0 <= owned[j] - offset < m:
                v[owned[j] - offset] = NEVER
        if exact:
            level = block_level(v, m, top, total, held)
            for c in range(m):
                a[c] = min(max(v[c] - level, 0.0), top)
        else:
            coordinate_steps(v, a, m, k, top)
        cls, val = _grown(cls, val, used + m)
        start[r], change, moved = used, 0.0, False
        for c in range(m):
            scores[c] -= a[c]
            change -= scores[c]
            moved |= scores[c] != 0.0
            if a[c] > 0.0:
                cls[used], val[used] = c, a[c]
                used += 1
                a[c] = 0.0
        count[r] = used - start[r]
        if moved:
            for p in range(low, high):
                x, w = values[p], W[indices[p]]
                for c in range(m):
                    w[c] += x * scores[c]
                W_label[indices[p], label] += x * change
    return cls, val, used


@_compiled
def sweep_pairs(
    order, rows, labels, norms, tops, totals, m, indptr, indices, values, W_label, W, start, count, cls, val, idle,
    patience, calm, exact,
):  # fmt: skip
    """Visit the listed variables of a block; a row that was calm for `patience` visits is left out.

    Returns the largest violation met, the sum over rows of the largest violation of each, and the rows
    visited.
    """
    longest = _longest(count)
    scores, v, a = np.empty(longest, np.float64), np.empty(longest, np.float64), np.empty(longest, np.float64)
    step, at_class, every = np.empty(longest, W.dtype), np.empty(longest, np.int64), np.empty(m, W.dtype)
    worst, summed, visited = 0.0, 0.0, 0
    for r in order:
        n, at = count[r], start[r]
        if n == 0 or idle[r] >= patience:
            continue
        low, high = indptr[rows[r]], indptr[rows[r] + 1]
        label, k, top, total = labels[r], norms[r], tops[r], totals[r]
        _listed_scores(indices, values, low, high, W, m, cls, at, n, scores, every)
        base = 1.0 - _one_score(indices, values, low, high, W_label, label)
        mine = val[at : at + n]
        violation = _settle(scores, base, k, top, total, n, mine, v, a, calm, exact)
        visited += 1
        worst = max(worst, violation)
        summed += violation
        if violation <= calm:
            idle[r] += 1
            continue
        idle[r] = 0
        changed, change = _differences(at, n, cls, mine, a, step, at_class)
        for j in range(n):
            mine[j] = a[j]
        for p in range(low, high):
            x, w = values[p], W[indices[p]]
            for j in range(changed):
                w[at_class[j]] -= x * step[j]
            W_label[indices[p], label] += x * change
    return worst, summed, visited


@_compiled
def _judge_row(gains, a, m, top, total, held, slack):
    """Loss of a row, the gain from which on its variables are listed and, where their sum is bounded, its violation."""
    if total == np.inf:
        loss = 0.0
        for c in range(m):
            loss += max(gains[c], 0.0)
        return top * loss, max(-slack, 0.5 * NEVER), 0.0
    most, least_held = 0.0, np.inf
    for c in range(m):
        most = max(most, gains[c])
        if a[c] > 0.0:
            least_held = min(least_held, gains[c])
    bound = max(max(0.0, min(most, least_held)) - slack, 0.5 * NEVER)
    return total * most, bound, _total_violation(most, least_held, held, total)


@_compiled
def certify_pairs(
    first, last, rows, labels, tops, totals, owned_at, owned, offset, m, indptr, indices, values, W_label, W,
    start, count, cls, val, slack,
):  # fmt: skip
    """Read-only pass over rows first..last of a block: its losses, its dual sum, and new lists.

    Listed afterwards: variables that are not zero, and those whose margin is below 1 + slack. `start` counts
    from this part's first entry. Returns the lists, Σ losses, Σ α and the largest violation.
    """
    dtype = W.dtype
    scores, a = np.empty(m, dtype), np.zeros(m, dtype)
    size = max(16, 4 * (last - first))
    new_cls, new_val = np.empty(size, cls.dtype), np.empty(size, dtype)
    used, losses, mass, worst = 0, 0.0, 0.0, 0.0
    for r in range(first, last):
        low, high = indptr[rows[r]], indptr[rows[r] + 1]
        _all_scores(indices, values, low, high, W, m, scores)
        base = 1.0 - _one_score(indices, values, low, high, W_label, labels[r])
        top, total, held = tops[r], totals[r], 0.0
        for j in range(start[r], start[r] + count[r]):
            a[cls[j]] = val[j]
            held += val[j]
        mass += held
        for c in range(m):
            scores[c] += base
        for j in range(owned_at[r], owned_at[r + 1]):
            if 0 <= owned[j] - offset < m:
                scores[owned[j] - offset] = NEVER
        loss, bound, violation = _judge_row(scores, a, m, top, total, held, slack)
        losses += loss
        worst = max(worst, violation)
        new_cls, new_val = _grown(new_cls, new_val, used + m)
        start[r] = used
        for c in range(m):
            if scores[c] > bound or a[c] > 0.0:
                new_cls[used], new_val[used] = c, a[c]
                used += 1
                if total == np.inf:
                    worst = max(worst, _violation(scores[c], a[c], top))
                a[c] = 0.0
        count[r] = used - start[r]
    return new_cls[:used].copy(), new_val[:used].copy(), losses, mass, worst


@_compiled
def add_pairs(rows, labels, indptr, indices, values, W_label, W, start, count, cls, val):
    """Add what the listed variables of a block contribute to the weights."""
    for r in range(len(rows)):
        for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
            x, w, held = values[p], W[indices[p]], 0.0
            for j in range(start[r], start[r] + count[r]):
                w[cls[j]] -= x * val[j]
                held += val[j]
            W_label[indices[p], labels[r]] += x * held


@_compiled
def _mark_owned(owned_at, owned, r, offset, m, positive, sign, top):
    """Set the row's own labels: a positive example each (one-vs-rest), or no variable at all."""
    for j in range(owned_at[r], owned_at[r + 1]):
        c = owned[j] - offset
        if 0 <= c < m:
            if positive:
                sign[c] = 1.0
            else:
                top[c] = 0.0


@_compiled
def _unmark_owned(owned_at, owned, r, offset, m, sign):
    for j in range(owned_at[r], owned_at[r + 1]):
        if 0 <= owned[j] - offset < m:
            sign[owned[j] - offset] = -1.0


@_compiled
def sweep_singles_dense(
    order, norms, caps, owned_at, owned, offset, m, positive, indptr, indices, values, W, centre, tally,
    start, count, cls, val, used,
):  # fmt: skip
    """Visit every (row, class) of some rows, each class on its own, with scores W_cᵀx + centreᵀx.

    `tally` is kept at Σ_c W_c. Lists as in `sweep_pairs_dense`.
    """
    dtype = W.dtype
    scores, a = np.empty(m, dtype), np.zeros(m, dtype)
    sign, top = np.full(m, -1.0).astype(dtype), np.empty(m, dtype)
    for r in order:
        low, high = indptr[r], indptr[r + 1]
        _all_scores(indices, values, low, high, W, m, scores)
        shift, k = _dot(indices, values, low, high, centre), norms[r]
        top[:] = caps[r]
        _mark_owned(owned_at, owned, r, offset, m, positive, sign, top)
        for j in range(start[r], start[r] + count[r]):
            a[cls[j]] = val[j]
        cls, val = _grown(cls, val, used + m)
        start[r], moved, change = used, False, 0.0
        for c in range(m):
            b = min(max(a[c] + (1.0 - sign[c] * (scores[c] + shift)) / k, 0.0), top[c])
            scores[c] = sign[c] * (b - a[c])
            change += scores[c]
            moved |= scores[c] != 0.0
            a[c] = b
        for c in range(m):
            if a[c] > 0.0:
                cls[used], val[used] = c, a[c]
                used += 1
                a[c] = 0.0
        count[r] = used - start[r]
        _unmark_owned(owned_at, owned, r, offset, m, sign)
        if moved:
            for p in range(low, high):
                x, w = values[p], W[indices[p]]
                tally[indices[p]] += x * change
                for c in range(m):
                    w[c] += x * scores[c]
    return cls, val, used


@_compiled
def sweep_singles(
    order, norms, caps, owned_at, owned, offset, m, positive, indptr, indices, values, W, centre, tally,
    start, count, cls, val, idle, patience, calm,
):  # fmt: skip
    """Visit the listed variables of a bundle, each class on its own; returns as `sweep_pairs` does."""
    longest = _longest(count)
    scores, step = np.empty(longest, np.float64), np.empty(longest, W.dtype)
    at_class, every = np.empty(longest, np.int64), np.empty(m, W.dtype)
    sign, top = np.full(m, -1.0), np.empty(m)
    worst, summed, visited = 0.0, 0.0, 0
    for r in order:
        n, at = count[r], start[r]
        if n == 0 or idle[r] >= patience:
            continue
        low, high, k, cap = indptr[r], indptr[r + 1], norms[r], caps[r]
        _listed_scores(indices, values, low, high, W, m, cls, at, n, scores, every)
        shift = _dot(indices, values, low, high, centre)
        _mark_owned(owned_at, owned, r, offset, m, positive, sign, top)
        violation, changed, change = 0.0, 0, 0.0
        for j in range(n):
            c = cls[at + j]
            gain = 1.0 - sign[c] * (scores[j] + shift)
            found = _violation(gain, val[at + j], cap)
            violation = max(violation, found)
            if found > 0.0:
                b = min(max(val[at + j] + gain / k, 0.0), cap)
                step[changed] = sign[c] * (b - val[at + j])
                change += step[changed]
                at_class[changed] = c
                val[at + j] = b
                changed += 1
        _unmark_owned(owned_at, owned, r, offset, m, sign)
        visited += 1
        worst = max(worst, violation)
        summed += violation
        idle[r] = idle[r] + 1 if violation <= calm else 0
        for p in range(low, high):
            x, w = values[p], W[indices[p]]
            tally[indices[p]] += x * change
            for j in range(changed):
                w[at_class[j]] += x * step[j]
    return worst, summed, visited


@_compiled
def certify_singles(
    first, last, caps, owned_at, owned, offset, m, positive, indptr, indices, values, W, centre,
    start, count, cls, val, slack,
):  # fmt: skip
    """Read-only pass over rows first..last of a bundle; returns as `certify_pairs` does."""
    dtype = W.dtype
    scores, a = np.empty(m, dtype), np.zeros(m, dtype)
    sign, top = np.full(m, -1.0), np.empty(m)
    size = max(16, 4 * (last - first))
    new_cls, new_val = np.empty(size, cls.dtype), np.empty(size, dtype)
    used, losses, mass, worst = 0, 0.0, 0.0, 0.0
    for r in range(first, last):
        low, high = indptr[r], indptr[r + 1]
        _all_scores(indices, values, low, high, W, m, scores)
        shift, cap = _dot(indices, values, low, high, centre), caps[r]
        top[:] = cap
        _mark_owned(owned_at, owned, r, offset, m, positive, sign, top)
        for j in range(start[r], start[r] + count[r]):
            a[cls[j]] = val[j]
            mass += val[j]
        new_cls, new_val = _grown(new_cls, new_val, used + m)
        start[r] = used
        for c in range(m):
            gain = 1.0 - sign[c] * (scores[c] + shift)
            losses += top[c] * max(gain, 0.0)
            if top[c] > 0.0 and (gain > -slack or a[c] > 0.0):
                new_cls[used], new_val[used] = c, a[c]
                used += 1
                worst = max(worst, _violation(gain, a[c], cap))
                a[c] = 0.0
        count[r] = used - start[r]
        _unmark_owned(owned_at, owned, r, offset, m, sign)
    return new_cls[:used].copy(), new_val[:used].copy(), losses, mass, worst


@_compiled
def add_singles(owned_at, owned, offset, positive, indptr, indices, values, W, tally, start, count, cls, val):
    """Add what the listed variables of a bundle contribute to the weights and to their sum over classes."""
    for r in range(len(count)):
        for j in range(start[r], start[r] + count[r]):
            step = -val[j]
            if positive:
                for i in range(owned_at[r], owned_at[r + 1]):
                    if owned[i] - offset == cls[j]:
                        step = val[j]
            for p in range(indptr[r], indptr[r + 1]):
                W[indices[p], cls[j]] += values[p] * step
                tally[indices[p]] += values[p] * step
