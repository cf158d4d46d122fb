"""Compiled Shapley values and interactions of trees where absent columns follow the training rows.

A leaf with the value v is worth v Π_i (o_i if i is present, else z_i) to a set of columns: o_i tells whether
the row meets all splits on column i above the leaf (1 or 0), z_i is the share of training rows that does at
each of them. The Shapley value of column i is then

    v (o_i − z_i) ∫ Π_{j ≠ i} (t o_j + (1 − t) z_j) dt,  t from 0 to 1,

for the weight of a set of s among d columns is ∫ t^s (1 − t)^(d − 1 − s) dt. The integrand is a polynomial of
degree d − 1, so that ⌈d/2⌉ points of Gauss and Legendre give it exactly. With the product P over all columns
of a leaf, and its sum G over the leaves below an edge, column i gets G (o_i − z_i)/(t o_i + (1 − t) z_i) at
each edge on i, less the same with o_i and z_i as they were at the edge on i above it. All factors are
positive: nothing cancels. One pass through a tree costs a few operations per edge and point. Many rows walk
through a tree together, side by side in memory: every row visits every node.

The interaction of i and j at a leaf is v (o_i − z_i)(o_j − z_j) ∫ Π_{k ≠ i, j} (t o_k + (1 − t) z_k) dt; with
background rows, the same with the cells of one of them in place of z, averaged. Entry (i, j) of the result is
half of it, and so is (j, i).
"""

import numpy as np

from tellwhy.core.compiled import njit


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
def find_leaf(nodes, tree, row):
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
            sums[n] += value[find_leaf(nodes, tree, X[n])]


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


WIDTH = 128  # rows side by side; their numbers stay in the nearest cache


@njit(nogil=True, cache=True)
def path_shares(nodes, trees, value, share, XT, points, weights, shares):
    """Add to `shares` (columns, rows) the Shapley values of rows XT (columns, rows).

    `share` is the share of training rows that takes the edge to each node; `points[m]` and `weights[m]` are
    those of the integral with m points.
    """
    for tree in trees:
        start = nodes.first[tree]
        stop = nodes.first[tree + 1]
        deepest = nodes.depth[start:stop].max() + 1
        previous, total = find_earlier_edges(nodes, start, stop, share)
        earlier = find_earlier_shares(nodes, start, previous, total)
        m = (most_columns(nodes, start, stop, previous) + 1) // 2
        edges = edge_tables(share[start:stop], previous, total, earlier, points[m], weights[m], m)
        for at in range(0, XT.shape[1], WIDTH):
            width = min(WIDTH, XT.shape[1] - at)
            if at == 0 or width < WIDTH:  # scratch of the first rows serves all but the last
                products = np.ones((deepest, m, width))
                sums = np.empty((deepest, m, width))
                states = np.empty((deepest, width))
                sides = np.empty((deepest, width))
            _walk(nodes, start, stop, value, edges, previous, XT, at, shares, products, sums, states, sides)


@njit(nogil=True, cache=True)
def find_earlier_edges(nodes, start, stop, share):
    """Depth of the edge above each edge that is on the same column (0: none), and products of shares."""
    previous = np.zeros(stop - start, dtype=np.int64)
    total = np.ones(stop - start)
    path = np.empty(nodes.depth[start:stop].max() + 1, dtype=np.int64)
    for node in range(start, stop):
        depth = nodes.depth[node]
        path[depth] = node
        if depth == 0:
            continue
        total[node - start] = share[node]
        column = nodes.player[path[depth - 1]]
        for level in range(depth - 1, 0, -1):
            if nodes.player[path[level - 1]] == column:
                previous[node - start] = level
                total[node - start] *= total[path[level] - start]
                break
    return previous, total


@njit(nogil=True, cache=True)
def find_earlier_shares(nodes, start, previous, total):
    """Product of shares at the edge above each edge that is on the same column; 1 where there is none."""
    # not the edge's own product over its share, which is 0 where no training row came through
    earlier = np.ones(len(previous))
    path = np.empty(nodes.depth[start : start + len(previous)].max() + 1, dtype=np.int64)
    for edge in range(len(previous)):
        path[nodes.depth[start + edge]] = edge
        if previous[edge] > 0:
            earlier[edge] = total[path[previous[edge]]]
    return earlier


@njit(nogil=True, cache=True)
def most_columns(nodes, start, stop, previous):
    """Largest number of different columns on the way to a leaf."""
    most = 1
    seen = np.zeros(nodes.depth[start:stop].max() + 1, dtype=np.int64)
    for node in range(start + 1, stop):
        depth = nodes.depth[node]
        seen[depth] = seen[depth - 1] + (previous[node - start] == 0)
        most = max(most, seen[depth])
    return most


@njit(nogil=True, cache=True)
def edge_tables(share, previous, total, earlier, points, weights, m):
    """For each edge and point: what the product is multiplied by, and what the column gets.

    [edge, 0]: factor for a row that meets this split and those above on its column; [edge, 1]: for one that
    meets those above but not this. [edge, 2] and [edge, 3]: gains of the same. [edge, 4]: factor for a row
    that failed above; its gain at this edge is nothing.
    """
    edges = np.empty((len(share), 5, m))
    for edge in range(len(share)):
        z = total[edge]
        before = earlier[edge]
        for q in range(m):
            t = points[q]
            above = t + (1.0 - t) * before if previous[edge] > 0 else 1.0
            gained = (1.0 - before) / above if previous[edge] > 0 else 0.0
            here = t + (1.0 - t) * z
            edges[edge, 0, q] = here / above
            edges[edge, 1, q] = (1.0 - t) * z / above
            edges[edge, 2, q] = weights[q] * ((1.0 - z) / here - gained)
            edges[edge, 3, q] = weights[q] * (-1.0 / (1.0 - t) - gained)
            edges[edge, 4, q] = share[edge]
    return edges


