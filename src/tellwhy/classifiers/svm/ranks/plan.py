"""How the weights of a Weston–Watkins or Crammer–Singer model are cut over ranks: by features and by classes.

A rank that has a part of the features needs only these columns of the rows, and reads the weights of whole
rows of classes, which lie side by side; what parts of the features contribute to scores has to be added up.
Ranks that have the same features and other classes each hold the same columns. With eight threads on
documents four parts of the features times two of the classes were 1.6 times faster than eight parts of the
classes, so that features are cut as far as rows have entries to share, and classes for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.classifiers.svm.threads.grid import class_range
from tellwhy.classifiers.svm.threads.records import Share
from tellwhy.classifiers.svm.threads.row_batches import merged_shards, n_shards
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score_function import Integers

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
        """What one rank holds, of features that were shared out by `dealt_features`."""
        slot, k = divmod(rank, self.n_ranges)
        each = self.size.n_shards // self.n_slots
        shard = merged_shards(dealt, self.size.n_shards)
        features = np.flatnonzero(shard // each == slot)
        low, high = class_range(k, self.n_ranges, 0, self.size.n_classes)
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
        low, high = class_range(t, n_threads, self.low, self.high)
        return Share(0, self.n_shards, low, high, self.low, self.slot)
