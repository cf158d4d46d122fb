"""Compiled passes over implicit grids and listed edges.

Costs are minimised. `arriving[i·n_dirs + d]` (grids) or `arriving[e]` (edges) is the message that node i
receives from its neighbour in direction d, or along e; for a neighbour that is not there it stays zero.
Directions d and n_dirs − 1 − d are opposite, and the first half leads to smaller indices.

Grids have loops of their own: their edges follow from the shape, and listing them would cost memory and time.
Loops read tables from named tuples once, before they begin: inside, every reading costs counting references.
"""

from typing import Any, NamedTuple

import numpy as np

from tellwhy.core.compiled import njit


class Costs(NamedTuple):
    """What labels cost, in one precision."""

    unary: Any  # (n, K): of each label at each node
    pair: Any  # (K, K): of the labels at the two ends of an edge


class Cells(NamedTuple):
    """A grid: which cells are nodes, and which are neighbours."""

    present: Any  # (n,) of truths; empty if no cell is missing
    box: tuple[int, int, int]  # depth, height, width
    steps: Any  # (n_dirs, 3): from a cell to its neighbours


class Links(NamedTuple):
    """Listed edges: those of node i are indptr[i] … indptr[i + 1] − 1."""

    indptr: Any
    indices: Any  # the other end of each edge
    reverse: Any  # place of the same edge, seen from the other end


class Pass(NamedTuple):
    """How messages are passed."""

    backward: bool  # from the last node to the first
    shared: bool  # split each node's cost among the chains through it (TRW-S)
    damping: float  # share of the old message in the new one; of the costs' type
    soft: bool  # sums of probabilities in place of minima


# Inlined before compiling: as calls they would count references to all arrays for each of millions of nodes.
_inlined = njit(nogil=True, cache=True, inline="always")


@_inlined
def _find_neighbour(i, z, y, x, step, box, present):
    """Index of the neighbour at a step, or −1."""
    a = z + step[0]
    b = y + step[1]
    c = x + step[2]
    if a < 0 or b < 0 or c < 0 or a >= box[0] or b >= box[1] or c >= box[2]:
        return -1
    j = i + (step[0] * box[1] + step[1]) * box[2] + step[2]
    if len(present) and not present[j]:
        return -1
    return j


@_inlined
def _send(total, weight, arriving, back, out, pair, base, damping, soft):
    """Put min_k (weight·total_k − arriving[back]_k + pair_kl) into arriving[out], less its least entry.

    That entry is returned. Messages mean differences; with it they would grow without end.
    """
    n_classes = len(total)
    for k in range(n_classes):
        base[k] = weight * total[k] - arriving[back, k]
    least = np.inf
    for t in range(n_classes):
        best = base[0] + pair[0, t]
        for k in range(1, n_classes):
            best = min(best, base[k] + pair[k, t])
        if soft:  # −log Σ exp(−…), with the largest term taken out: none overflows
            mass = 0.0
            for k in range(n_classes):
                mass += np.exp(best - base[k] - pair[k, t])
            best -= np.log(mass)
        if damping > 0:
            best = (1 - damping) * best + damping * arriving[out, t]
        arriving[out, t] = best
        least = min(least, best)
    for t in range(n_classes):
        arriving[out, t] -= least
    return least


@_inlined
def _gather(unary, i, arriving, start, stop, total):
    """Set total to unary[i] + the messages at start … stop − 1, less its least entry, which is returned."""
    n_classes = len(total)
    for k in range(n_classes):
        total[k] = unary[i, k]
    for e in range(start, stop):
        for k in range(n_classes):
            total[k] += arriving[e, k]
    least = total[0]
    for k in range(1, n_classes):
        least = min(least, total[k])
    for k in range(n_classes):
        total[k] -= least
    return least


@_inlined
def _count_chains(i, z, y, x, steps, box, present):
    """Count the chains through a node that lead from lower to higher nodes and share no edge, at least 1."""
    half = len(steps) // 2
    lower = 0
    upper = 0
    for d in range(half):
        lower += _find_neighbour(i, z, y, x, steps[d], box, present) >= 0
        upper += _find_neighbour(i, z, y, x, steps[half + d], box, present) >= 0
    return max(lower, upper, 1)


