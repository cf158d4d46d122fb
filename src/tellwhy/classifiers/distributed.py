"""Multi-class SVMs over several processes with MPI: each rank holds the weights of some classes.

Weston–Watkins: a rank holds the rows of its classes, their dual variables and the weights of its classes, in two halves
of several bundles. Ranks meet in the rounds of the same schedule as classes do. When two ranks meet, each borrows half
of the other's weights at a time, works on its own rows against them and gives them back; as they borrow opposite
halves, both work at the same time on disjoint weights. Only weights travel that the rows to be visited will read: those
of their features and listed classes. Rows and dual variables never travel.

Lee–Lin–Wahba and one-vs-rest: a rank holds all rows, but weights and dual variables of its own classes only; all that
travels is the sum of the weights over classes.

The kernels are those that run in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.classifiers import _compiled_exchange as kernels
from tellwhy.classifiers.blocks import Bundles, aligned_zeros
from tellwhy.classifiers.pair_engine import PairEngine, Sums
from tellwhy.classifiers.problem import Problem
from tellwhy.classifiers.rank_messages import Asking, Post, Request
from tellwhy.classifiers.schedule import rounds
from tellwhy.classifiers.single_engine import SingleEngine
from tellwhy.classifiers.solver import Certificate, Visit
from tellwhy.core.score_function import Integers

PARTS = 5  # of the rows, an epoch: more mix better, fewer travel less
SUMMED_ROWS = 4096  # of weights that are summed over ranks at once
NOTHING = Request(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))
HALVES = ((0, 0), (0, 1), (1, 1), (1, 0))  # (own half, half of the other) of the lower rank, in turn

Part = dict[int, Integers]  # which examples of each group
Ask = Callable[[tuple[int, int], Integers, int], None]  # names what a block needs of the weights from a row on
Visiting = Callable[[tuple[int, int], Integers], Any]


@dataclass(frozen=True)
class Meeting:
    """Rows of half `mine` of this rank meet the classes of half `theirs` of another."""

    other: int
    mine: int
    theirs: int


class RankPairEngine(PairEngine):
    """The part of a Weston–Watkins problem that one rank holds.

    Parameters
    ----------
    problem
        The examples whose labels this rank holds; classes are counted over all ranks.
    sizes
        Number of examples of each class over all ranks.
    comm
        An MPI communicator.
    n_jobs
        Threads of each rank; all ranks must have as many.
    half
        Bundles in each half of a rank, one for each thread unless told.
    """

    def __init__(
        self,
        problem: Problem,
        sizes: Integers,
        *,
        comm: Any,
        n_jobs: int,
        seed: np.random.Generator,
        half: int | None = None,
    ):
        self.comm, self.half = comm, half or n_jobs
        bundles = self._bundled(sizes, comm.size, self.half, problem.values.dtype)
        own = range(2 * self.half * comm.rank, 2 * self.half * (comm.rank + 1))
        self._set_up(problem, bundles, own, n_jobs, seed)
        self._make_room()
        self.meetings = self._meetings()

    @staticmethod
    def _bundled(sizes: Integers, n_ranks: int, half: int, dtype: Any) -> Bundles:
        return Bundles.of(sizes, 2 * half * n_ranks, np.dtype(dtype).itemsize)

    @classmethod
    def owners(cls, sizes: Integers, n_ranks: int, half: int, dtype: Any) -> Integers:
        """The rank that holds each class."""
        bundles = cls._bundled(sizes, n_ranks, half, dtype)
        return bundles.position // bundles.width // (2 * half)

    def _make_room(self) -> None:
        """Let the own weights lie in one matrix, and have one for those of half a rank, wherever they come from."""
        d, width, dtype = self.problem.n_features, self.bundles.width, self.problem.values.dtype
        self.held = aligned_zeros((2 * self.half * d, width), dtype)
        self.room = aligned_zeros((self.half * d * (self.comm.size > 1), width), dtype)
        self.asking = Asking(len(self.room), width)
        self.post = Post(self.comm, self.asking.kind)
        for b in range(len(self.bundles)):
            matrix, at = (self.held, b - self.own[0]) if b in self.own else (self.room, b % self.half)
            self.W[b] = matrix[at * d : (at + 1) * d]

    def _bundles_of(self, rank: int, half: int) -> range:
        first = 2 * self.half * rank + self.half * half
        return range(first, first + self.half)

    def _half_held(self, half: int) -> Any:
        n = len(self.held) // 2
        return self.held[half * n : (half + 1) * n]

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        self._meet_everyone(self._dense, self._ask_for_all)

    def epoch(self, calm: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out rows that were calm before."""

        def ask(block: tuple[int, int], order: Integers, first: int) -> None:
            rows, m = self.groups[block[0]].rows, len(self.bundles.members[block[1]])
            self.asking.listed(order, rows, self.problem, first, piece=self.lists[block], patience=patience, m=m)

        found = self._meet_everyone(lambda block, order: self._sparse(block, order, calm, patience), ask)
        sums = np.array([sum(f[1] for f in found), sum(f[2] for f in found)], dtype=np.float64)
        total = _summed(self.comm, sums)
        return Visit(_largest(self.comm, max(f[0] for f in found)), float(total[0] / max(total[1], 1)), int(total[1]))

    def certify(self, slack: float) -> Certificate:
        """Both objectives over all ranks, and lists of every variable that may have to move."""
        found = [self._certified([(g, b) for g in self.own for b in self.own], slack)]
        everyone = {g: np.arange(len(group.rows)) for g, group in self.groups.items()}
        for other in self._opponents():
            for half in (0, 1):
                foreign = self._bundles_of(other, half)
                asked = self._ask(self._ask_for_all, everyone, other, self.own, foreign)
                self._borrow(other, asked, self._half_held(half))
                found.append(self._certified([(g, b) for g in self.own for b in foreign], slack))
        self.post.finish()
        mine = self._certificate(Sums(sum(f.losses for f in found), sum(f.mass for f in found), 0.0))
        total = _summed(self.comm, np.array([mine.primal, mine.dual, mine.listed], dtype=np.float64))
        worst = _largest(self.comm, max(f.worst for f in found))
        return Certificate(float(total[0]), float(total[1]), worst, int(total[2]))

    def _opponents(self) -> list[int]:
        """The ranks that this one meets, in the order of the rounds."""
        me = self.comm.rank
        found = [b if a == me else a for pairs in rounds(self.comm.size) for a, b in pairs if me in (a, b)]
        return [int(other) for other in found]

    def _meetings(self) -> list[Meeting]:
        """The meetings of one part of the rows; the higher rank takes what the lower neither works with nor lends."""
        return [
            Meeting(other, mine, theirs) if self.comm.rank < other else Meeting(other, 1 - theirs, 1 - mine)
            for other in self._opponents()
            for mine, theirs in HALVES
        ]

    def _meet_everyone(self, visit: Visiting, ask: Ask) -> list[Any]:
        """Let all bundles meet: those of this rank, then those of the ranks it meets, a part of the rows at a time.

        What a meeting needs is told the other rank before the work of the meeting before it.
        """
        orders = {g: self._rng.permutation(len(group.rows)) for g, group in self.groups.items()}
        parts = [{g: order[i::PARTS] for g, order in orders.items()} for i in range(PARTS)]
        ahead = iter([(part, meeting) for part in parts for meeting in self.meetings])

        def ask_ahead() -> Request:
            for part, meeting in ahead:
                ours = self._bundles_of(self.comm.rank, meeting.mine)
                return self._ask(ask, part, meeting.other, ours, self._bundles_of(meeting.other, meeting.theirs))
            return NOTHING

        found, asked = [], ask_ahead()
        for part in parts:
            found += self._meet_at_home(visit, part)
            for meeting in self.meetings:
                needed, lent = asked, self._half_held(1 - meeting.mine)
                theirs = self._borrow(meeting.other, needed, lent)
                asked = ask_ahead()
                found += self._work(visit, part, meeting)
                self.post.swap(meeting.other, (needed, self.room), (theirs, lent))
        self.post.finish()
        return found

    def _ask(self, ask: Ask, part: Part, other: int, ours: range, foreign: range) -> Request:
        """Tell another rank which weights of its bundles the rows of some of ours need."""
        for at, b in enumerate(foreign):
            for g in ours:
                ask((g, b), part[g], at * self.problem.n_features)
        request = self.asking.request()
        self.post.ask(other, request)
        return request

    def _ask_for_all(self, block: tuple[int, int], order: Integers, first: int) -> None:
        self.asking.all_of(order, self.groups[block[0]].rows, self.problem, first)

    def _borrow(self, other: int, needed: Request, lent: Any) -> Request:
        """Swap weights that were asked for; returns what the other rank asked for."""
        theirs = self.post.asked(other)
        self.post.swap(other, (theirs, lent), (needed, self.room))
        return theirs

    def _work(self, visit: Visiting, part: Part, meeting: Meeting) -> list[Any]:
        """Visit the rows of one half of this rank against the classes of half of another rank."""
        ours = self._bundles_of(self.comm.rank, meeting.mine)
        foreign = self._bundles_of(meeting.other, meeting.theirs)
        found: list[Any] = []
        for shift in range(self.half):
            pairs = [(ours[i], foreign[(i + shift) % self.half]) for i in range(self.half)]
            found += self.workers.map(lambda pair: visit(pair, part[pair[0]]), pairs)
        return found

    def _sparse(self, block: tuple[int, int], order: Integers, calm: float, patience: int) -> Any:
        (g, b), p = block, self.problem
        if g == b:
            return super()._sparse(block, order, calm, patience)
        group, own, piece = self.groups[g], self.lists[g, g], self.lists[block]
        return kernels.sweep_two_bundles(
            order, group.rows, group.labels, group.norms, group.tops, p.indptr, p.indices, p.values,
            len(self.bundles.members[g]), self.W[g], own.start, own.count, own.cls, own.val,
            len(self.bundles.members[b]), self.W[b], piece.start, piece.count, piece.cls, piece.val, piece.idle,
            patience, calm,
        )  # fmt: skip

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables of this rank's examples × all classes."""
        self.held[:] = 0
        for b in range(len(self.bundles)):
            if b not in self.own:
                self.W[b][:] = 0
            for g in self.own:
                self._set_block((g, b), table[self.groups[g].examples][:, self.bundles.members[b]])
            owner = b // (2 * self.half)
            for first in range(0, self.problem.n_features, SUMMED_ROWS):
                some = self.W[b][first : first + SUMMED_ROWS]
                total = np.empty(some.shape) if owner == self.comm.rank else None
                self.comm.Reduce(some.astype(np.float64), total, root=owner)
                if total is not None:
                    some[:] = total

    def own_weights(self) -> tuple[Integers, Any]:
        """Classes held here and their weights, features × classes."""
        classes = np.concatenate([self.bundles.members[b] for b in self.own])
        columns = [self.W[b][:, : len(self.bundles.members[b])] for b in self.own]
        return classes, np.concatenate(columns, axis=1)


