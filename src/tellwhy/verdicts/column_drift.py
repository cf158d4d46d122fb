"""One column of two tables: how far apart it is, and what moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.score import Floats
from tellwhy.data.columns.dates import Dates, days_since_1970, make_dates, write_iso
from tellwhy.data.columns.reading import read_dates, read_labels, read_numbers_or_missing
from tellwhy.results.notice import Notice
from tellwhy.verdicts.samples import Gap, measure_gap_of_levels, measure_gap_of_numbers, measure_gap_of_rates
from tellwhy.words import tell
from tellwhy.words.numbers import write_number

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_MOST_NAMED = 4  # levels named in a sentence
_FEW_VALUES = 12  # distinct numbers up to which each is told as a level


@dataclass(frozen=True)
class Drift:
    """One comparison of a column between two tables.

    Attributes
    ----------
    column, what
        The column, and what of it was compared: 'values', 'missing cells', 'hour of day' or 'length'.
    size
        From 0 (alike) to 1 (nothing in common).
    p_value, p_adjusted
        Chance of such a difference between two samples of one distribution: alone, and corrected for the
        number of comparisons.
    drifted
        Whether the corrected chance is below the level asked for.
    moved
        What changed, in the user's units.
    new_levels, gone_levels
        Levels that only the new table has, and only the old one, with the number of rows.
    segment
        The rows that were compared, where they are not all: "country = DE".
    """

    column: str
    what: str
    size: float
    p_value: float
    moved: Notice
    p_adjusted: float = 1.0
    drifted: bool = False
    old: Mapping[str, Any] = field(default_factory=dict)
    new: Mapping[str, Any] = field(default_factory=dict)
    new_levels: Mapping[str, int] = field(default_factory=dict)
    gone_levels: Mapping[str, int] = field(default_factory=dict)
    segment: str = ""

    @property
    def name(self) -> str:
        """The column, and where: 'price where country = DE'."""
        return f"{self.column} where {self.segment}" if self.segment else self.column

    @property
    def text(self) -> str:
        """What changed, in the user's units, in words."""
        return tell.notice(self.moved)


def compare_missing(name: str, old: pd.Series, new: pd.Series) -> Drift | None:
    """Compare the shares of missing cells; None where neither table has any."""
    counts = [(int(column.isna().sum()), len(column)) for column in (old, new)]
    if not counts[0][0] and not counts[1][0]:
        return None
    gap = measure_gap_of_rates(counts[0], counts[1])
    rates = [part / whole for part, whole in counts]
    moved = Notice("missing_share", {"before": rates[0], "after": rates[1]})
    return Drift(
        name, "missing cells", gap.size, gap.p_value, moved, old={"share": rates[0]}, new={"share": rates[1]}
    )


def compare_numbers(name: str, old: Floats, new: Floats, what: str = "values") -> Drift | None:
    """Compare numbers; None where one table has none."""
    old = old[np.isfinite(old)]
    new = new[np.isfinite(new)]
    if not len(old) or not len(new):
        return None
    gap = measure_gap_of_numbers(old, new)
    quantiles = [np.quantile(values, _LEVELS) for values in (old, new)]
    moved = _describe_moved_numbers(old, new, gap, quantiles)
    told = [_record_quantiles(found) for found in quantiles]
    return Drift(name, what, gap.size, gap.p_value, moved, old=told[0], new=told[1])


def _record_quantiles(quantiles: Floats) -> dict[str, float]:
    return {f"{100 * level:.0f} %": float(value) for level, value in zip(_LEVELS, quantiles, strict=True)}


def _describe_moved_numbers(old: Floats, new: Floats, gap: Gap, quantiles: list[Floats]) -> Notice:
    """How numbers moved: the median; the ends, where these moved more; shares, where neither did."""
    moves = np.abs(quantiles[1] - quantiles[0])
    middles = {"before": float(quantiles[0][2]), "after": float(quantiles[1][2])}
    if moves[2] > 0 and moves[2] >= 0.5 * moves.max():
        return Notice("median_moved", middles)
    if len(np.unique(old)) <= _FEW_VALUES and len(np.unique(new)) <= _FEW_VALUES:
        return _describe_moved_levels(_count_values(old), _count_values(new))
    ends = [[float(found[0]), float(found[-1])] for found in quantiles]
    if moves.max() > 0 and ends[0] != ends[1]:
        return Notice("range_moved", {"ends_before": ends[0], "ends_after": ends[1], **middles})
    shares = [float((values <= gap.at).mean()) for values in (old, new)]
    return Notice("share_moved", {"up_to": float(gap.at), "before": shares[0], "after": shares[1]})


