"""Compiled passes over implicit grids and listed edges.

Costs are minimised. `arriving[i·n_dirs + d]` (grids) or `arriving[e]` (edges) is the message that node i
receives from its neighbour in direction d, or along e; for a neighbour that is not there it stays zero.
Directions d and n_dirs − 1 − d are opposite, and the first half leads to smaller indices.
"""

import numba
import numpy as np


@numba.njit(nogil=True, cache=True, inline="always")
def _neighbour(i, z, y, x, step, box, present):
    """Index of the neighbour at a step, or −1."""
    a, b, c = z + step[0], y + step[1], x + step[2]
    if a < 0 or b < 0 or c < 0 or a >= box[0] or b >= box[1] or c >= box[2]:
        return -1
    j = i + (step[0] * box[1] + step[1]) * box[2] + step[2]
    if len(present) and not present[j]:
        return -1
    return j


@numba.njit(nogil=True, cache=True, inline="always")
def _send(total, weight, arriving, back, out, pair, base, damping, soft):
    """Put min_k (weight·total_k − arriving[back]_k + pair_kl) into arriving[out], least entry 0; return the least."""
    n_classes = len(total)
    for k in range(n_classes):
        base[k] = weight * total[k] - arriving[back, k]
    least = np.inf
    for t in range(n_classes):
        best = base[0] + pair[0, t]
        for k in range(1, n_classes):
            best = min(best, base[k] + pair[k, t])
        if soft:
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


@numba.njit(nogil=True, cache=True, inline="always")
def _gather(unary, i, arriving, start, stop, total):
    """total = unary[i] + the messages at start … stop − 1, least entry 0; return the least."""
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


@numba.njit(nogil=True, cache=True)
def sweep_grid(unary, pair, arriving, present, box, steps, backward, shared, damping, soft):
    """Pass messages once over all nodes of a grid, in order or in reverse order.

    With `shared`, each node's cost is split among the monotonic chains through it (TRW-S); the returned value
    is then a lower bound of the energy after a backward pass.
    """
    depth, height, width = box
    n_dirs = len(steps)
    half = n_dirs // 2
    total, base = np.empty(unary.shape[1], unary.dtype), np.empty(unary.shape[1], unary.dtype)
    one, bound = unary.dtype.type(1), 0.0
    flat = (steps[:, 0] * height + steps[:, 1]) * width + steps[:, 2]
    deep = np.abs(steps[:, 0]).max() > 0
    tall = np.abs(steps[:, 1]).max() > 0
    for place in range(depth * height):
        line = depth * height - 1 - place if backward else place
        z, y = line // height, line % height
        inner = not len(present) and (not deep or 0 < z < depth - 1) and (not tall or 0 < y < height - 1)
        for spot in range(width):
            x = width - 1 - spot if backward else spot
            i = line * width + x
            if len(present) and not present[i]:
                continue
            free = inner and 0 < x < width - 1
            bound += _gather(unary, i, arriving, i * n_dirs, (i + 1) * n_dirs, total)
            weight = one
            if shared and free:
                weight = one / half
            elif shared:
                lower = upper = 0
                for d in range(half):
                    lower += _neighbour(i, z, y, x, steps[d], box, present) >= 0
                    upper += _neighbour(i, z, y, x, steps[half + d], box, present) >= 0
                weight = one / max(lower, upper, 1)
            for d in range(0 if backward else half, half if backward else n_dirs):
                j = i + flat[d] if free else _neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    out = j * n_dirs + n_dirs - 1 - d
                    bound += _send(total, weight, arriving, i * n_dirs + d, out, pair, base, damping, soft)
    return bound


@numba.njit(nogil=True, cache=True)
def sweep_edges(unary, pair, arriving, indptr, indices, reverse, backward, shared, damping, soft):
    """As `sweep_grid`, over listed edges."""
    n, n_classes = unary.shape
    total, base = np.empty(n_classes, unary.dtype), np.empty(n_classes, unary.dtype)
    one, bound = unary.dtype.type(1), 0.0
    for place in range(n):
        i = n - 1 - place if backward else place
        start, stop = indptr[i], indptr[i + 1]
        middle = start
        for e in range(start, stop):
            middle += indices[e] < i
        bound += _gather(unary, i, arriving, start, stop, total)
        weight = one / max(middle - start, stop - middle, 1) if shared else one
        for e in range(start if backward else middle, middle if backward else stop):
            bound += _send(total, weight, arriving, e, reverse[e], pair, base, damping, soft)
    return bound


