"""Compiled Shapley values of trees where absent columns take cells of background rows, by leaf or pair.

By leaf. The columns on the way to a leaf are numbered 0 … d − 1. Which of them a row fails is a number of d
bits, and all that a leaf tells apart: f for the row, g for a background row. A set of columns leads to the
leaf when it holds all of g and none of f, so that the pair counts when f and g share no bit. By the integral
of `_compiled_paths`, with t^|g| (1 − t)^|f| for the product, the sum over all background rows needs only

    Z_t[f] = Σ over background rows with g ∩ f = ∅ of t^|g|,

which is computed for all f together. Column i then gets Σ_t ω (1 − t)^|f| (Z_t[f] − Z_t[f ∪ i])/t if the row
meets it, and −Σ_t ω (1 − t)^(|f| − 1) Z_t[f] if not, times the value of the leaf: a table of 2^d × d numbers,
read once for each row. For a leaf with many columns the table would be too large: there, the pairs of rows
and background rows that share no bit are taken one by one. They get fewer with every column, and are carried
along as bits.

By pair. A row x and a background row b walk through a tree together. Where they part on a column, both ways
are followed: with the column present (x's way) and absent (b's). A leaf with the value v that needs u columns
present and w absent gives each of the former v (u − 1)! w!/(u + w)!, and takes v u! (w − 1)!/(u + w)! from
each of the latter.
"""

from typing import Any, NamedTuple

import numpy as np

from tellwhy.core.compiled import njit
from tellwhy.explainers.trees._compiled_paths import find_earlier_edges, goes_left, most_columns

MOST = 8  # columns on the way to a leaf, at most, for a table to pay
BITS = 64  # columns on the way to a leaf, at most, for a number to hold them
ONE = np.uint64(1)
# Every six bits in a row of this number are different: times a power of two, the first six tell which.
SPREAD = np.uint64(0x03F79D71B4CB0A89)
PLACES = np.zeros(64, dtype=np.int64)
PLACES[[((0x03F79D71B4CB0A89 << place) % 2**64) >> 58 for place in range(64)]] = np.arange(64)


@njit(nogil=True, cache=True)
def count_path_columns(nodes, trees, share):
    """Largest number of different columns on the way to a leaf, for each of some trees."""
    most = np.empty(len(trees), dtype=np.int64)
    for i in range(len(trees)):
        start = nodes.first[trees[i]]
        stop = nodes.first[trees[i] + 1]
        most[i] = most_columns(nodes, start, stop, find_earlier_edges(nodes, start, stop, share)[0])
    return most


class Walk(NamedTuple):
    """Where a walk through a tree is; the first index is the depth.

    `path`: nodes; `slots`: the number of each edge's column on the way; `n_slots`: columns so far; `columns`:
    by their numbers; `fails_x`, `fails_b`: columns that rows and background rows fail, as bits; `alive`: for
    each row, the background rows that share no bit with it, as bits, 64 to a word.
    """

    path: Any
    slots: Any
    n_slots: Any
    columns: Any
    fails_x: Any
    fails_b: Any
    alive: Any


