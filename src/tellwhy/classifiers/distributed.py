"""Multi-class SVMs over several processes with MPI: each rank holds the weights of some classes.

Weston–Watkins: a rank holds the rows of its classes, their dual variables and the weights of its classes, in two halves
of several bundles. Ranks meet in the rounds of the same schedule as classes do. When two ranks meet, each borrows half
of the other's weights at a time, works on its own rows against them and gives back what changed; as they borrow
opposite halves, both work at the same time on disjoint weights. Rows and dual variables never travel.

Lee–Lin–Wahba and one-vs-rest: a rank holds all rows, but weights and dual variables of its own classes only; all that
travels is the sum of the weights over classes.

The kernels are those that run in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tellwhy.classifiers.blocks import Bundles
from tellwhy.classifiers.pair_engine import PairEngine, Sums
from tellwhy.classifiers.problem import Problem
from tellwhy.classifiers.schedule import rounds
from tellwhy.classifiers.single_engine import SingleEngine
from tellwhy.classifiers.solver import Certificate, Visit
from tellwhy.core.score_function import Integers

LOOKS = 200
PARTS = 2  # of the rows, an epoch: more mix better, fewer travel less
HALVES = ((0, 0), (0, 1), (1, 1), (1, 0))  # (own half, half of the other) of the lower rank, in turn


def exchange(comm: Any, other: int, part: Any) -> Any:
    """Send bytes to another rank and receive those that it sends, of whatever length."""
    from mpi4py import MPI

    sending, status = comm.Isend([part, MPI.BYTE], other), MPI.Status()
    _wait(lambda: comm.Iprobe(source=other, status=status))
    received = np.empty(status.Get_count(MPI.BYTE), dtype=np.uint8)
    comm.Recv([received, MPI.BYTE], source=other)
    _wait(sending.Test)
    return received


def _wait(is_done: Callable[[], bool]) -> None:
    """Look often, then now and then: with more ranks than cores the others need this one's."""
    for _ in range(LOOKS):
        if is_done():
            return
    while not is_done():
        time.sleep(1e-4)


def packed(values: Any, before: Any = None) -> Any:
    """Bytes of the values that are not zero (or that differ from `before`) with their positions.

    Where that would be longer, all values; the number in front says how many positions there are, −1 for all.

    Examples
    --------
    >>> weights = np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0])
    >>> again = np.zeros(6)
    >>> unpack(packed(weights), again)
    >>> len(packed(weights)), again
    (24, array([0. , 0. , 0.5, 0. , 0. , 0. ]))
    """
    at = np.flatnonzero(values if before is None else values != before)
    sparse = len(at) * (8 + values.itemsize) < values.nbytes
    head = np.array([len(at) if sparse else -1], dtype=np.int64)
    parts = [head, at, values.ravel()[at]] if sparse else [head, np.ascontiguousarray(values).ravel()]
    return np.concatenate([part.view(np.uint8) for part in parts])


