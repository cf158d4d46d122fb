"""Sweeps over rows that several threads solve together, where all classes form one block.

`ThreadChoice` visits batches with all threads, or with fewer where the others would only be waited for.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm._compiled_lists import close_up
from tellwhy.classifiers.svm._compiled_steps import CACHE_PADDING
from tellwhy.classifiers.svm.dual_lists import DualLists
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.records import Barrier, Block, Examples, Sweep, Swept, Writer
from tellwhy.classifiers.svm.threads._compiled_barrier import LINE
from tellwhy.classifiers.svm.threads._compiled_sweeps import (
    sweep_separate,
    sweep_separate_dense,
    sweep_shards,
    sweep_shards_dense,
)
from tellwhy.classifiers.svm.threads.row_batches import (
    MANY_CLASSES,
    PART_DEPTH,
    PARTS,
    Batches,
    Grid,
    Workers,
    deal_out_features,
    merge_shards,
    n_shards,
    sharded,
)
from tellwhy.core.score import Floats, Integers

# One of so many batches is visited by all threads, one by half of them …, to see which is fastest: enough
# that it does not matter how long threads take to start.
TRIAL = 16
TRIAL_EVERY = 8  # sweeps: while few threads are tried, all others stand still
FEWEST = 8  # trials that a sweep must be worth, or one thread does it all
TRIALS_KEPT = 2
TRIAL_ROWS = 64  # at least
TRIAL_BATCHES = 2  # at least


class ThreadChoice:
    """Whether all threads, half of them, a quarter … or one visit the batches, by what was fastest.

    Threads that have to wait for a core cost more than none. The best of the latest trials counts, as
    whatever else runs on the machine only ever makes a trial slower. Results do not depend on it.
    """

    def __init__(self, n_threads: int, rows_a_batch: int = 1):
        # Seconds per batch of the latest trials, by number of threads.
        self.seconds: dict[int, deque[float]] = {}
        while n_threads > 1:
            self.seconds[n_threads] = deque(maxlen=TRIALS_KEPT)
            n_threads //= 2
        self.seconds[1] = deque(maxlen=TRIALS_KEPT)
        self.least = max(TRIAL_ROWS // rows_a_batch, TRIAL_BATCHES)
        self.sweeps = 0

    def share(self, order: Integers, visit: Callable[[Integers, int], Any]) -> None:
        """Call `visit(batches, number of threads)` for consecutive parts of the batches."""
        if len(order) < FEWEST * self.least:
            visit(order, 1)
            return
        trial = max(len(order) // TRIAL, self.least)
        first = 0
        if self.sweeps == 0:
            visit(order[:1], 1)  # which may have to compile: those that are timed find it compiled
            first = 1
        if self.sweeps % TRIAL_EVERY == 0:
            first = self._try(order, first, trial, visit)
        self.sweeps += 1
        visit(order[first:], min(self.seconds, key=lambda n: min(self.seconds[n], default=math.inf)))

    def _try(self, order: Integers, first: int, trial: int, visit: Callable[[Integers, int], Any]) -> int:
        """Time all threads, half of them and so on while that is faster; returns the first batch left."""
        least = math.inf
        is_slower = False
        for n in sorted(self.seconds, reverse=True):
            if is_slower:  # with fewer still it would take longer still
                self.seconds[n].clear()
                continue
            started = time.perf_counter()
            visit(order[first : first + trial], n)
            taken = (time.perf_counter() - started) / trial
            self.seconds[n].append(taken)
            is_slower = taken > least
            least = min(taken, least)
            first += trial
        return first


WORTH_SEPARATING = 1.6  # parts that could be visited at the same time
ROWS_TRIED = 2_000  # to see whether that is so
WORTH_SHARING = 1_000  # entries of a row times classes: with less work threads would wait more than they gain
BATCH = 8  # rows between two meetings
LARGE_BATCH = 16  # the same with many classes, where inner products are little work beside scores
MUCH_WORK = 50_000  # entries of a row times classes: its weights fill much of a core's cache,
SMALL_BATCH = 4  # so that those of more rows than this would be gone from it before they are moved
FRESH_ENTRIES = 1_000_000  # of variables that a call makes room for

Found = TypeVar("Found")


class RowSweeps(ABC):
    """Sweeps over all examples and classes, which move the weights and lists of an engine with one block."""

    def __init__(
        self,
        problem: Problem,
        examples: Examples,
        W: Any,
        lists: Any,
        workers: Workers,
        *,
        size: int,
        most_threads: int,
    ):
        """`size`: examples of a batch at most; `most_threads`: threads that it has work for.

        `lists` are `DualLists`, or such as are spread over ranks: what is read here are `lengths` and `idle`.
        """
        self.problem = problem
        self.examples = examples
        self.block = Block(W, 0, problem.n_classes)
        self.lists = lists
        self.workers = workers
        self.size = size
        self.batches = Batches.none()
        n = min(workers.n_threads, most_threads)
        self.dense_choice = ThreadChoice(n, size)
        self.choice = ThreadChoice(n, size)

    def sweep_all(self, rng: np.random.Generator, exact: bool) -> None:
        """Visit every variable of all examples."""
        self._compose(rng.permutation(len(self.examples.rows)))
        order = rng.permutation(len(self.batches))
        self._shared_out(self.dense_choice, order, lambda batches, n: self._visit_in_calls(batches, n, exact))

    def _shared_out(
        self, choice: ThreadChoice, order: Integers, visit: Callable[[Integers, int], None]
    ) -> None:
        """Visit batches with all threads, or with one where that is faster."""
        choice.share(order, visit)

    def _visit_in_calls(self, order: Integers, n: int, exact: bool) -> None:
        """Visit every variable of some batches, by calls that list not too many variables each."""
        calls = (np.cumsum(self.batches.sizes[order]) * self.block.n_classes - 1) // FRESH_ENTRIES
        for part in np.split(order, np.flatnonzero(np.diff(calls)) + 1):
            self._visit_all(part, n, exact)

    def sweep(self, rng: np.random.Generator, sweep: Sweep) -> Swept:
        """Visit the listed variables of examples that were not idle for too long."""
        violations = np.full(len(self.examples.rows), -1.0)
        self._keep_composed(rng)
        wanted = (self.lists.lengths > 0) & (self.lists.idle < sweep.patience)
        order = rng.permutation(self.batches.with_any(wanted))
        self._shared_out(
            self.choice, order, lambda batches, n: self._visit_listed(batches, n, sweep, violations)
        )
        visited = violations[violations >= 0]
        return Swept(visited.max(initial=0.0), visited.sum(), len(visited))

    def _keep_composed(self, rng: np.random.Generator) -> None:
        """Compose batches anew where an example is missing, or where fewer than half of them are listed."""
        is_missing = self.lists.lengths > 0
        listed = np.flatnonzero(is_missing)
        is_missing[self.batches.members] = False
        if is_missing.any() or 2 * len(listed) < len(self.batches.members):
            self._compose(rng.permutation(listed))

    def _together(self, n: int, sweep: Callable[[int, Barrier], Found]) -> list[Found]:
        """Let n threads call sweep(t, barrier)."""
        barrier = Barrier(n, np.zeros(LINE * n, dtype=np.int64))
        try:
            return self.workers.map(lambda t: sweep(t, barrier), range(n))
        except BaseException:
            # Those that run must not wait for one that an interrupt kept from starting.
            barrier.arrived[:] = np.iinfo(barrier.arrived.dtype).max
            raise

    @abstractmethod
    def _compose(self, order: Integers) -> None:
        """Put examples into batches, in about this order."""

    @abstractmethod
    def _visit_all(self, order: Integers, n: int, exact: bool) -> None:
        """Visit every variable of some batches with n threads."""

    @abstractmethod
    def _visit_listed(self, order: Integers, n: int, sweep: Sweep, violations: Floats) -> None:
        """Visit the listed variables of some batches with n threads; sets their violations."""


class SeparateRows(RowSweeps):
    """For rows with few features: each thread visits other rows, which have no feature in common."""

    def __init__(self, problem: Problem, examples: Examples, W: Any, lists: DualLists, workers: Workers):
        size = PARTS * PART_DEPTH
        super().__init__(problem, examples, W, lists, workers, size=size, most_threads=PARTS)

    def _compose(self, order: Integers) -> None:
        self.batches = Batches.separate(order, self.problem)

    def _visit_all(self, order: Integers, n: int, exact: bool) -> None:
        n_classes = self.block.n_classes
        sizes = self.batches.sizes[order]
        self.lists.make_room(int(sizes.sum()) * n_classes)
        places = self.lists.used + n_classes * (np.cumsum(sizes) - sizes)
        given = (*self._given(order), places, exact)
        self._together(n, lambda t, barrier: sweep_separate_dense(t, barrier, *given))
        self.lists.used = close_up(self.batches.examples_of(order), self.lists.arrays, self.lists.used)

    def _visit_listed(self, order: Integers, n: int, sweep: Sweep, violations: Floats) -> None:
        given = (*self._given(order), sweep, violations)
        self._together(n, lambda t, barrier: sweep_separate(t, barrier, *given))

    def _given(self, order: Integers) -> tuple[Any, ...]:
        """What both loops read; the first are counters by which threads take parts of each batch."""
        tasks = np.zeros(len(order), dtype=np.int64)
        entries = self.problem.entries
        return tasks, order, self.batches.arrays, entries, self.examples, self.block, self.lists.arrays


class ShardedRows(RowSweeps):
    """For rows with many features: each thread has a part of the weights, and they wait once a batch."""

    def __init__(self, problem: Problem, examples: Examples, W: Any, lists: DualLists, workers: Workers):
        entries = problem.entries
        mean = len(entries.indices) / max(len(entries.indptr) - 1, 1)
        self.n_shards = n_shards(mean, problem.n_classes)
        shard = np.zeros(problem.n_features, dtype=np.int64)
        if self.n_shards > 1:
            dealt = deal_out_features(entries.indptr, entries.indices, problem.n_features)
            shard = merge_shards(dealt, self.n_shards)
        self.entries = sharded(shard, self.n_shards, entries)
        is_worth_it = problem.n_classes * mean >= WORTH_SHARING
        size = batch_size(problem.n_classes, mean) if is_worth_it else 1
        most = Grid.of(workers.n_threads, self.n_shards, problem.n_classes).n_parts if is_worth_it else 1
        super().__init__(problem, examples, W, lists, workers, size=size, most_threads=most)

    def _compose(self, order: Integers) -> None:
        self.batches = Batches.of_size(self.size, order)
        if self.size > 1:
            part = (0, len(self.batches))
            products = self.batches.products
            self.batches.set_products(self.entries, self.problem, self.workers, part, products)

    def _visit_all(self, order: Integers, n: int, exact: bool) -> None:
        self.lists.make_room(int(self.batches.sizes[order].sum()) * self.block.n_classes)
        grid = Grid.of(n, self.n_shards, self.block.n_classes)
        partial = self._make_partial_scores(grid.n_slots, self.block.n_classes, self.block.weights.dtype)
        given = (*self._given(order), self.lists.used, exact)
        found = self._together(
            n, lambda t, barrier: sweep_shards_dense(t, barrier, *given, grid.share(t), partial, t == 0)
        )
        self.lists.used = found[0]

    def _visit_listed(self, order: Integers, n: int, sweep: Sweep, violations: Floats) -> None:
        grid = Grid.of(n, self.n_shards, self.block.n_classes)
        partial = self._make_partial_scores(
            grid.n_slots, int(self.lists.lengths.max(initial=1)) + 1, np.dtype(np.float64)
        )
        given = (*self._given(order), sweep)

        def visit(t: int, barrier: Barrier) -> None:
            writer = Writer(t == 0, 0, len(violations))
            sweep_shards(t, barrier, *given, grid.share(t), partial, writer, violations)

        self._together(n, visit)

    def _given(self, order: Integers) -> tuple[Any, ...]:
        return order, self.batches.arrays, self.entries, self.examples, self.block, self.lists.arrays

    def _make_partial_scores(self, n_slots: int, width: int, dtype: DTypeLike) -> Any:
        """Room for what each part contributes to the scores of the rows of one batch and of the next."""
        # Longer rows than needed: two threads never write to the same cache line.
        return np.empty((2, n_slots, self.size, width + CACHE_PADDING), dtype=dtype)


def batch_size(n_classes: int, mean_entries: float) -> int:
    """Rows between two meetings, where rows have so many entries."""
    if n_classes * mean_entries >= MUCH_WORK:
        return SMALL_BATCH
    return BATCH if n_classes < MANY_CLASSES else LARGE_BATCH


def row_sweeps(problem: Problem, examples: Examples, W: Any, lists: DualLists, workers: Workers) -> RowSweeps:
    """Separate rows where they have so few features in common that it pays, otherwise shared ones."""
    some = np.random.default_rng(0).permutation(problem.n_examples)[:ROWS_TRIED]
    pays = Batches.separate(some, problem).evenness >= WORTH_SEPARATING
    return (SeparateRows if pays else ShardedRows)(problem, examples, W, lists, workers)