@njit(nogil=True, cache=True)
def sweep_grid(costs, arriving, cells, how):
    """Pass messages once over all nodes of a grid, in order or in reverse order.

    With `how.shared`, the returned value is a lower bound of the energy after a backward pass.
    """
    unary = costs.unary
    pair = costs.pair
    present = cells.present
    box = cells.box
    steps = cells.steps
    backward = how.backward
    height = box[1]
    width = box[2]
    n_lines = box[0] * height
    n_dirs = len(steps)
    half = n_dirs // 2
    total = np.empty(unary.shape[1], unary.dtype)
    base = np.empty(unary.shape[1], unary.dtype)
    one = unary.dtype.type(1)
    bound = 0.0
    # Cells off the border of a full grid have all neighbours, at fixed distances: no need to look for them.
    flat = (steps[:, 0] * height + steps[:, 1]) * width + steps[:, 2]
    deep = np.abs(steps[:, 0]).max() > 0
    tall = np.abs(steps[:, 1]).max() > 0
    for place in range(n_lines):
        line = n_lines - 1 - place if backward else place
        z = line // height
        y = line % height
        inner = not len(present) and (not deep or 0 < z < box[0] - 1) and (not tall or 0 < y < height - 1)
        for spot in range(width):
            x = width - 1 - spot if backward else spot
            i = line * width + x
            if len(present) and not present[i]:
                continue
            free = inner and 0 < x < width - 1
            bound += _gather(unary, i, arriving, i * n_dirs, (i + 1) * n_dirs, total)
            weight = one
            if how.shared:
                weight = one / (half if free else _count_chains(i, z, y, x, steps, box, present))
            for d in range(0 if backward else half, half if backward else n_dirs):
                j = i + flat[d] if free else _find_neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    back = i * n_dirs + d
                    out = j * n_dirs + n_dirs - 1 - d
                    bound += _send(total, weight, arriving, back, out, pair, base, how.damping, how.soft)
    return bound


@njit(nogil=True, cache=True)
def sweep_edges(costs, arriving, links, how):
    """As `sweep_grid`, over listed edges."""
    unary = costs.unary
    pair = costs.pair
    indptr = links.indptr
    indices = links.indices
    reverse = links.reverse
    n, n_classes = unary.shape
    total = np.empty(n_classes, unary.dtype)
    base = np.empty(n_classes, unary.dtype)
    one = unary.dtype.type(1)
    bound = 0.0
    for place in range(n):
        i = n - 1 - place if how.backward else place
        start = indptr[i]
        stop = indptr[i + 1]
        middle = start  # edges are sorted by their other end: those to lower nodes come first
        for e in range(start, stop):
            middle += indices[e] < i
        bound += _gather(unary, i, arriving, start, stop, total)
        weight = one / max(middle - start, stop - middle, 1) if how.shared else one
        for e in range(start if how.backward else middle, middle if how.backward else stop):
            bound += _send(total, weight, arriving, e, reverse[e], pair, base, how.damping, how.soft)
    return bound


@njit(nogil=True, cache=True)
def decode_grid(costs, arriving, cells, labels):
    """Give labels in order: earlier neighbours count by their labels, later ones by their messages.

    So ties are broken alike everywhere: messages alone may let two neighbours choose different optima.
    """
    unary = costs.unary
    pair = costs.pair
    present = cells.present
    box = cells.box
    steps = cells.steps
    n_classes = unary.shape[1]
    n_dirs = len(steps)
    half = n_dirs // 2
    cost = np.empty(n_classes, np.float64)
    for line in range(box[0] * box[1]):
        z = line // box[1]
        y = line % box[1]
        for x in range(box[2]):
            i = line * box[2] + x
            if len(present) and not present[i]:
                labels[i] = -1
                continue
            for k in range(n_classes):
                cost[k] = unary[i, k]
            for d in range(half):
                j = _find_neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    for k in range(n_classes):
                        cost[k] += pair[labels[j], k]
            for d in range(half, n_dirs):
                for k in range(n_classes):
                    cost[k] += arriving[i * n_dirs + d, k]
            labels[i] = np.argmin(cost)


@njit(nogil=True, cache=True)
def decode_edges(costs, arriving, links, labels):
    """As `decode_grid`, over listed edges. Missing nodes have none, and get any label."""
    unary = costs.unary
    pair = costs.pair
    indptr = links.indptr
    indices = links.indices
    n, n_classes = unary.shape
    cost = np.empty(n_classes, np.float64)
    for i in range(n):
        for k in range(n_classes):
            cost[k] = unary[i, k]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for k in range(n_classes):
                cost[k] += pair[labels[j], k] if j < i else arriving[e, k]
        labels[i] = np.argmin(cost)


