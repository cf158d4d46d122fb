"""Rows that several threads solve together where all classes form one bundle."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tellwhy.classifiers.svm.blocks import Group, Lists, Workers
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.threads import (
    _compiled_batches as batch_loops,
    _compiled_lanes as lane_loops,
    _compiled_team as team_loops,
)
from tellwhy.classifiers.svm.threads._compiled_meeting import LINE
from tellwhy.classifiers.svm.threads.row_batches import LANE_DEPTH, LANES, Batches, Shards
from tellwhy.core.score_function import Integers

TRIAL = 8  # one of so many batches is visited by one thread, and one by all, to see which is faster
TRIAL_EVERY, TRIALS_KEPT = 4, 2  # sweeps, trials
TRIAL_ROWS, TRIAL_BATCHES = 64, 2  # at least
WORTH_LANES = 1.6  # lanes that could be visited at the same time
ROWS_TRIED = 2_000  # to see whether lanes are worth it
WORTH_MEETING = 1_000  # entries of a row times classes: with less work threads would wait more than they gain
MUCH_WORK = 20_000  # the same: with less, threads meet only every few rows
BATCH = 8  # rows then
FRESH_ENTRIES = 250_000  # of variables that a call makes room for

Manner = tuple[int, float, bool]  # patience, calm, and whether rows are solved exactly


class Pace:
    """Whether all threads or one visit the rows, by what was faster: threads that wait for a core cost more than none.

    The best of the latest trials counts, as whatever else runs on the machine only ever makes a trial slower.
    Results do not depend on it.
    """

    def __init__(self, n_threads: int, rows_a_batch: int = 1):
        self.seconds: dict[int, deque[float]] = {
            n: deque(maxlen=TRIALS_KEPT) for n in (n_threads, 1)
        }  # per batch
        self.least, self.sweeps = max(TRIAL_ROWS // rows_a_batch, TRIAL_BATCHES), 0

    def share(self, order: Integers, visit: Callable[[Integers, int], Any]) -> None:
        """Call `visit(batches, number of threads)` for consecutive parts of the batches, the same ones at any pace."""
        trial = len(order) // TRIAL
        if trial < self.least:
            visit(order, 1)
            return
        first = 0
        if self.sweeps % TRIAL_EVERY == 0:
            first = 2 * trial
            for i, n in enumerate(
                (1, max(self.seconds))
            ):  # one thread first, as a first call may have to compile
                self._timed(order[i * trial : (i + 1) * trial], n, visit)
        self.sweeps += 1
        visit(order[first:], min(self.seconds, key=lambda n: min(self.seconds[n])))

    def _timed(self, part: Integers, n: int, visit: Callable[[Integers, int], Any]) -> None:
        started = time.perf_counter()
        visit(part, n)
        self.seconds[n].append((time.perf_counter() - started) / len(part))


class RowTeam(ABC):
    """Sweeps over all rows and classes; `W`, `group` and `piece` are those of an engine with one bundle."""

    def __init__(
        self, problem: Problem, group: Group, W: Any, piece: Lists, workers: Workers, *, size: int, most: int
    ):
        """`size`: rows of a batch at most; `most`: threads that it has work for."""
        self.m, self.group, self.W, self.piece, self.workers = problem.n_classes, group, W, piece, workers
        self.problem, self.batches = problem, Batches.none()
        n, self.size = min(workers.n_threads, most), size
        self.dense_pace, self.pace = Pace(n, size), Pace(n, size)

    def sweep_all(self, rng: np.random.Generator, exact: bool) -> None:
        """Visit every variable of all rows."""
        self._compose(rng.permutation(len(self.group.rows)))
        self.dense_pace.share(
            rng.permutation(len(self.batches)), lambda batches, n: self._in_calls(batches, n, exact)
        )

    def _in_calls(self, order: Integers, n: int, exact: bool) -> None:
        """Visit every variable of the rows of some batches, by calls that list not too many variables each."""
        calls = (np.cumsum(self.batches.sizes[order]) * self.m - 1) // FRESH_ENTRIES
        for part in np.split(order, np.flatnonzero(np.diff(calls)) + 1):
            self._all(part, n, exact)

    def sweep(self, rng: np.random.Generator, calm: float, patience: int, exact: bool) -> list[Any]:
        """Visit the listed variables of rows that were not calm before; results as of `sweep_pairs`."""
        piece, violation = self.piece, np.full(len(self.group.rows), -1.0)
        self._keep_composed(rng)
        order = self.batches.with_any((piece.count > 0) & (piece.idle < patience))
        manner = (patience, calm, exact)
        self.pace.share(
            rng.permutation(order), lambda batches, n: self._listed(batches, n, manner, violation)
        )
        visited = violation[violation >= 0]
        return [(visited.max(initial=0.0), visited.sum(), len(visited))]

    def _keep_composed(self, rng: np.random.Generator) -> None:
        """Compose batches anew where a row is missing, or where fewer than half of them are listed."""
        listed = np.flatnonzero(self.piece.count)
        missing = np.setdiff1d(listed, self.batches.members, assume_unique=True)
        if len(missing) or 2 * len(listed) < len(self.batches.members):
            self._compose(rng.permutation(listed))

    def _together(self, sweep: Any, arguments: tuple[Any, ...]) -> list[Any]:
        """Let threads sweep; `arguments` begin with how many they are, and the counters by which they meet."""
        n, team = arguments[:2]
        try:
            return self.workers.map(lambda t: sweep(t, *arguments), range(n))
        except BaseException:
            team[:] = np.iinfo(team.dtype).max  # those that run must not wait for one that never starts
            raise

    @abstractmethod
    def _compose(self, order: Integers) -> None:
        """Put rows into batches, in about this order."""

    @abstractmethod
    def _all(self, order: Integers, n: int, exact: bool) -> None:
        """Visit every variable of the rows of some batches with n threads."""

    @abstractmethod
    def _listed(self, order: Integers, n: int, manner: Manner, violation: Any) -> None:
        """Visit the listed variables of the rows of some batches with n threads; sets their violations."""

    def _rows(self) -> tuple[Any, ...]:
        g = self.group
        return g.rows, g.labels, g.norms, g.tops, g.totals

    def _lists(self) -> tuple[Any, ...]:
        return self.W, self.piece.start, self.piece.count, self.piece.cls, self.piece.val

    def _width(self) -> int:
        return int(self.piece.count.max(initial=1)) + LINE


class LaneTeam(RowTeam):
    """Rows with few features: threads visit lanes of a batch that have none in common."""

    def __init__(self, problem: Problem, group: Group, W: Any, piece: Lists, workers: Workers):
        super().__init__(problem, group, W, piece, workers, size=LANES * LANE_DEPTH, most=LANES)

    def _compose(self, order: Integers) -> None:
        self.batches = Batches.in_lanes(order, self.problem)

    def _given(self, n: int, order: Integers) -> tuple[Any, ...]:
        team, tasks = np.zeros(LINE * n, dtype=np.int64), np.zeros(len(order), dtype=np.int64)
        return n, team, tasks, order, self.batches.at, self.batches.members, *self._rows()

    def _entries(self) -> tuple[Any, ...]:
        p = self.problem
        return self.m, p.indptr, p.indices, p.values, *self._lists()

    def _all(self, order: Integers, n: int, exact: bool) -> None:
        piece, sizes, width, owned = self.piece, self.batches.sizes[order], self.m + LINE, self.group.owned
        piece.make_room(int(sizes.sum()) * self.m)
        slots = piece.used + self.m * (np.cumsum(sizes) - sizes)
        arguments = (
            *self._given(n, order), owned.at, owned.owned, *self._entries(), slots, exact, np.empty((n, 3, width)),
            np.empty((n, width), dtype=self.W.dtype),
        )  # fmt: skip
        self._together(lane_loops.sweep_lanes_all, arguments)
        held = (piece.start, piece.count, piece.cls, piece.val)
        piece.used = batch_loops.close_up(self.batches.rows_of(order), *held, piece.used)

    def _listed(self, order: Integers, n: int, manner: Manner, violation: Any) -> None:
        width, dtype = self._width(), self.W.dtype
        arguments = (
            *self._given(n, order), *self._entries(), self.piece.idle, *manner, np.empty((n, 3, width)),
            np.empty((n, width), dtype=dtype), np.empty((n, width), dtype=np.int64),
            np.empty((n, self.m + LINE), dtype=dtype), violation,
        )  # fmt: skip
        self._together(lane_loops.sweep_lanes, arguments)


class ShardTeam(RowTeam):
    """Rows with many features: each thread has some features of all rows, and they meet once a batch."""

    def __init__(self, problem: Problem, group: Group, W: Any, piece: Lists, workers: Workers):
        work = problem.n_classes * len(problem.indices) / max(len(problem.indptr) - 1, 1)
        self.shards, is_worth_it = Shards.of(problem), work >= WORTH_MEETING
        size = BATCH if is_worth_it and work < MUCH_WORK else 1
        super().__init__(
            problem, group, W, piece, workers, size=size, most=self.shards.n if is_worth_it else 1
        )

    def _compose(self, order: Integers) -> None:
        self.batches = Batches.of_size(self.size, order, self.problem, self.workers)

    def _given(self, n: int, order: Integers, width: int, dtype: Any) -> tuple[Any, ...]:
        """Batches, and what the shards contribute to the scores of the rows of one and of the next."""
        team, parts = (
            np.zeros(LINE * n, dtype=np.int64),
            np.empty((2, self.shards.n, self.size, width), dtype=dtype),
        )
        batches = self.batches
        return n, team, order, batches.at, batches.members, batches.products, parts, *self._rows()

    def _entries(self) -> tuple[Any, ...]:
        shards = self.shards
        return self.m, shards.cuts, shards.indices, shards.values, *self._lists()

    def _per_row(self, n: int, width: int) -> tuple[Any, ...]:
        """Room for each row of a batch in each thread: variables, steps and their sum."""
        shape = (n, self.size, width)
        return np.empty(shape), np.empty(shape, dtype=self.W.dtype), np.zeros((n, self.size + LINE))

    def _all(self, order: Integers, n: int, exact: bool) -> None:
        width, piece, owned = self.m + LINE, self.piece, self.group.owned
        piece.make_room(int(self.batches.sizes[order].sum()) * self.m)
        before, step, change = self._per_row(n, width)
        arguments = (
            *self._given(n, order, width, self.W.dtype), owned.at, owned.owned, *self._entries(), piece.used, exact,
            np.empty((n, 2, width)), before, step, change, np.zeros(change.shape, dtype=np.int64),
        )  # fmt: skip
        piece.used = self._together(team_loops.sweep_all_together, arguments)[0]

    def _listed(self, order: Integers, n: int, manner: Manner, violation: Any) -> None:
        width, dtype = self._width(), self.W.dtype
        before, step, change = self._per_row(n, width)
        whole, wide = np.zeros(change.shape, dtype=np.int64), (n, self.m + LINE)
        arguments = (
            *self._given(n, order, width, np.float64), *self._entries(), self.piece.idle, *manner,
            np.empty((n, 3, width)), before, step, np.empty(step.shape, dtype=np.int64), np.empty(wide, dtype=dtype),
            np.zeros(wide), whole, change, whole.copy(), violation,
        )  # fmt: skip
        self._together(team_loops.sweep_together, arguments)


def row_team(problem: Problem, group: Group, W: Any, piece: Lists, workers: Workers) -> RowTeam:
    """Threads that share lanes where rows have so few features in common that it pays, otherwise features."""
    some = np.random.default_rng(0).permutation(problem.n_examples)[:ROWS_TRIED]
    is_apart = Batches.in_lanes(some, problem).evenness >= WORTH_LANES
    return (LaneTeam if is_apart else ShardTeam)(problem, group, W, piece, workers)
