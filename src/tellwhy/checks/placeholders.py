"""Values that stand for "not known": −999, 9999, 0 where nothing is 0, 1900-01-01, "unknown"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from tellwhy.checks.chance import LEVEL, edge_evidence, edge_window, fit_tail, many
from tellwhy.checks.facts import Facts, Numbers, day_text, n_different
from tellwhy.checks.mistakes import PLACEHOLDER
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.reading import Labels
from tellwhy.results.result import Finding

_WORD_ROWS = 3  # rows with a word for "not known", up to which they are odd
_WORD_SHARE = 0.002  # the same, of all rows
AWAY = 0.1  # share of the middle value that the smallest must have for a 0 to be far
LOWEST = 0.05  # share of the values whose range, from the smallest on, must be narrower than that to 0
COMMON = 0.05  # of the known rows: a placeholder in more is a habit of the table, and such a row is not odd
_NINES = [10.0**k - 1 for k in range(1, 10)] + [99.9, 999.9, 9999.9, 999.99, 9999.99]
_OTHERS = [0, 7, 77, 777, 7777, 8, 88, 888, 8888, 32767, 65535, 2147483647, 123456, 1e10, 1e20, 1e30]
_DIGITS = (7, 77, 777, 8, 88, 888, 9, 99)
_NEXT = 0.5  # of the range of the others
_LOWEST = [-32768, -2147483648]
SENTINELS = tuple(sorted({-1, *_NINES, *_OTHERS, *_LOWEST, *(-v for v in (*_NINES, *_OTHERS))}))
_EARLY = ["0001-01-01", "1753-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1904-01-01", "1970-01-01"]
_LATE = ["1999-12-31", "2000-01-01", "2099-12-31", "2100-01-01", "2999-12-31", "9999-12-31"]
DAYS = tuple(float(day) for day in np.array([*_EARLY, *_LATE], dtype="datetime64[D]").astype(np.int64))
_MARKS = r"[\s_.*?\-/\\()\[\]<>]*"  # around such words, or alone
_WORDS = re.compile(
    _MARKS + r"(unknown|unk|n\W?a|null|nan|missing|not (available|known|specified|given|applicable)|"
    r"undefined|unspecified|tbd|tba|todo|test|testing|dummy|foo|asdf|qwerty|placeholder|"
    r"x{2,}|z{3,}|\?+|-+|\.+)?" + _MARKS,
    re.IGNORECASE,
)
_FEWEST_REPEATS = 5
_FEWEST_ROWS = 20
_PROBE = 5000
_TRIED = 10  # known placeholders that are within reach of a column
_FEW_VALUES = 5
_LIST = 20  # at most so many different values are a list, of prices say: its last may be far off


@dataclass(frozen=True, eq=False)
class _Ends:
    """Sorted values without the suspects at their ends, and these suspects."""

    core: Floats
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


def find_placeholders(seen: Facts, known: Facts) -> list[Finding]:
    """Point masses far from the rest of a column, or beyond its edge, and words among labels."""
    findings = []
    n_tried = max(len(known.measured()), 1) * _TRIED
    for column, numbers in known.measured().items():
        ends = _ends(numbers, seen.measured()[column], column in known.dates)
        for value in (*ends.low, *ends.high):
            rows = np.flatnonzero(seen.measured()[column].values == value)
            if _is_merely_next(ends.core, value):
                continue
            is_low = value < ends.core[0]
            k = len(rows)
            if seen is not known:
                k += int((numbers.values == value).sum())
            evidence = _evidence(ends.core, value, k, is_low, numbers.step) - math.log(n_tried)
            if evidence > LEVEL and len(rows):
                is_habit = np.mean(numbers.values == value) > COMMON
                findings.append(_finding(seen, column, ends.core, rows, 0.0 if is_habit else evidence))
    for column in seen.dates:
        findings += _first_of_january(seen, column)
    for column, labels in seen.labels.items():
        findings += _words(seen, known, column, labels)
    return findings


def _is_merely_next(core: Floats, value: float) -> bool:
    """Whether a number of equal digits, such as 7 or 88, is so near the others that it may be one."""
    away = max(core[0] - value, value - core[-1]) if len(core) else 0.0
    return value in _DIGITS and away < _NEXT * (core[-1] - core[0])


def _ends(known: Numbers, seen: Numbers, is_date: bool) -> _Ends:
    """Take known placeholders off both ends; then ends that are repeated, as far away as the rest is wide."""
    both = known.filled if seen is known else _merged(known.filled, seen.filled)
    ends = _peeled(both, DAYS if is_date else SENTINELS, known.step)
    if len(ends.core) < _FEWEST_ROWS or ends.core[0] == ends.core[-1]:
        return _Ends(ends.core)
    if not is_date:
        ends = _without_far_repeats(ends)
    return ends


def _merged(one: Floats, other: Floats) -> Floats:
    """Two rising rows of values as one; a stable sort knows that they are in order already."""
    return np.sort(np.concatenate([one, other]), kind="stable")


def _peeled(rising: Floats, known: tuple[float, ...], step: float) -> _Ends:
    """Take known placeholders off both ends, unless the next value is so close that they may be its tail."""
    low: list[float] = []
    high: list[float] = []
    while len(rising) and rising[0] in known:
        inner = rising[np.searchsorted(rising, rising[0], side="right") :]
        if not len(inner) or (inner[0] - rising[0] < 2 * step and not rising[0] < 0 <= inner[0]):
            break
        low.append(float(rising[0]))
        rising = inner
    while len(rising) and rising[-1] in known:
        inner = rising[: np.searchsorted(rising, rising[-1], side="left")]
        if not len(inner) or rising[-1] - inner[-1] < 2 * step:
            break
        high.append(float(rising[-1]))
        rising = inner
    return _Ends(rising, tuple(low), tuple(high))


def _without_far_repeats(ends: _Ends) -> _Ends:
    rising = ends.core
    if n_different(rising) <= _LIST + 1:
        return ends
    above = rising[np.searchsorted(rising, rising[0], side="right") :]
    if len(rising) - len(above) >= _FEWEST_REPEATS and above[0] - rising[0] > above[-1] - above[0] > 0:
        return _Ends(above, (*ends.low, float(rising[0])), ends.high)
    below = rising[: np.searchsorted(rising, rising[-1], side="left")]
    if len(rising) - len(below) >= _FEWEST_REPEATS and rising[-1] - below[-1] > below[-1] - below[0] > 0:
        return _Ends(below, ends.low, (*ends.high, float(rising[-1])))
    return ends


def _evidence(core: Floats, value: float, k: int, is_low: bool, step: float) -> float:
    """−log of the chance that k values of a tail like this column's are exactly this value."""
    if not is_low:  # the lower end of the mirrored column
        core = -core[::-1]
        value = -value
    # A column that is never below 0 has a light lower tail; others may have a heavy one.
    tail = fit_tail(-core[::-1], step=step, lightest=0.0 if is_low and core[0] >= 0 else 0.1)
    n = len(core) + k
    expected = n * math.exp(-float(tail.surprise(-value))) * min(1.0, step / tail.scale)
    is_far = core[0] - value > core[-1] - core[0] and len(np.unique(core[:_PROBE])) > _FEW_VALUES
    if value == 0 and is_low and not _is_away_from_zero(core, step):
        return 0.0  # small amounts run down to nothing: 0 is then an amount too
    if k > COMMON * n and not is_far:
        return 0.0  # zeros of a column that is often 0, say: part of what it is
    if core[0] - value < 2 * step:
        expected = min(expected, _one_step_further(core, step))
    evidence = many(k, expected)
    if core[0] - value >= max(edge_window(core, step), 2 * step):
        evidence = max(evidence, edge_evidence(core, beyond=0, step=step))
    return evidence


