"""Compiled sweeps for losses that compare classes with the label: Weston–Watkins and Crammer–Singer.

A sweep works on one tile: examples whose labels lie in one class block (`label_weights` are that block's)
against the classes of another block or the same.
"""

import numpy as np

from tellwhy.classifiers.svm._compiled_lists import (
    has_room,
    is_left_out,
    list_nonzero,
    longer,
    longest,
    place_of,
    unlist,
)
from tellwhy.classifiers.svm._compiled_steps import (
    add_all_steps,
    add_steps,
    collect_steps,
    compiled,
    inlined,
    make_scratch_rows,
    score_all_classes,
    score_listed_classes,
    score_one,
    scratch,
    solve_all,
    solve_listed,
)
from tellwhy.classifiers.svm.records import Limits, Swept


@inlined
def visit_all(e, entries, examples, label_weights, block, lists, used, room, steps, is_exact):
    """Solve for every variable of an example, list those that are not zero, and move the weights.

    `room` has a line each for scores, variables and their levels. Returns the new `used`.
    """
    n = block.n_classes
    low = entries.indptr[examples.rows[e]]
    high = entries.indptr[examples.rows[e] + 1]
    label = examples.labels[e]
    limits = Limits(examples.squares[e], examples.caps[e], examples.sum_caps[e])
    scores = room[0]
    duals = room[1]
    score_all_classes(entries, low, high, block.weights, n, scores)
    base = 1.0 - score_one(entries, low, high, label_weights, label)
    unlist(e, lists, n, duals)
    moved, total = solve_all(e, scores, base, limits, examples, block, duals, room[2], steps, is_exact)
    used = list_nonzero(e, lists, duals, n, used)
    # A row that did not move costs no second pass over its entries, which is half of its work.
    if moved:
        add_all_steps(entries, low, high, label_weights, label, block.weights, n, steps, total)
    return used


@inlined
def visit_listed(e, entries, examples, label_weights, block, lists, sweep, room, steps, step_classes, every):
    """Solve for the listed variables of an example and move the weights; returns its violation."""
    n = lists.lengths[e]
    at = lists.starts[e]
    low = entries.indptr[examples.rows[e]]
    high = entries.indptr[examples.rows[e] + 1]
    label = examples.labels[e]
    limits = Limits(examples.squares[e], examples.caps[e], examples.sum_caps[e])
    gains = room[0]
    new = room[1]
    old = lists.duals[at : at + n]  # a view: what is kept below is kept in the lists
    score_listed_classes(entries, low, high, block, lists.classes, at, n, gains, every)
    base = 1.0 - score_one(entries, low, high, label_weights, label)
    violation = solve_listed(gains, base, limits, n, old, new, room[2], sweep)
    if violation <= sweep.negligible:
        lists.idle[e] += 1
        return violation
    lists.idle[e] = 0
    n_steps, total = collect_steps(at, n, lists.classes, old, new, steps, step_classes)
    add_steps(entries, low, high, label_weights, label, block.weights, steps, step_classes, n_steps, total)
    for j in range(n):
        old[j] = new[j]
    return violation


@compiled
def sweep_pairs_dense(order, entries, examples, label_weights, block, lists, used, is_exact):
    """Visit every variable of some examples; those that are not zero are listed anew behind `used` entries.

    Returns the lists, which may have grown, and how many of their entries are used.
    """
    room = make_scratch_rows(3, block.n_classes, np.float64)
    steps = scratch(block.n_classes, block.weights.dtype)
    for e in order:
        # How many variables are not zero is known only afterwards: room for all of them.
        if not has_room(lists, used + block.n_classes):
            lists = longer(lists, used + block.n_classes)
        used = visit_all(e, entries, examples, label_weights, block, lists, used, room, steps, is_exact)
    return lists, used


@compiled
def sweep_pairs(order, entries, examples, label_weights, block, lists, sweep):
    """Visit the listed variables of some examples; those that were idle for too long are left out."""
    most = longest(lists.lengths)  # with many classes far fewer than there are
    room = make_scratch_rows(3, most, np.float64)
    steps = scratch(most, block.weights.dtype)
    step_classes = scratch(most, np.int64)
    every = scratch(block.n_classes, block.weights.dtype)
    worst = 0.0
    summed = 0.0
    visited = 0
    for e in order:
        if is_left_out(e, lists, sweep):
            continue
        violation = visit_listed(
            e, entries, examples, label_weights, block, lists, sweep, room, steps, step_classes, every
        )
        visited += 1
        worst = max(worst, violation)
        summed += violation
    return Swept(worst, summed, visited)


@compiled
def label_bases(first, last, entries, examples, label_weights, bases):
    """Set `bases` of some examples to 1 − the score of the label: with a class's score, it makes a gain."""
    for e in range(first, last):
        low = entries.indptr[examples.rows[e]]
        high = entries.indptr[examples.rows[e] + 1]
        bases[e] = 1.0 - score_one(entries, low, high, label_weights, examples.labels[e])


@compiled
def add_pairs(entries, examples, label_weights, block, lists, low, high):
    """Add what the listed variables of a tile contribute to the columns low … high of the weights."""
    for e in range(len(examples.rows)):
        row = examples.rows[e]
        label = examples.labels[e]
        at = lists.starts[e]
        held = 0.0
        for j in range(at, at + lists.lengths[e]):
            held += lists.duals[j]
        first = at + place_of(lists.classes, at, lists.lengths[e], low)
        last = at + place_of(lists.classes, at, lists.lengths[e], high)
        for p in range(entries.indptr[row], entries.indptr[row + 1]):
            x = entries.values[p]
            f = entries.indices[p]
            for j in range(first, last):
                block.weights[f, lists.classes[j]] -= x * lists.duals[j]
            if low <= label < high:
                label_weights[f, label] += x * held
