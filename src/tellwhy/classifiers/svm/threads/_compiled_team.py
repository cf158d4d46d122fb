"""Sweeps over batches of rows that several threads take together.

The features are cut into shards. A thread computes what its shards contribute to the scores of the rows of a
batch, with the weights from before it, and reads what the others contributed. It solves for row after row as
they do, adding what the steps of earlier rows of the batch change in the scores, which the inner products of
the rows tell, and adds the steps to the weights of its shards: no other thread ever reads these. The steps
are those of one row after the other, and as sums are taken in the order of the shards, results do not depend
on the number of threads.
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
from tellwhy.classifiers.svm.threads._compiled_meeting import meet

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


@_compiled
def _sum_shards(parts, i, n, scores):
    """Scores of the first n classes of the i-th row of a batch."""
    for j in range(n):
        scores[j] = parts[0, i, j]
    for s in range(1, len(parts)):
        for j in range(n):
            scores[j] += parts[s, i, j]


@_compiled
def _correct(i, gram, labels, step, at_class, changed, change, delta, cls, at, n, label, scores):
    """Add to the scores of the i-th row of a batch, last that of its label, what the steps of the rows before it do."""
    for j in range(i):
        if changed[j] > 0:
            for c in range(changed[j]):
                delta[at_class[j, c]] -= gram[j] * step[j, c]
            delta[labels[j]] += gram[j] * change[j]
    for c in range(n):
        scores[c] += delta[cls[at + c]]
    scores[n] += delta[label]
    for j in range(i):
        for c in range(changed[j]):
            delta[at_class[j, c]] = 0.0
        delta[labels[j]] = 0.0


@_compiled
def sweep_together(
    t, n_threads, team, order, batches, members, gram, parts, rows, labels, norms, tops, totals, m, cuts, indices,
    values, W, start, count, cls, val, idle, patience, calm, exact, room, before, step, at_class, every, delta, changed,
    change, all_labels, violation,
):  # fmt: skip
    """Visit the listed variables of the rows of some batches, as thread t; `violation` of rows visited is set.

    What is read of a row is read before the threads meet, and what is written is written after they met.
    """
    scores, a, v, n_shards = room[t, 0], room[t, 1], room[t, 2], parts.shape[1]
    before, step, at_class, every, delta = before[t], step[t], at_class[t], every[t], delta[t]
    changed, change, own_labels = changed[t], change[t], all_labels[t]
    low_shard, high_shard = n_shards * t // n_threads, n_shards * (t + 1) // n_threads
    for b in range(len(order)):
        first, last, part = batches[order[b], 0], batches[order[b], 1], parts[b & 1]
        for i in range(last - first):
            r = members[first + i]
            n, at, label, cut = count[r], start[r], labels[r], cuts[rows[r]]
            own_labels[i], changed[i] = label, -1
            if n == 0 or idle[r] >= patience:
                continue
            changed[i] = 0
            for s in range(low_shard, high_shard):
                _listed_scores(indices, values, cut[s], cut[s + 1], W, m, cls, at, n, part[s, i], every)
                part[s, i, n] = _one_score(indices, values, cut[s], cut[s + 1], W, label)
            for j in range(n):
                before[i, j] = val[at + j]
        meet(t, n_threads, team, b + 1)
        for i in range(last - first):
            if changed[i] < 0:
                continue
            r = members[first + i]
            n, at = count[r], start[r]
            _sum_shards(part, i, n + 1, scores)
            _correct(
                i,
                gram[first + i],
                own_labels,
                step,
                at_class,
                changed,
                change,
                delta,
                cls,
                at,
                n,
                labels[r],
                scores,
            )
            base = 1.0 - scores[n]
            worst = _settle(scores, base, norms[r], tops[r], totals[r], n, before[i], v, a, calm, exact)
            if worst > calm:
                changed[i], change[i] = _differences(at, n, cls, before[i], a, step[i], at_class[i])
                low, high = cuts[rows[r], low_shard], cuts[rows[r], high_shard]
                _add_step(
                    indices, values, low, high, W, labels[r], at_class[i], step[i], changed[i], change[i]
                )
            if t == 0:
                violation[r], idle[r] = worst, 0 if worst > calm else idle[r] + 1
                if worst > calm:
                    for j in range(n):
                        val[at + j] = a[j]


@_compiled
def sweep_all_together(
    t, n_threads, team, order, batches, members, gram, parts, rows, labels, norms, tops, totals, owned_at, owned, m,
    cuts, indices, values, W, start, count, cls, val, used, exact, room, before, step, change, moved,
):  # fmt: skip
    """Visit every variable of the rows of some batches, as thread t.

    Variables that are not zero are listed anew behind the `used` entries, for which `cls` and `val` must have
    room. Returns how many entries are used, to thread 0.
    """
    scores, v, n_shards = room[t, 0], room[t, 1], parts.shape[1]
    before, step, change, moved = before[t], step[t], change[t], moved[t]
    low_shard, high_shard = n_shards * t // n_threads, n_shards * (t + 1) // n_threads
    for b in range(len(order)):
        first, last, part = batches[order[b], 0], batches[order[b], 1], parts[b & 1]
        for i in range(last - first):
            r = members[first + i]
            cut = cuts[rows[r]]
            for s in range(low_shard, high_shard):
                _all_scores(indices, values, cut[s], cut[s + 1], W, m, part[s, i])
            _unlist_row(r, start, count, cls, val, m, before[i])
        meet(t, n_threads, team, b + 1)
        for i in range(last - first):
            r = members[first + i]
            label, cut = labels[r], cuts[rows[r]]
            _sum_shards(part, i, m, scores)
            for j in range(i):
                if moved[j]:
                    for c in range(m):
                        scores[c] -= gram[first + i, j] * step[j, c]
                    scores[labels[members[first + j]]] += gram[first + i, j] * change[j]
            moved[i], change[i] = _settle_all(
                scores, 1.0 - scores[label], norms[r], tops[r], totals[r], m, owned_at[r], owned_at[r + 1], owned,
                before[i], v, step[i], exact,
            )  # fmt: skip
            if moved[i]:
                low, high = cut[low_shard], cut[high_shard]
                _add_full_step(indices, values, low, high, W, label, m, step[i], change[i])
            if t == 0:
                used = _list_row(r, before[i], m, start, count, cls, val, used)
    return used