def _one_step_further(core: Floats, step: float) -> float:
    """Rows at the step below the least value, if they thin out as from the second value to the first."""
    first, both = np.searchsorted(core, core[0] + step * np.array([0.5, 1.5])).tolist()
    return first * min(1.0, first / max(both - first, 1))


def _is_away_from_zero(core: Floats, step: float) -> bool:
    """Whether values end well before 0: they stop suddenly, and by more than the steps between them."""
    low, middle = np.quantile(core, [0.01, 0.5])
    # The range of one in a hundred would hang on three or four values where there are 400.
    stops = core[0] > np.quantile(core, LOWEST) - core[0] and low > AWAY * middle > 0
    # Distances on a grid, say: 0, 30, 42, 60. Of values that hardly repeat, the first gaps are chance.
    values, counts = np.unique(core[:_PROBE], return_counts=True)
    repeats = counts[:3].min() >= _FEWEST_REPEATS
    grid = float(np.diff(values[:4]).max(initial=0.0)) if repeats else 0.0
    return bool(stops and core[0] > 2 * max(step, grid))


def _finding(seen: Facts, column: str, core: Floats, rows: Integers, surprise: float) -> Finding:
    facts = {"value": seen.value(column, float(seen.measured()[column].values[rows[0]]))}
    # Nothing spent, nobody there, a drug without effect: a 0 may be meant.
    may_be_meant = facts["value"] == 0
    usual = seen.ends(column, core)
    return PLACEHOLDER.report(seen, column, rows, facts, usual, surprise=surprise, is_told_only=may_be_meant)


