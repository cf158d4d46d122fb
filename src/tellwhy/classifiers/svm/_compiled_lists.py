"""Compiled loops over ragged lists of dual variables, and the certificate: a pass that moves none."""

import numpy as np

from tellwhy.classifiers.svm._compiled_steps import (
    NEVER,
    compiled,
    find_extremes,
    for_each_row,
    inlined,
    measure_violation_of,
    score_all_classes,
    scratch,
    sum_violation,
)
from tellwhy.classifiers.svm.records import Certified, Judged, Limits, ListArrays, Listed


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


@for_each_row
def _judge(gains, duals, n_classes, limits, dual_sum, slack):
    """What an example costs, and which of its variables may have to move.

    Its violation is told only where the sum of its variables is bounded; else each has one of its own.
    """
    if limits.sum_cap == np.inf:
        loss = 0.0
        for c in range(n_classes):
            loss += max(gains[c], 0.0)
        # An infinite slack lists every class but the example's own labels.
        return Judged(limits.cap * loss, max(-slack, 0.5 * NEVER), 0.0)
    most, least_held = find_extremes(gains, duals, n_classes, 0.0)
    # With one bound for all, a variable may have to move as soon as its gain comes near that of one held.
    bound = max(max(0.0, min(most, least_held)) - slack, 0.5 * NEVER)
    worst = sum_violation(most, least_held, dual_sum, limits.sum_cap)
    return Judged(limits.sum_cap * most, bound, worst)


@for_each_row
def _set_gains(e, examples, base, block, gains):
    """Turn the scores of an example for all classes of a block into gains: base + score.

    For its own labels it is base − score (one-vs-rest), or they have none.
    """
    n = block.n_classes
    # Own labels first, while `gains` are still scores: one-vs-rest takes the score of a label the other way.
    for j in range(examples.own_at[e], examples.own_at[e + 1]):
        c = examples.own[j] - block.offset
        if 0 <= c < n:
            gains[c] = -gains[c] if examples.own_is_positive else NEVER
    for c in range(n):
        gains[c] += base


@inlined
def certify_scored(e, examples, base, block, lists, slack, gains, duals, found, used):
    """List the variables of example e that are not zero, or whose gain is above −slack, in `found`.

    `gains` come as scores.
    """
    n = block.n_classes
    _set_gains(e, examples, base, block, gains)
    held = unlist(e, lists, n, duals)
    limits = Limits(examples.squares[e], examples.caps[e], examples.sum_caps[e])
    judged = _judge(gains, duals, n, limits, held, slack)
    worst = judged.worst
    found.starts[e] = used
    for c in range(n):
        if gains[c] > judged.bound or duals[c] > 0.0:
            found.classes[used] = c
            found.duals[used] = duals[c]
            used += 1
            if limits.sum_cap == np.inf:
                worst = max(worst, measure_violation_of(gains[c], duals[c], limits.cap))
    found.lengths[e] = used - found.starts[e]
    return Listed(used, judged.loss, held, worst)


@compiled
def certify(first, last, entries, examples, bases, block, lists, slack):
    """Losses, dual sum and new lists of examples first … last against the classes of a block.

    `bases` are what all classes of an example add to their scores to make gains. Listed afterwards: variables
    that are not zero, and those whose gain is above −slack. `lists.starts` then counts from this part's first
    entry.
    """
    n = block.n_classes
    gains = scratch(n, block.weights.dtype)
    duals = scratch(n, block.weights.dtype)
    size = n + 16 * (last - first)  # a guess: sixteen rivals a row; `longer` makes up for it
    classes = np.empty(size, lists.classes.dtype)
    values = np.empty(size, lists.duals.dtype)
    found = ListArrays(lists.starts, lists.lengths, classes, values, lists.idle)
    used = 0
    losses = 0.0
    dual_sum = 0.0
    worst = 0.0
    for e in range(first, last):
        if not has_room(found, used + n):
            found = longer(found, used + n)
        low = entries.indptr[examples.rows[e]]
        high = entries.indptr[examples.rows[e] + 1]
        score_all_classes(entries, low, high, block.weights, n, gains)
        listed = certify_scored(e, examples, bases[e], block, lists, slack, gains, duals, found, used)
        used = listed.used
        losses += listed.loss
        dual_sum += listed.dual_sum
        worst = max(worst, listed.worst)
    return Certified(found.classes[:used].copy(), found.duals[:used].copy(), losses, dual_sum, worst)
