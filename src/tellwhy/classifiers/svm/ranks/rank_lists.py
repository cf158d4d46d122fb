"""Dual variables over ranks: each holds those of some examples, and all read those of a chunk of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm.engines.dual_lists import DualLists
from tellwhy.classifiers.svm.engines.records import ListArrays
from tellwhy.classifiers.svm.ranks._compiled_ranks import copy_lists
from tellwhy.classifiers.svm.ranks.exchange import Exchange
from tellwhy.core.score_function import Integers

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


def own_examples(rank: int, n_ranks: int, n: int) -> tuple[int, int]:
    """The examples of a rank: whole units, but for the last."""
    units = -(-n // UNIT)
    return min(UNIT * (units * rank // n_ranks), n), min(UNIT * (units * (rank + 1) // n_ranks), n)
