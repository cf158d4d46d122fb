"""Compiled Shapley interactions of trees: what pairs of columns do together.

The interaction of i and j at a leaf is v (o_i − z_i)(o_j − z_j) ∫ Π_{k ≠ i, j} (t o_k + (1 − t) z_k) dt, in
the words of `_compiled_paths`; with background rows, the same with the cells of one of them in place of z,
averaged. Entry (i, j) of the result is half of it, and so is (j, i).
"""

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.trees._compiled import goes_left


@njit(nogil=True, cache=True)
def path_interactions(nodes, trees, value, share, X, points, weights, pairs):
    """Add to `pairs` (rows, columns, columns) the interactions of X, absent columns as in training rows."""
    deepest = nodes.depth.max() + 1
    met = np.empty(deepest)
    shares = np.empty(deepest)
    for tree in trees:
        for n in range(len(X)):
            _walk(nodes, tree, value, share, X[n], X[n:n], points, weights, met, shares, pairs[n])


@njit(nogil=True, cache=True)
def background_interactions(nodes, trees, value, share, X, background, points, weights, pairs):
    """Add to `pairs` the sums of the interactions of X over background rows."""
    deepest = nodes.depth.max() + 1
    met = np.empty(deepest)
    shares = np.empty(deepest)
    for tree in trees:
        for n in range(len(X)):
            for b in range(len(background)):
                other = background[b : b + 1]
                _walk(nodes, tree, value, share, X[n], other, points, weights, met, shares, pairs[n])


@njit(nogil=True, cache=True)
def _walk(nodes, tree, value, share, row, other, points, weights, met, shares, pairs):
    """Meet the leaves of a tree one by one, with what the row and the others do at each column."""
    start = nodes.first[tree]
    path = np.empty(len(met), dtype=np.int64)
    columns = np.empty(len(met), dtype=np.int64)
    for node in range(start, nodes.first[tree + 1]):
        path[nodes.depth[node]] = node
        if nodes.feature[node] >= 0:
            continue
        d = 0
        for level in range(1, nodes.depth[node] + 1):
            d = _add_edge(nodes, share, row, other, path[level - 1], path[level], columns, met, shares, d)
        if d > 1 and value[node] != 0.0:
            m = d // 2  # the integrand has degree d − 2
            _pair(value[node], columns, met, shares, d, points[m], weights[m], m, pairs)


@njit(nogil=True, cache=True)
def _add_edge(nodes, share, row, other, parent, node, columns, met, shares, d):
    column = nodes.feature[parent]
    is_left = node == parent + 1
    o = 1.0 if goes_left(nodes, parent, row[column]) == is_left else 0.0
    z = share[node]
    if len(other) > 0:
        z = 1.0 if goes_left(nodes, parent, other[0, column]) == is_left else 0.0
    player = nodes.player[parent]
    for i in range(d):
        if columns[i] == player:
            met[i] *= o
            shares[i] *= z
            return d
    columns[d] = player
    met[d] = o
    shares[d] = z
    return d + 1


@njit(nogil=True, cache=True)
def _pair(value, columns, met, shares, d, points, weights, m, pairs):
    for i in range(1, d):
        for j in range(i):
            change = (met[i] - shares[i]) * (met[j] - shares[j])
            if change == 0.0:
                continue
            total = 0.0
            for q in range(m):
                product = weights[q]
                for k in range(d):
                    if k not in (i, j):
                        product *= points[q] * met[k] + (1.0 - points[q]) * shares[k]
                total += product
            pairs[columns[i], columns[j]] += 0.5 * value * change * total
            pairs[columns[j], columns[i]] += 0.5 * value * change * total