def unpack(part: Any, into: Any) -> None:
    """Write what `packed` made into an array of the same shape."""
    n = int(part[:8].view(np.int64)[0])
    if n < 0:
        into[...] = part[8:].view(into.dtype).reshape(into.shape)
    else:
        into.reshape(-1)[part[8 : 8 + 8 * n].view(np.int64)] = part[8 + 8 * n :].view(into.dtype)


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
    """

    def __init__(self, problem: Problem, sizes: Integers, *, comm: Any, n_jobs: int, seed: np.random.Generator):
        self.comm, self.half = comm, n_jobs
        bundles = self._bundled(sizes, comm.size, n_jobs, problem.values.dtype)
        own = range(2 * n_jobs * comm.rank, 2 * n_jobs * (comm.rank + 1))
        self._set_up(problem, bundles, own, n_jobs, seed)
        self._learn_needs()

    @staticmethod
    def _bundled(sizes: Integers, n_ranks: int, n_jobs: int, dtype: Any) -> Bundles:
        return Bundles.of(sizes, 2 * n_jobs * n_ranks, np.dtype(dtype).itemsize)

    @classmethod
    def owners(cls, sizes: Integers, n_ranks: int, n_jobs: int, dtype: Any) -> Integers:
        """The rank that holds each class."""
        bundles = cls._bundled(sizes, n_ranks, n_jobs, dtype)
        return bundles.position // bundles.width // (2 * n_jobs)

    def _learn_needs(self) -> None:
        """Tell all ranks which features the rows of each half of this rank have."""
        p, needs = self.problem, []
        for half in (0, 1):
            has = np.zeros(p.n_features, dtype=bool)
            for g in self._bundles_of(self.comm.rank, half):
                for row in self.groups[g].rows:
                    has[p.indices[p.indptr[row] : p.indptr[row + 1]]] = True
            needs.append(has)
        every = np.empty((self.comm.size, 2, p.n_features), dtype=bool)
        self.comm.Allgather(np.array(needs), every)
        self.needs = {(r, h): np.flatnonzero(every[r, h]) for r in range(self.comm.size) for h in (0, 1)}

    def _bundles_of(self, rank: int, half: int) -> range:
        first = 2 * self.half * rank + self.half * half
        return range(first, first + self.half)

    def epoch(self, calm: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out rows that were calm before."""
        found = self._meet(lambda block, order: self._sparse(block, order, calm, patience))
        sums = np.array([sum(f[1] for f in found), sum(f[2] for f in found)], dtype=np.float64)
        total = _summed(self.comm, sums)
        return Visit(_largest(self.comm, max(f[0] for f in found)), float(total[0] / max(total[1], 1)), int(total[1]))

    def certify(self, slack: float) -> Certificate:
        """Both objectives over all ranks, and lists of every variable that may have to move."""
        me, found = self.comm.rank, [self._certified([(g, b) for g in self.own for b in self.own], slack)]
        for other in self._opponents():
            for half in (0, 1):
                lent = np.union1d(self.needs[other, 0], self.needs[other, 1])
                borrowed = np.union1d(self.needs[me, 0], self.needs[me, 1])
                self._borrow(other, self._bundles_of(me, half), lent, self._bundles_of(other, half), borrowed)
                found.append(self._certified([(g, b) for g in self.own for b in self._bundles_of(other, half)], slack))
                self._forget(self._bundles_of(other, half))
        mine = self._certificate(Sums(sum(f.losses for f in found), sum(f.mass for f in found), 0.0))
        total = _summed(self.comm, np.array([mine.primal, mine.dual, mine.listed], dtype=np.float64))
        worst = _largest(self.comm, max(f.worst for f in found))
        return Certificate(float(total[0]), float(total[1]), worst, int(total[2]))

    def _opponents(self) -> list[int]:
        """The ranks that this one meets, in the order of the rounds."""
        me = self.comm.rank
        found = [b if a == me else a for pairs in rounds(self.comm.size) for a, b in pairs if me in (a, b)]
        return [int(other) for other in found]

    def _meet(self, visit: Any) -> list[Any]:
        """Let all bundles meet: those of this rank, then those of the ranks it meets, a part of the rows at a time."""
        orders = {g: self._rng.permutation(len(group.rows)) for g, group in self.groups.items()}
        found: list[Any] = []
        for start in range(PARTS):
            part = {g: order[start::PARTS] for g, order in orders.items()}
            found += self._meet_at_home(visit, part)
            for other in self._opponents():
                for mine, theirs in HALVES:
                    # The higher rank takes what the lower one neither works with nor lends.
                    halves = (mine, theirs) if self.comm.rank < other else (1 - theirs, 1 - mine)
                    found += self._meet_away(visit, part, other, *halves)
        return found

    def _meet_away(self, visit: Any, part: dict[int, Integers], other: int, mine: int, theirs: int) -> list[Any]:
        """Work on the rows of one half of this rank against one half of the other's classes."""
        me, n = self.comm.rank, self.half
        ours, foreign = self._bundles_of(me, mine), self._bundles_of(other, theirs)
        lent, theirs_needed, needed = (
            self._bundles_of(me, 1 - mine),
            self.needs[other, 1 - theirs],
            self.needs[me, mine],
        )
        before = self._borrow(other, lent, theirs_needed, foreign, needed)
        found: list[Any] = []
        for shift in range(n):
            pairs = [(ours[i], foreign[(i + shift) % n]) for i in range(n)]
            found += self.workers.map(lambda pair: visit(pair, part[pair[0]]), pairs)
        now = np.stack([self.W[b][needed] for b in foreign])
        self._forget(foreign)
        back = np.stack([self.W[b][theirs_needed] for b in lent])
        unpack(exchange(self.comm, other, packed(now, before)), back)
        for b, w in zip(lent, back, strict=True):
            self.W[b][theirs_needed] = w
        return found

    def _borrow(self, other: int, lent: range, lent_rows: Integers, borrowed: range, needed: Integers) -> Any:
        """Swap copies of weights with another rank: `lent` bundles of ours for the `borrowed` ones of theirs."""
        out = np.stack([self.W[b][lent_rows] for b in lent])
        got = np.zeros((len(borrowed), len(needed), self.bundles.width), dtype=out.dtype)
        unpack(exchange(self.comm, other, packed(out)), got)
        for b, w in zip(borrowed, got, strict=True):
            self.W[b] = np.zeros((self.problem.n_features, self.bundles.width), dtype=out.dtype)
            self.W[b][needed] = w
        return got

    def _forget(self, borrowed: range) -> None:
        for b in borrowed:
            del self.W[b]

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables of this rank's examples × all classes."""
        for b in self.own:
            self.W[b][:] = 0
        shape = (self.problem.n_features, self.bundles.width)
        for b in range(len(self.bundles)):
            if b not in self.own:
                self.W[b] = np.zeros(shape, dtype=self.problem.values.dtype)
            for g in self.own:
                self._set_block((g, b), table[self.groups[g].examples][:, self.bundles.members[b]])
            owner = b // (2 * self.half)
            change = self.W[b].astype(np.float64)
            total = np.empty_like(change) if owner == self.comm.rank else None
            self.comm.Reduce(change, total, root=owner)
            if total is not None:
                self.W[b][:] = total
            else:
                del self.W[b]

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
