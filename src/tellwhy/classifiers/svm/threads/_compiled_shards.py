"""Sweeps over batches of rows whose features several threads share.

The features are cut into shards. A thread computes what its shards contribute to the scores of the rows of a
batch, with the weights from before the batch, waits, and reads what the others contributed. It then solves
for row after row as they do, adding what the steps of earlier rows of the batch change in the scores, which
the inner products of the rows tell, and adds the steps to the weights of its shards: no other thread ever
reads these. The steps are those of one row after the other, and as sums are taken in the order of the shards,
results do not depend on the number of threads.
"""

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_lists import is_left_out, list_nonzero, longest, unlist
from tellwhy.classifiers.svm.engines._compiled_scratch import scratch, scratch_rows
from tellwhy.classifiers.svm.engines._compiled_steps import (
    collect_steps,
    compiled,
    for_each_row,
    inlined,
    solve_all,
    solve_listed,
)
from tellwhy.classifiers.svm.engines._compiled_weights import (
    add_all_steps,
    add_steps,
    all_scores,
    listed_scores,
    one_score,
)
from tellwhy.classifiers.svm.engines.records import Limits
from tellwhy.classifiers.svm.threads._compiled_barrier import wait_for_all
from tellwhy.classifiers.svm.threads.records import BatchRoom, Share


