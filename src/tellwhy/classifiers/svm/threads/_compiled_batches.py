"""Compiled loops that put rows into batches, features into shards, and lists of variables together."""

import numba
import numpy as np

from tellwhy.classifiers.svm._compiled_rows import FAST

FREE, TORN = -1, -2  # a row whose features are in no lane of a batch, and one whose features are in several

_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)


@_compiled
def _lane_of_row(low, high, indices, owner, lane):
    """For each open batch, the lane that the features of a row are in."""
    lane[:] = FREE
    for p in range(low, high):
        held = owner[indices[p]]
        for s in range(len(lane)):
            if held[s] >= 0:
                lane[s] = held[s] if lane[s] == FREE or lane[s] == held[s] else TORN


@_compiled
def _fitting_lane(lane, filled, depth):
    """The open batch and lane where a row makes lanes least uneven, best one with its features; −1 if all are full."""
    least, batch, place = np.inf, -1, 0
    for s in range(len(lane)):
        k = np.argmin(filled[s]) if lane[s] == FREE else lane[s]
        if k >= 0 and filled[s, k] < depth:
            uneven = filled[s, k] - filled[s].min() - (0.5 if lane[s] != FREE else 0.0)
            if uneven < least:
                least, batch, place = uneven, s, k
    return batch, place


@_compiled
def _hand_over(s, room, filled, rows, indptr, indices, owner, found, at, n_found, n_batches):
    """Append the lanes of an open batch, the longest first, and empty it."""
    for k in np.argsort(-filled[s], kind="mergesort"):
        for j in range(filled[s, k]):
            r = room[s, k, j]
            found[n_found] = r
            n_found += 1
            for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
                owner[indices[p], s] = FREE
    lanes = np.sort(filled[s])[::-1]
    at[n_batches, 0] = n_found - lanes.sum()
    for k in range(len(lanes)):
        at[n_batches, k + 1] = at[n_batches, k] + lanes[k]
    filled[s] = 0
    return n_found, n_batches + 1


@_compiled
def rows_in_lanes(order, rows, indptr, indices, n_features, n_lanes, depth, n_open):
    """Put each row into an open batch where its features are in one lane at most.

    Returns the rows by batch and lane, and where the lanes of each batch begin and end.
    """
    owner, filled = np.full((n_features, n_open), FREE, np.int8), np.zeros((n_open, n_lanes), np.int64)
    room, lane = np.empty((n_open, n_lanes, depth), np.int64), np.empty(n_open, np.int64)
    found, at = np.empty(len(order), np.int64), np.empty((len(order), n_lanes + 1), np.int64)
    n_found, n_batches = 0, 0
    for r in order:
        low, high = indptr[rows[r]], indptr[rows[r] + 1]
        _lane_of_row(low, high, indices, owner, lane)
        s, k = _fitting_lane(lane, filled, depth)
        if s < 0:
            s, k = np.argmax(filled.sum(axis=1)), 0
            n_found, n_batches = _hand_over(
                s, room, filled, rows, indptr, indices, owner, found, at, n_found, n_batches
            )
        room[s, k, filled[s, k]] = r
        filled[s, k] += 1
        for p in range(low, high):
            owner[indices[p], s] = k
    for s in range(n_open):
        if filled[s].max() > 0:
            n_found, n_batches = _hand_over(
                s, room, filled, rows, indptr, indices, owner, found, at, n_found, n_batches
            )
    return found, at[:n_batches].copy()


@_compiled
def _most_entries(first, last, at, members, rows, indptr):
    most = 0
    for b in range(first, last):
        entries = 0
        for q in range(at[b, 0], at[b, 1]):
            entries += indptr[rows[members[q]] + 1] - indptr[rows[members[q]]]
        most = max(most, entries)
    return most


@_compiled
def inner_products(first, last, at, members, rows, indptr, indices, values, n_features, products):
    """Inner product products[q, j] of each row with the j-th row of its batch, for batches first..last.

    The entries of a batch are chained by feature: a row meets only entries of earlier rows with a feature of
    its own.
    """
    most = _most_entries(first, last, at, members, rows, indptr)
    newest, older = np.full(n_features, -1, np.int64), np.empty(most, np.int64)
    holder, held = np.empty(most, np.int64), np.empty(most, values.dtype)
    for b in range(first, last):
        used, begin, end = 0, at[b, 0], at[b, 1]
        for q in range(begin, end):
            products[q] = 0.0
            for p in range(indptr[rows[members[q]]], indptr[rows[members[q]] + 1]):
                e = newest[indices[p]]
                older[used], holder[used], held[used], newest[indices[p]] = e, q - begin, values[p], used
                used += 1
                while e >= 0:
                    products[q, holder[e]] += values[p] * held[e]
                    e = older[e]
        for q in range(begin, end):
            for p in range(indptr[rows[members[q]]], indptr[rows[members[q]] + 1]):
                newest[indices[p]] = -1


@_compiled
def shard_rows(shard, n_shards, indptr, indices, values):
    """Order the entries of each row by shard: the cuts between shards, indices and values."""
    n = len(indptr) - 1
    cuts = np.empty((n, n_shards + 1), np.int64)
    new_indices, new_values = np.empty_like(indices), np.empty_like(values)
    for r in range(n):
        at = indptr[r]
        cuts[r, 0] = at
        for s in range(n_shards):
            for p in range(indptr[r], indptr[r + 1]):
                if shard[indices[p]] == s:
                    new_indices[at], new_values[at] = indices[p], values[p]
                    at += 1
            cuts[r, s + 1] = at
    return cuts, new_indices, new_values


@_compiled
def drop_zeros(start, count, cls, val, kept_cls, kept_val):
    """Copy the listed variables that are not zero into arrays with room for them."""
    used = 0
    for r in range(len(start)):
        at, start[r] = start[r], used
        for j in range(at, at + count[r]):
            if val[j] != 0.0:
                kept_cls[used], kept_val[used] = cls[j], val[j]
                used += 1
        count[r] = used - start[r]


@_compiled
def close_up(members, start, count, cls, val, used):
    """Move the lists of some rows together, which lie in this order behind the `used` entries; returns that number."""
    for r in members:
        at, start[r] = start[r], used
        for j in range(at, at + count[r]):
            cls[used], val[used] = cls[j], val[j]
            used += 1
    return used
