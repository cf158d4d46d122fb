"""What ranks tell each other: messages of any size, and the examples they send to each other's classes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm.engines.dual_lists import DualLists
from tellwhy.classifiers.svm.engines.records import Block, Entries
from tellwhy.classifiers.svm.ranks import _compiled_guests as loops
from tellwhy.classifiers.svm.ranks.records import GuestArrays
from tellwhy.core.score_function import Integers

LOOKS = 300  # before the core is offered to others
OFFERS = 3000  # before napping
NAP = 5e-5  # seconds
LARGEST = 2**30  # bytes of a message: MPI counts them in 32 bits
NUMBERS = 1  # tags of messages
VALUES = 2
SCORES = 3
STEPS = 4
BATCH_ENTRIES = 8192  # of guests that are solved for between two messages: more need more inner products
BATCH = (32, 256)  # guests, at least and at most


def wait(is_done: Callable[[], bool]) -> None:
    """Look often, then offer the core to others, then nap.

    With more ranks than cores the others need this one's.
    """
    for look in range(LOOKS + OFFERS):
        if is_done():
            return
        if look > LOOKS:
            offer_core()
    while not is_done():
        time.sleep(NAP)


def offer_core() -> None:
    """Let another process run, if one waits for this core."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)


def summed(comm: Any, mine: Any) -> Any:
    """Sum of an array over all ranks."""
    total = np.empty_like(mine)
    comm.Allreduce(np.ascontiguousarray(mine), total)
    return total


def largest(comm: Any, mine: float) -> float:
    """Largest of the numbers of all ranks."""
    every = np.empty(comm.size)
    comm.Allgather(np.array([mine], dtype=np.float64), every)
    return float(every.max())


