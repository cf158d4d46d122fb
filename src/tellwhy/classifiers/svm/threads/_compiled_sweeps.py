"""Compiled sweeps over batches of rows whose weights several threads or ranks share.

The weights are cut by features and by classes. Each thread (of whichever rank) computes what its part
contributes to the scores of the rows of a batch, with the weights from before the batch, waits, and reads
what the others contributed. It then solves for row after row as they do, adding what the steps of earlier
rows of the batch change in the scores, which the inner products of the rows tell, and adds the steps to its
part of the weights: no other thread ever reads these. The steps are those of one row after the other.

Every loop gives the same bits however the weights were cut. Sums over features are taken shard by shard, and
shards are added two by two: those of one thread or rank first, then what several of them made, which is the
same tree of additions for any number of threads and ranks.

Where rows of different parts have no feature in common, a thread takes one part after the other and visits
its rows as if it were alone.
"""

import numpy as np

from tellwhy.classifiers.svm._compiled_lists import is_left_out, list_nonzero, longest, place_of, unlist
from tellwhy.classifiers.svm._compiled_pairs import visit_all, visit_listed
from tellwhy.classifiers.svm._compiled_steps import (
    MANY,
    collect_steps,
    compiled,
    for_each_row,
    inlined,
    make_scratch_rows,
    scratch,
    solve_all,
    solve_listed,
    to_the_bit,
)
from tellwhy.classifiers.svm.records import BatchRoom, Limits
from tellwhy.classifiers.svm.threads._compiled_barrier import take_next_task, wait_for_all
from tellwhy.core.compiled import njit

# Products may be added in one rounding, which all loops over classes do alike; sums keep their order.
scoring = njit(nogil=True, cache=True, fastmath={"contract"}, _nrt=False)


@scoring
def score_range(entries, low, high, weights, first, last, scores):
    """Scores of the columns first … last from the entries low … high of a row."""
    n = last - first
    for c in range(n):
        scores[c] = 0.0
    if first == 0:
        # To cut a range out of the weights of each entry would take longer than to add up a few classes.
        for p in range(low, high):
            x = entries.values[p]
            w = weights[entries.indices[p]]
            for c in range(n):
                scores[c] += x * w[c]
        return
    for p in range(low, high):
        x = entries.values[p]
        w = weights[entries.indices[p], first:last]
        for c in range(n):
            scores[c] += x * w[c]


@scoring
def score_picked(entries, low, high, weights, skip, classes, at, n, scores):
    """Scores of the n classes listed from `at` on; column 0 of the weights is class `skip`."""
    for j in range(n):
        scores[j] = 0.0
    for p in range(low, high):
        x = entries.values[p]
        w = weights[entries.indices[p]]
        for j in range(n):
            scores[j] += x * w[classes[at + j] - skip]


@scoring
def score_column(entries, low, high, weights, column):
    """Score of one column."""
    score = 0.0
    for p in range(low, high):
        score += entries.values[p] * weights[entries.indices[p], column]
    return score


@to_the_bit
def add_up(lines, n_lines, n):
    """Add lines two by two into the first of them; their number is a power of two."""
    step = 1
    while step < n_lines:
        for s in range(0, n_lines, 2 * step):
            for j in range(n):
                lines[s, j] += lines[s + step, j]
        step *= 2


@to_the_bit
def add_slots(partial, i, n, scores):
    """The first n scores of the i-th row of a batch from the sums of 1, 2, 4 or 8 slots, as `add_up` does."""
    if len(partial) == 1:
        for j in range(n):
            scores[j] = partial[0, i, j]
    elif len(partial) == 2:
        for j in range(n):
            scores[j] = partial[0, i, j] + partial[1, i, j]
    elif len(partial) == 4:
        for j in range(n):
            scores[j] = (partial[0, i, j] + partial[1, i, j]) + (partial[2, i, j] + partial[3, i, j])
    else:
        for j in range(n):
            first = (partial[0, i, j] + partial[1, i, j]) + (partial[2, i, j] + partial[3, i, j])
            last = (partial[4, i, j] + partial[5, i, j]) + (partial[6, i, j] + partial[7, i, j])
            scores[j] = first + last