@numba.njit(nogil=True, cache=True)
def decode_grid(unary, pair, arriving, present, box, steps, labels):
    """Give labels in order: earlier neighbours count by their labels, later ones by their messages."""
    depth, height, width = box
    n_classes, n_dirs = unary.shape[1], len(steps)
    half = n_dirs // 2
    cost = np.empty(n_classes, np.float64)
    for line in range(depth * height):
        z, y = line // height, line % height
        for x in range(width):
            i = line * width + x
            if len(present) and not present[i]:
                labels[i] = -1
                continue
            for k in range(n_classes):
                cost[k] = unary[i, k]
            for d in range(half):
                j = _neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    for k in range(n_classes):
                        cost[k] += pair[labels[j], k]
            for d in range(half, n_dirs):
                for k in range(n_classes):
                    cost[k] += arriving[i * n_dirs + d, k]
            labels[i] = np.argmin(cost)


@numba.njit(nogil=True, cache=True)
def decode_edges(unary, pair, arriving, indptr, indices, labels):
    """As `decode_grid`, over listed edges; labels of missing nodes are not touched by neighbours."""
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


@numba.njit(nogil=True, cache=True)
def count_grid(labels, present, box, steps, counts):
    """Count the neighbours of each label."""
    depth, height, width = box
    for line in range(depth * height):
        z, y = line // height, line % height
        for x in range(width):
            i = line * width + x
            if len(present) and not present[i]:
                continue
            for d in range(len(steps)):
                j = _neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    counts[i, labels[j]] += 1


@numba.njit(nogil=True, cache=True)
def count_edges(labels, indptr, indices, counts):
    """As `count_grid`, over listed edges."""
    for i in range(len(labels)):
        for e in range(indptr[i], indptr[i + 1]):
            counts[i, labels[indices[e]]] += 1


@numba.njit(nogil=True, cache=True)
def improve_grid(unary, pair, labels, present, box, steps):
    """Give each node in turn the label that is cheapest beside its neighbours; return how many changed."""
    depth, height, width = box
    n_classes = unary.shape[1]
    cost = np.empty(n_classes, np.float64)
    changed = 0
    for line in range(depth * height):
        z, y = line // height, line % height
        for x in range(width):
            i = line * width + x
            if len(present) and not present[i]:
                continue
            for k in range(n_classes):
                cost[k] = unary[i, k]
            for d in range(len(steps)):
                j = _neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    for k in range(n_classes):
                        cost[k] += pair[labels[j], k]
            best = np.argmin(cost)
            if cost[best] < cost[labels[i]]:
                labels[i] = best
                changed += 1
    return changed


@numba.njit(nogil=True, cache=True)
def improve_edges(unary, pair, labels, indptr, indices):
    """As `improve_grid`, over listed edges."""
    n, n_classes = unary.shape
    cost = np.empty(n_classes, np.float64)
    changed = 0
    for i in range(n):
        if labels[i] < 0:
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


@numba.njit(nogil=True, cache=True)
def energy_grid(unary, pair, labels, present, box, steps):
    """Σ_i unary + Σ_(i,j) pair of a labelling."""
    depth, height, width = box
    n_dirs = len(steps)
    energy = 0.0
    for line in range(depth * height):
        z, y = line // height, line % height
        for x in range(width):
            i = line * width + x
            if len(present) and not present[i]:
                continue
            energy += unary[i, labels[i]]
            for d in range(n_dirs // 2, n_dirs):
                j = _neighbour(i, z, y, x, steps[d], box, present)
                if j >= 0:
                    energy += pair[labels[i], labels[j]]
    return energy


@numba.njit(nogil=True, cache=True)
def energy_edges(unary, pair, labels, indptr, indices):
    """As `energy_grid`, over listed edges."""
    energy = 0.0
    for i in range(len(labels)):
        if labels[i] < 0:
            continue
        energy += unary[i, labels[i]]
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] > i:
                energy += pair[labels[i], labels[indices[e]]]
    return energy


@numba.njit(nogil=True, cache=True)
def breadth_first(indptr, indices):
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
