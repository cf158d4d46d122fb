"""How ranks put together what each of them knows: through memory that they share, or by messages.

Ranks of one machine write into the same memory and wait for each other, as threads do. Ranks of several
machines send: every rank fills its part of an array of zeros, and the arrays are added up. Each number is
then the sum of one number and zeros, so that no bit depends on the order of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

ALIGNED = 64  # bytes: a cache line
Fill = Callable[[Any], None]


class Exchange(Protocol):
    """What all ranks know together."""

    comm: Any

    def gathered(self, shape: tuple[int, ...], dtype: DTypeLike, fill: Fill) -> Any:
        """An array of which every rank fills its part; it is valid until the next call but one."""
        ...

    def wait(self) -> None:
        """Come back when no rank reads an earlier array any more."""
        ...


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


class Messages:
    """Ranks that send to each other."""

    def __init__(self, comm: Any):
        self.comm = comm

    def gathered(self, shape: tuple[int, ...], dtype: DTypeLike, fill: Fill) -> Any:
        """Add up what the ranks filled in; nobody fills what another does."""
        found = np.zeros(shape, dtype=dtype)
        fill(found)
        return found if self.comm.size == 1 or found.size == 0 else summed(self.comm, found)

    def wait(self) -> None:
        """Nothing to wait for: every rank has arrays of its own."""


class SharedMemory:
    """Ranks of one machine.

    `allocate(comm, n)` gives all ranks the same n bytes, and a function that frees them.
    """

    def __init__(self, comm: Any, allocate: Callable[[Any, int], tuple[Any, Callable[[], None]]]):
        self.comm = comm
        self._allocate = allocate
        # Two in turn, as some ranks may still read one while others fill the next; and one that sweeps use.
        self._rooms: dict[int, tuple[Any, Callable[[], None]]] = {}
        self._turn = 0

    def gathered(self, shape: tuple[int, ...], dtype: DTypeLike, fill: Fill) -> Any:
        """Let every rank write into the same memory."""
        self._turn = 1 - self._turn
        found = self._room(self._turn, shape, dtype)
        fill(found)
        self.comm.Barrier()
        return found

    def wait(self) -> None:
        """Come back when no rank reads an earlier array any more."""
        self.comm.Barrier()

    def sweep_room(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Memory that all ranks see, for one sweep."""
        return self._room(2, shape, dtype)

    def counters(self, n: int) -> Any:
        """Counters that all ranks see, at zero."""
        found = self._room(3, (n,), np.int64)
        self.comm.Barrier()  # nobody is still counting with them
        if self.comm.rank == 0:
            found[:] = 0
        self.comm.Barrier()
        return found

    def _room(self, which: int, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        n = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if which not in self._rooms or len(self._rooms[which][0]) < n + ALIGNED:
            if which in self._rooms:
                self._rooms.pop(which)[1]()
            self._rooms[which] = self._allocate(self.comm, n + n // 2 + ALIGNED)
        room = self._rooms[which][0]
        skip = -room.ctypes.data % ALIGNED
        return room[skip : skip + n].view(dtype).reshape(shape)

    def close(self) -> None:
        """Free all memory."""
        while self._rooms:
            self._rooms.popitem()[1][1]()


def window(comm: Any, n: int) -> tuple[Any, Callable[[], None]]:
    """Memory of n bytes that the ranks of one machine share."""
    from mpi4py import MPI

    held = MPI.Win.Allocate_shared(n if comm.rank == 0 else 0, 1, comm=comm)
    memory: Any = held.Shared_query(0)[0]
    return np.frombuffer(memory, dtype=np.uint8), held.Free


def exchange_of(comm: Any) -> Messages | SharedMemory:
    """Shared memory where all ranks are on one machine, else messages."""
    if comm.size == 1 or not hasattr(comm, "Split_type"):
        return Messages(comm)
    from mpi4py import MPI

    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    is_one = here.size == comm.size
    here.Free()
    return SharedMemory(comm, window) if is_one else Messages(comm)
