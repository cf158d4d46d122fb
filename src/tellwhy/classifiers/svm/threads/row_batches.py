"""Rows in batches, and how their features and entries are shared out among threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.threads import _compiled_batches as loops
from tellwhy.classifiers.svm.threads.records import BatchArrays, BatchShape, ShardedEntries
from tellwhy.classifiers.svm.threads.workers import Workers, ranges
from tellwhy.core.score_function import Floats, Integers

PARTS = 4  # of a batch of separate parts: threads that find work in one at the same time
PART_DEPTH = 32  # examples of a part at most
OPEN_BATCHES = 16  # filled at the same time: the more, the likelier is one where a row fits
ENTRIES_A_SHARD = 24  # at least
FEW_ENTRIES_A_SHARD = 8  # the same with many classes, where each entry is more work
MANY_CLASSES = 256
MOST_SHARDS = 8
BATCHES_A_TASK = 256


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
    def of_size(cls, size: int, order: Integers, problem: Problem, workers: Workers) -> Batches:
        """Batches of consecutive examples, of one part each."""
        found = cls(order, np.array(ranges(len(order), size)), np.empty((len(order), size)))
        if size > 1:
            given = (found.arrays, problem.entries, problem.rows, problem.n_features)
            workers.map(lambda task: loops.inner_products(*task, *given), ranges(len(found), BATCHES_A_TASK))
        return found

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


@dataclass(frozen=True)
class Shards:
    """The features in n parts, and rows whose entries are ordered by them."""

    n: int
    entries: ShardedEntries

    @classmethod
    def of(cls, problem: Problem) -> Shards:
        """Cut the features into as many shards as the entries of a row are worth."""
        entries = problem.entries
        mean = entries.indptr[-1] / max(len(entries.indptr) - 1, 1)
        least = ENTRIES_A_SHARD if problem.n_classes < MANY_CLASSES else FEW_ENTRIES_A_SHARD
        n = int(np.clip(2 ** np.floor(np.log2(max(mean / least, 1))), 2, MOST_SHARDS))
        # Dealt out to and fro from the most frequent on (0 1 1 0 0 1 …), so that each has about as much work.
        often = np.bincount(entries.indices, minlength=problem.n_features)
        turn = np.arange(problem.n_features) % (2 * n)
        shard = np.empty(problem.n_features, dtype=np.int64)
        shard[np.argsort(-often, kind="stable")] = np.minimum(turn, 2 * n - 1 - turn)
        return cls(n, loops.shard_rows(shard, n, entries))
