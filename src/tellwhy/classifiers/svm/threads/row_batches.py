"""Rows in batches, and how their features and entries are shared out among threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.classifiers.svm.blocks import Workers, ranges
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.threads import _compiled_batches as kernels
from tellwhy.core.score_function import Integers

LANES, LANE_DEPTH, OPEN_BATCHES = 4, 32, 16
ENTRIES_A_SHARD = 24  # at least
FEW_ENTRIES_A_SHARD = 8  # the same with many classes, where each entry is more work
MANY_CLASSES = 256
MOST_SHARDS = 8
BATCHES_A_TASK = 256


@dataclass(frozen=True)
class Batches:
    """Rows by batches: those of lane k of batch b are members[at[b, k] : at[b, k + 1]].

    `products[q, j]` is the inner product of the row at q with the j-th row of its batch, for those before it;
    batches of several lanes need none.
    """

    members: Integers
    at: Integers
    products: Any = None

    @classmethod
    def none(cls) -> Batches:
        """No rows."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64))

    @classmethod
    def in_lanes(cls, order: Integers, problem: Problem) -> Batches:
        """Batches of lanes that have no feature in common, of rows in about this order."""
        p = problem
        shape = (LANES, LANE_DEPTH, OPEN_BATCHES)
        return cls(*kernels.rows_in_lanes(order, p.rows, p.indptr, p.indices, p.n_features, *shape))

    @classmethod
    def of_size(cls, size: int, order: Integers, problem: Problem, workers: Workers) -> Batches:
        """Batches of consecutive rows."""
        p, at = problem, np.array(ranges(len(order), size))
        products = np.empty((len(order), size))
        if size > 1:
            given = (at, order, p.rows, p.indptr, p.indices, p.values, p.n_features, products)
            tasks = ranges(len(at), BATCHES_A_TASK)
            workers.map(lambda task: kernels.inner_products(task[0], task[1], *given), tasks)
        return cls(order, at, products)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def sizes(self) -> Integers:
        """Rows of each batch."""
        return np.asarray(self.at[:, -1] - self.at[:, 0])

    @property
    def evenness(self) -> float:
        """How many lanes could be visited at the same time: all rows over those of the longest lanes."""
        return len(self.members) / max(int(np.diff(self.at, axis=1).max(axis=1, initial=0).sum()), 1)

    def rows_of(self, batches: Integers) -> Integers:
        """Rows of some batches, one batch after the other."""
        sizes = self.sizes[batches]
        inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray(self.members[np.repeat(self.at[batches, 0], sizes) + inside])

    def with_any(self, wanted: Any) -> Integers:
        """Batches with a row that is wanted."""
        hits = np.concatenate(([0], np.cumsum(wanted[self.members])))
        return np.flatnonzero(hits[self.at[:, -1]] > hits[self.at[:, 0]])


@dataclass(frozen=True)
class Shards:
    """Rows whose entries are ordered by shards of features: those of shard s are cuts[row, s] … cuts[row, s + 1]."""

    n: int
    cuts: Any
    indices: Any
    values: Any

    @classmethod
    def of(cls, problem: Problem) -> Shards:
        """Cut the features into as many shards as the entries of a row are worth, frequent and rare ones in each."""
        mean = problem.indptr[-1] / max(len(problem.indptr) - 1, 1)
        least = ENTRIES_A_SHARD if problem.n_classes < MANY_CLASSES else FEW_ENTRIES_A_SHARD
        n = int(np.clip(2 ** np.floor(np.log2(max(mean / least, 1))), 2, MOST_SHARDS))
        often = np.bincount(problem.indices, minlength=problem.n_features)
        turn = np.arange(problem.n_features) % (2 * n)
        shard = np.empty(problem.n_features, dtype=np.int64)
        shard[np.argsort(-often, kind="stable")] = np.minimum(turn, 2 * n - 1 - turn)
        return cls(n, *kernels.shard_rows(shard, n, problem.indptr, problem.indices, problem.values))
