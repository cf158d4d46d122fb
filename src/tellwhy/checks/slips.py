"""Slips of the decimal point and of the unit.

By what factors the units of a column may differ, told from its name or the unit it is written with.

Values that fit once they are scaled: a slipped decimal point, pounds among kilograms, °F among °C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.checks.chance import LEVEL, fit_tail, many, tail_size
from tellwhy.checks.facts import Facts
from tellwhy.checks.mistakes import DECIMAL_SLIP, MIXED_UNITS
from tellwhy.core.arrays import evenly_spread
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.names import words_of
from tellwhy.results.result import Finding

# What a measure is called, and by how much its units differ. A temperature is no multiple of another.
_UNITS_OF = {
    "weight mass load dose kg g mg lb lbs oz t gewicht": (2.2046, 28.35),
    "height length width depth distance size altitude elevation mileage range km m cm mm mi ft inch": (
        *(2.54, 3.2808, 1.6093, 12.0),
    ),
    "area": (2.54**2, 3.2808**2),
    "volume fuel l ml gal": (3.7854, 28.35),
    "speed velocity kmh mph": (1.6093, 3.6),
    "pressure bar psi kpa hpa pa": (6.8948,),
    "duration time latency wait age ms s sec seconds min minutes h hours dauer": (60.0, 3600.0, 12.0, 24.0),
    "energy power kwh wh w kw v": (4.184, 3.6),
    "temp temperature c f": (),
}


def unit_factors(seen: Facts, column: str) -> tuple[float, ...]:
    """By what units of a column may differ, if it was read with one or its name says what is measured."""
    role = seen.roles.get(column)
    unit = getattr(role, "words", "").partition(" in ")[2]
    words = {*words_of(column), *words_of(unit)}
    known = [factors for names, factors in _UNITS_OF.items() if not words.isdisjoint(names.split())]
    if not all(known):
        return ()
    found = sorted({factor for factors in known for factor in factors})
    return (*found, *(1 / factor for factor in found))


_POWERS = tuple(10.0**k for k in (1, 2, 3, -1, -2, -3))
_TRIED = 30  # about so many factors are known; that one of them is behind a value must be clear beside all
_COMMON = 0.02  # more values than this at a factor are a second group, not slips
_FEWEST = 50
_FEWEST_VALUES = 20
_HANDFUL = 10
_GROUP = 0.05  # of the rows of their levels: more values at a factor are a group of these levels
_FEW_OF_TAIL = 0.4  # with more of them left out, a tail seems to fall faster than `_PURE` allows for
_PURE = 0.1  # share of the values at a factor that may be there by chance
_DOUBTS = 1.0  # standard errors by which a tail must be light to be taken for exponential
_VARIED = 0.6  # of the different values that as many other cells have: slips are as varied as these
_NARROWER = 0.7  # of the column's spread: a label whose levels are so much narrower tells what is usual
_ENDS = (
    (0.16, 0.84),
    (0.02, 0.98),
)  # between which spreads are compared: small levels are seen by the second
_NARROW = 0.5  # spread of logarithms up to which a factor can be told
_TELLING = 0.5  # of the way from one power of ten to the next: values at a factor take up at most so much


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A column on a scale on which factors are shifts, less what is usual for each row."""

    values: Floats
    rising: Floats
    spread: float
    middle: float
    label: str  # whose levels tell what is usual; "" for none

    def count(self, low: float, high: float) -> int:
        """How many values lie between two."""
        ends = np.searchsorted(self.rising, [low, high], side="right")
        return int(ends[1] - ends[0])

    def tells_alone(self, at: float, *, is_power: bool) -> bool:
        """Whether values about this one are told as slips or not at all.

        Large values are far from the others in plain units too, and a detector tells them as they are: that a
        factor is behind them must be clear. Small ones, and those that are large for their label alone, are
        told here or never; of a wide level, though, any large value is near some power of ten.
        """
        is_telling = is_power and 4 * self.spread <= _TELLING * math.log(10)
        return at < self.middle or (self.label != "" and is_telling)

    def expected(self, low: float, high: float, *, doubts: float = math.inf) -> float:
        """How many values a tail like this column's would put as far out as those between two.

        A handful of values that are asked about do not tell how the tail falls; more may be the tail itself.
        """
        ends = np.searchsorted(self.rising, [low, high], side="right")
        few = ends[1] - ends[0] <= _FEW_OF_TAIL * tail_size(len(self.rising))
        rest = np.delete(self.rising, np.s_[ends[0] : ends[1]]) if few else self.rising
        is_upper = low > self.middle
        tail = fit_tail(rest if is_upper else -rest[::-1], step=0.05 * self.spread, doubts=doubts)
        near = self.rising[ends[0]] if is_upper else -self.rising[ends[1] - 1]
        if near <= tail.start:
            return float(len(rest))
        return len(rest) * math.exp(-float(tail.surprise(near)))


