"""Compiled loops of multi-class SVMs over ranks: examples of one rank that are judged by the classes of another.

Guests are examples in consecutive arrays: those of guest t are the entries indptr[t] … indptr[t + 1] and the
classes listed[t] … listed[t + 1]. Their host, which has the weights of these classes, tells their scores; the
rank that they come from solves for their variables, and the host adds the steps to its weights.
"""

import numba
import numpy as np

from tellwhy.classifiers.svm._compiled_rows import (
    FAST,
    _all_scores,
    _exact_step,
    _listed_scores,
    _one_score,
    _violation,
)
from tellwhy.classifiers.svm.ranks._compiled_two_bundles import _add_own, add_own_steps, keep_steps

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


@_compiled
def send_guests(
    visitors,
    rows,
    row_indptr,
    row_indices,
    row_values,
    start,
    count,
    cls,
    indptr,
    indices,
    values,
    listed,
    classes,
):
    """Copy entries and listed classes of some examples into arrays with room for them."""
    for t in range(len(visitors)):
        r, at = visitors[t], indptr[t]
        low, high = row_indptr[rows[r]], row_indptr[rows[r] + 1]
        for p in range(low, high):
            indices[at + p - low] = row_indices[p]
            values[at + p - low] = row_values[p]
        indptr[t + 1] = at + high - low
        at = listed[t]
        for j in range(count[r]):
            classes[at + j] = cls[start[r] + j]
        listed[t + 1] = at + count[r]


@_compiled
def score_guests(first, last, indptr, indices, values, listed, classes, m, W, scores):
    """Scores of guests first … last for the classes that they list."""
    every = np.empty(m, W.dtype)
    for t in range(first, last):
        at, n = listed[t], listed[t + 1] - listed[t]
        out = scores[at - listed[first] :]
        _listed_scores(indices, values, indptr[t], indptr[t + 1], W, m, classes, at, n, out, every)


@_compiled
def add_steps(first, last, indptr, indices, values, listed, classes, W, steps):
    """Take what the steps of guests first … last contribute from the weights of the classes that they list."""
    step, at_class = np.empty(W.shape[1], W.dtype), np.empty(W.shape[1], np.int64)
    for t in range(first, last):
        changed = 0
        for j in range(listed[t], listed[t + 1]):
            if steps[j - listed[first]] != 0.0:
                step[changed], at_class[changed] = steps[j - listed[first]], classes[j]
                changed += 1
        for p in range(indptr[t], indptr[t + 1]):
            x, w = values[p], W[indices[p]]
            for j in range(changed):
                w[at_class[j]] -= x * step[j]


@_compiled
def add_to_labels(rows, labels, indptr, indices, values, W, start, count, val):
    """Add what the variables of a block contribute to the weights of the labels of its examples."""
    for r in range(len(rows)):
        held = 0.0
        for j in range(start[r], start[r] + count[r]):
            held += val[j]
        if held != 0.0:
            for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
                W[indices[p], labels[r]] += values[p] * held


@_compiled
def label_scores(rows, labels, indptr, indices, values, W):
    """Scores of examples for their own labels."""
    scores = np.empty(len(rows))
    for r in range(len(rows)):
        scores[r] = _one_score(indices, values, indptr[rows[r]], indptr[rows[r] + 1], W, labels[r])
    return scores


@_compiled
def _correct(
    low,
    high,
    first_entry,
    indices,
    values,
    heads,
    links,
    owner,
    inner,
    met,
    near,
    moved,
    at_class,
    step,
    shift,
):
    """Sum what the guests before this one moved into `shift`: the change of its scores, class by class.

    Entries of guests that moved are linked by feature, so that inner products with all of them are one pass.
    """
    n_met = 0
    for p in range(low, high):
        x, e = values[p], heads[indices[p]]
        while e >= 0:
            i = owner[e]
            if not near[i]:
                near[i] = True
                inner[i] = 0.0
                met[n_met] = i
                n_met += 1
            inner[i] += x * values[first_entry + e]
            e = links[e]
    for k in range(n_met):
        i = met[k]
        near[i] = False
        for q in range(moved[i], moved[i + 1]):
            shift[at_class[q]] -= inner[i] * step[q]
    return n_met


@_compiled
def _link(low, high, first_entry, indices, heads, links, owner, i):
    for p in range(low, high):
        e, f = p - first_entry, indices[p]
        links[e] = heads[f]
        owner[e] = i
        heads[f] = e


@_compiled
def _unlink(low, high, indices, heads):
    for p in range(low, high):
        heads[indices[p]] = -1