def _first_of_january(seen: Facts, column: str) -> list[Finding]:
    """A first of January with many times more rows than any ordinary day: the default of a form."""
    days = np.floor(seen.dates[column].values)
    found, counts = np.unique(days[~np.isnan(days)], return_counts=True)
    if len(found) < 50:
        return []
    value = float(found[np.argmax(counts)])
    rows = np.flatnonzero(days == value)
    usual = float(np.quantile(counts, 0.99))
    n_tried = len(seen.dates) * (1 + (found[-1] - found[0]) / 365)  # so many firsts of January
    evidence = many(len(rows), usual) - math.log(n_tried)
    is_default = day_text(value).endswith("-01-01") and len(rows) > 5 * usual
    if not is_default or evidence <= LEVEL or found[0] == value or found[-1] == value:
        return []
    surprise = evidence if len(rows) <= COMMON * seen.n else 0.0
    facts = {"value": day_text(value)}
    most_rows = {"most": usual}
    return [PLACEHOLDER.report(seen, column, rows, facts, most_rows, form="default_day", surprise=surprise)]


def _is_part_of_others(mark: str, names: tuple[str, ...]) -> bool:
    """Whether a mark without letters is a label like others: '/' beside '/home' is the shortest path."""
    is_mark = bool(mark) and not any(letter.isalnum() for letter in mark)
    is_sign = mark == "-" and "+" in names  # a test is positive or negative
    return is_sign or (is_mark and sum(mark in name for name in names) > 0.5 * len(names))


def _words(seen: Facts, known: Facts, column: str, labels: Labels) -> list[Finding]:
    """Labels such as "unknown" among others."""
    there = known.labels[column]
    suspects = [i for i, name in enumerate(labels.names) if len(name) < 30 and _WORDS.fullmatch(name.strip())]
    suspects = [i for i in suspects if not _is_part_of_others(labels.names[i].strip(), labels.names)]
    if not suspects or len(labels.names) < len(suspects) + 2:
        return []
    others = [name for i, name in enumerate(labels.names) if i not in suspects]
    findings = []
    most = max(_WORD_ROWS, _WORD_SHARE * known.n)
    for code in suspects:
        rows = np.flatnonzero(labels.codes == code)
        if not len(rows):
            continue
        name = labels.names[code]
        n_known = int((there.codes == there.names.index(name)).sum()) if name in there.names else 0
        finding = PLACEHOLDER.report(
            seen,
            column,
            rows,
            {"value": name},
            {"values": others[:3], "are_more": len(others) > 3},
            form="placeholder_word",
            surprise=math.log(seen.n / len(rows)) if n_known <= most else 0.0,
        )
        findings.append(finding)
    return findings
