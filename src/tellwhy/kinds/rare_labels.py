"""Labels that are common elsewhere and hardly occur in a segment.

The share of a label in a segment is taken to be drawn around its share p in the whole table, as strongly as m
further rows of the table would draw it (a Beta prior, whose m is learned from how far apart segments are). So
few rows as a segment has of a label may then be chance (segments differ anyway, m is small), or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import betabinom

from tellwhy.checks.mistakes import RARE_IN_SEGMENT
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.reading import Labels, labels_of
from tellwhy.kinds.segments import Segments
from tellwhy.results.result import Finding

if TYPE_CHECKING:
    from tellwhy.kinds.table_rows import Selection

MOST_RATIO = 0.1  # of the rows of a label that a segment like the whole table would have
MOST_SHARE = 0.01  # of the rows of the segment
LEAST_STRENGTH = 0.5  # smallest and largest m
MOST_STRENGTH = 1e5
EVIDENCE = math.log(100)  # beyond what the number of segments and labels makes chance of
MOST_LABELS = 1000


def find_rare_labels(selection: Selection, level: Segments, by: Sequence[str]) -> list[Finding]:
    """Rows whose label hardly occurs in their segment, for every column of labels.

    Parameters
    ----------
    selection
        The rows, before any is dropped.
    level
        The narrowest segments.
    by
        Columns that the segments were made of.
    """
    columns = {}
    for name, role in selection.roles.items():
        if role.kind in ("category", "boolean") and name not in by and name in selection.frame.columns:
            known = labels_of(selection.reference, name)
            if 2 <= len(known.names) <= MOST_LABELS:
                columns[name] = known
    n_tried = sum(len(known.names) for known in columns.values()) * len(level.words)
    found: list[Finding] = []
    for name, known in columns.items():
        own = known if selection.reference is selection.frame else labels_of(selection.frame, name)
        found += _in_column(name, own, known, level, n_tried)
    return found


@dataclass(frozen=True, eq=False)
class Counted:
    """Pairs of segment and label that occur: how often, and how often they would if segments were alike."""

    segments: Integers
    labels: Integers
    counts: Integers
    sizes: Integers  # rows of each segment
    shares: Floats  # of each label in the table

    @property
    def expected(self) -> Floats:
        """Rows of each pair in a segment like the whole table."""
        return self.sizes[self.segments] * self.shares[self.labels]

    def strength(self) -> float:
        """m: counts spread (n + m)/(1 + m) times as much around their mean as chance alone makes them."""
        expected = self.expected
        # A pair that does not occur has (0 − n p)²/(n p) = n p: all pairs have n in all.
        spread = float(((self.counts - expected) ** 2 / expected).sum() + self.sizes.sum() - expected.sum())
        degrees = max((int((self.sizes > 0).sum()) - 1) * (int((self.shares > 0).sum()) - 1), 1)
        ratio = spread / degrees
        rows = float((self.sizes.astype(np.float64) ** 2).sum() / self.sizes.sum())
        if ratio <= 1:
            return MOST_STRENGTH
        return float(np.clip((rows - ratio) / (ratio - 1), LEAST_STRENGTH, MOST_STRENGTH))


def counted(labels: Integers, segments: Integers, n_labels: int, n_segments: int) -> Counted:
    """Count labels in segments; rows without either are left out."""
    known = (labels >= 0) & (segments >= 0)
    pairs, counts = np.unique(segments[known] * n_labels + labels[known], return_counts=True)
    shares = np.bincount(labels[known], minlength=n_labels) / max(int(known.sum()), 1)
    sizes = np.bincount(segments[known], minlength=n_segments)
    return Counted(pairs // n_labels, pairs % n_labels, counts, sizes, shares)


def _in_column(name: str, own: Labels, known: Labels, level: Segments, n_tried: int) -> Iterator[Finding]:
    table = counted(known.codes, level.reference, len(known.names), len(level.words))
    if len(table.counts) < 2:
        return
    m = table.strength()
    few = (table.counts <= MOST_RATIO * table.expected) & (
        table.counts <= MOST_SHARE * table.sizes[table.segments]
    )
    place = {label: code for code, label in enumerate(own.names)}
    for k in np.flatnonzero(few):
        n = int(table.sizes[table.segments[k]])
        share = float(table.shares[table.labels[k]])
        chance = float(betabinom.logcdf(int(table.counts[k]), n, m * share, m * (1 - share)))
        evidence = -chance - math.log(n_tried)
        code = place.get(known.names[table.labels[k]], -2)
        rows = np.flatnonzero((level.scored == table.segments[k]) & (own.codes == code))
        if evidence > EVIDENCE and len(rows):
            label = known.names[table.labels[k]]
            yield Finding(
                RARE_IN_SEGMENT.kind,
                (name,),
                tuple(rows.tolist()),
                {"level": label, "segment": level.words[table.segments[k]]},
                {"n_there": int(table.counts[k]), "n_segment": n, "share": share},
                {name: label},
                surprise=evidence,
            )
