"""Bundles of classes, groups of examples and the ragged dual variables between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.problem import Labels, Problem
from tellwhy.classifiers.svm.schedule import balanced_bundles
from tellwhy.classifiers.svm.threads._compiled_batches import drop_zeros
from tellwhy.core.score_function import Floats, Integers

CACHE_LINE = 64
TRANSPOSED_ROWS = 256  # few enough to stay in the cache
CERTIFY_ROWS = 2048  # examples per task of a certificate


@dataclass(frozen=True)
class Bundles:
    """Classes cut into bundles: class c is column `position[c] % width` of bundle `position[c] // width`.

    The width fills whole cache lines, so that threads which write to different bundles do not share any.
    """

    members: list[Integers]
    position: Integers
    width: int

    @classmethod
    def of(cls, sizes: Integers, n_bundles: int, itemsize: int) -> Bundles:
        """Balance classes with so many examples each."""
        members = balanced_bundles(sizes, n_bundles)
        lane = CACHE_LINE // itemsize
        width = -(-max(len(m) for m in members) // lane) * lane
        position = np.empty(len(sizes), dtype=np.int64)
        for b, classes in enumerate(members):
            position[classes] = b * width + np.arange(len(classes))
        return cls(members, position, width)

    def __len__(self) -> int:
        return len(self.members)


@dataclass
class Group:
    """Examples whose labels lie in one bundle (or all examples), as the pair kernels read them."""

    examples: Integers
    rows: Integers
    labels: Integers
    norms: Floats
    tops: Floats
    totals: Floats
    owned: Labels

    @classmethod
    def of(cls, problem: Problem, examples: Integers, bundles: Bundles) -> Group:
        """Gather some examples of a problem."""
        endless, caps = np.full(len(examples), np.inf), problem.caps[examples]
        owned = problem.owned.take(examples)
        return cls(
            examples,
            problem.rows[examples],
            bundles.position[problem.labels[examples]] % bundles.width,
            problem.norms[examples],
            caps if problem.loss == "ww" else endless,
            endless if problem.loss == "ww" else caps,
            Labels(owned.at, bundles.position[owned.owned]),
        )


@dataclass
class Lists:
    """Dual variables of a block: those of its example r are entries start[r] … start[r] + count[r]."""

    start: Integers
    count: Any
    cls: Any
    val: Any
    idle: Any
    used: int = 0

    @classmethod
    def empty(cls, n: int, dtype: Any) -> Lists:
        """All variables at zero."""
        return cls(
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int32),
            np.zeros(0, dtype=np.int32),
            np.zeros(0, dtype=dtype),
            np.zeros(n, dtype=np.int8),
        )

    def replace_parts(self, parts: list[tuple[int, int, Any, Any]]) -> None:
        """Take the lists of consecutive ranges of rows, whose `start` counts from each range's own beginning.

        `parts` is empty afterwards: lists can be larger than the weights, so that nothing is kept twice.
        """
        used = sum(len(part[2]) for part in parts)
        self.cls = self.val = None
        self.cls, self.val = np.empty(used, dtype=np.int32), np.empty(used, dtype=parts[0][3].dtype)
        used = 0
        parts.reverse()
        while parts:
            first, last, cls, val = parts.pop()
            self.start[first:last] += used
            self.cls[used : used + len(cls)], self.val[used : used + len(cls)] = cls, val
            used += len(cls)
        self.idle[:], self.used = 0, used

    def make_room(self, more: int) -> None:
        """Have room for more entries behind those that are used."""
        if self.used + more > len(self.cls):
            size = max(self.used + more, 2 * len(self.cls))
            for name in ("cls", "val"):
                old = getattr(self, name)
                new = np.empty(size, dtype=old.dtype)
                new[: self.used] = old[: self.used]
                setattr(self, name, new)

    def drop_zeros(self) -> None:
        """List only variables that are not zero."""
        kept = int(np.count_nonzero(self.val[: self.used]))
        cls, val = np.empty(kept, dtype=np.int32), np.empty(kept, dtype=self.val.dtype)
        drop_zeros(self.start, self.count, self.cls, self.val, cls, val)
        self.cls, self.val, self.used = cls, val, kept

    def entries(self, examples: Integers, classes: Integers) -> tuple[Integers, Integers, Any]:
        """Example, class and value of every variable that is not zero."""
        ends = np.cumsum(self.count, dtype=np.int64)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.start - ends + self.count, self.count)
        held = self.val[at] != 0
        return np.repeat(examples, self.count)[held], classes[self.cls[at]][held], self.val[at][held]

    def set_from(self, table: Any, dtype: Any) -> None:
        """Take variables from a sparse matrix, examples × the classes of one bundle."""
        table = sparse.csr_array(table)
        self.start[:], self.count[:] = table.indptr[:-1], np.diff(table.indptr)
        self.cls, self.val = table.indices.astype(np.int32), table.data.astype(dtype)
        self.idle[:], self.used = 0, len(self.cls)


def aligned_zeros(shape: tuple[int, int], dtype: Any) -> Any:
    """Zeros that begin with a cache line."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    room = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    skip = -room.ctypes.data % CACHE_LINE
    return room[skip : skip + size].view(dtype).reshape(shape)


def unbundled(W: dict[int, Any], bundles: Bundles) -> Any:
    """Weights of all classes, features × classes, in memory one class after the other."""
    d, dtype = W[0].shape[0], W[0].dtype
    found = np.empty((sum(len(m) for m in bundles.members), d), dtype=dtype)
    for b, classes in enumerate(bundles.members):
        for first, last in ranges(d, TRANSPOSED_ROWS):
            found[classes, first:last] = W[b][first:last, : len(classes)].T
    return found.T


def gathered(pieces: list[tuple[Integers, Integers, Any]], shape: tuple[int, int]) -> Any:
    """Entries of several blocks as one sparse matrix."""
    rows, columns, values = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return sparse.csr_array((values, (rows, columns)), shape=shape)


def ranges(n: int, size: int = CERTIFY_ROWS) -> list[tuple[int, int]]:
    """Consecutive ranges of at most `size`."""
    return [(first, min(first + size, n)) for first in range(0, n, size)] or [(0, 0)]


class Workers:
    """Threads that run compiled tasks; with one thread, the caller does the work."""

    def __init__(self, n_threads: int):
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        if self._pool is not None:
            self._start(self._pool)

    def _start(self, pool: ThreadPoolExecutor) -> None:
        """Have all threads there from now on: tasks may wait for each other, and the pool counts idle ones loosely."""
        ready = Event()
        try:
            for _ in range(self.n_threads):
                pool.submit(ready.wait)
        finally:
            ready.set()

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
        """Results of all tasks, in order."""
        if self._pool is None:
            return [function(task) for task in tasks]
        return list(self._pool.map(function, tasks))

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
