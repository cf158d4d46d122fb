"""Rows that several threads solve together where all classes form one bundle."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.classifiers import _compiled_team as kernels
from tellwhy.classifiers.blocks import Group, Lists, Workers
from tellwhy.classifiers.problem import Problem
from tellwhy.core.score_function import Integers

ENTRIES_A_SHARD = 24  # at least
FEW_ENTRIES_A_SHARD = 8  # the same with many classes, where each entry is more work
MANY_CLASSES = 256
MOST_SHARDS = 8
TRIAL = 8  # one of so many rows is visited by one thread, and one by all, to see which is faster
TRIAL_EVERY = 4  # sweeps
TOO_FEW = 32  # rows for a trial
WORTH_MEETING = 20_000  # entries of a row times classes: with less work threads would wait more than they gain
FRESH_ENTRIES = 4_000_000  # of variables that a call makes room for


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


class Pace:
    """Whether all threads or one visit the rows, by what was faster: threads that wait for a core cost more than none.

    Results do not depend on it.
    """

    def __init__(self, n_threads: int):
        self.seconds = dict.fromkeys((n_threads, 1), 0.0)  # per row
        self.sweeps = 0

    def share(self, order: Integers, visit: Callable[[Integers, int], Any]) -> list[Any]:
        """Results of `visit(rows, number of threads)` for consecutive parts of the rows, the same ones at any pace."""
        trial = len(order) // TRIAL
        if trial < TOO_FEW:
            return [visit(order, 1)]
        found, first = [], 0
        if self.sweeps % TRIAL_EVERY == 0:
            counts, first = (max(self.seconds), 1), 2 * trial
            found = [self._timed(order[i * trial : (i + 1) * trial], n, visit) for i, n in enumerate(counts)]
        self.sweeps += 1
        best = min(self.seconds, key=lambda n: self.seconds[n])
        return [*found, visit(order[first:], best)]

    def _timed(self, part: Integers, n: int, visit: Callable[[Integers, int], Any]) -> Any:
        started = time.perf_counter()
        result = visit(part, n)
        now = (time.perf_counter() - started) / len(part)
        self.seconds[n] = 0.5 * (self.seconds[n] + now) if self.seconds[n] else now
        return result


class RowTeam:
    """Sweeps over all rows and classes; `W`, `group` and `piece` are those of an engine with one bundle."""

    def __init__(self, problem: Problem, group: Group, W: Any, piece: Lists, workers: Workers):
        self.m, self.group, self.W, self.piece, self.workers = problem.n_classes, group, W, piece, workers
        self.shards = Shards.of(problem)
        work = problem.n_classes * len(problem.indices) / max(len(problem.indptr) - 1, 1)
        n = min(workers.n_threads, self.shards.n) if work >= WORTH_MEETING else 1
        self.dense_pace, self.pace = Pace(n), Pace(n)

    def sweep_all(self, order: Integers, exact: bool) -> None:
        """Visit every variable of some rows."""
        rows = max(FRESH_ENTRIES // self.m, 1)
        for first in range(0, len(order), rows):
            self.dense_pace.share(order[first : first + rows], lambda part, n: self._all(part, n, exact))

    def sweep(self, order: Integers, calm: float, patience: int, exact: bool) -> list[Any]:
        """Visit the listed variables of rows that were not calm before; results as of `sweep_pairs`."""
        piece = self.piece
        order = order[(piece.count[order] > 0) & (piece.idle[order] < patience)]
        return self.pace.share(order, lambda part, n: self._listed(part, n, calm, exact))

    def _rows(self, order: Integers) -> tuple[Any, ...]:
        g = self.group
        return order, g.rows, g.labels, g.norms, g.tops, g.totals

    def _entries(self) -> tuple[Any, ...]:
        piece, shards = self.piece, self.shards
        held = (piece.start, piece.count, piece.cls, piece.val)
        return (self.m, shards.cuts, shards.indices, shards.values, self.W, *held)

    def _all(self, order: Integers, n: int, exact: bool) -> None:
        width, dtype, piece = self.m + kernels.LINE, self.W.dtype, self.piece
        piece.make_room(len(order) * self.m)
        arguments = (
            *_meeting(n, self.shards.n, width, dtype), *self._rows(order), self.group.owned.at, self.group.owned.owned,
            *self._entries(), piece.used, exact, np.empty((n, 4, width)), np.empty((n, width), dtype=dtype),
        )  # fmt: skip
        piece.used = self.workers.map(lambda t: kernels.sweep_all_together(t, n, *arguments), range(n))[0]

    def _listed(self, order: Integers, n: int, calm: float, exact: bool) -> tuple[float, float, int]:
        width, dtype, found = int(self.piece.count[order].max(initial=1)) + kernels.LINE, self.W.dtype, np.zeros(2)
        arguments = (
            *_meeting(n, self.shards.n, width, np.float64), *self._rows(order), *self._entries(), self.piece.idle,
            calm, exact, np.empty((n, 4, width)), np.empty((n, width), dtype=dtype),
            np.empty((n, width), dtype=np.int64), np.empty((n, self.m + kernels.LINE), dtype=dtype), found,
        )  # fmt: skip
        self.workers.map(lambda t: kernels.sweep_together(t, n, *arguments), range(n))
        return float(found[0]), float(found[1]), len(order)


def _meeting(n: int, n_shards: int, width: int, dtype: Any) -> tuple[Any, Any]:
    """Counters of the threads, and what the shards contribute to the scores of a row and of the next one."""
    return np.zeros(kernels.LINE * n, dtype=np.int64), np.empty((2, n_shards, width), dtype=dtype)
