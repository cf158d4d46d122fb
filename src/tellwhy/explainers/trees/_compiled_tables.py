"""Compiled Shapley values of trees where absent columns take the cells of background rows, leaf by leaf.

The columns on the way to a leaf are numbered 0 … d − 1. Which of them a row fails is a number of d bits, and
all that a leaf tells apart: f for the row, g for a background row. A set of columns leads to the leaf when it
holds all of g and none of f, so that the pair counts when f and g share no bit. By the integral of
`_compiled_paths`, with t^|g| (1 − t)^|f| for the product, the sum over all background rows needs only

    Z_t[f] = Σ over background rows with g ∩ f = ∅ of t^|g|,

which is computed for all f together. Column i then gets Σ_t ω (1 − t)^|f| (Z_t[f] − Z_t[f ∪ i])/t if the row
meets it, and −Σ_t ω (1 − t)^(|f| − 1) Z_t[f] if not, times the value of the leaf: a table of 2^d × d numbers,
read once for each row.
"""

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.trees._compiled import goes_left
from tellwhy.explainers.trees._compiled_paths import earlier_edges, most_columns

MOST = 10  # columns on the way to a leaf, at most, for a table to pay


@njit(nogil=True, cache=True)
def columns_on_paths(nodes, trees, share):
    """Largest number of columns on the way to a leaf, for each of some trees."""
    most = np.empty(len(trees), dtype=np.int64)
    for i in range(len(trees)):
        start = nodes.first[trees[i]]
        stop = nodes.first[trees[i] + 1]
        most[i] = most_columns(nodes, start, stop, earlier_edges(nodes, start, stop, share)[0])
    return most


@njit(nogil=True, cache=True)
def table_shares(nodes, trees, value, share, XT, BT, points, weights, shares):
    """Add to `shares` (columns, rows) the sums of Shapley values of XT over the background rows BT."""
    deepest = nodes.depth.max() + 1
    fails_x = np.zeros((deepest, XT.shape[1]), dtype=np.uint16)
    fails_b = np.zeros((deepest, BT.shape[1]), dtype=np.uint16)
    for tree in trees:
        start = nodes.first[tree]
        stop = nodes.first[tree + 1]
        previous = earlier_edges(nodes, start, stop, share)[0]
        _walk(nodes, start, stop, value, previous, XT, BT, fails_x, fails_b, points, weights, shares)


@njit(nogil=True, cache=True)
def _walk(nodes, start, stop, value, previous, XT, BT, fails_x, fails_b, points, weights, shares):
    path = np.empty(fails_x.shape[0], dtype=np.int64)
    slots = np.empty(fails_x.shape[0], dtype=np.int64)  # number of each edge's column on the way
    n_slots = np.zeros(fails_x.shape[0], dtype=np.int64)
    columns = np.empty(MOST, dtype=np.int64)
    for node in range(start, stop):
        depth = nodes.depth[node]
        path[depth] = node
        if depth > 0:
            parent = path[depth - 1]
            earlier = previous[node - start]
            slots[depth] = slots[earlier] if earlier > 0 else n_slots[depth - 1]
            n_slots[depth] = n_slots[depth - 1] + (earlier == 0)
            columns[slots[depth]] = nodes.feature[parent]
            is_left = node == parent + 1
            _fail(nodes, parent, is_left, slots[depth], XT, fails_x[depth - 1], fails_x[depth])
            _fail(nodes, parent, is_left, slots[depth], BT, fails_b[depth - 1], fails_b[depth])
        if nodes.feature[node] < 0 and depth > 0:
            d = n_slots[depth]
            table = leaf_table(fails_b[depth], d, value[node], points[(d + 1) // 2], weights[(d + 1) // 2])
            _look_up(table, fails_x[depth], columns, shares)


@njit(nogil=True, cache=True)
def _fail(nodes, parent, is_left, slot, XT, above, here):
    """Set the bit of a column for rows that take the other edge of a split."""
    cells = XT[nodes.feature[parent]]
    bit = np.uint16(1 << slot)
    for n in range(len(cells)):
        met = goes_left(nodes, parent, cells[n]) == is_left
        here[n] = above[n] if met else above[n] | bit


@njit(nogil=True, cache=True)
def leaf_table(fails, d, value, points, weights):
    """What each column gets (d, 2^d), by the columns that a row fails; `fails`: of background rows."""
    size = 1 << d
    counts = np.zeros(size)
    for b in range(len(fails)):
        counts[fails[b]] += 1.0
    table = np.zeros((d, size))
    n_bits = bit_counts(size)
    for q in range((d + 1) // 2):
        sums = _disjoint_sums(counts, n_bits, d, points[q])
        _add_point(table, sums, n_bits, points[q], value * weights[q])
    return table


@njit(nogil=True, cache=True)
def bit_counts(size):
    """Number of bits of 0 … size − 1."""
    counts = np.zeros(size, dtype=np.int64)
    for f in range(1, size):
        counts[f] = counts[f >> 1] + (f & 1)
    return counts


@njit(nogil=True, cache=True)
def _disjoint_sums(counts, n_bits, d, t):
    """Z_t[f]: Σ over g that share no bit with f of counts[g] t^|g|."""
    size = len(counts)
    sums = np.empty(size)
    for g in range(size):
        sums[g] = counts[g] * t ** n_bits[g]
    for i in range(d):  # sums over subsets, one bit after the other
        bit = 1 << i
        for g in range(size):
            if g & bit:
                sums[g] += sums[g ^ bit]
    for f in range(size // 2):  # what shares no bit with f is a subset of what f lacks
        other = size - 1 - f
        kept = sums[f]
        sums[f] = sums[other]
        sums[other] = kept
    return sums


@njit(nogil=True, cache=True)
def _add_point(table, sums, n_bits, t, weight):
    for i in range(table.shape[0]):
        bit = 1 << i
        row = table[i]
        for f in range(len(sums)):
            if f & bit:
                row[f] -= weight * (1.0 - t) ** (n_bits[f] - 1) * sums[f]
            else:
                row[f] += weight * (1.0 - t) ** n_bits[f] * (sums[f] - sums[f | bit]) / t


@njit(nogil=True, cache=True)
def _look_up(table, fails, columns, shares):
    for i in range(table.shape[0]):
        gained = table[i]
        row = shares[columns[i]]
        for n in range(len(fails)):
            row[n] += gained[fails[n]]
