"""What ranks tell each other when they meet: which weights they need, the weights, and what became of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from tellwhy.classifiers import _compiled_exchange as kernels

REQUEST, WEIGHTS = 1, 2  # tags
LOOKS, OFFERS = 300, 3000
NAP = 5e-5  # seconds
AT_ONCE = 2**19  # weights in a message: few enough to stay in the cache and to need little memory


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


@dataclass(frozen=True)
class Request:
    """Places in a matrix of weights: whole rows of it, and single entries by their position.

    Examples
    --------
    >>> weights = np.arange(12.0).reshape(4, 3)
    >>> request = Request(np.array([2]), np.array([1, 11]))
    >>> request.taken(weights)
    array([ 6.,  7.,  8.,  1., 11.])
    >>> again = np.zeros((4, 3))
    >>> Request.of_message(request.message()).put(again, request.taken(weights))
    >>> again
    array([[ 0.,  1.,  0.],
           [ 0.,  0.,  0.],
           [ 6.,  7.,  8.],
           [ 0.,  0., 11.]])
    """

    whole: Any
    single: Any

    def size(self, width: int) -> int:
        """Number of weights."""
        return len(self.whole) * width + len(self.single)

    def taken(self, weights: Any) -> Any:
        """Copy the weights at these places."""
        out = np.empty(self.size(weights.shape[1]), dtype=weights.dtype)
        kernels.take(weights, self.whole, self.single, out)
        return out

    def put(self, weights: Any, values: Any) -> None:
        """Write weights at these places."""
        kernels.put(weights, self.whole, self.single, values)

    def pieces(self, width: int) -> Iterator[Request]:
        """The same places in parts that fit into one message each."""
        rows = max(AT_ONCE // width, 1)
        for first in range(0, len(self.whole), rows):
            yield Request(self.whole[first : first + rows], self.single[:0])
        for first in range(0, len(self.single), AT_ONCE):
            yield Request(self.whole[:0], self.single[first : first + AT_ONCE])

    def message(self) -> Any:
        """One array of whole numbers."""
        return np.concatenate((np.array([len(self.whole)], dtype=self.whole.dtype), self.whole, self.single))

    @classmethod
    def of_message(cls, numbers: Any) -> Request:
        """Read `message`."""
        n = int(numbers[0])
        return cls(numbers[1 : 1 + n], numbers[1 + n :])


class Asking:
    """Collects what a meeting needs of the weights of another rank, (bundle, feature) × class."""

    def __init__(self, n_rows: int, width: int):
        self.kind: Any = np.int32 if n_rows * width < 2**31 else np.int64
        self.asked, self.marks = np.zeros(n_rows, dtype=bool), np.zeros((n_rows, width), dtype=bool)
        self.rows = np.empty(n_rows, dtype=self.kind)
        self.single, self.n, self.n_single = np.empty(1024, dtype=self.kind), 0, 0

    def all_of(self, order: Any, rows: Any, problem: Any, first: int) -> None:
        """Every class, for the features of some examples; the bundle's rows begin with `first`."""
        p = problem
        self.n = kernels.ask_for_all(order, rows, p.indptr, p.indices, first, self.asked, self.rows, self.n)

    def listed(self, order: Any, rows: Any, problem: Any, first: int, *, piece: Any, patience: int, m: int) -> None:
        """The listed classes of examples that will be visited; `piece` holds the lists."""
        self.n, self.single, self.n_single = kernels.ask_for_listed(
            order, rows, problem.indptr, problem.indices, piece.start, piece.count, piece.cls, piece.idle, patience, m,
            first, self.asked, self.rows, self.n, self.marks, self.single, self.n_single,
        )  # fmt: skip

    def request(self) -> Request:
        """What was collected; the next collection begins."""
        kernels.forget_marks(self.rows, self.n, self.single, self.n_single, self.asked, self.marks)
        found = Request(self.rows[: self.n].copy(), self.single[: self.n_single].copy())
        self.n = self.n_single = 0
        return found


class Post:
    """Sends and receives; nothing blocks, so that two ranks can send to each other whatever the size."""

    def __init__(self, comm: Any, kind: Any):
        self.comm, self.kind = comm, kind
        self.under_way: list[tuple[Any, Any]] = []  # requests sent ahead, with the arrays they are sent from

    def ask(self, other: int, request: Request) -> None:
        """Tell another rank what is needed of it, when it comes to that meeting."""
        numbers = request.message()
        self.under_way.append((self.comm.Isend(numbers, other, REQUEST), numbers))

    def asked(self, other: int) -> Request:
        """What another rank needs of this one."""
        from mpi4py import MPI

        status = MPI.Status()
        wait(lambda: self.comm.Iprobe(other, REQUEST, status))
        numbers = np.empty(status.Get_count(MPI.BYTE) // np.dtype(self.kind).itemsize, dtype=self.kind)
        receiving = self.comm.Irecv(numbers, other, REQUEST)
        wait(receiving.Test)
        return Request.of_message(numbers)

    def swap(self, other: int, sent: tuple[Request, Any], received: tuple[Request, Any]) -> None:
        """Send weights to another rank and receive its; both are given as places and the matrix that they lie in."""
        width = sent[1].shape[1]
        for out, back in zip_longest(sent[0].pieces(width), received[0].pieces(width)):
            under_way, got = [], None
            if back is not None:
                got = np.empty(back.size(width), dtype=received[1].dtype)
                under_way.append(self.comm.Irecv(got, other, WEIGHTS))
            if out is not None:
                values = out.taken(sent[1])
                under_way.append(self.comm.Isend(values, other, WEIGHTS))
            for message in under_way:
                wait(message.Test)
            if back is not None:
                back.put(received[1], got)
        self.under_way = [(message, kept) for message, kept in self.under_way if not message.Test()]

    def finish(self) -> None:
        """Wait until all that was sent has left."""
        for message, _ in self.under_way:
            wait(message.Test)
        self.under_way = []
