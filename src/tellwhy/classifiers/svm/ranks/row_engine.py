"""The two engines over several processes with MPI: each rank holds a part of the weights.

Weston–Watkins and Crammer–Singer: a rank has some of the features, and of these the weights of some of the
classes, as a `Plan` says. For a batch of rows all ranks compute what their parts contribute to the scores;
each then solves the same small problems and moves its own weights. Dual variables are spread by examples: a
rank holds those of its own, and what it reads of the others' comes in chunks. So everything that is large is
held once, over all ranks together. Steps, epochs and bits are those of one process.

Lee–Lin–Wahba and one-vs-rest: a rank holds all rows, but weights and dual variables of its own classes only;
all that travels is the sum of the weights over classes. The result is that of one process which visits the
same blocks in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tellwhy.classifiers.svm.dual_lists import ClassBlocks, Part, examples_of, gathered, make_aligned_zeros
from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.ranks import _compiled as loops
from tellwhy.classifiers.svm.ranks.exchange import (
    Messages,
    RankPart,
    SharedMemory,
    choose_exchange,
    largest,
    summed,
)
from tellwhy.classifiers.svm.ranks.rank_rows import (
    CHUNK_ENTRIES,
    UNIT,
    RankLists,
    RankRows,
    find_own_examples,
)
from tellwhy.classifiers.svm.records import Block, Examples, ListArrays, Share, Sweep
from tellwhy.classifiers.svm.solver import Certificate, Visit
from tellwhy.classifiers.svm.threads.row_batches import Workers, sharded
from tellwhy.core.score import Floats, Integers

SCORES_AT_ONCE = 8 * 2**20  # bytes of a certificate's scores, over all ranks


class RowEngine:
    """The part of a Weston–Watkins or Crammer–Singer problem that one rank holds.

    Parameters
    ----------
    problem
        All examples, with entries of the features that this rank holds, counted from its first.
    part
        The features and classes of this rank.
    comm
        An MPI communicator, or `Alone`.
    n_jobs
        Threads of each rank.
    seed
        Must be the same on all ranks: they draw the same orders of rows.
    """

    def __init__(
        self, problem: Problem, part: RankPart, *, comm: Any, n_jobs: int, seed: np.random.Generator
    ):
        self.problem = problem
        self.part = part
        self.comm = comm
        self.exchange: Messages | SharedMemory = choose_exchange(comm)
        self._rng = seed
        n = problem.n_examples
        dtype = problem.dtype
        sizes = np.bincount(problem.labels, minlength=problem.n_classes)
        self.blocks = ClassBlocks.of(sizes, 1, dtype.itemsize)
        self.examples = examples_of(problem, np.arange(n), self.blocks)
        width = -(-(part.high - part.low) // 16) * 16  # whole cache lines
        self.W = {0: make_aligned_zeros((len(part.features), max(width, 16)), dtype)}
        self.own = RankLists.empty(n, dtype, find_own_examples(comm.rank, comm.size, n))
        self.lists = {0: self.own.own}
        self.workers = Workers(n_jobs)
        self.entries = sharded(part.shards, part.n_shards, problem.entries)
        self.rows: RankRows = RankRows(
            problem,
            self.examples,
            self.W[0],
            self.own,
            self.workers,
            entries=self.entries,
            part=part,
            exchange=self.exchange,
        )

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        self.rows.sweep_all(self._rng, exact=True)

    def epoch(self, negligible: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out examples that were idle for `patience` visits."""
        return Visit.of([self.rows.sweep(self._rng, Sweep(patience, negligible, is_exact=True))])

    def restart(self, seed: np.random.Generator) -> None:
        """Forget everything but the dual variables, as a training that begins with them."""
        self._rng = seed
        self.rows.forget_batches()
        self.set_duals(self.duals())

    def certify(self, slack: float) -> Certificate:
        """Both objectives, and lists of every variable that may have to move."""
        own = self.own.own
        own.drop_zeros(self.workers)
        units = -(-self.problem.n_examples // UNIT)
        first = self.own.first // UNIT
        sums = np.zeros((3, -(-(self.own.last - self.own.first) // UNIT)))
        parts = list(self._certified(slack, sums)) or [Part(0, 0, own.classes[:0], own.duals[:0])]
        own.replace_parts(parts, self.workers)
        self.own.share_lengths(self.exchange)

        def fill(out: Any) -> None:
            out[:, first : first + sums.shape[1]] = sums

        every = self.exchange.gathered((3, units), np.float64, fill).copy()
        norm = self.half_norm()
        constant = self.problem.constant
        losses = float(every[0].sum()) + constant
        listed = int(self.own.lengths.sum(dtype=np.int64))
        return Certificate(
            norm + losses, float(every[1].sum()) + constant - norm, float(every[2].max(initial=0.0)), listed
        )

    def _certified(self, slack: float, sums: Floats) -> Iterator[Part]:
        """New lists of this rank's examples, some at a time; all ranks score those of all ranks."""
        n_ranks = self.comm.size
        bounds = [find_own_examples(rank, n_ranks, self.problem.n_examples) for rank in range(n_ranks)]
        bytes_a_row = self.part.plan.n_slots * self.problem.n_classes * self.problem.dtype.itemsize * n_ranks
        step = UNIT * max(SCORES_AT_ONCE // (bytes_a_row * UNIT), 1)
        for begin in range(0, max(last - first for first, last in bounds), step):
            pieces = [(min(a + begin, b), min(a + begin + step, b)) for a, b in bounds]
            at = np.concatenate(([0], np.cumsum([b - a for a, b in pieces])))
            scores = self._scores(pieces, at)[:, at[self.comm.rank] : at[self.comm.rank + 1]]
            first = pieces[self.comm.rank][0] - self.own.first
            yield from self._listed(first, scores, slack, sums)

    def _scores(self, pieces: list[tuple[int, int]], at: Integers) -> Any:
        """Scores of some examples of each rank, in parts of the features that are still to be added up."""
        share = self.part.share()
        tasks = [
            (a, min(a + UNIT, last), int(at[r]) + a - first)
            for r, (first, last) in enumerate(pieces)
            for a in range(first, last, UNIT)
        ]

        def fill(out: Any) -> None:
            given = (self.entries, self.examples, self.W[0], share, out)
            self.workers.map(lambda task: loops.score_rows(*task, *given), tasks)

        shape = (self.part.plan.n_slots, int(at[-1]), self.problem.n_classes)
        return self.exchange.gathered(shape, self.problem.dtype, fill)

    def _listed(self, first: int, scores: Any, slack: float, sums: Floats) -> list[Part]:
        """Judge this rank's examples from `first` on that have scores."""
        last = first + scores.shape[1]
        lists = self.own.own.arrays
        mine = _take_examples_from(self.examples, self.own.first, self.own.last)
        block = Block(self.W[0], 0, self.problem.n_classes)
        step = UNIT * max(-(-(last - first) // (UNIT * self.workers.n_threads)), 1)

        def certified(a: int) -> Part:
            b = min(a + step, last)
            found = loops.certify_rows(a, b, a - first, UNIT, scores, mine, block, lists, slack, *sums)
            return Part(a, b, *found)

        return self.workers.map(certified, range(first, last, step))

    def half_norm(self) -> float:
        """½ ‖W‖², summed in the same order however the weights are cut."""
        size = self.part.plan.size
        each = self.part.n_shards
        mine = np.zeros((each, self.part.high - self.part.low))
        loops.add_shard_squares(self.W[0], self.part.shards, mine.shape[1], mine)

        def fill(out: Any) -> None:
            slot = self.part.slot
            out[slot * each : (slot + 1) * each, self.part.low : self.part.high] = mine

        squares = self.exchange.gathered((size.n_shards, self.problem.n_classes), np.float64, fill)
        return 0.5 * float(squares.sum(axis=0).sum())

    def duals(self) -> Any:
        """Dual variables of this rank's examples, as a table of all examples × classes."""
        examples = np.arange(self.own.first, self.own.last)
        parts = [self.own.own.nonzeros(examples, self.blocks.members[0])]
        return gathered(parts, (self.problem.n_examples, self.problem.n_classes))

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables, all examples × classes, of which this rank takes its own."""
        own = self.own
        mine = table[own.first : own.last][:, self.blocks.members[0]]
        own.own.set_from(mine, self.problem.dtype)
        own.share_lengths(self.exchange)
        self.W[0][:] = 0
        ends = np.cumsum(own.lengths, dtype=np.int64)
        cuts = np.flatnonzero(np.diff((ends - 1) // CHUNK_ENTRIES)) + 1
        for examples in np.split(np.arange(len(ends)), cuts):
            if len(examples):
                chunk, _ = own.chunk(examples, self.exchange)
                given = (examples, self.entries, self.examples, self.W[0])

                def add(share: Share, given: Any = given, chunk: ListArrays = chunk) -> None:
                    loops.add_variables(*given, share, chunk)

                self.workers.map(add, self.rows.shares)
                self.exchange.wait()  # others may still read what the next chunk overwrites

    def class_rows(self, classes: Integers) -> Any:
        """Weights of some classes × all features, which all ranks put together."""
        at = self.blocks.position[classes]
        mine = np.flatnonzero((at >= self.part.low) & (at < self.part.high))

        def fill(out: Any) -> None:
            out[np.ix_(mine, self.part.features)] = self.W[0][:, at[mine] - self.part.low].T

        size = self.part.plan.size
        return self.exchange.gathered((len(classes), size.n_features), self.problem.dtype, fill)

    def weights(self) -> Any:
        """Weights of all classes, features × classes."""
        return np.array(self.class_rows(np.arange(self.problem.n_classes))).T

    def forget_duals(self) -> None:
        """Free the dual variables: only weights are left."""
        self.lists = {}
        del self.own, self.rows

    def close(self) -> None:
        """End the threads."""
        self.workers.close()

    def release(self) -> None:
        """Free what ranks share in memory, after the weights were read; all ranks do so together."""
        if isinstance(self.exchange, SharedMemory):
            self.exchange.close()


def _take_examples_from(examples: Examples, first: int, last: int) -> Examples:
    """The examples first … last, counted from 0."""
    part = slice(first, last)
    return examples._replace(
        rows=examples.rows[part],
        labels=examples.labels[part],
        squares=examples.squares[part],
        caps=examples.caps[part],
        sum_caps=examples.sum_caps[part],
        own_at=examples.own_at[first : last + 1],
    )


class RankSingleEngine(SingleEngine):
    """The part of a Lee–Lin–Wahba or one-vs-rest problem that one rank holds: all rows, some classes.

    `sizes` are the numbers of examples of each class; a rank has so many `blocks`, one for each thread unless
    told.
    """

    def __init__(
        self,
        problem: Problem,
        sizes: Integers,
        *,
        comm: Any,
        n_jobs: int,
        seed: np.random.Generator,
        blocks: int | None = None,
    ):
        self.comm = comm
        each = blocks or n_jobs
        cut = ClassBlocks.of(sizes, each * comm.size, problem.dtype.itemsize)
        self._set_up(problem, cut, range(each * comm.rank, each * (comm.rank + 1)), n_jobs, seed)

    def epoch(self, negligible: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out examples that were idle before."""
        mine = super().epoch(negligible, patience)
        total = summed(self.comm, np.array([mine.mean * mine.visited, mine.visited], dtype=np.float64))
        return Visit(largest(self.comm, mine.worst), float(total[0] / max(total[1], 1)), int(total[1]))

    def certify(self, slack: float) -> Certificate:
        """Both objectives over all ranks, and lists of every variable that may have to move."""
        mine = super().certify(slack)
        constant = self.problem.constant
        ours = np.array([mine.primal - constant, mine.dual - constant, mine.listed], dtype=np.float64)
        total = summed(self.comm, ours)
        return Certificate(
            float(total[0]) + constant,
            float(total[1]) + constant,
            largest(self.comm, mine.worst),
            int(total[2]),
        )

    def recentre(self) -> None:
        """Set w̄ from the sum of the weights over the classes of all ranks."""
        if self._is_centred:
            self.centre = -summed(self.comm, self._sum_over_classes()) / self.problem.n_classes

    def switch_method(self, tol: float) -> Any:  # noqa: ARG002
        """Models that are spread over ranks are too large for it."""
        return None

    @property
    def _may_stretch(self) -> bool:
        """No: a rank has the scores of its own classes only."""
        return False

    def class_rows(self, classes: Integers) -> Any:
        """Weights of some classes × all features, which all ranks put together."""
        return summed(self.comm, super().class_rows(classes))