@njit(nogil=True, cache=True)
def _start_walk(deepest, n_rows, n_background):
    n_words = (n_background + 63) // 64
    alive = np.zeros((deepest, n_rows, n_words), dtype=np.uint64)
    for b in range(n_background):
        alive[0, :, b // 64] |= ONE << np.uint64(b % 64)
    return Walk(
        np.empty(deepest, dtype=np.int64),
        np.empty(deepest, dtype=np.int64),
        np.zeros(deepest, dtype=np.int64),
        np.empty(BITS, dtype=np.int64),
        np.zeros((deepest, n_rows), dtype=np.uint64),
        np.zeros((deepest, n_background), dtype=np.uint64),
        alive,
    )


@njit(nogil=True, cache=True)
def add_table_shares(nodes, trees, value, share, XT, BT, points, weights, betas, shares):
    """Add to `shares` (columns, rows) the sums of Shapley values of XT over the background rows BT.

    `betas[a, b]` is the Beta function.
    """
    walk = _start_walk(nodes.depth.max() + 1, XT.shape[1], BT.shape[1])
    for tree in trees:
        start = nodes.first[tree]
        stop = nodes.first[tree + 1]
        previous = find_earlier_edges(nodes, start, stop, share)[0]
        is_short = most_columns(nodes, start, stop, previous) <= MOST
        for node in range(start, stop):
            depth = nodes.depth[node]
            walk.path[depth] = node
            if depth > 0:
                _enter(nodes, node, depth, previous[node - start], XT, BT, walk)
                if not is_short:
                    _drop_sharing_pairs(walk, depth)
            d = walk.n_slots[depth]
            if nodes.feature[node] < 0 and d > MOST:
                _pay_pairs(walk, depth, value[node], betas, shares)
            elif nodes.feature[node] < 0 and depth > 0:
                m = (d + 1) // 2
                table = make_leaf_table(walk.fails_b[depth], d, value[node], points[m], weights[m])
                _look_up(table, walk.fails_x[depth], walk.columns, shares)


@njit(nogil=True, cache=True)
def _enter(nodes, node, depth, previous, XT, BT, walk):
    """Take an edge: number its column, and see which rows fail it."""
    parent = walk.path[depth - 1]
    walk.slots[depth] = walk.slots[previous] if previous > 0 else walk.n_slots[depth - 1]
    walk.n_slots[depth] = walk.n_slots[depth - 1] + (previous == 0)
    slot = walk.slots[depth]
    walk.columns[slot] = nodes.player[parent]
    is_left = node == parent + 1
    _fail(nodes, parent, is_left, slot, XT, walk.fails_x[depth - 1], walk.fails_x[depth])
    _fail(nodes, parent, is_left, slot, BT, walk.fails_b[depth - 1], walk.fails_b[depth])


@njit(nogil=True, cache=True)
def _fail(nodes, parent, is_left, slot, XT, above, here):
    """Set the bit of a column for rows that take the other edge of a split."""
    cells = XT[nodes.feature[parent]]
    bit = ONE << np.uint64(slot)
    for n in range(len(cells)):
        met = goes_left(nodes, parent, cells[n]) == is_left
        here[n] = above[n] if met else above[n] | bit


@njit(nogil=True, cache=True)
def make_leaf_table(fails, d, value, points, weights):
    """What each column gets (d, 2^d), by the columns that a row fails; `fails`: of background rows."""
    size = 1 << d
    counts = np.zeros(size)
    for b in range(len(fails)):
        counts[fails[b]] += 1.0
    table = np.zeros((d, size))
    n_bits = count_bits(size)
    for q in range((d + 1) // 2):
        sums = _sum_disjoint(counts, n_bits, d, points[q])
        _add_point(table, sums, n_bits, points[q], value * weights[q])
    return table


@njit(nogil=True, cache=True)
def count_bits(size):
    """Number of bits of 0 … size − 1."""
    counts = np.zeros(size, dtype=np.int64)
    for f in range(1, size):
        counts[f] = counts[f >> 1] + (f & 1)
    return counts


@njit(nogil=True, cache=True)
def _sum_disjoint(counts, n_bits, d, t):
    """Z_t[f]: Σ over g that share no bit with f of counts[g] t^|g|."""
    size = len(counts)
    powers = t ** np.arange(d + 1)
    sums = np.empty(size)
    for g in range(size):
        # what shares no bit with f is a subset of what f lacks: turned round, sums go over supersets
        sums[size - 1 - g] = counts[g] * powers[n_bits[g]]
    for i in range(d):  # one bit after the other, in runs that lie side by side
        run = 1 << i
        for start in range(0, size, 2 * run):
            for f in range(start, start + run):
                sums[f] += sums[f + run]
    return sums


@njit(nogil=True, cache=True)
def _add_point(table, sums, n_bits, t, weight):
    d = table.shape[0]
    powers = weight * (1.0 - t) ** np.arange(-1, d + 1)
    scaled = np.empty(len(sums))
    for f in range(len(sums)):
        scaled[f] = powers[n_bits[f]]  # ω (1 − t)^(|f| − 1)
    factor = (1.0 - t) / t
    for i in range(d):
        run = 1 << i
        row = table[i]
        for start in range(0, len(sums), 2 * run):
            for f in range(start, start + run):
                row[f] += scaled[f] * factor * (sums[f] - sums[f + run])
                row[f + run] -= scaled[f + run] * sums[f + run]


@njit(nogil=True, cache=True)
def _look_up(table, fails, columns, shares):
    for i in range(table.shape[0]):
        gained = table[i]
        row = shares[columns[i]]
        for n in range(len(fails)):
            row[n] += gained[fails[n]]


@njit(nogil=True, cache=True)
def _drop_sharing_pairs(walk, depth):
    """Drop the pairs that share the bit of an edge's column."""
    bit = ONE << np.uint64(walk.slots[depth])
    n_words = walk.alive.shape[2]
    fail_b = np.zeros(n_words, dtype=np.uint64)
    for b in range(walk.fails_b.shape[1]):
        if walk.fails_b[depth, b] & bit:
            fail_b[b // 64] |= ONE << np.uint64(b % 64)
    above = walk.alive[depth - 1]
    here = walk.alive[depth]
    for n in range(len(here)):
        fails = (walk.fails_x[depth, n] & bit) != 0
        for word in range(n_words):
            here[n, word] = above[n, word] & ~fail_b[word] if fails else above[n, word]


@njit(nogil=True, cache=True)
def _pay_pairs(walk, depth, value, betas, shares):
    """Give the value of a leaf to the columns of each pair of rows that share no bit."""
    n_bits = np.empty(walk.fails_b.shape[1], dtype=np.int64)
    for b in range(len(n_bits)):
        n_bits[b] = _count_bits(walk.fails_b[depth, b])
    for n in range(walk.alive.shape[1]):
        absent = _count_bits(walk.fails_x[depth, n])
        taken = 0.0
        for word in range(walk.alive.shape[2]):
            left = walk.alive[depth, n, word]
            while left:
                b = 64 * word + _find_lowest_bit(left)
                left &= left - ONE
                taken += _pay_pair(walk, depth, b, n_bits[b], absent, value, betas, shares[:, n])
        _take(walk, walk.fails_x[depth, n], taken, shares[:, n])


@njit(nogil=True, cache=True)
def _pay_pair(walk, depth, b, present, absent, value, betas, shares):
    """Give to the columns that a background row fails; return what is taken from those that the row fails."""
    given = value * betas[present, absent + 1] if present > 0 else 0.0
    left = walk.fails_b[depth, b]
    while left:
        shares[walk.columns[_find_lowest_bit(left)]] += given
        left &= left - ONE
    return value * betas[present + 1, absent] if absent > 0 else 0.0


@njit(nogil=True, cache=True)
def _take(walk, fails, taken, shares):
    while fails:
        shares[walk.columns[_find_lowest_bit(fails)]] -= taken
        fails &= fails - ONE


@njit(nogil=True, cache=True)
def _count_bits(word):
    count = 0
    while word:
        word &= word - ONE
        count += 1
    return count


@njit(nogil=True, cache=True)
def _find_lowest_bit(word):
    """Place of the lowest bit that is set."""
    return PLACES[((word & (~word + ONE)) * SPREAD) >> np.uint64(58)]


PRESENT = 1
ABSENT = 2


class Way(NamedTuple):
    """Scratch of a walk.

    `met`: what each column is, 0 where the two did not part on it; `columns`: those they parted on, in order;
    `waiting`: nodes to take up later, with the numbers of columns then, and the column that is absent there;
    `counts`: numbers of columns met, of present ones among them, and of nodes that wait.
    """

    met: Any
    columns: Any
    waiting: Any
    counts: Any


@njit(nogil=True, cache=True)
def add_pair_shares(nodes, trees, value, X, background, betas, shares):
    """Add to `shares` (columns, rows) the sums of Shapley values of X over background rows.

    `betas[a, b]` is the Beta function.
    """
    deepest = nodes.depth.max() + 2
    way = Way(
        np.zeros(len(shares), dtype=np.int64),
        np.empty(deepest, dtype=np.int64),
        np.empty((deepest, 4), dtype=np.int64),
        np.zeros(3, dtype=np.int64),
    )
    for tree in trees:
        start = nodes.first[tree]
        sides_b = find_sides(nodes, start, nodes.first[tree + 1], background)
        for n in range(len(X)):
            sides_x = find_sides(nodes, start, nodes.first[tree + 1], X[n : n + 1])[0]
            for b in range(len(background)):
                _walk_pair(nodes, start, value, sides_x, sides_b[b], betas, way, shares[:, n])


@njit(nogil=True, cache=True)
def find_sides(nodes, start, stop, X):
    """Whether each row goes left at each node of a tree (rows, nodes)."""
    sides = np.zeros((len(X), stop - start), dtype=np.bool_)
    for node in range(start, stop):
        column = nodes.feature[node]
        if column >= 0:
            for n in range(len(X)):
                sides[n, node - start] = goes_left(nodes, node, X[n, column])
    return sides


@njit(nogil=True, cache=True)
def _walk_pair(nodes, start, value, sides_x, sides_b, betas, way, shares):
    way.counts[:] = 0
    leaf = _descend(nodes, start, start, sides_x, sides_b, way)
    _pay(value[leaf], way, betas, shares)
    while way.counts[2] > 0:
        leaf = _descend(nodes, start, _resume(way), sides_x, sides_b, way)
        _pay(value[leaf], way, betas, shares)
    for i in range(way.counts[0]):
        way.met[way.columns[i]] = 0


@njit(nogil=True, cache=True)
def _descend(nodes, start, node, sides_x, sides_b, way):
    """Go down to a leaf, x's way where the two part; b's way waits."""
    while nodes.feature[node] >= 0:
        column = nodes.player[node]
        left = sides_x[node - start]
        if way.met[column] == ABSENT:
            left = sides_b[node - start]
        elif way.met[column] == 0 and left != sides_b[node - start]:
            _part(way, column, nodes.right[node] if left else node + 1)
        node = node + 1 if left else nodes.right[node]
    return node


@njit(nogil=True, cache=True)
def _part(way, column, other):
    """Let the other child wait, and count a column as present."""
    entry = way.waiting[way.counts[2]]
    entry[0] = other
    entry[1] = way.counts[0]
    entry[2] = way.counts[1]
    entry[3] = column
    way.met[column] = PRESENT
    way.columns[way.counts[0]] = column
    way.counts[:] += 1


@njit(nogil=True, cache=True)
def _resume(way):
    """Take up the node that waits last: forget the columns met since, and count its own as absent."""
    way.counts[2] -= 1
    entry = way.waiting[way.counts[2]]
    for i in range(entry[1], way.counts[0]):
        way.met[way.columns[i]] = 0
    way.met[entry[3]] = ABSENT
    way.columns[entry[1]] = entry[3]
    way.counts[0] = entry[1] + 1
    way.counts[1] = entry[2]
    return entry[0]


@njit(nogil=True, cache=True)
def _pay(value, way, betas, shares):
    """Give the value of a leaf to the columns it needs present, and take it from those it needs absent."""
    present = way.counts[1]
    absent = way.counts[0] - present
    for i in range(way.counts[0]):
        column = way.columns[i]
        if way.met[column] == PRESENT:
            shares[column] += value * betas[present, absent + 1]
        else:
            shares[column] -= value * betas[present + 1, absent]