class RankSingleEngine(SingleEngine):
    """The part of a Lee–Lin–Wahba or one-vs-rest problem that one rank holds: all rows, some classes."""

    def __init__(self, problem: Problem, sizes: Integers, *, comm: Any, n_jobs: int, seed: np.random.Generator):
        self.comm = comm
        per_rank = max(1, n_jobs)
        bundles = Bundles.of(sizes, per_rank * comm.size, problem.values.dtype.itemsize)
        self._set_up(problem, bundles, range(per_rank * comm.rank, per_rank * (comm.rank + 1)), n_jobs, seed)

    def epoch(self, calm: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out rows that were calm before."""
        mine = super().epoch(calm, patience)
        total = _summed(self.comm, np.array([mine.mean * mine.visited, mine.visited], dtype=np.float64))
        return Visit(_largest(self.comm, mine.worst), float(total[0] / max(total[1], 1)), int(total[1]))

    def certify(self, slack: float) -> Certificate:
        """Both objectives over all ranks, and lists of every variable that may have to move."""
        mine = super().certify(slack)
        constant = self.problem.constant
        ours = np.array([mine.primal - constant, mine.dual - constant, mine.listed], dtype=np.float64)
        total = _summed(self.comm, ours)
        return Certificate(
            float(total[0]) + constant, float(total[1]) + constant, _largest(self.comm, mine.worst), int(total[2])
        )

    def recentre(self) -> None:
        """Set w̄ from the sum of the weights over the classes of all ranks."""
        if self._centred:
            self.centre = -_summed(self.comm, self.tallies.sum(axis=0)) / self.problem.n_classes

    def own_weights(self) -> tuple[Integers, Any]:
        """Classes held here and their weights, features × classes."""
        self.recentre()
        classes = np.concatenate([self.bundles.members[b] for b in self.own])
        columns = [self.W[b][:, : len(self.bundles.members[b])] for b in self.own]
        return classes, np.concatenate(columns, axis=1) + self.centre[:, None].astype(self.problem.values.dtype)


def _summed(comm: Any, mine: Any) -> Any:
    total = np.empty_like(mine)
    comm.Allreduce(np.ascontiguousarray(mine), total)
    return total


def _largest(comm: Any, mine: float) -> float:
    every = np.empty(comm.size)
    comm.Allgather(np.array([mine], dtype=np.float64), every)
    return float(every.max())
