"""Sweeps over batches of rows in lanes that share no feature, so that threads visit lanes as if they were alone.

The steps are those of one row after the other, for any number of threads.
"""

import numba

from tellwhy.classifiers.svm._compiled_rows import (
    FAST,
    _add_full_step,
    _add_step,
    _all_scores,
    _differences,
    _list_row,
    _listed_scores,
    _one_score,
    _settle,
    _settle_all,
    _unlist_row,
)
from tellwhy.classifiers.svm.threads._compiled_meeting import meet, next_task

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


@_compiled
def sweep_lanes(
    t, n_threads, team, tasks, order, lanes, members, rows, labels, norms, tops, totals, m, indptr, indices, values, W,
    start, count, cls, val, idle, patience, calm, exact, room, step, at_class, every, violation,
):  # fmt: skip
    """Visit the listed variables of the rows of some batches, as thread t; `violation` of rows visited is set."""
    scores, a, v, step, at_class, every = room[t, 0], room[t, 1], room[t, 2], step[t], at_class[t], every[t]
    for i in range(len(order)):
        lane = lanes[order[i]]
        k = next_task(tasks, i)
        while k < len(lane) - 1:
            for q in range(lane[k], lane[k + 1]):
                r = members[q]
                n, at, label, low, high = count[r], start[r], labels[r], indptr[rows[r]], indptr[rows[r] + 1]
                if n == 0 or idle[r] >= patience:
                    continue
                _listed_scores(indices, values, low, high, W, m, cls, at, n, scores, every)
                base, mine = 1.0 - _one_score(indices, values, low, high, W, label), val[at : at + n]
                violation[r] = _settle(scores, base, norms[r], tops[r], totals[r], n, mine, v, a, calm, exact)
                if violation[r] <= calm:
                    idle[r] += 1
                    continue
                idle[r] = 0
                changed, change = _differences(at, n, cls, mine, a, step, at_class)
                _add_step(indices, values, low, high, W, label, at_class, step, changed, change)
                for j in range(n):
                    mine[j] = a[j]
            k = next_task(tasks, i)
        meet(t, n_threads, team, i + 1)


@_compiled
def sweep_lanes_all(
    t, n_threads, team, tasks, order, lanes, members, rows, labels, norms, tops, totals, owned_at, owned, m, indptr,
    indices, values, W, start, count, cls, val, slots, exact, room, steps,
):  # fmt: skip
    """Visit every variable of the rows of some batches, as thread t.

    The variables of the row at q in batch order[i] that are not zero are listed from entry slots[i] + m q on.
    """
    scores, a, v, step = room[t, 0], room[t, 1], room[t, 2], steps[t]
    for i in range(len(order)):
        lane = lanes[order[i]]
        k = next_task(tasks, i)
        while k < len(lane) - 1:
            for q in range(lane[k], lane[k + 1]):
                r = members[q]
                low, high, label = indptr[rows[r]], indptr[rows[r] + 1], labels[r]
                _all_scores(indices, values, low, high, W, m, scores)
                _unlist_row(r, start, count, cls, val, m, a)
                moved, change = _settle_all(
                    scores, 1.0 - scores[label], norms[r], tops[r], totals[r], m, owned_at[r], owned_at[r + 1], owned,
                    a, v, step, exact,
                )  # fmt: skip
                _list_row(r, a, m, start, count, cls, val, slots[i] + m * (q - lane[0]))
                if moved:
                    _add_full_step(indices, values, low, high, W, label, m, step, change)
            k = next_task(tasks, i)
        meet(t, n_threads, team, i + 1)
