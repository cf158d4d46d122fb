"""Rows in batches, and how their features and entries are shared out among threads.

Weights are cut by features (shards) and by classes. `Workers` are the threads, which run compiled tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.records import BatchArrays, BatchShape, Entries, ShardedEntries, Share
from tellwhy.classifiers.svm.threads import _compiled_batches as loops
from tellwhy.core.score import Floats, Integers

CALLS_A_THREAD = 8
CERTIFY_ROWS = 128  # examples per task of a certificate: few enough that threads end together

Task = TypeVar("Task")
Found = TypeVar("Found")


def ranges(n: int, size: int = CERTIFY_ROWS) -> list[tuple[int, int]]:
    """Consecutive ranges of at most `size`; one that is empty where n is 0."""
    return [(first, min(first + size, n)) for first in range(0, n, size)] or [(0, 0)]


class Workers:
    """Threads that run compiled tasks; with one thread, the caller does the work."""

    def __init__(self, n_threads: int):
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        if self._pool is not None:
            self._start(self._pool)

    def _start(self, pool: ThreadPoolExecutor) -> None:
        """Have all threads there from now on.

        Tasks may wait for each other, and the pool would not start a thread for each if it took one for idle.
        """
        ready = Event()  # holds each thread until the last has been started
        try:
            for _ in range(self.n_threads):
                pool.submit(ready.wait)
        finally:
            ready.set()

    def map(self, function: Callable[[Task], Found], tasks: Iterable[Task]) -> list[Found]:
        """Results of all tasks, in order.

        As many tasks as there are threads may wait for each other; of more than that, a thread does several.
        """
        if self._pool is None:
            return [function(task) for task in tasks]
        every = list(tasks)
        # To hand over a small task takes longer than to do it.
        size = max(len(every) // (CALLS_A_THREAD * self.n_threads), 1)
        calls = [every[first:last] for first, last in ranges(len(every), size)]
        found = self._pool.map(lambda some: [function(task) for task in some], calls)
        return [result for results in found for result in results]

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


PARTS = 4  # of a batch of separate parts: threads that find work in one at the same time
PART_DEPTH = 64  # examples of a part at most
OPEN_BATCHES = 16  # filled at the same time: the more, the likelier is one where a row fits
ENTRIES_A_SHARD = 24  # at least: each shard has sums of its own, which take time to add up,
MANY_CLASSES = 256
ENTRIES_OF_MANY = 12  # and with many classes little of it: there the weights are waited for
MOST_SHARDS = 8
BATCHES_A_TASK = 256
DEALT_ENTRIES = 4_000_000  # of the first rows, which decide how features are shared out


@dataclass(frozen=True)
class Batches:
    """Examples by batches: those of part k of batch b are members[at[b, k] : at[b, k + 1]].

    `products[q, j]` is the inner product of the example at q with the j-th of its batch, for those before it;
    batches of separate parts need none.
    """

    members: Integers
    at: Integers
    products: Floats

    @classmethod
    def none(cls) -> Batches:
        """No examples."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64), np.empty((0, 0)))

    @classmethod
    def separate(cls, order: Integers, problem: Problem) -> Batches:
        """Batches of parts that have no feature in common, of examples in about this order."""
        shape = BatchShape(PARTS, PART_DEPTH, OPEN_BATCHES)
        members, at = loops.separate_batches(order, problem.entries, problem.rows, problem.n_features, shape)
        return cls(members, at, np.empty((0, 0)))

    @classmethod
    def of_size(cls, size: int, order: Integers) -> Batches:
        """Batches of consecutive examples, of one part each, whose inner products are still to be set."""
        return cls(order, np.array(ranges(len(order), size)), np.zeros((len(order), size)))

    def set_products(
        self,
        entries: ShardedEntries,
        problem: Problem,
        workers: Workers,
        part: tuple[int, int],
        products: Any,
    ) -> None:
        """Set the inner products of the examples of some batches, from the features that `entries` have."""
        given = (self.arrays, entries, problem.rows, problem.n_features, products)
        tasks = [(part[0] + a, part[0] + b) for a, b in ranges(part[1] - part[0], BATCHES_A_TASK)]
        workers.map(lambda task: loops.set_inner_products(*task, *given), tasks)

    @property
    def arrays(self) -> BatchArrays:
        """The arrays as the compiled loops take them."""
        return BatchArrays(self.members, self.at, self.products)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def sizes(self) -> Integers:
        """Examples of each batch."""
        return np.asarray(self.at[:, -1] - self.at[:, 0])

    @property
    def evenness(self) -> float:
        """How many parts could be visited at the same time: all examples over those of the longest parts."""
        longest = np.diff(self.at, axis=1).max(axis=1, initial=0)
        return len(self.members) / max(int(longest.sum()), 1)

    def examples_of(self, batches: Integers) -> Integers:
        """Examples of some batches, one batch after the other."""
        sizes = self.sizes[batches]
        inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray(self.members[np.repeat(self.at[batches, 0], sizes) + inside])

    def with_any(self, wanted: Any) -> Integers:
        """Batches with an example that is wanted."""
        hits = np.concatenate(([0], np.cumsum(wanted[self.members])))
        return np.flatnonzero(hits[self.at[:, -1]] > hits[self.at[:, 0]])


