"""Compiled sweep over examples against the classes of two blocks at once: another one and their own."""

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_lists import is_left_out
from tellwhy.classifiers.svm.engines._compiled_steps import compiled, exact_step, for_each_row, violation_of
from tellwhy.classifiers.svm.engines._compiled_weights import add_steps, listed_scores, one_score
from tellwhy.classifiers.svm.engines.records import Limits, Swept


@for_each_row
def add_own(e, lists, base, gains, duals):
    """Bring in listed variables: their values, and gains from scores; returns Σ values."""
    total = 0.0
    at = lists.starts[e]
    for j in range(lists.lengths[e]):
        duals[j] = lists.duals[at + j]
        total += duals[j]
        gains[j] += base
    return total


@for_each_row
def keep_steps(e, lists, duals, steps, step_classes):
    """Keep the new values of the listed variables, and list their steps; returns how many there are."""
    n_steps = 0
    at = lists.starts[e]
    for j in range(lists.lengths[e]):
        steps[n_steps] = duals[j] - lists.duals[at + j]
        if steps[n_steps] != 0.0:
            step_classes[n_steps] = lists.classes[at + j]
            lists.duals[at + j] = duals[j]
            n_steps += 1
    return n_steps


@for_each_row
def add_own_steps(low, high, entries, weights, label, step_classes, steps, n_steps, others):
    """Add the steps of the own block's variables to its weights; those of other blocks sum to `others`."""
    total = others
    for j in range(n_steps):
        total += steps[j]
    add_steps(entries, low, high, weights, label, weights, steps, step_classes, n_steps, total)


@compiled
def sweep_two_blocks(order, entries, examples, own_block, own_lists, block, lists, sweep):
    """Visit Weston–Watkins examples against the classes of another block and of their own together.

    The variables of an example are coupled through the weights of its label: solved for by one block after
    the other they would only creep towards their balance, while the two blocks together reach it at once.
    Which examples are visited is decided by the variables of the other block, as in `sweep_pairs`.
    """
    width = block.n_classes + own_block.n_classes
    dtype = block.weights.dtype
    gains = np.empty(width)
    v = np.empty(width)
    duals = np.empty(width)
    steps = np.empty(width, dtype)
    step_classes = np.empty(width, np.int64)
    every = np.empty(width, dtype)
    worst = 0.0
    summed = 0.0
    visited = 0
    for e in order:
        if is_left_out(e, lists, sweep):
            continue
        n = lists.lengths[e]
        at = lists.starts[e]
        low = entries.indptr[examples.rows[e]]
        high = entries.indptr[examples.rows[e] + 1]
        label = examples.labels[e]
        cap = examples.caps[e]
        listed_scores(entries, low, high, block, lists.classes, at, n, gains, every)
        base = 1.0 - one_score(entries, low, high, own_block.weights, label)
        held = add_own(e, lists, base, gains, duals)
        violation = 0.0
        for j in range(n):
            violation = max(violation, violation_of(gains[j], duals[j], cap))
        visited += 1
        worst = max(worst, violation)
        summed += violation
        if violation <= sweep.negligible:
            lists.idle[e] += 1
            continue
        lists.idle[e] = 0
        own = own_lists.lengths[e]
        own_at = own_lists.starts[e]
        listed_scores(entries, low, high, own_block, own_lists.classes, own_at, own, gains[n:], every)
        held += add_own(e, own_lists, base, gains[n:], duals[n:])
        exact_step(gains, duals, v, n + own, Limits(examples.squares[e], cap, np.inf), held)
        n_steps = keep_steps(e, lists, duals, steps, step_classes)
        total = 0.0
        for j in range(n_steps):
            total += steps[j]
        add_steps(
            entries, low, high, own_block.weights, label, block.weights, steps, step_classes, n_steps, 0.0
        )
        n_steps = keep_steps(e, own_lists, duals[n:], steps, step_classes)
        add_own_steps(low, high, entries, own_block.weights, label, step_classes, steps, n_steps, total)
    return Swept(worst, summed, visited)
