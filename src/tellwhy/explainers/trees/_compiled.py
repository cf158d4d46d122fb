"""Compiled walks through trees: their preorder, the side that a cell takes, and the leaf of a row."""

import numpy as np

from tellwhy.core.storage.compiled_loops import njit


@njit(nogil=True, cache=True)
def preorder(left, right):
    """Places of the nodes that can be reached from node 0, in preorder, and their depths."""
    order = np.empty(len(left), dtype=np.int64)
    depth = np.empty(len(left), dtype=np.int64)
    stack = np.empty((len(left) + 1, 2), dtype=np.int64)
    stack[0, 0] = 0
    stack[0, 1] = 0
    waiting = 1
    n = 0
    while waiting > 0:
        waiting -= 1
        node = stack[waiting, 0]
        level = stack[waiting, 1]
        order[n] = node
        depth[n] = level
        n += 1
        if left[node] >= 0:
            # the right child waits below the left one, which therefore comes next
            stack[waiting, 0] = right[node]
            stack[waiting, 1] = level + 1
            stack[waiting + 1, 0] = left[node]
            stack[waiting + 1, 1] = level + 1
            waiting += 2
    return order[:n].copy(), depth[:n].copy()


@njit(nogil=True, cache=True)
def is_plain(nodes, node):
    """Whether a split compares a number, and sends empty cells to one side."""
    return nodes.missing[node] <= 1 and nodes.sets[node, 0] == nodes.sets[node, 1]


@njit(nogil=True, cache=True)
def goes_left(nodes, node, cell):
    """Whether a cell goes left at a split."""
    missing = nodes.missing[node]
    if missing == 2 and np.isnan(cell):
        cell = 0.0
    elif missing >= 3 and (np.isnan(cell) or abs(cell) <= 1e-35):
        return missing == 4
    if np.isnan(cell):
        return missing == 1
    start = nodes.sets[node, 0]
    size = nodes.sets[node, 1] - start
    if size == 0:
        return cell <= nodes.threshold[node]
    if cell < 0.0 or cell >= 32.0 * size:
        return False
    category = int(cell)
    return (nodes.words[start + category // 32] >> np.uint32(category % 32)) & np.uint32(1) != 0


@njit(nogil=True, cache=True)
def leaf_of(nodes, tree, row):
    """Node that a row ends in."""
    node = nodes.first[tree]
    while nodes.feature[node] >= 0:
        node = node + 1 if goes_left(nodes, node, row[nodes.feature[node]]) else nodes.right[node]
    return node


@njit(nogil=True, cache=True)
def add_values(nodes, trees, value, X, sums):
    """Add to `sums` the values of the leaves of each row, tree by tree."""
    for tree in trees:
        for n in range(len(X)):
            sums[n] += value[leaf_of(nodes, tree, X[n])]


@njit(nogil=True, cache=True)
def expected_value(nodes, trees, value, share):
    """Sum over trees of the mean value of their leaves, each counted as often as training rows came there."""
    total = 0.0
    reach = np.empty(nodes.depth.max() + 1)
    for tree in trees:
        for node in range(nodes.first[tree], nodes.first[tree + 1]):
            depth = nodes.depth[node]
            reach[depth] = share[node] * (reach[depth - 1] if depth > 0 else 1.0)
            if nodes.feature[node] < 0:
                total += reach[depth] * value[node]
    return total
