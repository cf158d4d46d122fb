"""Compiled sweeps for losses that judge each class on its own: Lee–Lin–Wahba and one-vs-rest.

Scores are those of the weights plus one number a row, that of `centre`, the part that all classes share.
`class_sum` is kept at the sum of the weights over the classes of a block.
"""

import numpy as np

from tellwhy.classifiers.svm._compiled_lists import (
    has_room,
    is_left_out,
    list_nonzero,
    longer,
    longest,
    unlist,
)
from tellwhy.classifiers.svm._compiled_steps import (
    compiled,
    dot,
    for_each_row,
    inlined,
    measure_violation_of,
    score_all_classes,
    score_listed_classes,
    scratch,
)
from tellwhy.classifiers.svm.records import SingleRoom, SingleSteps, Swept


@for_each_row
def _set_own(e, examples, block, table, value):
    """Set the entries of an example's labels among the classes of a block."""
    for j in range(examples.own_at[e], examples.own_at[e + 1]):
        c = examples.own[j] - block.offset
        if 0 <= c < block.n_classes:
            table[c] = value


@compiled
def _room(width, n_classes, dtype, score_dtype):
    room = SingleRoom(
        scores=scratch(width, score_dtype),
        steps=scratch(width, dtype),
        step_classes=scratch(width, np.int64),
        duals=scratch(n_classes, dtype),
        caps=scratch(n_classes, dtype),
        signs=scratch(n_classes, dtype),
        every=scratch(n_classes, dtype),
    )
    room.signs[:] = -1.0
    return room


@inlined
def _visit_all(e, entries, examples, block, centre, class_sum, lists, used, room):
    """Set every variable of an example to its best value, list those not zero, and move the weights."""
    n = block.n_classes
    low = entries.indptr[e]
    high = entries.indptr[e + 1]
    # Read once: a store inside the loops could change them, for all the compiler knows.
    cap = examples.caps[e]
    square = examples.squares[e]
    scores = room.scores
    duals = room.duals
    score_all_classes(entries, low, high, block.weights, n, scores)
    shift = dot(entries, low, high, centre)
    for c in range(n):
        room.caps[c] = cap
    if examples.own_is_positive:
        _set_own(e, examples, block, room.signs, 1.0)
    else:
        _set_own(e, examples, block, room.caps, 0.0)
    unlist(e, lists, n, duals)
    moved = False
    total = 0.0
    for c in range(n):
        gain = 1.0 - room.signs[c] * (scores[c] + shift)
        best = min(max(duals[c] + gain / square, 0.0), room.caps[c])
        scores[c] = room.signs[c] * (best - duals[c])  # from here on the step: no array more
        total += scores[c]
        moved |= scores[c] != 0.0
        duals[c] = best
    used = list_nonzero(e, lists, duals, n, used)
    # Only what was set is set back: a row has few labels among many classes.
    _set_own(e, examples, block, room.signs, -1.0)
    if moved:
        for p in range(low, high):
            x = entries.values[p]
            w = block.weights[entries.indices[p]]
            class_sum[entries.indices[p]] += x * total
            for c in range(n):
                w[c] += x * scores[c]
    return used


@compiled
def sweep_singles_dense(order, entries, examples, block, centre, class_sum, lists, used):
    """Visit every variable of some examples; lists as in `sweep_pairs_dense`."""
    dtype = block.weights.dtype
    room = _room(block.n_classes, block.n_classes, dtype, dtype)
    for e in order:
        if not has_room(lists, used + block.n_classes):
            lists = longer(lists, used + block.n_classes)
        used = _visit_all(e, entries, examples, block, centre, class_sum, lists, used, room)
    return lists, used


@for_each_row
def _solve_listed(e, at, n, shift, examples, lists, room):
    """Set the listed variables of an example to their best values; returns its violation and the steps."""
    cap = examples.caps[e]
    square = examples.squares[e]
    worst = 0.0
    n_steps = 0
    total = 0.0
    for j in range(n):
        c = lists.classes[at + j]
        old = lists.duals[at + j]
        gain = 1.0 - room.signs[c] * (room.scores[j] + shift)
        violation = measure_violation_of(gain, old, cap)
        worst = max(worst, violation)
        # A variable at a bound that it should stay at has no step: the weights need not be touched for it.
        if violation > 0.0:
            best = min(max(old + gain / square, 0.0), cap)
            room.steps[n_steps] = room.signs[c] * (best - old)
            total += room.steps[n_steps]
            room.step_classes[n_steps] = c
            lists.duals[at + j] = best
            n_steps += 1
    return SingleSteps(worst, n_steps, total)


@inlined
def _visit_listed(e, entries, examples, block, centre, class_sum, lists, sweep, room):
    """Solve for the listed variables of an example and move the weights; returns its violation."""
    n = lists.lengths[e]
    at = lists.starts[e]
    low = entries.indptr[e]
    high = entries.indptr[e + 1]
    score_listed_classes(entries, low, high, block, lists.classes, at, n, room.scores, room.every)
    shift = dot(entries, low, high, centre)
    # Where labels have no variable none is listed, so that there is nothing to bar.
    if examples.own_is_positive:
        _set_own(e, examples, block, room.signs, 1.0)
    found = _solve_listed(e, at, n, shift, examples, lists, room)
    _set_own(e, examples, block, room.signs, -1.0)
    lists.idle[e] = lists.idle[e] + 1 if found.violation <= sweep.negligible else 0
    for p in range(low, high):
        x = entries.values[p]
        w = block.weights[entries.indices[p]]
        class_sum[entries.indices[p]] += x * found.total
        for j in range(found.n_steps):
            w[room.step_classes[j]] += x * room.steps[j]
    return found.violation


@compiled
def sweep_singles(order, entries, examples, block, centre, class_sum, lists, sweep):
    """Visit the listed variables of some examples; those that were idle for too long are left out."""
    room = _room(longest(lists.lengths), block.n_classes, block.weights.dtype, np.float64)
    worst = 0.0
    summed = 0.0
    visited = 0
    for e in order:
        if is_left_out(e, lists, sweep):
            continue
        violation = _visit_listed(e, entries, examples, block, centre, class_sum, lists, sweep, room)
        visited += 1
        worst = max(worst, violation)
        summed += violation
    return Swept(worst, summed, visited)


@compiled
def centre_bases(first, last, entries, centre, bases):
    """Set `bases` of some examples to 1 + centreᵀx: with a class's score, it makes a gain."""
    for e in range(first, last):
        bases[e] = 1.0 + dot(entries, entries.indptr[e], entries.indptr[e + 1], centre)


@compiled
def add_singles(entries, examples, block, class_sum, lists):
    """Add what the listed variables contribute to the weights and to their sum over classes."""
    for e in range(len(lists.lengths)):
        for j in range(lists.starts[e], lists.starts[e] + lists.lengths[e]):
            c = lists.classes[j]
            step = -lists.duals[j]
            if examples.own_is_positive:
                for i in range(examples.own_at[e], examples.own_at[e + 1]):
                    if examples.own[i] - block.offset == c:
                        step = lists.duals[j]
            for p in range(entries.indptr[e], entries.indptr[e + 1]):
                block.weights[entries.indices[p], c] += entries.values[p] * step
                class_sum[entries.indices[p]] += entries.values[p] * step