def joined(parts: list[Any]) -> Any:
    """Arrays in one, or the only one itself."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def cut(whole: Any, lengths: list[int]) -> list[Any]:
    """Consecutive parts of an array."""
    ends = list(accumulate(lengths))
    return [whole[end - n : end] for end, n in zip(ends, lengths, strict=True)]


class Post:
    """Sends and receives arrays; nothing blocks, so that two ranks can send to each other at any size."""

    def __init__(self, comm: Any):
        self.comm = comm
        self.under_way: list[tuple[Any, Any]] = []  # messages with the arrays they are sent from

    def send(self, other: int, tag: int, values: Any) -> None:
        """Send an array, in pieces of which only the last is not full; it must not change until `finish`."""
        self.under_way = [(message, kept) for message, kept in self.under_way if not message.Test()]
        size = LARGEST // values.itemsize
        for first in range(0, len(values) + 1, size):
            piece = values[first : first + size]
            self.under_way.append((self.comm.Isend(piece, other, tag), piece))

    def receive(self, other: int, tag: int, dtype: DTypeLike) -> Any:
        """Receive an array of whatever length."""
        pieces = [self._receive_piece(other, tag, dtype)]
        while len(pieces[-1]) == LARGEST // pieces[-1].itemsize:
            pieces.append(self._receive_piece(other, tag, dtype))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _receive_piece(self, other: int, tag: int, dtype: DTypeLike) -> Any:
        from mpi4py import MPI

        status = MPI.Status()
        wait(lambda: self.comm.Iprobe(other, tag, status))
        received = np.empty(status.Get_count(MPI.BYTE) // np.dtype(dtype).itemsize, dtype=dtype)
        wait(self.comm.Irecv(received, other, tag).Test)
        return received

    def swap(self, other: int, tag: int, values: Any, n: int) -> Any:
        """Send an array and receive one of n numbers; where one has none, nothing is sent."""
        received = np.empty(n, dtype=values.dtype)
        messages = [self.comm.Irecv(received, other, tag)] if n else []
        messages += [self.comm.Isend(values, other, tag)] if len(values) else []
        for message in messages:
            wait(message.Test)
        return received

    def finish(self) -> None:
        """Wait until all that was sent has left."""
        for message, _ in self.under_way:
            wait(message.Test)
        self.under_way = []


@dataclass(frozen=True)
class Guests:
    """Examples that are judged by classes of another rank: their entries, and the classes that they list.

    They are solved for in batches of `batch`, between which ranks talk.
    """

    arrays: GuestArrays
    batch: int

    @classmethod
    def of(cls, visitors: Integers, rows: Integers, entries: Entries, lists: DualLists) -> Guests:
        """Gather some examples and what they list."""
        own = rows[visitors]
        n = len(visitors)
        n_entries = int((entries.indptr[own + 1] - entries.indptr[own]).sum())
        n_listed = int(lists.lengths[visitors].sum())
        batch = min(max(BATCH_ENTRIES * n // max(n_entries, 1), BATCH[0]), BATCH[1])
        batch = max(-(-n // max(round(n / batch), 1)), 1)  # of even size
        arrays = GuestArrays(
            np.zeros(n + 1, dtype=np.int64),
            np.empty(n_entries, dtype=np.int32),
            np.empty(n_entries, dtype=entries.values.dtype),
            np.zeros(n + 1, dtype=np.int64),
            np.empty(n_listed, dtype=np.int32),
        )
        loops.send_guests(visitors, rows, entries, lists.arrays, arrays)
        return cls(arrays, batch)

    def __len__(self) -> int:
        return len(self.arrays.indptr) - 1

    @property
    def entries(self) -> Entries:
        """Entries of the guests, one row each."""
        return Entries(self.arrays.indptr, self.arrays.indices, self.arrays.values)

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return -(-len(self) // self.batch)

    def part(self, k: int) -> tuple[int, int]:
        """First and last guest of batch k; those after the last batch are empty."""
        return min(k * self.batch, len(self)), min((k + 1) * self.batch, len(self))

    def n_listed(self, k: int) -> int:
        """Number of variables in batch k."""
        first, last = self.part(k)
        return int(self.arrays.listed[last] - self.arrays.listed[first])

    def numbers(self, m: int) -> Any:
        """Whole numbers of a message; lists of all m classes are not spelt out."""
        n = len(self)
        indices = self.arrays.indices
        classes = self.arrays.classes
        head = np.array([n, len(indices), len(classes), self.batch], dtype=np.int32)
        n_entries = np.diff(self.arrays.indptr).astype(np.int32)
        n_listed = np.diff(self.arrays.listed).astype(np.int32)
        spelt = [classes] if len(classes) < n * m else []
        return np.concatenate([head, n_entries, n_listed, indices, *spelt])

    @classmethod
    def read(cls, numbers: Any, values: Any, ms: list[int]) -> list[Guests]:
        """Guests of several blocks from a message; `ms` has the number of classes of each block."""
        found = []
        for m in ms:
            guests, n_numbers = cls._read_one(numbers, values, m)
            found.append(guests)
            numbers = numbers[n_numbers:]
            values = values[len(guests.arrays.indices) :]
        return found

    @classmethod
    def _read_one(cls, numbers: Any, values: Any, m: int) -> tuple[Guests, int]:
        """The guests at the beginning of a message, and how many numbers they took."""
        n = int(numbers[0])
        n_entries = int(numbers[1])
        n_listed = int(numbers[2])
        is_whole = n_listed > 0 and n_listed == n * m
        lengths = [4, n, n, n_entries, 0 if is_whole else n_listed]
        parts = cut(numbers[: sum(lengths)], lengths)
        classes = np.tile(np.arange(m, dtype=np.int32), n) if is_whole else parts[4]
        arrays = GuestArrays(_ends(parts[1]), parts[3], values[:n_entries], _ends(parts[2]), classes)
        return cls(arrays, int(numbers[3])), sum(lengths)

    def scores(self, k: int, block: Block) -> Any:
        """Scores of batch k for the classes of a block that it lists."""
        out = np.empty(self.n_listed(k), dtype=block.weights.dtype)
        loops.score_guests(*self.part(k), self.arrays, block, out)
        return out

    def add_steps(self, k: int, W: Any, steps: Any) -> None:
        """Add to the weights what the steps of batch k contribute."""
        loops.add_guest_steps(*self.part(k), self.arrays, W, steps)

    def add_all_steps(self, W: Any, steps: Any) -> None:
        """Add to the weights what steps of all guests contribute."""
        loops.add_guest_steps(0, len(self), self.arrays, W, steps)


def _ends(lengths: Any) -> Integers:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