@njit(nogil=True, cache=True)
def _walk(nodes, start, stop, value, edges, previous, XT, at, shares, products, sums, states, sides):
    """One pass of some rows through a tree: products on the way down, sums on the way up."""
    path = np.empty(products.shape[0], dtype=np.int64)
    for node in range(start, stop):
        depth = nodes.depth[node]
        path[depth] = node
        if depth > 0:
            is_left = node == path[depth - 1] + 1
            _meet(previous[node - start], is_left, sides[depth - 1], states, depth)
            _multiply(edges[node - start], previous[node - start], products, states[depth], depth)
        if nodes.feature[node] >= 0:
            _choose_sides(nodes, node, XT, at, sides[depth])
            continue
        _scale(products[depth], value[node], sums[depth])
        # a subtree is complete when its right child is: go up as far as that holds
        while depth > 0:
            edge = path[depth]
            column = nodes.player[path[depth - 1]]
            _gain(edges[edge - start], previous[edge - start], sums[depth], states[depth], shares[column], at)
            is_left = edge == path[depth - 1] + 1
            _carry(sums, depth, is_left)
            if is_left:
                break
            depth -= 1


@njit(nogil=True, cache=True)
def _choose_sides(nodes, node, XT, at, sides):
    """1 for rows that go left at a split, 0 for the others."""
    cells = XT[nodes.feature[node]]
    if is_plain(nodes, node):
        threshold = nodes.threshold[node]
        empty = 1.0 if nodes.missing[node] == 1 else 0.0
        for w in range(len(sides)):
            cell = cells[at + w]
            side = 1.0 if cell <= threshold else 0.0
            sides[w] = empty if np.isnan(cell) else side
        return
    for w in range(len(sides)):
        sides[w] = 1.0 if goes_left(nodes, node, cells[at + w]) else 0.0


@njit(nogil=True, cache=True)
def _meet(previous, is_left, sides, states, depth):
    """State of each row at an edge: 1 meets all splits on its column, 0 fails here, −1 failed above."""
    state = states[depth]
    sign = 1.0 if is_left else -1.0
    offset = 0.0 if is_left else 1.0
    for w in range(len(state)):
        state[w] = offset + sign * sides[w]
    if previous > 0:
        above = states[previous]
        for w in range(len(state)):
            state[w] = state[w] if above[w] == 1.0 else -1.0


@njit(nogil=True, cache=True)
def _multiply(edge, previous, products, state, depth):
    for q in range(edge.shape[1]):
        met = edge[0, q]
        failed = edge[1, q]
        gone = edge[4, q]
        above = products[depth - 1, q]
        here = products[depth, q]
        if previous == 0:
            for w in range(len(state)):
                here[w] = above[w] * (met if state[w] == 1.0 else failed)
        else:
            for w in range(len(state)):
                factor = met if state[w] == 1.0 else failed
                here[w] = above[w] * (gone if state[w] < 0.0 else factor)


@njit(nogil=True, cache=True)
def _scale(products, value, sums):
    for q in range(products.shape[0]):
        for w in range(products.shape[1]):
            sums[q, w] = value * products[q, w]


@njit(nogil=True, cache=True)
def _gain(edge, previous, sums, state, shares, at):
    for q in range(edge.shape[1]):
        met = edge[2, q]
        failed = edge[3, q]
        below = sums[q]
        if previous == 0:
            for w in range(len(state)):
                shares[at + w] += below[w] * (met if state[w] == 1.0 else failed)
        else:
            for w in range(len(state)):
                gain = met if state[w] == 1.0 else failed
                shares[at + w] += below[w] * (0.0 if state[w] < 0.0 else gain)


@njit(nogil=True, cache=True)
def _carry(sums, depth, is_left):
    """Hand the sums of a child to its parent: the left one begins, the right one adds."""
    for q in range(sums.shape[1]):
        below = sums[depth, q]
        here = sums[depth - 1, q]
        if is_left:
            for w in range(len(below)):
                here[w] = below[w]
        else:
            for w in range(len(below)):
                here[w] += below[w]


@njit(nogil=True, cache=True)
def add_path_interactions(nodes, trees, value, share, X, points, weights, pairs):
    """Add to `pairs` (rows, columns, columns) the interactions of X, absent columns as in training rows."""
    deepest = nodes.depth.max() + 1
    met = np.empty(deepest)
    shares = np.empty(deepest)
    for tree in trees:
        for n in range(len(X)):
            _walk_pairs(nodes, tree, value, share, X[n], X[n:n], points, weights, met, shares, pairs[n])


@njit(nogil=True, cache=True)
def add_background_interactions(nodes, trees, value, share, X, background, points, weights, pairs):
    """Add to `pairs` the sums of the interactions of X over background rows."""
    deepest = nodes.depth.max() + 1
    met = np.empty(deepest)
    shares = np.empty(deepest)
    for tree in trees:
        for n in range(len(X)):
            for b in range(len(background)):
                other = background[b : b + 1]
                _walk_pairs(nodes, tree, value, share, X[n], other, points, weights, met, shares, pairs[n])


@njit(nogil=True, cache=True)
def _walk_pairs(nodes, tree, value, share, row, other, points, weights, met, shares, pairs):
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