@_compiled
def sweep_guests(
    first, last, visitors, labels, norms, tops, indptr, indices, values, listed, classes, scores,
    m_own, W_own, own_start, own_count, own_cls, own_val, m, start, val, idle, calm, heads, steps,
):  # fmt: skip
    """Solve for guests first … last and the classes of their host and of their own bundle, as `sweep_two_bundles` does.

    `scores` are those before the first guest moved; the steps of the host's variables come into `steps`.
    """
    n_guests, entries, most = last - first, indptr[last] - indptr[first], listed[last] - listed[first]
    gains, v, a = (
        np.empty(m + m_own, np.float64),
        np.empty(m + m_own, np.float64),
        np.empty(m + m_own, np.float64),
    )
    own_step, own_class, every = (
        np.empty(m_own, W_own.dtype),
        np.empty(m_own, np.int64),
        np.empty(m_own, W_own.dtype),
    )
    links, owner = np.empty(entries, np.int64), np.empty(entries, np.int64)
    inner, met, near = np.empty(n_guests), np.empty(n_guests, np.int64), np.zeros(n_guests, np.bool_)
    moved, at_class, step = (
        np.zeros(n_guests + 1, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.float64),
    )
    shift, worst, summed = np.zeros(m), 0.0, 0.0
    for t in range(first, last):
        i, r, low, high = t - first, visitors[t], indptr[t], indptr[t + 1]
        at, n, told = start[r], listed[t + 1] - listed[t], listed[t] - listed[first]
        listing = classes[listed[t] : listed[t + 1]]
        n_met = _correct(
            low, high, indptr[first], indices, values, heads, links, owner, inner, met, near, moved, at_class, step,
            shift,
        )  # fmt: skip
        base = 1.0 - _one_score(indices, values, low, high, W_own, labels[r])
        held, violation = 0.0, 0.0
        for j in range(n):
            a[j] = val[at + j]
            held += a[j]
            gains[j] = scores[told + j] + shift[listing[j]] + base
            violation = max(violation, _violation(gains[j], a[j], tops[r]))
            steps[told + j] = 0.0
        if n_met > 0:
            shift[:] = 0.0
        worst, moved[i + 1] = max(worst, violation), moved[i]
        summed += violation
        if violation <= calm:
            idle[r] += 1
            continue
        idle[r] = 0
        own, own_at = own_count[r], own_start[r]
        _listed_scores(indices, values, low, high, W_own, m_own, own_cls, own_at, own, gains[n:], every)
        held += _add_own(own_at, own, own_val, base, gains[n:], a[n:])
        _exact_step(gains, a, v, n + own, norms[r], tops[r], np.inf, held)
        change = 0.0
        for j in range(n):
            if a[j] != val[at + j]:
                steps[told + j] = a[j] - val[at + j]
                step[moved[i + 1]], at_class[moved[i + 1]] = steps[told + j], listing[j]
                moved[i + 1] += 1
                change += steps[told + j]
                val[at + j] = a[j]
        changed = keep_steps(own_at, own, own_cls, own_val, a[n:], own_step, own_class, 0)
        add_own_steps(low, high, indices, values, W_own, labels[r], own_class, own_step, changed, change)
        if moved[i + 1] > moved[i]:
            _link(low, high, indptr[first], indices, heads, links, owner, i)
    _unlink(indptr[first], indptr[last], indices, heads)
    return worst, summed, n_guests


@_compiled
def certify_guests(first, last, indptr, indices, values, listed, classes, bases, tops, held, m, W, slack):
    """Read-only pass over guests first … last and all classes of a host, with 1 − w_yᵀx of each in `bases`.

    As `certify_pairs` does; returns the lists, their lengths, Σ losses, Σ α and the largest violation.
    """
    dtype = W.dtype
    scores, a = np.empty(m, dtype), np.zeros(m, dtype)
    size = max(16, 4 * (last - first))
    cls, val, count = np.empty(size, np.int32), np.empty(size, dtype), np.empty(last - first, np.int32)
    used, losses, mass, worst = 0, 0.0, 0.0, 0.0
    bound = -slack
    for t in range(first, last):
        _all_scores(indices, values, indptr[t], indptr[t + 1], W, m, scores)
        for j in range(listed[t], listed[t + 1]):
            a[classes[j]] = held[j]
            mass += held[j]
        if used + m > len(cls):
            more_cls, more_val = np.empty(2 * len(cls) + m, np.int32), np.empty(2 * len(cls) + m, dtype)
            more_cls[:used], more_val[:used] = cls[:used], val[:used]
            cls, val = more_cls, more_val
        before, loss, top = used, 0.0, tops[t]
        for c in range(m):
            gain = scores[c] + bases[t]
            loss += max(gain, 0.0)
            if gain > bound or a[c] > 0.0:
                cls[used], val[used] = c, a[c]
                used += 1
                worst = max(worst, _violation(gain, a[c], top))
                a[c] = 0.0
        losses += top * loss
        count[t - first] = used - before
    return cls[:used].copy(), val[:used].copy(), count, losses, mass, worst
