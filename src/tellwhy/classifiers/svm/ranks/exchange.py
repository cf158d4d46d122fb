"""How ranks put together what each of them knows, and how weights are cut over them.

Ranks of one machine write into the same memory and wait for each other, as threads do. Ranks of several
machines send: every rank fills its part of an array of zeros, and the arrays are added up. Each number is
then the sum of one number and zeros, so that no bit depends on the order of the sum.

Weston–Watkins and Crammer–Singer models are cut by features and by classes. A rank that has a part of the
features needs only these columns of the rows, and reads the weights of whole rows of classes, which lie side
by side; what parts of the features contribute to scores has to be added up. Ranks that have the same features
and other classes each hold the same columns. With eight threads on documents four parts of the features times
two of the classes were 1.6 times faster than eight parts of the classes, so that features are cut as far as
rows have entries to share, and classes for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm.records import Share
from tellwhy.classifiers.svm.threads.row_batches import find_class_range, merge_shards, n_shards
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score import Integers

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
        self._buffers: dict[int, tuple[Any, Callable[[], None]]] = {}
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
        if which not in self._buffers or len(self._buffers[which][0]) < n + ALIGNED:
            if which in self._buffers:
                self._buffers.pop(which)[1]()
            self._buffers[which] = self._allocate(self.comm, n + n // 2 + ALIGNED)
        room = self._buffers[which][0]
        skip = -room.ctypes.data % ALIGNED
        return room[skip : skip + n].view(dtype).reshape(shape)

    def close(self) -> None:
        """Free all memory."""
        while self._buffers:
            self._buffers.popitem()[1][1]()


def window(comm: Any, n: int) -> tuple[Any, Callable[[], None]]:
    """Memory of n bytes that the ranks of one machine share."""
    from mpi4py import MPI

    held = MPI.Win.Allocate_shared(n if comm.rank == 0 else 0, 1, comm=comm)
    memory: Any = held.Shared_query(0)[0]
    return np.frombuffer(memory, dtype=np.uint8), held.Free


def choose_exchange(comm: Any) -> Messages | SharedMemory:
    """Shared memory where all ranks are on one machine, else messages."""
    if comm.size == 1 or not hasattr(comm, "Split_type"):
        return Messages(comm)
    from mpi4py import MPI

    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    is_one = here.size == comm.size
    here.Free()
    return SharedMemory(comm, window) if is_one else Messages(comm)


ENTRY = 12  # bytes of an entry of a sparse row in double precision
ROW = 350  # bytes that every rank keeps of every row: its label, bounds, products with its neighbours


@dataclass(frozen=True)
class Size:
    """How large a training is."""

    n_rows: int
    n_entries: int
    n_features: int
    n_classes: int
    itemsize: int = 8

    @property
    def weights(self) -> int:
        """Bytes of all weights."""
        return self.n_features * self.n_classes * self.itemsize

    @property
    def entries(self) -> int:
        """Bytes of all entries of the rows."""
        return self.n_entries * (ENTRY - 8 + self.itemsize)

    @property
    def n_shards(self) -> int:
        """Into how many parts the features may be cut."""
        return n_shards(self.n_entries / max(self.n_rows, 1), self.n_classes)


@dataclass(frozen=True)
class Plan:
    """Ranks as a table: `n_slots` parts of the features × `n_ranges` parts of the classes.

    Examples
    --------
    >>> plan = Plan.of(8, Size(1_000_000, 100_000_000, 100_000, 10_000))
    >>> plan.n_slots, plan.n_ranges
    (8, 1)
    >>> print(plan.words)
    8 ranks: the features in 8 parts × the classes in 1; about 1.5 GB each (weights 1, rows 0.5)
    """

    size: Size
    n_slots: int
    n_ranges: int

    @classmethod
    def of(cls, n_ranks: int, size: Size, feature_parts: int | None = None) -> Plan:
        """Cut features in as many parts as rows have entries for, or as told, and classes for the rest."""
        possible = [n for n in (1, 2, 4, 8) if n_ranks % n == 0 and n <= size.n_shards]
        if feature_parts is not None:
            if feature_parts not in possible:
                told = ", ".join(str(n) for n in possible)
                raise InvalidParameter(
                    f"The 'feature_parts' parameter of fit-svm must be one of {told} for {n_ranks} ranks and "
                    f"rows of {size.n_entries / max(size.n_rows, 1):.0f} entries. Got {feature_parts} "
                    "instead."
                )
            return cls(size, feature_parts, n_ranks // feature_parts)
        return cls(size, possible[-1], n_ranks // possible[-1])

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return self.n_slots * self.n_ranges

    @property
    def bytes_a_rank(self) -> tuple[float, float]:
        """Bytes of the weights and of the rows that a rank holds."""
        rows = self.size.entries / self.n_slots + ROW * self.size.n_rows
        return self.size.weights / self.n_ranks, rows

    @property
    def words(self) -> str:
        """The plan in a line."""
        weights, rows = (n / 1e9 for n in self.bytes_a_rank)
        parts = "part" if self.n_slots == 1 else "parts"
        cut = f"the features in {self.n_slots} {parts} × the classes in {self.n_ranges}"
        held = f"about {weights + rows:.2g} GB each (weights {weights:.2g}, rows {rows:.2g})"
        return f"{self.n_ranks} ranks: {cut}; {held}"

    def part(self, rank: int, dealt: Integers) -> RankPart:
        """What one rank holds, of features that were shared out by `deal_out_features`."""
        slot, k = divmod(rank, self.n_ranges)
        each = self.size.n_shards // self.n_slots
        shard = merge_shards(dealt, self.size.n_shards)
        features = np.flatnonzero(shard // each == slot)
        low, high = find_class_range(k, self.n_ranges, 0, self.size.n_classes)
        return RankPart(self, slot, features, shard[features] - slot * each, low, high)


@dataclass(frozen=True)
class RankPart:
    """Features, their shards, and the classes low … high that one rank holds."""

    plan: Plan
    slot: int
    features: Integers
    shards: Integers  # of each feature held, counted from the rank's first
    low: int
    high: int

    @property
    def n_shards(self) -> int:
        """Shards held."""
        return self.plan.size.n_shards // self.plan.n_slots

    def share(self, t: int = 0, n_threads: int = 1) -> Share:
        """What thread t of the rank reads and moves."""
        low, high = find_class_range(t, n_threads, self.low, self.high)
        return Share(0, self.n_shards, low, high, self.low, self.slot)
