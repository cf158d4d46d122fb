"""Weston–Watkins over several processes: rows visit the classes of other ranks as guests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.classifiers.svm.blocks import Bundles, Lists, ranges
from tellwhy.classifiers.svm.pair_engine import PairEngine, Sums
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.ranks import _compiled_guests as guest_loops
from tellwhy.classifiers.svm.ranks._compiled_two_bundles import sweep_two_bundles
from tellwhy.classifiers.svm.ranks.meetings import Block, Meeting, bundles_of, partners, turns
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
from tellwhy.core.score_function import Integers

MEETINGS = (
    20  # of a bundle, an epoch: where there are few bundles they meet on more and smaller parts of the rows
)
FEWEST_PARTS = 2

guest_kernels: Any = guest_loops
Choose = Callable[[Lists, Integers], Integers]  # which of some examples of a block are to be visited


@dataclass(frozen=True)
class Sending:
    """Examples of a block that are sent to another rank, by their numbers in their group."""

    block: Block
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
        Bundles in each half of a rank, one for each thread unless told; all ranks must have as many.
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
        self.comm, self.half, self.post = comm, half or n_jobs, Post(comm)
        bundles = self._bundled(sizes, comm.size, self.half, problem.values.dtype)
        self._set_up(problem, bundles, bundles_of(comm.rank, self.half), n_jobs, seed)
        self.turns = turns(comm.rank, comm.size, self.half)
        self._shared = np.random.default_rng(
            int(largest(comm, float(seed.integers(2**31))))
        )  # the same for all ranks
        self.heads = np.full((self.half, problem.n_features), -1, dtype=np.int64)

    @staticmethod
    def _bundled(sizes: Integers, n_ranks: int, half: int, dtype: Any) -> Bundles:
        return Bundles.of(sizes, 2 * half * n_ranks, np.dtype(dtype).itemsize)

    @classmethod
    def owners(cls, sizes: Integers, n_ranks: int, half: int, dtype: Any) -> Integers:
        """The rank that holds each class."""
        bundles = cls._bundled(sizes, n_ranks, half, dtype)
        return bundles.position // bundles.width // (2 * half)

    def _others(self) -> list[int]:
        """The ranks that this one meets, in the order of the rounds."""
        return [other for other in partners(self.comm.rank, self.comm.size) if other is not None]

    def _m(self, b: int) -> int:
        return len(self.bundles.members[b])

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        for (g, b), piece in self.lists.items():
            if b not in self.own and len(self.groups[g].rows):
                _list_all(piece, self._m(b))
        self._meet_everyone(self._dense, lambda _, order: order, 0.0)

    def epoch(self, calm: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out rows that were calm before."""

        def active(piece: Lists, order: Integers) -> Integers:
            return order[(piece.count[order] > 0) & (piece.idle[order] < patience)]

        found = self._meet_everyone(
            lambda block, order: self._sparse(block, order, calm, patience), active, calm
        )
        sums = np.array([sum(f[1] for f in found), sum(f[2] for f in found)], dtype=np.float64)
        total = summed(self.comm, sums)
        return Visit(
            largest(self.comm, max(f[0] for f in found)), float(total[0] / max(total[1], 1)), int(total[1])
        )

    def _meet_everyone(self, visit: Any, choose: Choose, calm: float) -> list[Any]:
        """Let all bundles meet: those of this rank, then those of the ranks it meets, a part of the rows at a time.

        Guests of a meeting are sent before the work of the meeting before it.
        """
        orders = {g: self._rng.permutation(len(group.rows)) for g, group in self.groups.items()}
        n = max(FEWEST_PARTS, -(-MEETINGS // len(self.bundles)))
        parts = [{g: order[i::n] for g, order in orders.items()} for i in range(n)]
        orders_of_turns = [self._shared.permutation(len(self.turns)) for _ in parts]
        meetings = [[meeting for turn in order for meeting in self.turns[turn]] for order in orders_of_turns]
        ahead = (
            self._send(m, part, choose) for part, some in zip(parts, meetings, strict=True) for m in some
        )
        found: list[Any] = []
        sent = next(ahead, [])
        for part, some in zip(parts, meetings, strict=True):
            found += self._meet_at_home(visit, part)
            for meeting in some:
                ours, theirs, sent = sent, self._welcome(meeting), next(ahead, [])
                for k in range(max(g.n_batches for g in [*(sending.guests for sending in ours), *theirs])):
                    found += self._exchange(meeting, k, ours, theirs, calm)
        self.post.finish()
        return found

    def _send(self, meeting: Meeting, part: dict[int, Integers], choose: Choose) -> list[Sending]:
        """Send the rows that are to be visited in a meeting to their hosts."""
        found = []
        for block in meeting.blocks:
            visitors = choose(self.lists[block], part[block[0]])
            guests = Guests.of(visitors, self.groups[block[0]].rows, self.problem, self.lists[block])
            found.append(Sending(block, visitors, guests))
        numbers = [sending.guests.numbers(self._m(sending.block[1])) for sending in found]
        self.post.send(meeting.other, NUMBERS, joined(numbers))
        self.post.send(meeting.other, VALUES, joined([sending.guests.values for sending in found]))
        return found

    def _welcome(self, meeting: Meeting) -> list[Guests]:
        """Receive the rows that another rank sends to our classes."""
        numbers = self.post.receive(meeting.other, NUMBERS, np.int32)
        values = self.post.receive(meeting.other, VALUES, self.problem.values.dtype)
        return Guests.read(numbers, values, [self._m(b) for b in meeting.hosts])

    def _exchange(
        self, meeting: Meeting, k: int, ours: list[Sending], theirs: list[Guests], calm: float
    ) -> list[Any]:
        """Solve for batch k of our guests while the other rank does so for its own."""
        hosts = [(guests, self.W[b], self._m(b)) for guests, b in zip(theirs, meeting.hosts, strict=True)]
        told = joined(self.workers.map(lambda host: host[0].scores(k, *host[1:]), hosts))
        n_ours, n_theirs = (
            [sending.guests.n_listed(k) for sending in ours],
            [guests.n_listed(k) for guests in theirs],
        )
        scores, steps = (
            self.post.swap(meeting.other, SCORES, told, sum(n_ours)),
            np.empty(sum(n_ours), told.dtype),
        )
        tasks = zip(ours, cut(scores, n_ours), cut(steps, n_ours), self.heads, strict=True)
        found = self.workers.map(lambda task: self._solve(k, *task, calm=calm), tasks)
        back = cut(self.post.swap(meeting.other, STEPS, steps, sum(n_theirs)), n_theirs)
        self.workers.map(
            lambda task: task[0][0].add_steps(k, task[0][1], task[1]), zip(hosts, back, strict=True)
        )
        return found

    def _solve(self, k: int, sending: Sending, scores: Any, steps: Any, heads: Any, *, calm: float) -> Any:
        (g, b), guests = sending.block, sending.guests
        group, own, piece = self.groups[g], self.lists[g, g], self.lists[g, b]
        return guest_kernels.sweep_guests(
            *guests.part(k), sending.visitors, group.labels, group.norms, group.tops, *guests.arrays, scores,
            self._m(g), self.W[g], own.start, own.count, own.cls, own.val,
            self._m(b), piece.start, piece.val, piece.idle, calm, heads, steps,
        )  # fmt: skip

    def _sparse(self, block: Block, order: Integers, calm: float, patience: int) -> Any:
        (g, b), p = block, self.problem
        if g == b:
            return super()._sparse(block, order, calm, patience)
        group, own, piece = self.groups[g], self.lists[g, g], self.lists[block]
        return sweep_two_bundles(
            order, group.rows, group.labels, group.norms, group.tops, p.indptr, p.indices, p.values,
            self._m(g), self.W[g], own.start, own.count, own.cls, own.val,
            self._m(b), self.W[b], piece.start, piece.count, piece.cls, piece.val, piece.idle, patience, calm,
        )  # fmt: skip

    def certify(self, slack: float) -> Certificate:
        """Both objectives over all ranks, and lists of every variable that may have to move."""
        found = [self._certified([(g, b) for g in self.own for b in self.own], slack)]
        for other in self._others():
            theirs = bundles_of(other, self.half)
            for i, g in enumerate(self.own):
                for j, b in enumerate(theirs):
                    found.append(self._certify_away((g, b), (theirs[i], self.own[j]), other, slack))
        mine = self._certificate(Sums(sum(f.losses for f in found), sum(f.mass for f in found), 0.0))
        total = summed(self.comm, np.array([mine.primal, mine.dual, mine.listed], dtype=np.float64))
        worst = largest(self.comm, max(f.worst for f in found))
        return Certificate(float(total[0]), float(total[1]), worst, int(total[2]))

    def _send_all(self, block: Block, other: int, extra: list[Any]) -> None:
        """Send all rows of a block with numbers of theirs to the host of its classes."""
        piece, group = self.lists[block], self.groups[block[0]]
        piece.drop_zeros()
        guests = Guests.of(np.arange(len(group.rows)), group.rows, self.problem, piece)
        self.post.send(other, NUMBERS, guests.numbers(self._m(block[1])))
        self.post.send(other, VALUES, np.concatenate([guests.values, *extra, piece.val[: piece.used]]))

    def _receive_all(self, host: int, other: int) -> tuple[Guests, Any]:
        """Receive what `_send_all` sent: guests, and the numbers behind their values."""
        numbers = self.post.receive(other, NUMBERS, np.int32)
        values = self.post.receive(other, VALUES, self.problem.values.dtype)
        return Guests.read(numbers, values, [self._m(host)])[0], values[numbers[1] :]

    def _certify_away(self, block: Block, theirs: Block, other: int, slack: float) -> Sums:
        """Let another rank certify our rows of one block while we certify its of another."""
        group, dtype = self.groups[block[0]], self.problem.values.dtype
        bases = 1 - guest_kernels.label_scores(
            group.rows,
            group.labels,
            self.problem.indptr,
            self.problem.indices,
            self.problem.values,
            self.W[block[0]],
        )
        self._send_all(block, other, [bases.astype(dtype), group.tops.astype(dtype)])
        guests, extra = self._receive_all(theirs[1], other)
        n, W, m = len(guests), self.W[theirs[1]], self._m(theirs[1])
        told = (*guests.arrays, extra[:n], extra[n : 2 * n], extra[2 * n :], m, W, slack)
        parts = self.workers.map(lambda part: guest_kernels.certify_guests(*part, *told), ranges(n))
        sums = np.array([[*part[3:]] for part in parts])
        self.post.send(
            other, NUMBERS, np.concatenate([part[2] for part in parts] + [part[0] for part in parts])
        )
        self.post.send(other, VALUES, np.concatenate([part[1] for part in parts]))
        self.post.send(other, SCORES, np.array([*sums[:, :2].sum(axis=0), sums[:, 2].max()]))
        self._take_lists(self.lists[block], other)
        losses, mass, worst = self.post.receive(other, SCORES, np.float64)
        self.post.finish()
        return Sums(float(losses), float(mass), float(worst))

    def _take_lists(self, piece: Lists, other: int) -> None:
        numbers, n = self.post.receive(other, NUMBERS, np.int32), len(piece.count)
        piece.count[:] = numbers[:n]
        piece.start[:] = np.cumsum(piece.count, dtype=np.int64) - piece.count
        values = self.post.receive(other, VALUES, self.problem.values.dtype)
        piece.replace_parts([(0, n, numbers[n:], values)])

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables of this rank's examples × all classes."""
        p = self.problem
        for g in self.own:
            self.W[g][:] = 0
        for g, b in self.lists:
            part = table[self.groups[g].examples][:, self.bundles.members[b]]
            if b in self.own:
                self._set_block((g, b), part)
            else:
                piece, group = self.lists[g, b], self.groups[g]
                piece.set_from(part, p.values.dtype)
                guest_kernels.add_to_labels(
                    group.rows, group.labels, p.indptr, p.indices, p.values, self.W[g],
                    piece.start, piece.count, piece.val,
                )  # fmt: skip
        for other in self._others():
            theirs = bundles_of(other, self.half)
            for g in self.own:
                for j, b in enumerate(theirs):
                    self._send_all((g, b), other, [])
                    guests, held = self._receive_all(self.own[j], other)
                    guests.add_all_steps(self.W[self.own[j]], held)
                    self.post.finish()

    def own_weights(self) -> tuple[Integers, Any]:
        """Classes held here and their weights, features × classes."""
        classes = np.concatenate([self.bundles.members[b] for b in self.own])
        columns = [self.W[b][:, : len(self.bundles.members[b])] for b in self.own]
        return classes, np.concatenate(columns, axis=1)


def _list_all(piece: Lists, m: int) -> None:
    """List all m classes of every example of a block."""
    n = len(piece.count)
    if piece.used == n * m:
        return
    val = np.zeros((n, m), dtype=piece.val.dtype)
    at = np.repeat(np.arange(n), piece.count), piece.cls[: piece.used]
    val[at] = piece.val[: piece.used]
    piece.start[:], piece.count[:] = m * np.arange(n), m
    piece.cls, piece.val, piece.used = np.tile(np.arange(m, dtype=np.int32), n), val.ravel(), n * m
