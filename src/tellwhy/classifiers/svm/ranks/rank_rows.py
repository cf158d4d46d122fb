"""Sweeps over rows that several ranks solve together: each has a part of the weights.

The loops are those of threads. Variables travel in chunks: before a chunk of batches is swept, the ranks that
hold its examples tell all others their lists, and afterwards each takes what was found for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm.engines._compiled_scratch import GAP
from tellwhy.classifiers.svm.engines.records import Block, Examples, ListArrays, Sweep
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.ranks.by_messages import all_by_messages, listed_by_messages
from tellwhy.classifiers.svm.ranks.exchange import Messages, SharedMemory
from tellwhy.classifiers.svm.ranks.plan import RankPart
from tellwhy.classifiers.svm.ranks.rank_lists import RankLists
from tellwhy.classifiers.svm.threads._compiled_barrier import LINE
from tellwhy.classifiers.svm.threads._compiled_shards import sweep_shards, sweep_shards_dense
from tellwhy.classifiers.svm.threads.records import Barrier, Keeper, ShardedEntries, Share
from tellwhy.classifiers.svm.threads.row_batches import Batches
from tellwhy.classifiers.svm.threads.row_sweeps import RowSweeps, batch_size
from tellwhy.classifiers.svm.threads.thread_choice import ThreadChoice
from tellwhy.classifiers.svm.threads.workers import Workers
from tellwhy.core.score_function import Floats, Integers

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
        for part in self._chunks(order):
            examples = self.batches.examples_of(part)
            chunk, _ = self.lists.chunk(examples, self.exchange)
            self._sweep_listed(part, chunk, sweep, violations, n)
            if self.exchange.comm.size > 1:
                self.lists.take_values(examples, chunk)
                self.exchange.wait()  # others may still read what the next chunk overwrites

    def keeper(self, t: int) -> Keeper:
        """What thread t of this rank writes into the lists of a chunk: variables of the rank's own examples.

        Other ranks may see the same lists.
        """
        return Keeper(t == 0, self.lists.first, self.lists.last)

    def _chunks(self, order: Integers) -> Iterator[Integers]:
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
            listed_by_messages(self, given, np.zeros(shape[1:]), violations)
            return
        partial = self._partial(shape, np.float64)
        shares = self._shares(n)
        self._in_ranks(
            n,
            lambda t, m, barrier: sweep_shards(
                m, barrier, *given, shares[t], partial, self.keeper(t), violations
            ),
        )

    def _sweep_all(self, order: Integers, chunk: ListArrays, used: int, exact: bool, n: int) -> int:
        given = (order, *self._given(chunk))
        shape = self._shape(self.block.n_classes)
        dtype = self.block.weights.dtype
        if isinstance(self.exchange, Messages) and self.exchange.comm.size > 1:
            return all_by_messages(self, given, np.zeros(shape[1:], dtype=dtype), used, exact)
        partial = self._partial(shape, dtype)
        shares = self._shares(n)
        found = self._in_ranks(
            n,
            lambda t, m, barrier: sweep_shards_dense(
                m, barrier, *given, used, exact, shares[t], partial, t == 0
            ),
        )
        return int(found[0])

    def _given(self, chunk: ListArrays) -> tuple[Any, ...]:
        return self.batches.arrays, self.entries, self.examples, self.block, chunk

    def _shape(self, width: int) -> tuple[int, int, int, int]:
        return 2, self.part.plan.n_slots, self.size, width + GAP

    def _shares(self, n: int) -> list[Share]:
        return self.shares if n == len(self.shares) else [self.part.share(t, n) for t in range(n)]

    def _partial(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Room for what all ranks contribute to scores."""
        if isinstance(self.exchange, SharedMemory):
            return self.exchange.sweep_room(shape, dtype)
        return np.empty(shape, dtype=dtype)

    def _in_ranks(self, n: int, sweep: Any) -> list[Any]:
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
