"""Compiled loops that put rows into batches, and entries of rows into shards."""

import numpy as np

from tellwhy.classifiers.svm._compiled_steps import compiled, for_each_row
from tellwhy.classifiers.svm.records import Chain, Filling, ShardedEntries
from tellwhy.classifiers.svm.threads._compiled_sweeps import add_up

FREE = -1  # no part of a batch has a feature of the row
SEVERAL = -2  # several parts have


@compiled
def _find_parts_of_row(low, high, entries, filling, parts):
    """For each open batch, the part that has the features of a row."""
    parts[:] = FREE
    for p in range(low, high):
        held = filling.part_of_feature[entries.indices[p]]
        for s in range(len(parts)):
            if held[s] >= 0:
                parts[s] = held[s] if parts[s] == FREE or parts[s] == held[s] else SEVERAL


@compiled
def _find_best_place(parts, filled, depth):
    """The open batch and part where a row leaves parts least uneven; batch −1 if there is no room for it."""
    least = np.inf
    batch = -1
    place = 0
    for s in range(len(parts)):
        k = np.argmin(filled[s]) if parts[s] == FREE else parts[s]
        if k >= 0 and filled[s, k] < depth:
            # Of two even places the one that has the row's features already: others stay free for other rows.
            uneven = filled[s, k] - filled[s].min() - (0.5 if parts[s] != FREE else 0.0)
            if uneven < least:
                least = uneven
                batch = s
                place = k
    return batch, place


@compiled
def _close_batch(s, filling, entries, rows, members, bounds, used):
    """Append the parts of an open batch, the longest first, and empty it; returns the new `used`."""
    bounds[0] = used
    line = 1
    for k in np.argsort(-filling.filled[s], kind="mergesort"):
        for j in range(filling.filled[s, k]):
            e = filling.examples[s, k, j]
            members[used] = e
            used += 1
            for p in range(entries.indptr[rows[e]], entries.indptr[rows[e] + 1]):
                filling.part_of_feature[entries.indices[p], s] = FREE
        bounds[line] = used
        line += 1
    filling.filled[s] = 0
    return used


@compiled
def separate_batches(order, entries, rows, n_features, shape):
    """Batches of parts that have no feature in common, filled with examples in about this order.

    Each example goes into an open batch where its features are in one part at most. Returns the examples by
    batch and part, and where the parts of each batch begin and end.
    """
    filling = Filling(
        part_of_feature=np.full((n_features, shape.n_open), FREE, np.int8),
        filled=np.zeros((shape.n_open, shape.n_parts), np.int64),
        examples=np.empty((shape.n_open, shape.n_parts, shape.depth), np.int64),
    )
    parts = np.empty(shape.n_open, np.int64)
    members = np.empty(len(order), np.int64)
    at = np.empty((len(order), shape.n_parts + 1), np.int64)
    used = 0
    n_batches = 0
    for e in order:
        low = entries.indptr[rows[e]]
        high = entries.indptr[rows[e] + 1]
        _find_parts_of_row(low, high, entries, filling, parts)
        s, k = _find_best_place(parts, filling.filled, shape.depth)
        if s < 0:
            s = np.argmax(filling.filled.sum(axis=1))
            k = 0
            used = _close_batch(s, filling, entries, rows, members, at[n_batches], used)
            n_batches += 1
        filling.examples[s, k, filling.filled[s, k]] = e
        filling.filled[s, k] += 1
        for p in range(low, high):
            filling.part_of_feature[entries.indices[p], s] = k
    for s in range(shape.n_open):
        if filling.filled[s].max() > 0:
            used = _close_batch(s, filling, entries, rows, members, at[n_batches], used)
            n_batches += 1
    return members, at[:n_batches].copy()


