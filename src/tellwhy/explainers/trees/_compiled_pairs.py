"""Compiled Shapley values of trees where absent columns take the cells of background rows, pair by pair.

A pair of a row x and a background row b walks through a tree together. Where they part on a column, both ways
are followed: with the column present (x's way) and absent (b's). A leaf with the value v that needs u columns
present and w absent gives each of the former v (u − 1)! w!/(u + w)!, and takes v u! (w − 1)!/(u + w)! from
each of the latter.
"""

from typing import Any, NamedTuple

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.trees._compiled import goes_left

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
def pair_shares(nodes, trees, value, X, background, betas, shares):
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
        sides_b = sides_of(nodes, start, nodes.first[tree + 1], background)
        for n in range(len(X)):
            sides_x = sides_of(nodes, start, nodes.first[tree + 1], X[n : n + 1])[0]
            for b in range(len(background)):
                _walk_pair(nodes, start, value, sides_x, sides_b[b], betas, way, shares[:, n])


@njit(nogil=True, cache=True)
def sides_of(nodes, start, stop, X):
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