@for_each_row
def score_listed(entries, row, share, weights, classes, at, n, label, scores, lines, every):
    """Set a part's sums for the n classes listed from `at` on that it has, and last for the label.

    `lines` has a line for each shard, `every` room for the classes of the part.
    """
    first = place_of(classes, at, n, share.low)
    m = place_of(classes, at, n, share.high) - first
    has_label = share.low <= label < share.high
    n_shards = share.last - share.first
    for s in range(n_shards):
        low = entries.cuts[row, share.first + s]
        high = entries.cuts[row, share.first + s + 1]
        if MANY * m > share.high - share.low:
            score_range(entries, low, high, weights, share.low - share.skip, share.high - share.skip, every)
            for j in range(m):
                lines[s, j] = every[classes[at + first + j] - share.low]
        else:
            score_picked(entries, low, high, weights, share.skip, classes, at + first, m, lines[s])
        if has_label:
            lines[s, m] = score_column(entries, low, high, weights, label - share.skip)
    add_up(lines, n_shards, m + 1)
    for j in range(m):
        scores[first + j] = lines[0, j]
    if has_label:
        scores[n] = lines[0, m]


@for_each_row
def score_all(entries, row, share, weights, scores, lines):
    """Set a part's sums for all its classes."""
    n = share.high - share.low
    n_shards = share.last - share.first
    for s in range(n_shards):
        low = entries.cuts[row, share.first + s]
        high = entries.cuts[row, share.first + s + 1]
        score_range(entries, low, high, weights, share.low - share.skip, share.high - share.skip, lines[s])
    add_up(lines, n_shards, n)
    for c in range(n):
        scores[share.low + c] = lines[0, c]


@to_the_bit
def add_listed_steps(entries, row, share, weights, label, steps, step_classes, n_steps, total):
    """Take the listed steps of an example from a part of the weights; the label's gain the sum."""
    first = place_of(step_classes, 0, n_steps, share.low)
    last = place_of(step_classes, 0, n_steps, share.high)
    has_label = share.low <= label < share.high
    if first == last and not has_label:
        return
    for p in range(entries.cuts[row, share.first], entries.cuts[row, share.last]):
        x = entries.values[p]
        w = weights[entries.indices[p]]
        for j in range(first, last):
            w[step_classes[j] - share.skip] -= x * steps[j]
        if has_label:
            w[label - share.skip] += x * total


@to_the_bit
def add_dense_steps(entries, row, share, weights, label, steps, total):
    """The same for the steps of all classes."""
    n = share.high - share.low
    has_label = share.low <= label < share.high
    mine = steps[share.low : share.high]
    for p in range(entries.cuts[row, share.first], entries.cuts[row, share.last]):
        x = entries.values[p]
        w = weights[entries.indices[p], share.low - share.skip : share.high - share.skip]
        for c in range(n):
            w[c] -= x * mine[c]
        if has_label:
            w[label - share.low] += x * total


# Rows between two meetings where all classes are solved for: what earlier rows of a batch change has to be
# added for every class, which soon takes longer than to meet again.
DENSE_BATCH = 4


@compiled
def make_batch_room(size, width, n_classes, share, dtype, sum_dtype):
    """Room for the rows of a batch, for one thread."""
    room = BatchRoom(
        old=make_scratch_rows(size, width, np.float64),
        steps=make_scratch_rows(size, width, dtype),
        step_classes=make_scratch_rows(size, width, np.int64),
        n_steps=np.zeros(size, np.int64),
        totals=np.zeros(size),
        shift=scratch(n_classes, np.float64),
        scores=scratch(width, np.float64),
        new=scratch(width, np.float64),
        levels=scratch(width, np.float64),
        every=scratch(share.high - share.low, sum_dtype),
        lines=make_scratch_rows(share.last - share.first, share.high - share.low + 1, sum_dtype),
    )
    room.shift[:] = 0.0
    return room


@for_each_row
def _add_earlier_steps(i, first, batches, examples, room, classes, at, n, label):
    """Add what the steps of earlier rows of the batch do to the scores of its i-th row.

    These are the scores of the n classes listed from `at` on, and last that of the label.
    """
    shift = room.shift
    products = batches.products[first + i]
    is_moved = False
    for j in range(i):
        if room.n_steps[j] > 0 and products[j] != 0.0:  # short rows have few others with a feature of theirs
            is_moved = True
            for c in range(room.n_steps[j]):
                shift[room.step_classes[j, c]] -= products[j] * room.steps[j, c]
            shift[examples.labels[batches.members[first + j]]] += products[j] * room.totals[j]
    if not is_moved:
        return
    for c in range(n):
        room.scores[c] += shift[classes[at + c]]
    room.scores[n] += shift[label]
    # Only what was set is cleared: with many classes the steps reach few of them.
    for j in range(i):
        if room.n_steps[j] > 0 and products[j] != 0.0:
            for c in range(room.n_steps[j]):
                shift[room.step_classes[j, c]] = 0.0
            shift[examples.labels[batches.members[first + j]]] = 0.0


