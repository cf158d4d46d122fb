"""How weights are cut among threads or ranks: by features (shards) and by classes."""

from __future__ import annotations

from dataclasses import dataclass

from tellwhy.classifiers.svm.threads.records import Share

CLASSES_A_PART = 64  # at least: with fewer, some threads would have much to do for a row and others nothing
LINE = 8  # classes: a cache line of weights, to which two threads should not write


@dataclass(frozen=True)
class Grid:
    """Parts of the weights: the features in `n_slots` parts times the classes in `n_ranges`.

    Examples
    --------
    >>> Grid.of(8, 8, 1000), Grid.of(8, 4, 20), Grid.of(3, 1, 1000)
    (Grid(n_slots=8, n_ranges=1, n_shards=8, n_classes=1000), Grid(n_slots=4, n_ranges=1, n_shards=4, \
n_classes=20), Grid(n_slots=1, n_ranges=3, n_shards=1, n_classes=1000))
    """

    n_slots: int
    n_ranges: int
    n_shards: int
    n_classes: int

    @classmethod
    def of(cls, n: int, n_shards: int, n_classes: int) -> Grid:
        """As many parts as there are threads, or as there is work for.

        Features are cut first: a thread then reads weights that lie side by side.
        """
        best = cls(1, 1, n_shards, n_classes)
        for n_ranges in range(min(n, max(n_classes // CLASSES_A_PART, 1)), 0, -1):
            n_slots = power_of_two(min(n // n_ranges, n_shards))
            if n_slots * n_ranges >= best.n_parts:
                best = cls(n_slots, n_ranges, n_shards, n_classes)
        return best

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.n_slots * self.n_ranges

    def share(self, t: int) -> Share:
        """Part t of weights that are held as a whole."""
        slot, k = divmod(t, self.n_ranges)
        each = self.n_shards // self.n_slots
        low, high = class_range(k, self.n_ranges, 0, self.n_classes)
        return Share(slot * each, (slot + 1) * each, low, high, 0, slot)


def class_range(k: int, n: int, low: int, high: int) -> tuple[int, int]:
    """The k-th of n ranges of the classes low … high, where they are many cut at whole cache lines."""
    line = LINE if high - low >= n * CLASSES_A_PART else 1
    lines = -(-(high - low) // line)
    first = low + line * (lines * k // n)
    last = low + line * (lines * (k + 1) // n)
    return min(first, high), min(last, high)


def power_of_two(n: int) -> int:
    """The largest power of two that is at most n."""
    return 1 << (max(n, 1).bit_length() - 1)
