"""Compiled loops over ragged lists of dual variables."""

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_steps import compiled, for_each_row
from tellwhy.classifiers.svm.engines.records import ListArrays


@for_each_row
def longest(lengths):
    """Length of the longest list, at least 1."""
    most = 1
    for e in range(len(lengths)):
        most = max(most, lengths[e])
    return most


@for_each_row
def place_of(classes, at, n, c):
    """How many of the n ascending classes listed from `at` on are below c."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if classes[at + middle] < c:
            low = middle + 1
        else:
            high = middle
    return low


@for_each_row
def is_left_out(e, lists, sweep):
    """Whether an example has nothing listed, or was idle for too long."""
    return lists.lengths[e] == 0 or lists.idle[e] >= sweep.patience


@for_each_row
def unlist(e, lists, n_classes, duals):
    """Set `duals` to the variables of example e for all classes; returns their sum."""
    for c in range(n_classes):
        duals[c] = 0.0
    total = 0.0
    for j in range(lists.starts[e], lists.starts[e] + lists.lengths[e]):
        duals[lists.classes[j]] = lists.duals[j]
        total += lists.duals[j]
    return total


@for_each_row
def list_nonzero(e, lists, duals, n_classes, used):
    """List the variables of example e that are not zero behind the `used` entries; returns the new `used`."""
    # Behind, not in place: the example may hold more variables than before. Gaps are closed later.
    lists.starts[e] = used
    for c in range(n_classes):
        if duals[c] > 0.0:
            lists.classes[used] = c
            lists.duals[used] = duals[c]
            used += 1
    lists.lengths[e] = used - lists.starts[e]
    return used


@for_each_row
def has_room(lists, needed):
    """Whether there is room for so many entries."""
    return needed <= len(lists.classes)


@compiled
def longer(lists, needed):
    """Longer copies of lists, with room for so many entries."""
    # Doubling keeps copies rare, and reserving examples × classes at once would take far too much memory.
    size = max(needed, 2 * len(lists.classes))
    classes = np.empty(size, lists.classes.dtype)
    duals = np.empty(size, lists.duals.dtype)
    classes[: len(lists.classes)] = lists.classes
    duals[: len(lists.duals)] = lists.duals
    return ListArrays(lists.starts, lists.lengths, classes, duals, lists.idle)


@compiled
def count_nonzero(first, last, lists):
    """How many listed variables of the examples first … last are not zero."""
    n = 0
    for e in range(first, last):
        for j in range(lists.starts[e], lists.starts[e] + lists.lengths[e]):
            n += lists.duals[j] != 0.0
    return n


@compiled
def drop_zeros(first, last, lists, used, classes, duals):
    """Copy the listed variables of some examples that are not zero behind `used` entries of new arrays."""
    # Into new arrays: lists need not lie in the order of the examples, so that one would overwrite another.
    for e in range(first, last):
        at = lists.starts[e]
        lists.starts[e] = used
        for j in range(at, at + lists.lengths[e]):
            if lists.duals[j] != 0.0:
                classes[used] = lists.classes[j]
                duals[used] = lists.duals[j]
                used += 1
        lists.lengths[e] = used - lists.starts[e]


@compiled
def close_up(examples, lists, used):
    """Move the lists of some examples together, which lie in this order behind the `used` entries.

    Threads wrote them with gaps, each to a place of its own. Returns the new `used`.
    """
    for e in examples:
        at = lists.starts[e]
        lists.starts[e] = used
        for j in range(at, at + lists.lengths[e]):
            lists.classes[used] = lists.classes[j]
            lists.duals[used] = lists.duals[j]
            used += 1
    return used
