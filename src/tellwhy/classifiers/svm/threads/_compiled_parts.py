"""Compiled loops over a part of the weights: some shards of the features, a range of the classes.

Every loop gives the same bits however the weights were cut. Sums over features are taken shard by shard, and
shards are added two by two: those of one thread or rank first, then what several of them made, which is the
same tree of additions for any number of threads and ranks.
"""

from tellwhy.classifiers.svm.engines._compiled_lists import place_of
from tellwhy.classifiers.svm.engines._compiled_steps import for_each_row, to_the_bit
from tellwhy.classifiers.svm.engines._compiled_weights import MANY
from tellwhy.core.storage.compiled_loops import njit

# Products may be added in one rounding, which all loops over classes do alike; sums keep their order.
scoring = njit(nogil=True, cache=True, fastmath={"contract"}, _nrt=False)


@scoring
def range_scores(entries, low, high, weights, first, last, scores):
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
def picked_scores(entries, low, high, weights, skip, classes, at, n, scores):
    """Scores of the n classes listed from `at` on; column 0 of the weights is class `skip`."""
    for j in range(n):
        scores[j] = 0.0
    for p in range(low, high):
        x = entries.values[p]
        w = weights[entries.indices[p]]
        for j in range(n):
            scores[j] += x * w[classes[at + j] - skip]


@scoring
def column_score(entries, low, high, weights, column):
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
            range_scores(entries, low, high, weights, share.low - share.skip, share.high - share.skip, every)
            for j in range(m):
                lines[s, j] = every[classes[at + first + j] - share.low]
        else:
            picked_scores(entries, low, high, weights, share.skip, classes, at + first, m, lines[s])
        if has_label:
            lines[s, m] = column_score(entries, low, high, weights, label - share.skip)
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
        range_scores(entries, low, high, weights, share.low - share.skip, share.high - share.skip, lines[s])
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
