"""Sweeps over rows that several ranks solve together, each with a part of weights and dual variables.

The loops are those of threads. Each rank holds the variables of some examples, which travel in chunks: before
a chunk of batches is swept, the ranks that hold its examples tell all others their lists, and afterwards each
takes what was found for its own. Ranks that share no memory send a message for each batch of rows, between
two compiled calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm._compiled_lists import longest
from tellwhy.classifiers.svm._compiled_steps import CACHE_PADDING
from tellwhy.classifiers.svm.dual_lists import DualLists
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.ranks._compiled import copy_lists
from tellwhy.classifiers.svm.ranks.exchange import Exchange, Messages, RankPart, SharedMemory, summed
from tellwhy.classifiers.svm.records import (
    Barrier,
    BatchArrays,
    Block,
    Examples,
    ListArrays,
    ShardedEntries,
    Share,
    Sweep,
    Writer,
)
from tellwhy.classifiers.svm.threads._compiled_barrier import LINE
from tellwhy.classifiers.svm.threads._compiled_sweeps import (
    DENSE_BATCH,
    make_batch_room,
    move_all,
    move_listed,
    read_all,
    read_listed,
    sweep_shards,
    sweep_shards_dense,
)
from tellwhy.classifiers.svm.threads.row_batches import Batches, Workers
from tellwhy.classifiers.svm.threads.row_sweeps import RowSweeps, ThreadChoice, batch_size
from tellwhy.core.score import Floats, Integers


def visit_listed_by_messages(
    rows: RankRows, given: tuple[Any, ...], partial: Any, violations: Floats
) -> None:
    """Visit the listed variables of some batches."""
    order = given[0]
    held = given[1:]
    batches: BatchArrays = held[0]
    lists: ListArrays = held[4]
    buffers = _buffers(rows, longest(lists.lengths) + 1, partial.dtype)
    for b in order:
        part = batches.at[b, 0], batches.at[b, 1]
        partial[:] = 0  # each rank fills in its part; the sum is then that of one number and zeros

        def read(t: int, part: Any = part) -> None:
            read_listed(*part, *held, rows.shares[t], partial, buffers[t])

        rows.workers.map(read, range(len(buffers)))
        scores = summed(rows.exchange.comm, partial)

        def move(t: int, part: Any = part, scores: Any = scores) -> None:
            move_listed(*part, *held, rows.shares[t], scores, buffers[t], rows.writer(t), violations)

        rows.workers.map(move, range(len(buffers)))


def visit_all_by_messages(
    rows: RankRows, given: tuple[Any, ...], partial: Any, used: int, exact: bool
) -> int:
    """Visit every variable of some batches; returns how many entries of the lists are used."""
    order = given[0]
    held = given[1:]
    batches: BatchArrays = held[0]
    buffers = _buffers(rows, rows.block.n_classes, partial.dtype)
    for b in order:
        first = int(batches.at[b, 0])
        size = int(batches.at[b, 1]) - first
        for begin in range(0, size, DENSE_BATCH):
            part = begin, min(begin + DENSE_BATCH, size), first
            partial[:] = 0

            def read(t: int, part: Any = part) -> None:
                read_all(*part, *held, rows.shares[t], partial, buffers[t])

            rows.workers.map(read, range(len(buffers)))
            scores = summed(rows.exchange.comm, partial)

            def move(t: int, part: Any = part, scores: Any = scores, used: int = used) -> int:
                found: int = move_all(*part, *held, used, exact, rows.shares[t], scores, buffers[t], t == 0)
                return found

            used = rows.workers.map(move, range(len(buffers)))[0]
    return used


def _buffers(rows: RankRows, width: int, sum_dtype: Any) -> list[Any]:
    """Room for each thread of this rank."""
    dtype = np.zeros(0, dtype=rows.block.weights.dtype)
    return [
        make_batch_room(rows.size, width, rows.block.n_classes, share, dtype.dtype, np.dtype(sum_dtype))
        for share in rows.shares
    ]


UNIT = 32  # examples: a rank holds whole units, and certificates are summed unit by unit


@dataclass
class RankLists:
    """Dual variables of all examples, of which this rank holds those first … last."""

    own: DualLists  # whose `lengths` and `idle` are parts of the arrays below
    first: int
    last: int
    lengths: Any  # of the lists of all examples
    idle: Any
    starts: Integers  # of the examples of a chunk, in the arrays of the chunk

    @classmethod
    def empty(cls, n: int, dtype: DTypeLike, bounds: tuple[int, int]) -> RankLists:
        """All variables at zero."""
        own = DualLists.empty(bounds[1] - bounds[0], dtype)
        lengths = np.zeros(n, dtype=own.lengths.dtype)
        idle = np.zeros(n, dtype=own.idle.dtype)
        own.lengths = lengths[slice(*bounds)]
        own.idle = idle[slice(*bounds)]
        return cls(own, *bounds, lengths, idle, np.zeros(n, dtype=np.int64))

    def share_lengths(self, exchange: Exchange) -> None:
        """Learn how long the lists are that other ranks made anew; none of their examples was idle yet."""

        def fill(out: Any) -> None:
            out[self.first : self.last] = self.own.lengths

        self.lengths[:] = exchange.gathered(self.lengths.shape, self.lengths.dtype, fill)
        self.idle[:] = 0

    def chunk(self, examples: Integers, exchange: Exchange, more: int = 0) -> tuple[ListArrays, int]:
        """Lists of some examples, with room for so many entries more; and how many entries are used.

        Where no more are wanted, all ranks may see the same lists: each writes only variables of its own
        examples, and the lists are valid until the exchange's next but one call.
        """
        if exchange.comm.size == 1:
            self.own.make_room(more)
            self.starts = self.own.starts
            return self.own.arrays, self.own.used
        ends = np.cumsum(self.lengths[examples], dtype=np.int64)
        used = int(ends[-1])
        self.starts[examples] = ends - self.lengths[examples]
        mine = self._mine(examples)
        found = []
        for held in (self.own.classes, self.own.duals):

            def fill(out: Any, held: Any = held) -> None:
                copy_lists(mine, self.lengths, held, self.own.starts, self.first, out, self.starts, 0)

            whole = exchange.gathered((used,), held.dtype, fill)
            if more:  # entries that each rank adds to a copy of its own
                longer = np.empty(used + more, dtype=held.dtype)
                longer[:used] = whole
                whole = longer
            found.append(whole)
        classes, duals = found
        return ListArrays(self.starts, self.lengths, classes, duals, self.idle), used

    def take_values(self, examples: Integers, chunk: ListArrays) -> None:
        """Take the new values of listed variables of a chunk."""
        mine = self._mine(examples)
        copy_lists(
            mine, self.lengths, chunk.duals, self.starts, 0, self.own.duals, self.own.starts, self.first
        )

    def take_lists(self, examples: Integers, chunk: ListArrays) -> None:
        """Take new lists of a chunk, behind the entries that are used."""
        mine = self._mine(examples)
        lengths = self.lengths[mine]
        ends = self.own.used + np.cumsum(lengths, dtype=np.int64)
        self.own.make_room(int(lengths.sum()))
        self.own.starts[mine - self.first] = ends - lengths
        for held, new in ((self.own.classes, chunk.classes), (self.own.duals, chunk.duals)):
            copy_lists(mine, self.lengths, new, self.starts, 0, held, self.own.starts, self.first)
        self.own.used += int(lengths.sum())

    def _mine(self, examples: Integers) -> Integers:
        return examples[(examples >= self.first) & (examples < self.last)]


def find_own_examples(rank: int, n_ranks: int, n: int) -> tuple[int, int]:
    """The examples of a rank: whole units, but for the last."""
    units = -(-n // UNIT)
    return min(UNIT * (units * rank // n_ranks), n), min(UNIT * (units * (rank + 1) // n_ranks), n)


CHUNK_ENTRIES = 2_000_000  # listed variables that travel at once
PRODUCTS = 4_000_000  # inner products that travel at once


class RankRows(RowSweeps):
    """One rank's part of sweeps over all examples; `lists` are those of all ranks."""

    lists: RankLists

    def __init__(
        self,
        problem: Problem,
        examples: Examples,
        W: Any,
        lists: RankLists,
        workers: Workers,
        *,
        entries: ShardedEntries,
        part: RankPart,
        exchange: Messages | SharedMemory,
    ):
        n = workers.n_threads
        whole = part.plan.size
        size = batch_size(whole.n_classes, whole.n_entries / max(whole.n_rows, 1))
        super().__init__(problem, examples, W, lists, workers, size=size, most_threads=n)
        self.block = Block(W, 0, problem.n_classes)
        self.entries = entries
        self.part = part
        self.exchange = exchange
        self.shares: list[Share] = [part.share(t, n) for t in range(n)]

    def _compose(self, order: Integers) -> None:
        """Put examples into batches; ranks with the same features share the inner products among them."""
        self.batches = Batches.of_size(self.size, order)
        plan = self.part.plan
        k = self.exchange.comm.rank % plan.n_ranges
        step = max(PRODUCTS // (self.size**2 * plan.n_slots), 1)
        for first in range(0, len(self.batches), step):
            last = min(first + step, len(self.batches))
            mine = (
                first + (last - first) * k // plan.n_ranges,
                first + (last - first) * (k + 1) // plan.n_ranges,
            )
            self._set_products(first, last, mine)

    def _set_products(self, first: int, last: int, mine: tuple[int, int]) -> None:
        products = self.batches.products
        begin = int(self.batches.at[first, 0])
        end = int(self.batches.at[last - 1, 1])
        own = slice(self.batches.at[mine[0], 0] - begin, self.batches.at[mine[1] - 1, 1] - begin)

        def fill(out: Any) -> None:
            if mine[0] < mine[1]:
                self.batches.set_products(self.entries, self.problem, self.workers, mine, products)
                out[self.part.slot, own] = products[begin:end][own]

        n_slots = self.part.plan.n_slots
        found = self.exchange.gathered((n_slots, end - begin, self.size), np.float64, fill)
        products[begin:end] = _added(found)

    def _visit_listed(self, order: Integers, n: int, sweep: Sweep, violations: Floats) -> None:
        for part in self._split_into_chunks(order):
            examples = self.batches.examples_of(part)
            chunk, _ = self.lists.chunk(examples, self.exchange)
            self._sweep_listed(part, chunk, sweep, violations, n)
            if self.exchange.comm.size > 1:
                self.lists.take_values(examples, chunk)
                self.exchange.wait()  # others may still read what the next chunk overwrites

    def writer(self, t: int) -> Writer:
        """What thread t of this rank writes into the lists of a chunk: variables of the rank's own examples.

        Other ranks may see the same lists.
        """
        return Writer(t == 0, self.lists.first, self.lists.last)

    def _split_into_chunks(self, order: Integers) -> Iterator[Integers]:
        """Batches with not too many listed variables at a time."""
        if self.exchange.comm.size == 1:
            yield order
            return
        if len(order) == 0:
            return
        listed = np.concatenate(([0], np.cumsum(self.lists.lengths[self.batches.members], dtype=np.int64)))
        sizes = (listed[self.batches.at[:, -1]] - listed[self.batches.at[:, 0]])[order]
        which = (np.cumsum(sizes) - 1) // CHUNK_ENTRIES
        yield from np.split(order, np.flatnonzero(np.diff(which)) + 1)

    def _visit_all(self, order: Integers, n: int, exact: bool) -> None:
        examples = self.batches.examples_of(order)
        chunk, used = self.lists.chunk(examples, self.exchange, len(examples) * self.block.n_classes)
        used = self._sweep_all(order, chunk, used, exact, n)
        if self.exchange.comm.size > 1:
            self.lists.take_lists(examples, chunk)
        else:
            self.lists.own.used = used

    def _sweep_listed(
        self, order: Integers, chunk: ListArrays, sweep: Sweep, violations: Floats, n: int
    ) -> None:
        given = (order, *self._given(chunk), sweep)
        shape = self._shape(int(chunk.lengths.max(initial=1)) + 1)
        if isinstance(self.exchange, Messages) and self.exchange.comm.size > 1:
            visit_listed_by_messages(self, given, np.zeros(shape[1:]), violations)
            return
        partial = self._make_partial(shape, np.float64)
        shares = self._shares(n)
        self._run_in_ranks(
            n,
            lambda t, m, barrier: sweep_shards(
                m, barrier, *given, shares[t], partial, self.writer(t), violations
            ),
        )

    def _sweep_all(self, order: Integers, chunk: ListArrays, used: int, exact: bool, n: int) -> int:
        given = (order, *self._given(chunk))
        shape = self._shape(self.block.n_classes)
        dtype = self.block.weights.dtype
        if isinstance(self.exchange, Messages) and self.exchange.comm.size > 1:
            return visit_all_by_messages(self, given, np.zeros(shape[1:], dtype=dtype), used, exact)
        partial = self._make_partial(shape, dtype)
        shares = self._shares(n)
        found = self._run_in_ranks(
            n,
            lambda t, m, barrier: sweep_shards_dense(
                m, barrier, *given, used, exact, shares[t], partial, t == 0
            ),
        )
        return int(found[0])

    def _given(self, chunk: ListArrays) -> tuple[Any, ...]:
        return self.batches.arrays, self.entries, self.examples, self.block, chunk

    def _shape(self, width: int) -> tuple[int, int, int, int]:
        return 2, self.part.plan.n_slots, self.size, width + CACHE_PADDING

    def _shares(self, n: int) -> list[Share]:
        return self.shares if n == len(self.shares) else [self.part.share(t, n) for t in range(n)]

    def _make_partial(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Room for what all ranks contribute to scores."""
        if isinstance(self.exchange, SharedMemory):
            return self.exchange.sweep_room(shape, dtype)
        return np.empty(shape, dtype=dtype)

    def _run_in_ranks(self, n: int, sweep: Any) -> list[Any]:
        """Let n threads of each rank call sweep(thread, number among all threads, barrier)."""
        if not isinstance(self.exchange, SharedMemory):
            return self._together(n, lambda t, barrier: sweep(t, t, barrier))
        comm = self.exchange.comm
        total = n * comm.size
        barrier = Barrier(total, self.exchange.counters(LINE * total))
        return self.workers.map(lambda t: sweep(t, n * comm.rank + t, barrier), range(n))

    def _shared_out(
        self, choice: ThreadChoice, order: Integers, visit: Callable[[Integers, int], None]
    ) -> None:
        """All threads of all ranks: one rank alone would not have the weights."""
        if self.exchange.comm.size == 1:
            super()._shared_out(choice, order, visit)
        else:
            visit(order, self.workers.n_threads)

    def forget_batches(self) -> None:
        """Compose batches anew in the next sweep."""
        self.batches = Batches.none()


def _added(parts: Any) -> Any:
    """Sums of slots, added two by two."""
    while len(parts) > 1:
        parts = parts[0::2] + parts[1::2]
    return parts[0]