@njit(nogil=True, cache=True)
def count_grid(labels, cells, counts):
    """Count the neighbours of each label."""
    present = cells.present
    box = cells.box
    steps = cells.steps
    for line in range(box[0] * box[1]):
        z = line // box[1]
        y = line % box[1]
        for x in range(box[2]):
            i = line * box[2] + x
            if len(present) and not present[i]:
                continue
            for d in range(len(steps)):
                j = _find_neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    counts[i, labels[j]] += 1


@njit(nogil=True, cache=True)
def count_edges(labels, links, counts):
    """As `count_grid`, over listed edges."""
    indptr = links.indptr
    indices = links.indices
    for i in range(len(labels)):
        for e in range(indptr[i], indptr[i + 1]):
            counts[i, labels[indices[e]]] += 1


@njit(nogil=True, cache=True)
def improve_grid(costs, labels, cells):
    """Give each node in turn the label that is cheapest beside its neighbours; return how many changed."""
    unary = costs.unary
    pair = costs.pair
    present = cells.present
    box = cells.box
    steps = cells.steps
    n_classes = unary.shape[1]
    cost = np.empty(n_classes, np.float64)
    changed = 0
    for line in range(box[0] * box[1]):
        z = line // box[1]
        y = line % box[1]
        for x in range(box[2]):
            i = line * box[2] + x
            if len(present) and not present[i]:
                continue
            for k in range(n_classes):
                cost[k] = unary[i, k]
            for d in range(len(steps)):
                j = _find_neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    for k in range(n_classes):
                        cost[k] += pair[labels[j], k]
            best = np.argmin(cost)
            if cost[best] < cost[labels[i]]:  # not for equal costs, or labels could change for ever
                labels[i] = best
                changed += 1
    return changed


@njit(nogil=True, cache=True)
def improve_edges(costs, labels, links):
    """As `improve_grid`, over listed edges."""
    unary = costs.unary
    pair = costs.pair
    indptr = links.indptr
    indices = links.indices
    n, n_classes = unary.shape
    cost = np.empty(n_classes, np.float64)
    changed = 0
    for i in range(n):
        if labels[i] < 0:  # a missing node
            continue
        for k in range(n_classes):
            cost[k] = unary[i, k]
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(n_classes):
                cost[k] += pair[labels[indices[e]], k]
        best = np.argmin(cost)
        if cost[best] < cost[labels[i]]:
            labels[i] = best
            changed += 1
    return changed


@njit(nogil=True, cache=True)
def compute_energy_grid(costs, labels, cells):
    """Σ_i unary + Σ_(i,j) pair of a labelling."""
    unary = costs.unary
    pair = costs.pair
    present = cells.present
    box = cells.box
    steps = cells.steps
    n_dirs = len(steps)
    energy = 0.0
    for line in range(box[0] * box[1]):
        z = line // box[1]
        y = line % box[1]
        for x in range(box[2]):
            i = line * box[2] + x
            if len(present) and not present[i]:
                continue
            energy += unary[i, labels[i]]
            for d in range(n_dirs // 2, n_dirs):  # towards larger indices: every edge once
                j = _find_neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    energy += pair[labels[i], labels[j]]
    return energy


@njit(nogil=True, cache=True)
def compute_energy_edges(costs, labels, links):
    """As `compute_energy_grid`, over listed edges."""
    unary = costs.unary
    pair = costs.pair
    indptr = links.indptr
    indices = links.indices
    energy = 0.0
    for i in range(len(labels)):
        if labels[i] < 0:
            continue
        energy += unary[i, labels[i]]
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] > i:
                energy += pair[labels[i], labels[indices[e]]]
    return energy


@njit(nogil=True, cache=True)
def order_breadth_first(indptr, indices):
    """Return the nodes in an order in which each node of a forest has at most one earlier neighbour."""
    n = len(indptr) - 1
    order = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    filled = 0
    for root in range(n):
        if seen[root]:
            continue
        seen[root] = True
        order[filled] = root
        head = filled
        filled += 1
        while head < filled:
            i = order[head]
            head += 1
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if not seen[j]:
                    seen[j] = True
                    order[filled] = j
                    filled += 1
    return order