@compiled
def _find_most_entries(first, last, batches, entries, rows):
    """Entries of the batch that has the most."""
    most = 0
    for b in range(first, last):
        n = 0
        for q in range(batches.at[b, 0], batches.at[b, 1]):
            row = rows[batches.members[q]]
            n += entries.cuts[row, -1] - entries.cuts[row, 0]
        most = max(most, n)
    return most


@for_each_row
def _add_shard_products(s, begin, end, batches, entries, rows, newest, chain, products):
    """Sum the inner products of the examples of a batch over the features of one shard.

    Entries are chained by feature, each to the one before it: a row meets only entries of earlier rows with a
    feature of its own.
    """
    used = 0
    size = end - begin
    for q in range(begin, end):
        row = rows[batches.members[q]]
        for p in range(entries.cuts[row, s], entries.cuts[row, s + 1]):
            f = entries.indices[p]
            x = entries.values[p]
            e = newest[f]
            chain.older[used] = e
            chain.holder[used] = q - begin
            chain.held[used] = x
            newest[f] = used
            used += 1
            while e >= 0:
                products[(q - begin) * size + chain.holder[e]] += x * chain.held[e]
                e = chain.older[e]
    # Only what was set is cleared: a batch has far fewer entries than there are features.
    for q in range(begin, end):
        row = rows[batches.members[q]]
        for p in range(entries.cuts[row, s], entries.cuts[row, s + 1]):
            newest[entries.indices[p]] = -1


@compiled
def set_inner_products(first, last, batches, entries, rows, n_features, products):
    """Set products[q, j] of the examples of batches first … last with the j-th of their batch before them."""
    most = _find_most_entries(first, last, batches, entries, rows)
    n_shards = entries.cuts.shape[1] - 1
    newest = np.full(n_features, -1, np.int64)
    chain = Chain(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, entries.values.dtype))
    lines = np.empty((n_shards, products.shape[1] ** 2))
    for b in range(first, last):
        begin = batches.at[b, 0]
        end = batches.at[b, 1]
        size = end - begin
        for s in range(n_shards):
            lines[s, : size * size] = 0.0
            _add_shard_products(s, begin, end, batches, entries, rows, newest, chain, lines[s])
        add_up(lines, n_shards, size * size)
        for q in range(begin, end):
            for j in range(q - begin):
                products[q, j] = lines[0, (q - begin) * size + j]


@compiled
def deal_features(order, indptr, rows, n_rows, n_shards):
    """The shard of each feature, taken in this order: that of which the rows with it have the least so far.

    The rows that have feature f are rows[indptr[f] : indptr[f + 1]].
    """
    held = np.zeros((n_rows, n_shards), np.int32)
    load = np.zeros(n_shards, np.int64)
    met = np.empty(n_shards, np.int64)
    shard = np.empty(len(order), np.int64)
    for f in order:
        met[:] = 0
        for p in range(indptr[f], indptr[f + 1]):
            for s in range(n_shards):
                met[s] += held[rows[p], s]
        best = 0
        for s in range(1, n_shards):
            if met[s] < met[best] or (met[s] == met[best] and load[s] < load[best]):
                best = s
        shard[f] = best
        load[best] += max(indptr[f + 1] - indptr[f], 1)
        for p in range(indptr[f], indptr[f + 1]):
            held[rows[p], best] += 1
    return shard


@compiled
def order_by_shard(shard, n_shards, entries):
    """Order the entries of each row by the shard of their features."""
    n = len(entries.indptr) - 1
    cuts = np.empty((n, n_shards + 1), np.int64)
    indices = np.empty_like(entries.indices)
    values = np.empty_like(entries.values)
    for r in range(n):
        at = entries.indptr[r]
        cuts[r, 0] = at
        for s in range(n_shards):
            for p in range(entries.indptr[r], entries.indptr[r + 1]):
                if shard[entries.indices[p]] == s:
                    indices[at] = entries.indices[p]
                    values[at] = entries.values[p]
                    at += 1
            cuts[r, s + 1] = at
    return ShardedEntries(cuts, indices, values)
