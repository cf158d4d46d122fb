"""Dual variables as ragged lists, of class blocks, in rounds: what is not listed is zero, and is not swept.

Classes are cut into blocks, with the weights of each in an array of its own. In a round every pair of blocks
(or of ranks) that is worked on has nothing in common with the others, so that they can be worked on at the
same time. This is the round-robin of a tournament, the 1-factorization of the complete graph. With an even
number one stands in the centre and the others on a circle; in round r the centre is paired with number r, and
the others across the line between these two. With an odd number, the one that would be paired with the centre
rests. Certificates are taken in parts that threads share: sums over all of them, and lists made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from tellwhy.classifiers.svm._compiled_lists import count_nonzero, drop_zeros
from tellwhy.classifiers.svm.problem import PAIR_LOSSES, Problem
from tellwhy.classifiers.svm.records import Block, Certified, Examples, ListArrays
from tellwhy.classifiers.svm.threads.row_batches import Workers, ranges
from tellwhy.core.score import Integers

EXAMPLES_A_TASK = 1024


class Part(NamedTuple):
    """New lists of consecutive examples first … last, whose `starts` count from the part's own beginning."""

    first: int
    last: int
    classes: Any
    duals: Any


class Nonzeros(NamedTuple):
    """Example, class and value of variables that are not zero."""

    examples: Integers
    classes: Integers
    duals: Any


