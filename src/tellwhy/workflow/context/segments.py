"""Segments: the rows that share their values in the columns that `by` names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers
from tellwhy.data.columns.roles import Role
from tellwhy.data.quality.words import number_text
from tellwhy.workflow.tables.request import cell_text

MOST_NUMBERS = 20  # different numbers in a column that are segments as they stand
PARTS = 10  # of equally many rows, into which a column with more numbers is cut
NONE = -1


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments of the reference rows, and which of them each row is in.

    Attributes
    ----------
    words
        Each segment: 'role = intern and country = DE'.
    scored, reference
        Number of the segment of each row; −1 where a cell is missing, or no reference row is like it.
    """

    words: tuple[str, ...]
    scored: Integers
    reference: Integers


def nested_segments(
    scored: pd.DataFrame, reference: pd.DataFrame, roles: dict[str, Role], source: str
) -> list[Segments]:
    """Segments by the first column, by the first two, and so on: each within the one before.

    Parameters
    ----------
    scored, reference
        The columns to segment by, read as their roles say; the same frame where the reference is the table.
    roles
        What each column is.
    source
        What the table is called in an error.
    """
    found: list[Segments] = []
    for name in scored.columns:
        own = _segments_of(scored[name], reference[name], roles[name], source)
        found.append(own if not found else _within(found[-1], own))
    return found


def _segments_of(scored: pd.Series, reference: pd.Series, role: Role, source: str) -> Segments:
    name = str(scored.name)
    if role.kind == "date":
        raise InvalidInput(
            f"Column {name!r} of {source} holds dates, and rows are not segmented by dates. Use --time "
            f"{name} to judge rows beside what their time of the week has."
        )
    if role.kind == "number" and reference.nunique() > MOST_NUMBERS:
        return _tenths(name, _floats(scored), _floats(reference))
    codes, levels = pd.factorize(reference)  # missing cells have −1
    words = tuple(f"{name} = {cell_text(level)}" for level in levels)
    if scored is reference:
        return Segments(words, codes.astype(np.int64), codes.astype(np.int64))
    place = pd.Index(levels).get_indexer(pd.Index(scored))
    place = np.where(scored.isna().to_numpy(), NONE, place)
    return Segments(words, place.astype(np.int64), codes.astype(np.int64))


def _floats(column: pd.Series) -> Floats:
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)


def _tenths(name: str, scored: Floats, reference: Floats) -> Segments:
    """Cut numbers where a tenth of the rows lies between two cuts."""
    filled = reference[np.isfinite(reference)]
    cuts = np.unique(np.quantile(filled, np.linspace(0, 1, PARTS + 1)[1:-1], method="lower"))
    ends = np.concatenate([[filled.min()], cuts, [filled.max()]])
    pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    words = tuple(f"{name} = {number_text(low)}–{number_text(high)}" for low, high in pairs)
    return Segments(words, _part(scored, cuts), _part(reference, cuts))


def _part(values: Floats, cuts: Floats) -> Integers:
    part = np.searchsorted(cuts, values, side="left")
    return np.where(np.isnan(values), NONE, part).astype(np.int64)


def _within(outer: Segments, inner: Segments) -> Segments:
    """Pairs of segments that occur among the reference rows."""
    n_inner = len(inner.words)
    pairs = _pair(outer.reference, inner.reference, n_inner)
    codes, levels = pd.factorize(np.where(pairs < 0, np.nan, pairs))
    words = [f"{outer.words[int(p) // n_inner]} and {inner.words[int(p) % n_inner]}" for p in levels]
    scored = _pair(outer.scored, inner.scored, n_inner)
    place = pd.Index(levels).get_indexer(pd.Index(np.where(scored < 0, np.nan, scored)))
    return Segments(tuple(words), place.astype(np.int64), codes.astype(np.int64))


def _pair(outer: Integers, inner: Integers, n_inner: int) -> Integers:
    return np.where((outer < 0) | (inner < 0), NONE, outer * n_inner + inner)


def deepest(levels: Sequence[Segments], rows: Integers) -> tuple[Integers, Integers]:
    """For each scored row, the narrowest level at which it has a segment, and the segment; −1 for none."""
    level = np.full(len(rows), NONE, dtype=np.int64)
    segment = np.full(len(rows), NONE, dtype=np.int64)
    for depth, found in enumerate(levels):
        own = found.scored[rows]
        level = np.where(own >= 0, depth, level)
        segment = np.where(own >= 0, own, segment)
    return level, segment
