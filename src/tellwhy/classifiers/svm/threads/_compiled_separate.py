"""Sweeps over batches of separate parts: rows of different parts have no feature in common.

A thread takes one part after the other and visits its rows as if it were alone: no other thread reads or
writes the weights of their features. The steps are those of one row after the other, for any number of
threads.
"""

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_lists import is_left_out, longest
from tellwhy.classifiers.svm.engines._compiled_pairs import visit_all, visit_listed
from tellwhy.classifiers.svm.engines._compiled_scratch import scratch, scratch_rows
from tellwhy.classifiers.svm.engines._compiled_steps import compiled
from tellwhy.classifiers.svm.threads._compiled_barrier import next_task, wait_for_all


@compiled
def sweep_separate(t, barrier, tasks, order, batches, entries, examples, block, lists, sweep, violations):
    """Visit the listed variables of some batches, as thread t; sets `violations` of examples visited."""
    most = longest(lists.lengths)
    room = scratch_rows(3, most, np.float64)
    steps = scratch(most, block.weights.dtype)
    step_classes = scratch(most, np.int64)
    every = scratch(block.n_classes, block.weights.dtype)
    for i in range(len(order)):
        bounds = batches.at[order[i]]
        # Whoever is free takes the next part; the longest come first, so that threads end together.
        k = next_task(tasks, i)
        while k < len(bounds) - 1:
            for q in range(bounds[k], bounds[k + 1]):
                e = batches.members[q]
                if is_left_out(e, lists, sweep):
                    continue
                violations[e] = visit_listed(
                    e, entries, examples, block.weights, block, lists, sweep, room, steps, step_classes, every
                )
            k = next_task(tasks, i)
        # Parts of the next batch may share features with parts of this one.
        wait_for_all(t, barrier, i + 1)


@compiled
def sweep_separate_dense(
    t, barrier, tasks, order, batches, entries, examples, block, lists, places, is_exact
):
    """Visit every variable of some batches, as thread t.

    The variables of the example at q in batch order[i] that are not zero are listed from entry places[i] +
    n_classes · q on: each example has a place of its own, as no thread knows how much others list.
    """
    n = block.n_classes
    room = scratch_rows(3, n, np.float64)
    steps = scratch(n, block.weights.dtype)
    for i in range(len(order)):
        bounds = batches.at[order[i]]
        k = next_task(tasks, i)
        while k < len(bounds) - 1:
            for q in range(bounds[k], bounds[k + 1]):
                e = batches.members[q]
                place = places[i] + n * (q - bounds[0])
                visit_all(e, entries, examples, block.weights, block, lists, place, room, steps, is_exact)
            k = next_task(tasks, i)
        wait_for_all(t, barrier, i + 1)