def _count_values(values: Floats) -> dict[str, int]:
    found, n = np.unique(values, return_counts=True)
    return {write_number(float(value)): int(k) for value, k in zip(found, n, strict=True)}


def compare_levels(name: str, old: pd.Series, new: pd.Series) -> Drift | None:
    """Compare levels; None where one table has none."""
    before = read_labels(old.to_frame(name), name).counts()
    after = read_labels(new.to_frame(name), name).counts()
    if not before or not after:
        return None
    gap = measure_gap_of_levels(before, after)
    return Drift(
        name,
        "values",
        gap.size,
        gap.p_value,
        _describe_moved_levels(before, after),
        old=_compute_shares(before),
        new=_compute_shares(after),
        new_levels={level: n for level, n in after.items() if level not in before},
        gone_levels={level: n for level, n in before.items() if level not in after},
    )


def _compute_shares(counts: Mapping[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    return {level: n / total for level, n in list(counts.items())[:20]}


def _describe_moved_levels(before: Mapping[str, int], after: Mapping[str, int]) -> Notice:
    """Which levels changed most, which are new and which are gone."""
    n_before = sum(before.values())
    n_after = sum(after.values())
    shared = [(level, n / n_before, after[level] / n_after) for level, n in before.items() if level in after]
    shared.sort(key=lambda each: -abs(each[2] - each[1]))
    new = {level: n for level, n in after.items() if level not in before}
    gone = {level: n for level, n in before.items() if level not in after}
    return Notice(
        "levels_moved",
        {
            "new": _take_largest(new),
            "gone": _take_largest(gone),
            "shares": [list(each) for each in shared[:_MOST_NAMED]],
        },
    )


def _take_largest(levels: Mapping[str, int]) -> dict[str, Any]:
    """The most frequent of some levels, and how many more there are."""
    shown = sorted(levels, key=lambda level: -levels[level])[:_MOST_NAMED]
    return {"levels": {level: levels[level] for level in shown}, "n_more": len(levels) - len(shown)}


def compare_dates(name: str, old: pd.Series, new: pd.Series) -> Drift | None:
    """Compare dates by their days; None where one table has none."""
    days = [days_since_1970(read_dates(column.to_frame(name), name, "iso")) for column in (old, new)]
    found = compare_numbers(name, days[0], days[1])
    if found is None:
        return None
    middles = [write_iso(make_dates(np.array([np.floor(np.nanmedian(d))])))[0] for d in days]
    moved = Notice("median_moved", {"before": middles[0], "after": middles[1]})
    return Drift(
        name, "values", found.size, found.p_value, moved, old={"50 %": middles[0]}, new={"50 %": middles[1]}
    )


def compare_hours(name: str, old: Dates, new: Dates) -> Drift | None:
    """Compare the hours of day; None where no date has a time of day."""
    hours = [_read_hours(dates) for dates in (old, new)]
    if not len(hours[0]) or not len(hours[1]) or not (hours[0].any() and hours[1].any()):
        return None
    return compare_numbers(name, hours[0], hours[1], "hour of day")


def _read_hours(dates: Dates) -> Floats:
    filled = dates[~np.isnat(dates)]
    return np.asarray((filled - filled.astype("datetime64[D]")) / np.timedelta64(1, "h"), dtype=np.float64)


def compare_lengths(name: str, old: pd.Series, new: pd.Series) -> Drift | None:
    """Compare the lengths of texts, in characters."""
    lengths = [
        np.asarray(column.dropna().map(lambda cell: len(str(cell))), dtype=np.float64)
        for column in (old, new)
    ]
    return compare_numbers(name, lengths[0], lengths[1], "length")


def compare_values(name: str, kind: str, old: pd.Series, new: pd.Series) -> Drift | None:
    """Compare a column of a kind; None where there is nothing to compare."""
    if kind == "number":
        return compare_numbers(name, read_numbers_or_missing(old), read_numbers_or_missing(new))
    if kind == "date":
        return compare_dates(name, old, new)
    if kind == "text":
        return compare_lengths(name, old, new)
    return compare_levels(name, old, new) if kind in ("category", "boolean", "constant") else None
