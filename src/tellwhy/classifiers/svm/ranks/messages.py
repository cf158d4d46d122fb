"""What ranks tell each other: messages of any size, and the examples that they send to each other's classes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tellwhy.classifiers.svm.ranks import _compiled_guests as guest_loops
from tellwhy.core.score_function import Integers

kernels: Any = guest_loops
LOOKS, OFFERS = 300, 3000
NAP = 5e-5  # seconds
LARGEST = 2**30  # bytes of a message: MPI counts them in 32 bits
NUMBERS, VALUES, SCORES, STEPS = 1, 2, 3, 4  # tags
BATCH_ENTRIES = 8192  # of guests that are solved for between two messages: more need more inner products
BATCH = (32, 256)  # guests, at least and at most


def wait(is_done: Callable[[], bool]) -> None:
    """Look often, then offer the core to others, then nap: with more ranks than cores the others need this one's."""
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
    """Sends and receives arrays; nothing blocks, so that two ranks can send to each other whatever the size."""

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

    def receive(self, other: int, tag: int, dtype: Any) -> Any:
        """Receive an array of whatever length."""
        pieces = [self._receive_piece(other, tag, dtype)]
        while len(pieces[-1]) == LARGEST // pieces[-1].itemsize:
            pieces.append(self._receive_piece(other, tag, dtype))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _receive_piece(self, other: int, tag: int, dtype: Any) -> Any:
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

    Guest t has the entries indptr[t] … indptr[t + 1] and lists classes[listed[t]] … classes[listed[t + 1]].
    They are solved for in batches of `batch`, between which ranks talk.
    """

    indptr: Integers
    indices: Any
    values: Any
    listed: Integers
    classes: Any
    batch: int

    @classmethod
    def of(cls, visitors: Integers, rows: Integers, problem: Any, piece: Any) -> Guests:
        """Gather some examples; `piece` holds their lists."""
        own = rows[visitors]
        n, n_entries = len(visitors), int((problem.indptr[own + 1] - problem.indptr[own]).sum())
        n_listed = int(piece.count[visitors].sum())
        batch = min(max(BATCH_ENTRIES * n // max(n_entries, 1), BATCH[0]), BATCH[1])
        batch = max(-(-n // max(round(n / batch), 1)), 1)  # of even size
        found = cls(
            np.zeros(n + 1, dtype=np.int64), np.empty(n_entries, dtype=np.int32),
            np.empty(n_entries, dtype=problem.values.dtype), np.zeros(n + 1, dtype=np.int64),
            np.empty(n_listed, dtype=np.int32), batch,
        )  # fmt: skip
        kernels.send_guests(
            visitors, rows, problem.indptr, problem.indices, problem.values, piece.start, piece.count, piece.cls,
            found.indptr, found.indices, found.values, found.listed, found.classes,
        )  # fmt: skip
        return found

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Entries and lists, as the kernels take them."""
        return self.indptr, self.indices, self.values, self.listed, self.classes

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
        return int(self.listed[last] - self.listed[first])

    def numbers(self, m: int) -> Any:
        """Whole numbers of a message; lists of all m classes are not spelt out."""
        n, spelt = len(self), len(self.classes) < len(self) * m
        head = np.array([n, len(self.indices), len(self.classes), self.batch], dtype=np.int32)
        counts = (np.diff(self.indptr), np.diff(self.listed))
        parts = [
            head,
            *(c.astype(np.int32) for c in counts),
            self.indices,
            *([self.classes] if spelt else []),
        ]
        return np.concatenate(parts)

    @classmethod
    def read(cls, numbers: Any, values: Any, ms: list[int]) -> list[Guests]:
        """Guests of several bundles from the numbers and values of a message; `ms` has the classes of each bundle."""
        found, at, value = [], 0, 0
        for m in ms:
            n, n_entries, n_listed, batch = (int(number) for number in numbers[at : at + 4])
            cuts = np.cumsum([at + 4, n, n, n_entries, n_listed if n_listed < n * m else 0])
            counts, lists, indices, classes = (numbers[a:b] for a, b in pairwise(cuts))
            if n_listed and n_listed == n * m:
                classes = np.tile(np.arange(m, dtype=np.int32), n)
            indptr, listed = (np.concatenate(([0], np.cumsum(c, dtype=np.int64))) for c in (counts, lists))
            found.append(cls(indptr, indices, values[value : value + n_entries], listed, classes, batch))
            at, value = int(cuts[-1]), value + n_entries
        return found

    def scores(self, k: int, W: Any, m: int) -> Any:
        """Scores of batch k for the classes it lists, whose weights are W."""
        out = np.empty(self.n_listed(k), dtype=W.dtype)
        kernels.score_guests(*self.part(k), *self.arrays, m, W, out)
        return out

    def add_steps(self, k: int, W: Any, steps: Any) -> None:
        """Add to the weights what the steps of batch k contribute."""
        kernels.add_steps(*self.part(k), *self.arrays, W, steps)

    def add_all_steps(self, W: Any, steps: Any) -> None:
        """Add to the weights what steps of all guests contribute."""
        kernels.add_steps(0, len(self), *self.arrays, W, steps)
