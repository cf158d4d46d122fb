"""Sweeps over rows that several threads take together.

The features are cut into shards. A thread computes what its shards contribute to the scores of a row, reads what the
others contributed, solves the row as they do, and adds the step to the weights of its shards. The sums are taken in the
order of the shards, so that results do not depend on the number of threads.
"""

import sys

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from tellwhy.classifiers._compiled import (
    FAST,
    NEVER,
    _all_scores,
    _exact_step,
    _listed_scores,
    _one_score,
    _total_violation,
    _violation,
    block_level,
    coordinate_steps,
)

LINE = 8  # counters in a cache line
_LOOKS = 3000  # before the core is offered to others

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


def _place(context, builder, signature, args):
    kind = signature.args[0]
    counters = context.make_array(kind)(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, kind, counters, [args[1]], wraparound=False)


@intrinsic
def _tell(typingctx, counters, at, value):
    """Set a counter after everything that was written before."""

    def generate(context, builder, signature, args):
        builder.store_atomic(args[2], _place(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.none(counters, types.intp, types.int64), generate


@intrinsic
def _look(typingctx, counters, at):
    """Read a counter before everything that is read after."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", 8)

    return types.int64(counters, types.intp), generate


if sys.platform == "win32":

    @numba.njit(nogil=True, cache=True)
    def _offer_core():
        pass

else:
    _sched_yield = types.ExternalFunction("sched_yield", types.int32())

    @numba.njit(nogil=True, cache=True)
    def _offer_core():
        _sched_yield()


@_compiled
def _meet(t, n_threads, team, meeting):
    """Wait until all threads have come to this meeting."""
    _tell(team, LINE * t, meeting)
    for other in range(n_threads):
        looks = 0
        while _look(team, LINE * other) < meeting:
            looks += 1
            if looks > _LOOKS:
                _offer_core()


@_compiled
def drop_zeros(start, count, cls, val, kept_cls, kept_val):
    """Copy the listed variables that are not zero into arrays with room for them."""
    used = 0
    for r in range(len(start)):
        at, start[r] = start[r], used
        for j in range(at, at + count[r]):
            if val[j] != 0.0:
                kept_cls[used], kept_val[used] = cls[j], val[j]
                used += 1
        count[r] = used - start[r]


@_compiled
def shard_rows(shard, n_shards, indptr, indices, values):
    """Order the entries of each row by shard: the cuts between shards, indices and values."""
    n = len(indptr) - 1
    cuts = np.empty((n, n_shards + 1), np.int64)
    new_indices, new_values = np.empty_like(indices), np.empty_like(values)
    for r in range(n):
        at = indptr[r]
        cuts[r, 0] = at
        for s in range(n_shards):
            for p in range(indptr[r], indptr[r + 1]):
                if shard[indices[p]] == s:
                    new_indices[at], new_values[at] = indices[p], values[p]
                    at += 1
            cuts[r, s + 1] = at
    return cuts, new_indices, new_values


@_compiled
def _settle(scores, base, k, top, total, at, n, val, v, a, calm, exact):
    """Solve one row into `a`, unless it is calm; returns its violation. `scores` become gains."""
    held, violation, least_held, most = 0.0, 0.0, np.inf, NEVER
    for j in range(n):
        a[j] = val[at + j]
        held += a[j]
        scores[j] += base
        most = max(most, scores[j])
        if a[j] > 0.0:
            least_held = min(least_held, scores[j])
        violation = max(violation, _violation(scores[j], a[j], top))
    if total < np.inf:
        violation = _total_violation(most, least_held, held, total)
    if violation > calm:
        if exact:
            _exact_step(scores, a, v, n, k, top, total, held)
        else:
            coordinate_steps(scores, a, n, k, top)
    return violation


@_compiled
def _keep(at, n, a, val):
    for j in range(n):
        val[at + j] = a[j]


@_compiled
def _sum_shards(parts, n, scores):
    """Scores of the listed classes and, last, of the label."""
    for j in range(n + 1):
        scores[j] = parts[0, j]
    for s in range(1, len(parts)):
        for j in range(n + 1):
            scores[j] += parts[s, j]


@numba.njit(nogil=True, cache=True)
def _add_step(indices, values, low, high, W, label, at_class, step, changed, change):
    for p in range(low, high):
        x, w = values[p], W[indices[p]]
        for j in range(changed):
            w[at_class[j]] -= x * step[j]
        w[label] += x * change


@_compiled
def sweep_together(
    t, n_threads, team, parts, order, rows, labels, norms, tops, totals, m, cuts, indices, values, W,
    start, count, cls, val, idle, calm, exact, room, step, at_class, every, found,
):  # fmt: skip
    """Visit the listed variables of the rows in `order`, as thread t of several.

    A row's variables are written once all threads have come to the next row: until then they may be reading them.
    """
    n_shards, scores, v = parts.shape[1], room[t, 0], room[t, 1]
    step, at_class, every = step[t], at_class[t], every[t]
    worst, summed = 0.0, 0.0
    for i in range(len(order)):
        r, mine = order[i], parts[i & 1]
        n, at, label, cut = count[r], start[r], labels[r], cuts[rows[r]]
        for s in range(t, n_shards, n_threads):
            _listed_scores(indices, values, cut[s], cut[s + 1], W, m, cls, at, n, mine[s], every)
            mine[s, n] = _one_score(indices, values, cut[s], cut[s + 1], W, label)
        if n_threads > 1:
            _meet(t, n_threads, team, i + 1)
        if t == 0 and i > 0:
            _keep(start[order[i - 1]], count[order[i - 1]], room[0, 2 + (i - 1) % 2], val)
        a = room[t, 2 + i % 2]
        _sum_shards(mine, n, scores)
        violation = _settle(scores, 1.0 - scores[n], norms[r], tops[r], totals[r], at, n, val, v, a, calm, exact)
        worst = max(worst, violation)
        summed += violation
        if violation <= calm:
            if t == 0:
                idle[r] += 1
            continue
        changed, change = 0, 0.0
        for j in range(n):
            step[changed] = a[j] - val[at + j]
            if step[changed] != 0.0:
                change += step[changed]
                at_class[changed] = cls[at + j]
                changed += 1
        for s in range(t, n_shards, n_threads):
            _add_step(indices, values, cut[s], cut[s + 1], W, label, at_class, step, changed, change)
    if n_threads > 1:
        _meet(t, n_threads, team, len(order) + 1)
    if t == 0 and len(order) > 0:
        last = len(order) - 1
        _keep(start[order[last]], count[order[last]], room[0, 2 + last % 2], val)
        found[0], found[1] = worst, summed


@_compiled
def _settle_all(scores, base, k, top, total, m, first, last, owned, a, v, exact):
    """Solve one row for all classes from its variables `a`, which are updated; `scores` become steps."""
    held = 0.0
    for c in range(m):
        held += a[c]
    for c in range(m):
        v[c] = (base + scores[c]) / k + a[c] + held if exact else base + scores[c]
        scores[c] = a[c]
    for j in range(first, last):
        v[owned[j]] = NEVER
    if exact:
        level = block_level(v, m, top, total, held)
        for c in range(m):
            a[c] = min(max(v[c] - level, 0.0), top)
    else:
        coordinate_steps(v, a, m, k, top)
    for c in range(m):
        scores[c] = a[c] - scores[c]


@_compiled
def _list_row(r, a, m, start, count, cls, val, used):
    """List the variables of a row that are not zero behind the `used` entries."""
    start[r] = used
    for c in range(m):
        if a[c] > 0.0:
            cls[used], val[used] = c, a[c]
            used += 1
    count[r] = used - start[r]
    return used


@numba.njit(nogil=True, cache=True)
def _add_full_step(indices, values, low, high, W, label, m, step, change):
    for p in range(low, high):
        x, w = values[p], W[indices[p]]
        for c in range(m):
            w[c] -= x * step[c]
        w[label] += x * change


@_compiled
def sweep_all_together(
    t, n_threads, team, parts, order, rows, labels, norms, tops, totals, owned_at, owned, m, cuts, indices, values, W,
    start, count, cls, val, used, exact, room, steps,
):  # fmt: skip
    """Visit every (row, class) of the rows in `order`, as thread t of several.

    Variables that are not zero are listed anew behind the `used` entries, for which `cls` and `val` must have room.
    Returns how many entries are used, to thread 0.
    """
    n_shards, scores, v, step = parts.shape[1], room[t, 0], room[t, 1], steps[t]
    for i in range(len(order)):
        r, mine, a = order[i], parts[i & 1], room[t, 2 + i % 2]
        label, cut = labels[r], cuts[rows[r]]
        for s in range(t, n_shards, n_threads):
            _all_scores(indices, values, cut[s], cut[s + 1], W, m, mine[s])
            mine[s, m] = _one_score(indices, values, cut[s], cut[s + 1], W, label)
        if n_threads > 1:
            _meet(t, n_threads, team, i + 1)
        if t == 0 and i > 0:
            used = _list_row(order[i - 1], room[0, 2 + (i - 1) % 2], m, start, count, cls, val, used)
        _sum_shards(mine, m, scores)
        a[:m] = 0.0
        for j in range(start[r], start[r] + count[r]):
            a[cls[j]] = val[j]
        base, first, last = 1.0 - scores[m], owned_at[r], owned_at[r + 1]
        _settle_all(scores, base, norms[r], tops[r], totals[r], m, first, last, owned, a, v, exact)
        moved, change = False, 0.0
        for c in range(m):
            step[c] = scores[c]
            change += step[c]
            moved |= step[c] != 0.0
        if moved:
            for s in range(t, n_shards, n_threads):
                _add_full_step(indices, values, cut[s], cut[s + 1], W, label, m, step, change)
    if n_threads > 1:
        _meet(t, n_threads, team, len(order) + 1)
    if t == 0 and len(order) > 0:
        last = len(order) - 1
        used = _list_row(order[last], room[0, 2 + last % 2], m, start, count, cls, val, used)
    return used