def n_shards(mean_entries: float, n_classes: int) -> int:
    """Into how many shards to cut the features: 1, 2, 4 or 8, as many as the entries of a row are worth."""
    least = ENTRIES_A_SHARD if n_classes < MANY_CLASSES else ENTRIES_OF_MANY
    return int(min(2 ** np.floor(np.log2(max(mean_entries / least, 1))), MOST_SHARDS))


def deal_out_features(indptr: Any, indices: Any, n_features: int) -> Integers:
    """Share out the features of sparse rows among `MOST_SHARDS`, so that each row has about as many in each.

    Threads that have a part of the features wait for the one that has the most of them in a few rows. The
    most frequent ones are dealt first: those of few rows make up for what they left uneven.
    """
    n = int(np.searchsorted(indptr, DEALT_ENTRIES, side="right")) - 1  # rows that are looked at
    ends = indptr[: n + 1].astype(np.int32)
    held = indices[: ends[-1]].astype(np.int32, copy=False)
    columns = sparse.csr_array((np.ones(ends[-1], dtype=np.int8), held, ends), shape=(n, n_features)).tocsc()
    order = np.argsort(-np.diff(columns.indptr), kind="stable")
    found: Integers = loops.deal_features(order, columns.indptr, columns.indices, n, MOST_SHARDS)
    return found


def merge_shards(dealt: Integers, n: int) -> Integers:
    """The shard of each feature where there are n of them, a power of two, instead of `MOST_SHARDS`."""
    return dealt * n // MOST_SHARDS


def sharded(shard: Integers, n: int, entries: Entries) -> ShardedEntries:
    """Entries of each row ordered by the shard of their features."""
    found: ShardedEntries = loops.order_by_shard(shard, n, entries)
    return found


CLASSES_A_PART = 64  # at least: with fewer, some threads would have much to do for a row and others nothing
LINE = 8  # classes: a cache line of weights, to which two threads should not write


@dataclass(frozen=True)
class Grid:
    """Parts of the weights: the features in `n_slots` parts times the classes in `n_ranges`.

    Examples
    --------
    >>> Grid.of(8, 8, 1000), Grid.of(8, 4, 20), Grid.of(3, 1, 1000)
    (Grid(n_slots=8, n_ranges=1, n_shards=8, n_classes=1000), Grid(n_slots=4, n_ranges=1, n_shards=4, \
n_classes=20), Grid(n_slots=1, n_ranges=3, n_shards=1, n_classes=1000))
    """

    n_slots: int
    n_ranges: int
    n_shards: int
    n_classes: int

    @classmethod
    def of(cls, n: int, n_shards: int, n_classes: int) -> Grid:
        """As many parts as there are threads, or as there is work for.

        Features are cut first: a thread then reads weights that lie side by side.
        """
        best = cls(1, 1, n_shards, n_classes)
        for n_ranges in range(min(n, max(n_classes // CLASSES_A_PART, 1)), 0, -1):
            n_slots = find_power_of_two(min(n // n_ranges, n_shards))
            if n_slots * n_ranges >= best.n_parts:
                best = cls(n_slots, n_ranges, n_shards, n_classes)
        return best

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.n_slots * self.n_ranges

    def share(self, t: int) -> Share:
        """Part t of weights that are held as a whole."""
        slot, k = divmod(t, self.n_ranges)
        each = self.n_shards // self.n_slots
        low, high = find_class_range(k, self.n_ranges, 0, self.n_classes)
        return Share(slot * each, (slot + 1) * each, low, high, 0, slot)


def find_class_range(k: int, n: int, low: int, high: int) -> tuple[int, int]:
    """The k-th of n ranges of the classes low … high, where they are many cut at whole cache lines."""
    line = LINE if high - low >= n * CLASSES_A_PART else 1
    lines = -(-(high - low) // line)
    first = low + line * (lines * k // n)
    last = low + line * (lines * (k + 1) // n)
    return min(first, high), min(last, high)


def find_power_of_two(n: int) -> int:
    """The largest power of two that is at most n."""
    return 1 << (max(n, 1).bit_length() - 1)