def find_slips(seen: Facts, known: Facts) -> list[Finding]:  # noqa: ARG001
    """Cells far from what is usual, in their column or for their label, by a factor that people know."""
    findings: list[Finding] = []
    n_tails = max(len(seen.numbers), 1) * 3  # of each column, on about three scales
    for column, numbers in seen.numbers.items():
        probe = numbers.filled[evenly_spread(len(numbers.filled), 2000)]
        if len(numbers.filled) < _FEWEST or len(np.unique(probe)) < _FEWEST_VALUES:
            continue
        told: set[int] = set()
        for scaled in _scales(seen, column):
            for finding in _of_scale(seen, column, scaled, n_tails):
                if not told & set(finding.rows):
                    findings.append(finding)
                    told |= set(finding.rows)
        findings += _fahrenheit(seen, column, told, n_tails)
    return findings


def _scales(seen: Facts, column: str) -> Iterator[_Scaled]:
    """The logarithm of the column; less the middle of each level of a label that narrows it."""
    values = seen.numbers[column].values
    with np.errstate(all="ignore"):
        logs = np.log(values)
    logs[~np.isfinite(logs)] = np.nan
    if np.isnan(logs).sum() > 0.02 * seen.n + np.isnan(values).sum():
        return  # not a column of positive numbers
    alone = _scaled(logs, "")
    yield alone
    for name, labels in seen.labels.items():
        if not 2 <= len(labels.names) <= 0.1 * seen.n:
            continue
        few = logs[seen.sample]
        few = few - _middles(few, labels.codes[seen.sample], len(labels.names))
        if any(_spread(few, ends) < _NARROWER * _spread(logs[seen.sample], ends) for ends in _ENDS):
            within = logs - _middles(logs, labels.codes, len(labels.names))
            yield _scaled(within, name)


