"""Slow, obvious counterparts of Shapley values of trees: what every set of columns is worth, one by one."""

import numpy as np
from oracles.shapley_oracles import subsets


def children(nodes, node, cell):
    """Left and right child, and which of them a cell goes to."""
    left, right = node + 1, int(nodes.right[node])
    missing = int(nodes.missing[node])
    if missing == 2 and np.isnan(cell):
        cell = 0.0
    if missing in (3, 4) and (np.isnan(cell) or cell == 0.0):
        return left, right, left if missing == 4 else right
    if np.isnan(cell):
        return left, right, left if missing == 1 else right
    start, stop = nodes.sets[node]
    if start == stop:
        return left, right, left if cell <= nodes.threshold[node] else right
    members = {32 * (w - start) + b for w in range(start, stop) for b in range(32) if nodes.words[w] >> b & 1}
    return left, right, left if int(cell) in members else right


def worth_of_path(nodes, value, node, x, present):
    """Value of a subtree when splits on absent columns go both ways, as training rows did."""
    if nodes.feature[node] < 0:
        return value[node]
    left, right, own = children(nodes, node, x[nodes.feature[node]])
    if nodes.feature[node] in present:
        return worth_of_path(nodes, value, own, x, present)
    both = nodes.cover[left] + nodes.cover[right]
    to_left = nodes.cover[left] / both if both > 0 else 0.5  # no training row came here
    return to_left * worth_of_path(nodes, value, left, x, present) + (1.0 - to_left) * worth_of_path(
        nodes, value, right, x, present
    )


def path_worth(trees, output, x):
    """v(S) of a model, where absent columns follow the training rows."""
    chosen = trees.chosen(output)

    def worth(present):
        roots = trees.nodes.first[chosen.trees]
        return chosen.base + sum(worth_of_path(trees.nodes, chosen.value, root, x, present) for root in roots)

    return worth


def background_worth(trees, output, x, background):
    """v(S) of a model, where absent columns take the cells of background rows."""
    everything = frozenset(range(len(x)))

    def worth(present):
        inside = np.isin(np.arange(len(x)), list(present))
        mixed = np.where(inside, x, background)
        return np.mean([path_worth(trees, output, row)(everything) for row in mixed])

    return worth


def remembered(worth):
    """The same function, computed once for each set."""
    known = {}

    def ask(present):
        if present not in known:
            known[present] = worth(present)
        return known[present]

    return ask


def interactions_by_definition(worth, d):
    """Half of each pair's Shapley interaction index, off the diagonal."""
    from math import factorial

    found = np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            for S in subsets(set(range(d)) - {i, j}):
                weight = factorial(len(S)) * factorial(d - len(S) - 2) / factorial(d - 1)
                change = worth(S | {i, j}) - worth(S | {i}) - worth(S | {j}) + worth(S)
                found[i, j] += 0.5 * weight * change
            found[j, i] = found[i, j]
    return found