@dataclass
class DualLists:
    """Dual variables of some examples: those of example e are entries starts[e] … starts[e] + lengths[e]."""

    starts: Integers
    lengths: Any
    classes: Any
    duals: Any
    idle: Any  # for how many visits in a row an example had only a negligible violation
    used: int = 0

    @classmethod
    def empty(cls, n: int, dtype: DTypeLike) -> DualLists:
        """All variables at zero."""
        return cls(
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int32),
            np.zeros(0, dtype=np.int32),
            np.zeros(0, dtype=dtype),
            np.zeros(n, dtype=np.int8),
        )

    @property
    def arrays(self) -> ListArrays:
        """The arrays as the compiled loops take them."""
        return ListArrays(self.starts, self.lengths, self.classes, self.duals, self.idle)

    def keep(self, arrays: ListArrays, used: int) -> None:
        """Take lists that a compiled loop has made longer."""
        self.classes = arrays.classes
        self.duals = arrays.duals
        self.used = used

    def replace_parts(self, parts: list[Part], workers: Workers | None = None) -> None:
        """Take the lists of consecutive parts of the examples.

        `parts` is empty afterwards: lists can be larger than the weights, so that nothing is kept twice.
        """
        places = np.cumsum([0, *(len(part.classes) for part in parts)])
        n = int(places[-1])
        dtype = parts[0].duals.dtype
        self.classes = None  # freed before the new ones are there
        self.duals = None
        self.classes = np.empty(n, dtype=np.int32)
        self.duals = np.empty(n, dtype=dtype)
        self.used = n
        self.idle[:] = 0
        left: list[Part | None] = [*parts]
        parts.clear()

        def take(k: int) -> None:
            part = left[k]
            left[k] = None
            if part is not None:
                self._take_part(part, int(places[k]))

        (workers or Workers(1)).map(take, range(len(left)))

    def _take_part(self, part: Part, at: int) -> None:
        end = at + len(part.classes)
        self.starts[part.first : part.last] += at
        self.classes[at:end] = part.classes
        self.duals[at:end] = part.duals

    def make_room(self, more: int) -> None:
        """Have room for more entries behind those that are used."""
        if self.used + more <= len(self.classes):
            return
        size = max(self.used + more, 2 * len(self.classes))
        self.classes = _longer(self.classes, self.used, size)
        self.duals = _longer(self.duals, self.used, size)

    def drop_zeros(self, workers: Workers | None = None) -> None:
        """List only variables that are not zero."""
        workers = workers or Workers(1)
        parts = ranges(len(self.starts), EXAMPLES_A_TASK)
        counts = workers.map(lambda part: count_nonzero(*part, self.arrays), parts)
        places = np.cumsum([0, *counts])
        kept = int(places[-1])
        classes = np.empty(kept, dtype=np.int32)
        duals = np.empty(kept, dtype=self.duals.dtype)
        arrays = self.arrays
        workers.map(
            lambda k: drop_zeros(*parts[k], arrays, int(places[k]), classes, duals), range(len(parts))
        )
        self.classes = classes
        self.duals = duals
        self.used = kept

    def nonzeros(self, examples: Integers, classes: Integers) -> Nonzeros:
        """Every variable that is not zero; `examples` and `classes` are the numbers of those listed here."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        n = ends[-1] if len(ends) else 0
        at = np.arange(n) + np.repeat(self.starts - ends + self.lengths, self.lengths)
        held = self.duals[at] != 0
        return Nonzeros(
            np.repeat(examples, self.lengths)[held], classes[self.classes[at]][held], self.duals[at][held]
        )

    def set_from(self, table: Any, dtype: DTypeLike) -> None:
        """Take variables from a sparse matrix, examples × classes."""
        table = sparse.csr_array(table)
        table.sort_indices()  # as everywhere: threads look for their classes in a list
        self.starts[:] = table.indptr[:-1]
        self.lengths[:] = np.diff(table.indptr)
        self.classes = table.indices.astype(np.int32)
        self.duals = table.data.astype(dtype)
        self.idle[:] = 0
        self.used = len(self.classes)


def _longer(array: Any, used: int, size: int) -> Any:
    found = np.empty(size, dtype=array.dtype)
    found[:used] = array[:used]
    return found


def gathered(parts: list[Nonzeros], shape: tuple[int, int]) -> Any:
    """Variables of several lists as one sparse matrix, examples × classes."""
    examples = np.concatenate([part.examples for part in parts])
    classes = np.concatenate([part.classes for part in parts])
    duals = np.concatenate([part.duals for part in parts])
    return sparse.csr_array((duals, (examples, classes)), shape=shape)


Key = TypeVar("Key")


@dataclass(frozen=True)
class Sums:
    """Σ losses and Σ dual variables of some lists, and their largest violation."""

    losses: float
    dual_sum: float
    worst: float


def certify_lists(
    lists: Mapping[Key, DualLists],
    certify_part: Callable[[Key, tuple[int, int]], Certified],
    workers: Workers,
) -> Sums:
    """Certify the examples of each list, some at a time, and list every variable that may have to move."""
    for some in lists.values():
        some.drop_zeros(workers)
    tasks = [(key, part) for key, some in lists.items() for part in ranges(len(some.lengths))]
    found = workers.map(lambda task: certify_part(*task), tasks)
    # Summed in the order of the tasks, whoever did them: the same bits for any number of threads.
    losses = sum(part.losses for part in found)
    dual_sum = sum(part.dual_sum for part in found)
    worst = max((part.worst for part in found), default=0.0)
    parts: dict[Key, list[Part]] = {key: [] for key in lists}
    for (key, (first, last)), part in zip(tasks, found, strict=True):
        parts[key].append(Part(first, last, part.classes, part.duals))
    # Lists can be larger than the weights: without these names each is freed as soon as it is copied.
    del found, part
    for key, some in lists.items():
        some.replace_parts(parts[key], workers)
    return Sums(losses, dual_sum, worst)


def partner(n: int, c: int, r: int) -> int | None:
    """Whom c is paired with in round r, all counted from 1; None where it rests.

    Examples
    --------
    >>> [partner(4, c, 1) for c in (1, 2, 3, 4)]
    [4, 3, 2, 1]
    >>> [partner(3, c, 2) for c in (1, 2, 3)]
    [3, None, 1]
    """
    is_even = n % 2 == 0
    on_circle = n - 1 if is_even else n
    if is_even and c == n:
        return r
    if c == r:
        return n if is_even else None
    # Mirrored at r on the circle. Algorithm 4 of the thesis, as printed, leaves the circle here.
    return (2 * r - c - 1) % on_circle + 1


def rounds(n: int) -> list[list[tuple[int, int]]]:
    """All rounds among n, counted from 0: pairs of one round are disjoint, and every pair occurs once.

    Examples
    --------
    >>> rounds(4)
    [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    """
    n_rounds = n if n % 2 else n - 1
    found = [_round(n, r) for r in range(1, n_rounds + 1)]
    return [pairs for pairs in found if pairs]


def _round(n: int, r: int) -> list[tuple[int, int]]:
    pairs = []
    for c in range(1, n + 1):
        other = partner(n, c, r)
        if other is not None and c < other:
            pairs.append((c - 1, other - 1))
    return pairs


def cut_balanced_blocks(sizes: Integers, n_blocks: int) -> list[Integers]:
    """Cut classes into blocks that differ by at most one class and hold about as many rows each.

    The largest classes are dealt first, each to the block with the fewest rows that still has a place.

    Examples
    --------
    >>> [block.tolist() for block in cut_balanced_blocks(np.array([9, 1, 5, 5]), 2)]
    [[0, 1], [2, 3]]
    """
    n = len(sizes)
    places = np.full(n_blocks, n // n_blocks)
    places[: n % n_blocks] += 1
    rows = np.zeros(n_blocks)
    members: list[list[int]] = [[] for _ in range(n_blocks)]
    for c in np.argsort(-np.asarray(sizes), kind="stable"):
        open_rows = np.where(places > [len(m) for m in members], rows, np.inf)
        to = int(np.argmin(open_rows))
        members[to].append(int(c))
        rows[to] += sizes[c]
    return [np.sort(np.array(m, dtype=np.int64)) for m in members]


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
        members = cut_balanced_blocks(sizes, n_blocks)
        if n_blocks == 1:
            # Threads and ranks have ranges of it: frequent classes must not all be in the same.
            members = [np.concatenate(cut_balanced_blocks(sizes, min(RANGES, len(sizes))))]
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


def make_aligned_zeros(shape: tuple[int, int], dtype: DTypeLike) -> Any:
    """Zeros that begin with a cache line."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    room = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    skip = -room.ctypes.data % CACHE_LINE
    return room[skip : skip + size].view(dtype).reshape(shape)


def sum_half_squares(weights: dict[int, Any], workers: Workers) -> float:
    """½ Σ ‖W‖² over blocks, summed in double precision."""
    parts = [W[first:last] for W in weights.values() for first, last in ranges(len(W), SUMMED_FEATURES)]
    # Parts of the same sizes for any number of threads, added in the same order: the same bits.
    return 0.5 * float(sum(workers.map(lambda W: np.einsum("fc,fc->", W, W, dtype=np.float64), parts)))