def _middles(logs: Floats, codes: Integers, n_levels: int) -> Floats:
    """Of each row: the median of its level; NaN where that has few rows or is too wide to tell a factor."""
    filled = np.flatnonzero(~np.isnan(logs) & (codes >= 0))
    rising = logs[filled[np.lexsort((logs[filled], codes[filled]))]]
    counts = np.bincount(codes[filled], minlength=n_levels)
    first = np.cumsum(counts) - counts
    middle = np.full(n_levels + 1, np.nan)
    enough = np.flatnonzero(counts >= 8)
    low = rising[first[enough] + (counts[enough] * 0.16).astype(int)]
    high = rising[first[enough] + (counts[enough] * 0.84).astype(int)]
    told = enough[high - low <= 2 * _NARROW * math.log(10)]
    middle[told] = rising[first[told] + counts[told] // 2]
    return middle[codes]


def _spread(values: Floats, ends: tuple[float, float] = (0.16, 0.84)) -> float:
    filled = values[~np.isnan(values)]
    if len(filled) < _FEWEST:
        return math.inf
    low, high = np.quantile(filled, ends)
    return max(float(high - low) / 2, 1e-3)


def _scaled(values: Floats, label: str) -> _Scaled:
    rising = np.sort(values[~np.isnan(values)])
    return _Scaled(values, rising, _spread(values), float(np.median(rising)), label)


def _of_scale(seen: Facts, column: str, scaled: _Scaled, n_tails: int) -> Iterator[Finding]:
    if scaled.spread > _NARROW * math.log(10):
        return
    for factor in _factors(seen, column, scaled):
        mistake = DECIMAL_SLIP if factor in _POWERS else MIXED_UNITS
        at = scaled.middle + math.log(factor)
        alone = scaled.tells_alone(at, is_power=factor in _POWERS)
        evidence = _evidence(scaled, at, n_tails, alone=alone)
        if evidence <= LEVEL:
            continue
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero(np.abs(scaled.values - at) <= 2 * scaled.spread)
        numbers = seen.numbers[column]
        is_group = _is_level(seen, rows) or _are_many(seen, scaled.label, rows)
        if not is_group and not _are_usual(numbers.filled, numbers.values[rows]):
            where, usual = _beside(seen, column, scaled.label, rows)
            facts = {"times": factor, **where}
            yield mistake.report(seen, column, rows, facts, usual, form="slip", surprise=evidence)


def _factors(seen: Facts, column: str, scaled: _Scaled) -> Iterator[float]:
    """Factors at which there are values, few enough to be slips; of one or two values only powers of ten."""
    # A few units of the last decimal are rounded too coarsely for a factor to be seen.
    grain = seen.numbers[column].grain
    finest = math.log(20 * grain) + scaled.middle - _middle_log(seen, column) if grain else -math.inf
    for factor in (*_POWERS, *unit_factors(seen, column)):
        at = scaled.middle + math.log(factor)
        n_there = scaled.count(at - 2 * scaled.spread, at + 2 * scaled.spread)
        is_unclear = factor not in _POWERS and (at < finest or n_there < 3)
        if 0 < n_there <= _COMMON * seen.n and not is_unclear:
            yield factor


def _middle_log(seen: Facts, column: str) -> float:
    filled = seen.numbers[column].filled
    return math.log(max(float(filled[len(filled) // 2]), 1e-300))


def _evidence(scaled: _Scaled, at: float, n_tails: int, *, alone: bool) -> float:
    """Against a tail that reaches so far; or, for many values, against one that only gets thinner."""
    width = 2 * scaled.spread
    is_upper = at > scaled.middle
    k = scaled.count(at - width, at + width)
    n_tried = n_tails * _TRIED
    expected = scaled.expected(at - width, at + width, doubts=_DOUBTS if alone else math.inf)
    evidence = many(k, expected) - math.log(n_tails if alone else n_tried) if expected <= _PURE * k else 0.0
    if k > _HANDFUL:
        inner = scaled.count(at - width / 2, at + width / 2)
        before = at - 2 * width if is_upper else at + width
        thinner = many(inner, max(scaled.count(before, before + width), _PURE * inner))
        evidence = max(evidence, thinner - math.log(n_tried))
    return evidence


def _is_level(seen: Facts, rows: Integers) -> bool:
    """Whether these are the rows of one level of a label: things that are so large, not slips."""
    for labels in seen.labels.values():
        here = np.bincount(labels.codes[rows] + 1, minlength=len(labels.names) + 1)[1:]
        top = int(np.argmax(here)) if len(here) else 0
        is_most = len(here) > 1 and here[top] > 0.6 * len(rows)
        if is_most and here[top] > 0.3 * int((labels.codes == top).sum()):
            return True
    return False


def _are_many(seen: Facts, label: str, rows: Integers) -> bool:
    """Whether these are so many of their levels' rows that they are a group there: amounts in yen, say."""
    if not label:
        return False
    codes = seen.labels[label].codes
    n_there = int(np.isin(codes, np.unique(codes[rows])).sum())
    return len(rows) > max(_HANDFUL, _GROUP * n_there)


def _are_usual(numbers: Floats, values: Floats) -> bool:
    """Whether the values are ones that many rows have, or hardly differ: a limit or a habit, not slips.

    40 cells of 250 different amounts that slipped are about 40 amounts; 40 times the same is another thing.
    """
    different, counts = np.unique(numbers, return_counts=True)
    common = different[counts > _COMMON * len(numbers)]
    if float(np.isin(values, common).mean()) > 0.5:
        return True
    others = numbers[evenly_spread(len(numbers), len(values))]
    n_others = len(np.unique(others))
    return n_others > 2 and len(np.unique(values)) < _VARIED * n_others


def _beside(seen: Facts, column: str, label: str, rows: Integers) -> tuple[dict[str, Any], dict[str, Any]]:
    """The level of the label that all these rows share, and what the column usually has there."""
    values = seen.numbers[column].values
    if not label:
        return {}, _range(seen, column, values)
    codes = seen.labels[label].codes
    if len(np.unique(codes[rows])) > 1:
        return {"label": label}, {}
    there = _range(seen, column, values[codes == codes[rows[0]]])
    return {"label": label, "level": seen.cell(label, int(rows[0]))}, there


def _range(seen: Facts, column: str, values: Floats) -> dict[str, Any]:
    return seen.ends(column, np.nanquantile(values, [0.05, 0.95]))


def _to_fahrenheit(x: Floats) -> Floats:
    return 1.8 * x + 32


def _fahrenheit(seen: Facts, column: str, told: set[int], n_tails: int) -> Iterator[Finding]:
    """Values beyond the others that would be among them as degrees Celsius."""
    numbers = seen.numbers[column]
    scaled = _scaled(numbers.values, "")
    usual = _to_fahrenheit(np.quantile(numbers.filled, [0.02, 0.98]))
    if usual[0] <= np.quantile(numbers.filled, 0.9) or not -30 < scaled.middle < 45:
        return
    k = scaled.count(usual[0], usual[1])
    beyond = numbers.filled > usual[1] + 0.5 * (usual[1] - usual[0])  # a tail goes on
    if beyond.sum() > _PURE * k or not 2 <= k <= _COMMON * seen.n:
        return
    expected = scaled.expected(usual[0], usual[1])
    evidence = many(k, expected) - math.log(n_tails)
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero((scaled.values >= usual[0]) & (scaled.values <= usual[1]))
    if evidence > LEVEL and expected <= _PURE * k and not told & set(rows.tolist()):
        yield MIXED_UNITS.report(seen, column, rows, form="fahrenheit", surprise=evidence)
