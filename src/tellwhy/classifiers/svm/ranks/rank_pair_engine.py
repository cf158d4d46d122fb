"""Weston–Watkins over several processes: rows visit the classes of other ranks as guests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm.engines.certified_lists import Sums
from tellwhy.classifiers.svm.engines.class_blocks import ClassBlocks
from tellwhy.classifiers.svm.engines.dual_lists import DualLists, Part
from tellwhy.classifiers.svm.engines.pair_engine import PairEngine
from tellwhy.classifiers.svm.engines.records import Sweep, Swept
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.ranks import _compiled_guests as loops
from tellwhy.classifiers.svm.ranks._compiled_two_blocks import sweep_two_blocks
from tellwhy.classifiers.svm.ranks.hosting import HostedGuests, joined_sums, list_all
from tellwhy.classifiers.svm.ranks.meetings import Meeting, Tile, blocks_of, partners, turns
from tellwhy.classifiers.svm.ranks.messages import (
    NUMBERS,
    SCORES,
    STEPS,
    VALUES,
    Guests,
    Post,
    cut,
    joined,
    largest,
    summed,
)
from tellwhy.classifiers.svm.solver import Certificate, Visit
from tellwhy.classifiers.svm.threads.workers import ranges
from tellwhy.core.score_function import Integers

MEETINGS = (
    20  # of a block, an epoch: where there are few blocks they meet on more and smaller parts of the rows
)
FEWEST_PARTS = 2

Choose = Callable[[DualLists, Integers], Integers]  # which of some examples of a tile are to be visited


@dataclass(frozen=True)
class Sending:
    """Examples of a tile that are sent to another rank, by their numbers in their group."""

    tile: Tile
    visitors: Integers
    guests: Guests


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
        Threads of each rank.
    half
        Class blocks in each half of a rank, one for each thread unless told; all ranks must have as many.
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
        self.comm = comm
        self.half = half or n_jobs
        self.post = Post(comm)
        blocks = self._cut(sizes, comm.size, self.half, problem.dtype)
        self._set_up(problem, blocks, blocks_of(comm.rank, self.half), n_jobs, seed)
        self.turns = turns(comm.rank, comm.size, self.half)
        # The same for all ranks, so that they draw the same order of meetings.
        self._shared = np.random.default_rng(int(largest(comm, float(seed.integers(2**31)))))
        self.heads = np.full((self.half, problem.n_features), -1, dtype=np.int64)

    @staticmethod
    def _cut(sizes: Integers, n_ranks: int, half: int, dtype: DTypeLike) -> ClassBlocks:
        return ClassBlocks.of(sizes, 2 * half * n_ranks, np.dtype(dtype).itemsize)

    @classmethod
    def owners(cls, sizes: Integers, n_ranks: int, half: int, dtype: DTypeLike) -> Integers:
        """The rank that holds each class."""
        blocks = cls._cut(sizes, n_ranks, half, dtype)
        return blocks.position // blocks.width // (2 * half)

    def _others(self) -> list[int]:
        """The ranks that this one meets, in the order of the rounds."""
        return [other for other in partners(self.comm.rank, self.comm.size) if other is not None]

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        for (g, b), lists in self.lists.items():
            if b not in self.held and len(self.members[g]):
                list_all(lists, self.blocks.n_classes(b))
        self._meet_everyone(self._dense, lambda _, order: order, 0.0)

    def epoch(self, negligible: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out examples that were idle before."""

        def active(lists: DualLists, order: Integers) -> Integers:
            return order[(lists.lengths[order] > 0) & (lists.idle[order] < patience)]

        sweep = Sweep(patience, negligible, is_exact=True)
        found = self._meet_everyone(lambda tile, order: self._sparse(tile, order, sweep), active, negligible)
        mine = Visit.of(found)
        total = summed(self.comm, np.array([sum(f.summed for f in found), mine.visited], dtype=np.float64))
        return Visit(largest(self.comm, mine.worst), float(total[0] / max(total[1], 1)), int(total[1]))

    def _meet_everyone(self, visit: Any, choose: Choose, negligible: float) -> list[Any]:
        """Let all blocks meet: those of this rank, then those of other ranks, a part of the rows at a time.

        Guests of a meeting are sent before the work of the meeting before it.
        """
        orders = {g: self._rng.permutation(len(members)) for g, members in self.members.items()}
        n = max(FEWEST_PARTS, -(-MEETINGS // len(self.blocks)))
        parts = [{g: order[i::n] for g, order in orders.items()} for i in range(n)]
        orders_of_turns = [self._shared.permutation(len(self.turns)) for _ in parts]
        meetings = [[meeting for turn in order for meeting in self.turns[turn]] for order in orders_of_turns]
        ahead = (
            self._send(m, part, choose) for part, some in zip(parts, meetings, strict=True) for m in some
        )
        found: list[Any] = []
        sent = next(ahead, [])
        for part, some in zip(parts, meetings, strict=True):
            found += self._for_held_tiles(visit, part)
            for meeting in some:
                ours = sent
                theirs = self._welcome(meeting)
                sent = next(ahead, [])
                for k in range(max(g.n_batches for g in [*(sending.guests for sending in ours), *theirs])):
                    found += self._exchange(meeting, k, ours, theirs, negligible)
        self.post.finish()
        return found

    def _send(self, meeting: Meeting, part: dict[int, Integers], choose: Choose) -> list[Sending]:
        """Send the rows that are to be visited in a meeting to their hosts."""
        found = []
        for tile in meeting.tiles:
            visitors = choose(self.lists[tile], part[tile[0]])
            rows = self.groups[tile[0]].rows
            guests = Guests.of(visitors, rows, self.problem.entries, self.lists[tile])
            found.append(Sending(tile, visitors, guests))
        numbers = [sending.guests.numbers(self.blocks.n_classes(sending.tile[1])) for sending in found]
        self.post.send(meeting.other, NUMBERS, joined(numbers))
        self.post.send(meeting.other, VALUES, joined([sending.guests.arrays.values for sending in found]))
        return found

    def _welcome(self, meeting: Meeting) -> list[Guests]:
        """Receive the rows that another rank sends to our classes."""
        numbers = self.post.receive(meeting.other, NUMBERS, np.int32)
        values = self.post.receive(meeting.other, VALUES, self.problem.dtype)
        return Guests.read(numbers, values, [self.blocks.n_classes(b) for b in meeting.hosts])

    def _exchange(
        self, meeting: Meeting, k: int, ours: list[Sending], theirs: list[Guests], negligible: float
    ) -> list[Swept]:
        """Solve for batch k of our guests while the other rank does so for its own."""
        hosted = list(zip(theirs, meeting.hosts, strict=True))
        told = joined(self.workers.map(lambda host: host[0].scores(k, self._block(host[1])), hosted))
        n_ours = [sending.guests.n_listed(k) for sending in ours]
        n_theirs = [guests.n_listed(k) for guests in theirs]
        scores = self.post.swap(meeting.other, SCORES, told, sum(n_ours))
        steps = np.empty(sum(n_ours), told.dtype)
        tasks = zip(ours, cut(scores, n_ours), cut(steps, n_ours), self.heads, strict=True)
        found = self.workers.map(lambda task: self._solve(k, *task, negligible=negligible), tasks)
        back = cut(self.post.swap(meeting.other, STEPS, steps, sum(n_theirs)), n_theirs)
        self.workers.map(
            lambda task: task[0][0].add_steps(k, self.W[task[0][1]], task[1]), zip(hosted, back, strict=True)
        )
        return found

    def _solve(
        self, k: int, sending: Sending, scores: Any, steps: Any, heads: Any, *, negligible: float
    ) -> Swept:
        g, b = sending.tile
        found: Swept = loops.sweep_guests(
            *sending.guests.part(k),
            sending.visitors,
            self.groups[g],
            sending.guests.arrays,
            scores,
            self._block(g),
            self.lists[g, g].arrays,
            self.blocks.n_classes(b),
            self.lists[g, b].arrays,
            negligible,
            heads,
            steps,
        )
        return found

    def _sparse(self, tile: Tile, order: Integers, sweep: Sweep) -> Swept:
        g, b = tile
        if g == b:
            return super()._sparse(tile, order, sweep)
        own = (self._block(g), self.lists[g, g].arrays)
        other = (self._block(b), self.lists[tile].arrays)
        found: Swept = sweep_two_blocks(order, self.problem.entries, self.groups[g], *own, *other, sweep)
        return found

    def certify(self, slack: float) -> Certificate:
        """Both objectives over all ranks, and lists of every variable that may have to move."""
        found = [self._certified([(g, b) for g in self.held for b in self.held], slack)]
        bases = self._bases(self.held)
        for other in self._others():
            theirs = blocks_of(other, self.half)
            for i, g in enumerate(self.held):
                for j, b in enumerate(theirs):
                    tiles = ((g, b), (theirs[i], self.held[j]))
                    found.append(self._certify_away(*tiles, other, bases[g], slack))
        mine = self._certificate(Sums(sum(f.losses for f in found), sum(f.dual_sum for f in found), 0.0))
        total = summed(self.comm, np.array([mine.primal, mine.dual, mine.listed], dtype=np.float64))
        worst = largest(self.comm, max(f.worst for f in found))
        return Certificate(float(total[0]), float(total[1]), worst, int(total[2]))

    def _send_all(self, tile: Tile, other: int, extra: list[Any]) -> None:
        """Send all rows of a tile with numbers of theirs to the host of its classes."""
        lists = self.lists[tile]
        rows = self.groups[tile[0]].rows
        lists.drop_zeros()
        guests = Guests.of(np.arange(len(rows)), rows, self.problem.entries, lists)
        self.post.send(other, NUMBERS, guests.numbers(self.blocks.n_classes(tile[1])))
        self.post.send(
            other, VALUES, np.concatenate([guests.arrays.values, *extra, lists.duals[: lists.used]])
        )

    def _receive_all(self, host: int, other: int) -> tuple[Guests, Any]:
        """Receive what `_send_all` sent: guests, and the numbers behind their values."""
        numbers = self.post.receive(other, NUMBERS, np.int32)
        values = self.post.receive(other, VALUES, self.problem.dtype)
        return Guests.read(numbers, values, [self.blocks.n_classes(host)])[0], values[numbers[1] :]

    def _certify_away(self, tile: Tile, theirs: Tile, other: int, bases: Any, slack: float) -> Sums:
        """Let another rank certify our rows of one tile while we certify its of another."""
        dtype = self.problem.dtype
        self._send_all(tile, other, [bases.astype(dtype), self.groups[tile[0]].caps.astype(dtype)])
        guests, extra = self._receive_all(theirs[1], other)
        host = HostedGuests(guests, extra)
        block = self._block(theirs[1])
        parts = self.workers.map(lambda part: host.certified(part, block, slack), ranges(len(guests)))
        classes = [part.classes for part in parts]
        self.post.send(other, NUMBERS, np.concatenate([host.lists.lengths, *classes]))
        self.post.send(other, VALUES, np.concatenate([part.duals for part in parts]))
        self.post.send(other, SCORES, np.array(joined_sums(parts)))
        self._take_lists(self.lists[tile], other)
        told = self.post.receive(other, SCORES, np.float64)
        self.post.finish()
        return Sums(*(float(number) for number in told))

    def _take_lists(self, lists: DualLists, other: int) -> None:
        n = len(lists.lengths)
        numbers = self.post.receive(other, NUMBERS, np.int32)
        lists.lengths[:] = numbers[:n]
        lists.starts[:] = np.cumsum(lists.lengths, dtype=np.int64) - lists.lengths
        duals = self.post.receive(other, VALUES, self.problem.dtype)
        lists.replace_parts([Part(0, n, numbers[n:], duals)])

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables of this rank's examples × all classes."""
        for g in self.held:
            self.W[g][:] = 0
        for g, b in self.lists:
            part = table[self.members[g]][:, self.blocks.members[b]]
            if b in self.held:
                self._set_tile((g, b), part)
            else:
                lists = self.lists[g, b]
                lists.set_from(part, self.problem.dtype)
                loops.add_to_labels(self.problem.entries, self.groups[g], self.W[g], lists.arrays)
        for other in self._others():
            theirs = blocks_of(other, self.half)
            for g in self.held:
                for j, b in enumerate(theirs):
                    self._send_all((g, b), other, [])
                    guests, held = self._receive_all(self.held[j], other)
                    guests.add_all_steps(self.W[self.held[j]], held)
                    self.post.finish()

    def own_weights(self) -> tuple[Integers, Any]:
        """Classes held here and their weights, features × classes."""
        classes = np.concatenate([self.blocks.members[b] for b in self.held])
        columns = [self.W[b][:, : self.blocks.n_classes(b)] for b in self.held]
        return classes, np.concatenate(columns, axis=1)