@for_each_row
def read_listed(first, last, batches, entries, examples, block, lists, sweep, share, partial, room):
    """Score the listed classes of a batch with a part of the weights, and copy the variables."""
    for i in range(last - first):
        e = batches.members[first + i]
        room.n_steps[i] = -1
        if is_left_out(e, lists, sweep):
            continue
        room.n_steps[i] = 0
        n = lists.lengths[e]
        at = lists.starts[e]
        scores = partial[share.slot, i]
        row = examples.rows[e]
        label = examples.labels[e]
        score_listed(
            entries, row, share, block.weights, lists.classes, at, n, label, scores, room.lines, room.every
        )
        for j in range(n):
            room.old[i, j] = lists.duals[at + j]


@inlined
def _visit_listed(i, first, batches, entries, examples, block, lists, sweep, share, partial, room):
    """Solve for the i-th example of a batch and move a part of the weights; returns its violation."""
    e = batches.members[first + i]
    n = lists.lengths[e]
    at = lists.starts[e]
    label = examples.labels[e]
    limits = Limits(examples.squares[e], examples.caps[e], examples.sum_caps[e])
    scores = room.scores
    old = room.old[i]
    add_slots(partial, i, n + 1, scores)
    _add_earlier_steps(i, first, batches, examples, room, lists.classes, at, n, label)
    # Everyone solves the same small problem: telling each other the result would take longer.
    violation = solve_listed(scores, 1.0 - scores[n], limits, n, old, room.new, room.levels, sweep)
    if violation > sweep.negligible:
        steps = room.steps[i]
        classes = room.step_classes[i]
        n_steps, total = collect_steps(at, n, lists.classes, old, room.new, steps, classes)
        room.n_steps[i] = n_steps
        room.totals[i] = total
        add_listed_steps(
            entries, examples.rows[e], share, block.weights, label, steps, classes, n_steps, total
        )
    return violation


@for_each_row
def _keep_listed(e, violation, lists, sweep, new, writer, violations):
    """Keep what was found for an example."""
    violations[e] = violation
    if violation <= sweep.negligible:
        lists.idle[e] += 1
        return
    lists.idle[e] = 0
    if e < writer.first or e >= writer.last:
        return
    at = lists.starts[e]
    for j in range(lists.lengths[e]):
        lists.duals[at + j] = new[j]


@for_each_row
def move_listed(
    first, last, batches, entries, examples, block, lists, sweep, share, partial, room, writer, violations
):
    """Solve for the rows of a batch, one after the other."""
    for i in range(last - first):
        if room.n_steps[i] < 0:
            continue
        violation = _visit_listed(
            i, first, batches, entries, examples, block, lists, sweep, share, partial, room
        )
        if writer.is_one:
            _keep_listed(batches.members[first + i], violation, lists, sweep, room.new, writer, violations)


@compiled
def sweep_shards(
    t,
    barrier,
    order,
    batches,
    entries,
    examples,
    block,
    lists,
    sweep,
    share,
    partial_scores,
    writer,
    violations,
):
    """Visit the listed variables of some batches, as thread t; sets `violations` of examples visited.

    What is read of a row is read before the threads wait for each other, and what is written is written
    after. One thread of a process alone is a writer: it writes what all would write alike.
    """
    most = longest(lists.lengths) + 1
    dtype = block.weights.dtype
    room = make_batch_room(partial_scores.shape[2], most, block.n_classes, share, dtype, partial_scores.dtype)
    for b in range(len(order)):
        first = batches.at[order[b], 0]
        last = batches.at[order[b], 1]
        # Two buffers in turn: a fast thread may score the next batch while a slow one reads this one's.
        partial = partial_scores[b & 1]
        read_listed(first, last, batches, entries, examples, block, lists, sweep, share, partial, room)
        wait_for_all(t, barrier, b + 1)
        move_listed(
            first,
            last,
            batches,
            entries,
            examples,
            block,
            lists,
            sweep,
            share,
            partial,
            room,
            writer,
            violations,
        )


@for_each_row
def read_all(begin, end, first, batches, entries, examples, block, lists, share, partial, room):
    """Score all classes of the rows begin … end of a batch with a part of the weights; copy the variables."""
    for i in range(begin, end):
        e = batches.members[first + i]
        scores = partial[share.slot, i - begin]
        score_all(entries, examples.rows[e], share, block.weights, scores, room.lines)
        unlist(e, lists, block.n_classes, room.old[i])


