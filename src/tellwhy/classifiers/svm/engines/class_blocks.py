"""Class blocks: the classes cut into parts, with the weights of each part in an array of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm.engines.records import Block, Examples
from tellwhy.classifiers.svm.problem import PAIR_LOSSES, Problem
from tellwhy.classifiers.svm.schedule import balanced_blocks
from tellwhy.classifiers.svm.threads.workers import Workers, ranges
from tellwhy.core.score_function import Integers

CACHE_LINE = 64
RANGES = 8  # of one block, which have about as many rows each
SUMMED_FEATURES = 1024  # of a sum that threads share
TRANSPOSED_FEATURES = 256  # few enough to stay in the cache
FEW_CLASSES = 8  # with fewer there is too little work in a block for a thread of its own
MANY_CLASSES = 256


def default_blocks(problem: Problem) -> int:
    """How many blocks to cut the classes of a problem into.

    A Weston–Watkins row is solved for all classes at once where they form one block; cut into several, it
    takes more epochs, up to many more where every class is in play. Losses that judge each class on its own
    take few more epochs with more blocks, which threads share.
    """
    if problem.loss in PAIR_LOSSES or problem.n_classes < FEW_CLASSES:
        return 1
    return 4 if problem.n_classes < MANY_CLASSES else 8


@dataclass(frozen=True)
class ClassBlocks:
    """Classes cut into blocks: class c is column `position[c] % width` of block `position[c] // width`."""

    members: list[Integers]
    position: Integers
    width: int

    @classmethod
    def of_problem(cls, problem: Problem, sizes: Integers, n_blocks: int | None) -> ClassBlocks:
        """Cut the classes of a problem into so many blocks; None: as many as are good for it."""
        n = default_blocks(problem) if n_blocks is None else n_blocks
        return cls.of(sizes, min(n, problem.n_classes), problem.dtype.itemsize)

    @classmethod
    def of(cls, sizes: Integers, n_blocks: int, itemsize: int) -> ClassBlocks:
        """Balance classes with so many examples each."""
        members = balanced_blocks(sizes, n_blocks)
        if n_blocks == 1:
            # Threads and ranks have ranges of it: frequent classes must not all be in the same.
            members = [np.concatenate(balanced_blocks(sizes, min(RANGES, len(sizes))))]
        # Whole cache lines: threads that write to different blocks would else slow each other down.
        a_line = CACHE_LINE // itemsize
        width = -(-max(len(m) for m in members) // a_line) * a_line
        position = np.empty(len(sizes), dtype=np.int64)
        for b, classes in enumerate(members):
            position[classes] = b * width + np.arange(len(classes))
        return cls(members, position, width)

    def __len__(self) -> int:
        return len(self.members)

    def n_classes(self, b: int) -> int:
        """Number of classes of a block."""
        return len(self.members[b])

    def block_of(self, classes: Integers) -> Integers:
        """The block that each of some classes is in."""
        return np.asarray(self.position[classes] // self.width)

    def as_block(self, b: int, weights: Any) -> Block:
        """Weights of a block as the compiled loops take them."""
        return Block(weights, b * self.width, self.n_classes(b))

    def joined(self, weights: dict[int, Any]) -> Any:
        """Weights of all classes, features × classes, in memory one class after the other."""
        n_features = weights[0].shape[0]
        found = np.empty((len(self.position), n_features), dtype=weights[0].dtype)
        # A few features at a time: writing whole columns of a large array would miss the cache every time.
        for b, classes in enumerate(self.members):
            for first, last in ranges(n_features, TRANSPOSED_FEATURES):
                found[classes, first:last] = weights[b][first:last, : len(classes)].T
        return found.T


def examples_of(problem: Problem, chosen: Integers, blocks: ClassBlocks) -> Examples:
    """Some examples of a problem as the compiled loops take them."""
    caps = problem.caps[chosen]
    unbounded = np.full(len(chosen), np.inf)
    has_sum_cap = problem.loss == "cs"
    own = problem.own.take(chosen)
    return Examples(
        rows=problem.rows[chosen],
        labels=blocks.position[problem.labels[chosen]] % blocks.width,
        squares=problem.squares[chosen],
        caps=unbounded if has_sum_cap else caps,
        sum_caps=caps if has_sum_cap else unbounded,
        own_at=own.at,
        own=blocks.position[own.classes],
        own_is_positive=problem.loss == "ovr",
    )


def aligned_zeros(shape: tuple[int, int], dtype: DTypeLike) -> Any:
    """Zeros that begin with a cache line."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    room = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    skip = -room.ctypes.data % CACHE_LINE
    return room[skip : skip + size].view(dtype).reshape(shape)


def half_square(weights: dict[int, Any], workers: Workers) -> float:
    """½ Σ ‖W‖² over blocks, summed in double precision."""
    parts = [W[first:last] for W in weights.values() for first, last in ranges(len(W), SUMMED_FEATURES)]
    # Parts of the same sizes for any number of threads, added in the same order: the same bits.
    return 0.5 * float(sum(workers.map(lambda W: np.einsum("fc,fc->", W, W, dtype=np.float64), parts)))