@for_each_row
def _share(t, n_threads, n_shards):
    """The shards of thread t."""
    return Share(n_shards * t // n_threads, n_shards * (t + 1) // n_threads)


@compiled
def _batch_room(size, width, n_classes, dtype):
    room = BatchRoom(
        old=scratch_rows(size, width, np.float64),
        steps=scratch_rows(size, width, dtype),
        step_classes=scratch_rows(size, width, np.int64),
        n_steps=np.zeros(size, np.int64),
        totals=np.zeros(size),
        shift=scratch(n_classes, np.float64),
        scores=scratch(width, np.float64),
        new=scratch(width, np.float64),
        levels=scratch(width, np.float64),
        every=scratch(n_classes, dtype),
    )
    room.shift[:] = 0.0
    return room


@for_each_row
def _sum_shards(partial, i, n, scores):
    """The first n scores of the i-th row of a batch."""
    # Always in the order of the shards, whichever thread computed them.
    for j in range(n):
        scores[j] = partial[0, i, j]
    for s in range(1, len(partial)):
        for j in range(n):
            scores[j] += partial[s, i, j]


@for_each_row
def _add_earlier_steps(i, first, batches, examples, room, classes, at, n, label):
    """Add what the steps of earlier rows of the batch do to the scores of its i-th row.

    These are the scores of the n classes listed from `at` on, and last that of the label.
    """
    shift = room.shift
    for j in range(i):
        if room.n_steps[j] > 0:
            product = batches.products[first + i, j]
            for c in range(room.n_steps[j]):
                shift[room.step_classes[j, c]] -= product * room.steps[j, c]
            shift[examples.labels[batches.members[first + j]]] += product * room.totals[j]
    for c in range(n):
        room.scores[c] += shift[classes[at + c]]
    room.scores[n] += shift[label]
    # Only what was set is cleared: with many classes the steps reach few of them.
    for j in range(i):
        for c in range(room.n_steps[j]):
            shift[room.step_classes[j, c]] = 0.0
        shift[examples.labels[batches.members[first + j]]] = 0.0


@for_each_row
def _read_listed(first, last, batches, entries, examples, block, lists, sweep, share, partial, room):
    """Score the listed classes of a batch with the weights of some shards, and copy the variables."""
    for i in range(last - first):
        e = batches.members[first + i]
        room.n_steps[i] = -1
        if is_left_out(e, lists, sweep):
            continue
        room.n_steps[i] = 0
        n = lists.lengths[e]
        at = lists.starts[e]
        cuts = entries.cuts[examples.rows[e]]
        for s in range(share.first, share.last):
            scores = partial[s, i]
            listed_scores(entries, cuts[s], cuts[s + 1], block, lists.classes, at, n, scores, room.every)
            scores[n] = one_score(entries, cuts[s], cuts[s + 1], block.weights, examples.labels[e])
        for j in range(n):
            room.old[i, j] = lists.duals[at + j]


@inlined
def _visit_listed(i, first, batches, entries, examples, block, lists, sweep, share, partial, room):
    """Solve for the i-th example of a batch and move the weights of some shards; returns its violation."""
    e = batches.members[first + i]
    n = lists.lengths[e]
    at = lists.starts[e]
    label = examples.labels[e]
    limits = Limits(examples.squares[e], examples.caps[e], examples.sum_caps[e])
    scores = room.scores
    old = room.old[i]
    _sum_shards(partial, i, n + 1, scores)
    _add_earlier_steps(i, first, batches, examples, room, lists.classes, at, n, label)
    # Every thread solves the same small problem: telling each other the result would take longer.
    violation = solve_listed(scores, 1.0 - scores[n], limits, n, old, room.new, room.levels, sweep)
    if violation > sweep.negligible:
        steps = room.steps[i]
        classes = room.step_classes[i]
        n_steps, total = collect_steps(at, n, lists.classes, old, room.new, steps, classes)
        room.n_steps[i] = n_steps
        room.totals[i] = total
        low = entries.cuts[examples.rows[e], share.first]
        high = entries.cuts[examples.rows[e], share.last]
        W = block.weights
        add_steps(entries, low, high, W, label, W, steps, classes, n_steps, total)
    return violation


@for_each_row
def _keep_listed(e, violation, lists, sweep, new, violations):
    """Keep what was found for an example."""
    violations[e] = violation
    if violation <= sweep.negligible:
        lists.idle[e] += 1
        return
    lists.idle[e] = 0
    at = lists.starts[e]
    for j in range(lists.lengths[e]):
        lists.duals[at + j] = new[j]


@compiled
def sweep_shards(
    t, barrier, order, batches, entries, examples, block, lists, sweep, partial_scores, violations
):
    """Visit the listed variables of some batches, as thread t; sets `violations` of examples visited.

    What is read of a row is read before the threads wait for each other, and what is written is written
    after. Thread 0 alone writes what all would write alike.
    """
    most = longest(lists.lengths) + 1
    share = _share(t, barrier.n_threads, partial_scores.shape[1])
    room = _batch_room(partial_scores.shape[2], most, block.n_classes, block.weights.dtype)
    for b in range(len(order)):
        first = batches.at[order[b], 0]
        last = batches.at[order[b], 1]
        # Two buffers in turn: a fast thread may score the next batch while a slow one reads this one's.
        partial = partial_scores[b & 1]
        _read_listed(first, last, batches, entries, examples, block, lists, sweep, share, partial, room)
        wait_for_all(t, barrier, b + 1)
        for i in range(last - first):
            if room.n_steps[i] < 0:
                continue
            violation = _visit_listed(
                i, first, batches, entries, examples, block, lists, sweep, share, partial, room
            )
            if t == 0:
                _keep_listed(batches.members[first + i], violation, lists, sweep, room.new, violations)


@for_each_row
def _read_all(first, last, batches, entries, examples, block, lists, share, partial, room):
    """Score all classes of a batch with the weights of some shards, and copy the variables."""
    # Shards one by one, though a thread may have several: sums must not depend on how many it has.
    for i in range(last - first):
        e = batches.members[first + i]
        cuts = entries.cuts[examples.rows[e]]
        for s in range(share.first, share.last):
            all_scores(entries, cuts[s], cuts[s + 1], block.weights, block.n_classes, partial[s, i])
        unlist(e, lists, block.n_classes, room.old[i])


@inlined
def _visit_all(i, first, batches, entries, examples, block, is_exact, share, partial, room):
    """Solve for all variables of the i-th example of a batch and move the weights of some shards."""
    n = block.n_classes
    e = batches.members[first + i]
    label = examples.labels[e]
    limits = Limits(examples.squares[e], examples.caps[e], examples.sum_caps[e])
    duals = room.old[i]
    steps = room.steps[i]
    scores = room.scores
    _sum_shards(partial, i, n, scores)
    for j in range(i):
        if room.n_steps[j]:
            product = batches.products[first + i, j]
            earlier = room.steps[j]
            for c in range(n):
                scores[c] -= product * earlier[c]
            scores[examples.labels[batches.members[first + j]]] += product * room.totals[j]
    base = 1.0 - scores[label]
    moved, total = solve_all(e, scores, base, limits, examples, block, duals, room.levels, steps, is_exact)
    room.n_steps[i] = moved
    room.totals[i] = total
    if moved:
        low = entries.cuts[examples.rows[e], share.first]
        high = entries.cuts[examples.rows[e], share.last]
        add_all_steps(entries, low, high, block.weights, label, block.weights, n, steps, total)


@compiled
def sweep_shards_dense(
    t, barrier, order, batches, entries, examples, block, lists, used, is_exact, partial_scores
):
    """Visit every variable of some batches, as thread t.

    Variables that are not zero are listed anew behind the `used` entries, for which there must be room.
    Returns how many entries are used, to thread 0.
    """
    n = block.n_classes
    share = _share(t, barrier.n_threads, partial_scores.shape[1])
    room = _batch_room(partial_scores.shape[2], n, n, block.weights.dtype)
    for b in range(len(order)):
        first = batches.at[order[b], 0]
        last = batches.at[order[b], 1]
        partial = partial_scores[b & 1]
        _read_all(first, last, batches, entries, examples, block, lists, share, partial, room)
        wait_for_all(t, barrier, b + 1)
        for i in range(last - first):
            _visit_all(i, first, batches, entries, examples, block, is_exact, share, partial, room)
            if t == 0:
                used = list_nonzero(batches.members[first + i], lists, room.old[i], n, used)
    return used