@inlined
def _visit_all(i, begin, first, batches, entries, examples, block, is_exact, share, partial, room):
    """Solve for all variables of the i-th example of a batch and move a part of the weights."""
    n = block.n_classes
    e = batches.members[first + i]
    label = examples.labels[e]
    limits = Limits(examples.squares[e], examples.caps[e], examples.sum_caps[e])
    duals = room.old[i]
    steps = room.steps[i]
    scores = room.scores
    add_slots(partial, i - begin, n, scores)
    for j in range(begin, i):
        product = batches.products[first + i, j]
        if room.n_steps[j] and product != 0.0:
            earlier = room.steps[j]
            for c in range(n):
                scores[c] -= product * earlier[c]
            scores[examples.labels[batches.members[first + j]]] += product * room.totals[j]
    base = 1.0 - scores[label]
    moved, total = solve_all(e, scores, base, limits, examples, block, duals, room.levels, steps, is_exact)
    room.n_steps[i] = moved
    room.totals[i] = total
    if moved:
        add_dense_steps(entries, examples.rows[e], share, block.weights, label, steps, total)


@for_each_row
def move_all(
    begin, end, first, batches, entries, examples, block, lists, used, is_exact, share, partial, room, keeps
):
    """Solve for the rows begin … end of a batch; returns how many entries of the lists are used."""
    for i in range(begin, end):
        _visit_all(i, begin, first, batches, entries, examples, block, is_exact, share, partial, room)
        if keeps:
            used = list_nonzero(batches.members[first + i], lists, room.old[i], block.n_classes, used)
    return used


@compiled
def sweep_shards_dense(
    t, barrier, order, batches, entries, examples, block, lists, used, is_exact, share, partial_scores, keeps
):
    """Visit every variable of some batches, as thread t.

    Variables that are not zero are listed anew behind the `used` entries, for which there must be room.
    Returns how many entries are used, to the thread that keeps them.
    """
    n = block.n_classes
    dtype = block.weights.dtype
    room = make_batch_room(partial_scores.shape[2], n, n, share, dtype, partial_scores.dtype)
    meetings = 0
    for b in range(len(order)):
        first = batches.at[order[b], 0]
        last = batches.at[order[b], 1]
        for begin in range(0, last - first, DENSE_BATCH):
            end = min(begin + DENSE_BATCH, last - first)
            partial = partial_scores[meetings & 1]
            read_all(begin, end, first, batches, entries, examples, block, lists, share, partial, room)
            meetings += 1
            wait_for_all(t, barrier, meetings)
            used = move_all(
                begin, end, first, batches, entries, examples, block, lists, used, is_exact, share, partial,
                room, keeps,
            )  # fmt: skip
    return used


@compiled
def sweep_separate(t, barrier, tasks, order, batches, entries, examples, block, lists, sweep, violations):
    """Visit the listed variables of some batches, as thread t; sets `violations` of examples visited."""
    most = longest(lists.lengths)
    room = make_scratch_rows(3, most, np.float64)
    steps = scratch(most, block.weights.dtype)
    step_classes = scratch(most, np.int64)
    every = scratch(block.n_classes, block.weights.dtype)
    for i in range(len(order)):
        bounds = batches.at[order[i]]
        # Whoever is free takes the next part; the longest come first, so that threads end together.
        k = take_next_task(tasks, i)
        while k < len(bounds) - 1:
            for q in range(bounds[k], bounds[k + 1]):
                e = batches.members[q]
                if is_left_out(e, lists, sweep):
                    continue
                violations[e] = visit_listed(
                    e, entries, examples, block.weights, block, lists, sweep, room, steps, step_classes, every
                )
            k = take_next_task(tasks, i)
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
    room = make_scratch_rows(3, n, np.float64)
    steps = scratch(n, block.weights.dtype)
    for i in range(len(order)):
        bounds = batches.at[order[i]]
        k = take_next_task(tasks, i)
        while k < len(bounds) - 1:
            for q in range(bounds[k], bounds[k + 1]):
                e = batches.members[q]
                place = places[i] + n * (q - bounds[0])
                visit_all(e, entries, examples, block.weights, block, lists, place, room, steps, is_exact)
            k = take_next_task(tasks, i)
        wait_for_all(t, barrier, i + 1)
