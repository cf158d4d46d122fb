"""Values that no longer change, in any order of rows and in time.

Readings that are stuck: the same value again and again in a column that otherwise moves.

Readings that stay the same for longer than they ever do otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.checks.chance import LEVEL
from tellwhy.checks.facts import Facts
from tellwhy.checks.mistakes import STUCK
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Finding

_SHORTEST = 5
_FEWEST_VALUES = 20
_MOST_ORDERS = 3
_MOST_LEVELS = 200
_COMMON = 0.1
_USUAL = 0.01  # of the rows: a value that so many others have is no sign of a reading that is stuck
_LEAST = 0.1  # the chance of a repeat is taken to be at least this
_MOMENTS = 0.5  # of the rows, at least: readings come one after the other
_MOST_RUNS = 2  # in a column that has more long runs, values come in runs


@dataclass(frozen=True, eq=False)
class _Runs:
    """Stretches of equal values: where each starts, how long it is, its value and the level of the label."""

    start: Integers
    length: Integers
    value: Floats
    level: Integers


def find_stuck_values(seen: Facts, known: Facts) -> list[Finding]:  # noqa: ARG001
    """Long runs of one value, in the order of time, or within each level of a label."""
    columns = [name for name, numbers in seen.numbers.items() if _moves(numbers.filled)]
    # Without a time, neighbouring rows may be alike for many reasons: sorted, or of one and the same thing.
    orders = list(_orders(seen)) if columns and seen.dates else []
    tried = math.log(max(len(columns) * len(orders), 1))
    findings: list[Finding] = []
    for column in columns:
        told: set[int] = set()
        for order, breaks in orders:
            for finding in _of_column(seen, column, order, breaks, tried):
                if not told & set(finding.rows):
                    findings.append(finding)
                    told |= set(finding.rows)
    return findings


def _moves(rising: Floats) -> bool:
    return len(np.unique(rising[spread_evenly(len(rising), 2000)])) >= _FEWEST_VALUES


def _orders(seen: Facts) -> Iterator[tuple[Integers, Integers]]:
    """Orders of the rows, and the label at each place: a run ends where it changes."""
    natural = np.arange(seen.n)
    own = np.ones(seen.n, dtype=np.bool_)
    own[list(seen.copies)] = False
    for days in seen.dates.values():
        if not np.isnan(days.values).any() and (np.diff(days.values) < 0).any():
            natural = np.argsort(days.values, kind="stable")
        break
    natural = natural[own[natural]]  # a row that was entered twice is no reading that is stuck
    yield natural, np.zeros(len(natural), dtype=np.int64)
    names = [name for name, labels in seen.labels.items() if 2 <= len(labels.names) <= _MOST_LEVELS]
    for name in names[:_MOST_ORDERS]:
        codes = seen.labels[name].codes[natural]
        order = np.argsort(codes, kind="stable")
        yield natural[order], codes[order]


def _of_column(
    seen: Facts, column: str, order: Integers, breaks: Integers, tried: float
) -> Iterator[Finding]:
    values = seen.numbers[column].values[order]
    if _comes_in_order(values):
        return
    runs = _runs(values, breaks)
    longest = np.flatnonzero(runs.length >= _SHORTEST)
    longest = longest[np.argsort(-runs.length[longest])][:20]
    found: list[Finding] = []
    for i in longest:
        length = int(runs.length[i])
        chance = _repeat_chance(runs, int(i))
        evidence = (length - 1) * -math.log(max(math.sqrt(chance), _LEAST)) - math.log(seen.n) - tried
        n_elsewhere = int((values == runs.value[i]).sum()) - length
        if evidence <= LEVEL or length > _COMMON * seen.n or n_elsewhere > max(length, _USUAL * seen.n):
            continue
        rows = np.sort(order[runs.start[i] + 1 : runs.start[i] + length])
        if _are_of_moments(seen, rows):
            continue
        facts = {"value": float(runs.value[i])}
        found.append(STUCK.report(seen, column, rows, facts, surprise=evidence, n=length))
    if len(found) <= _MOST_RUNS:
        yield from found


def _are_of_moments(seen: Facts, rows: Integers) -> bool:
    """Whether most rows share their moment with others: ten games of one round, bookings of one day."""
    days = next(iter(seen.dates.values())).values[rows]
    return len(np.unique(days)) < _MOMENTS * len(rows)


def _comes_in_order(values: Floats) -> bool:
    """Whether a column rises or falls with the rows, as years and counters do."""
    steps = np.diff(values[~np.isnan(values)])
    return bool((steps >= 0).all() or (steps <= 0).all())


def _runs(values: Floats, breaks: Integers) -> _Runs:
    filled = np.flatnonzero(~np.isnan(values))
    v = values[filled]
    changes = np.r_[True, (np.diff(v) != 0) | (np.diff(breaks[filled]) != 0) | (np.diff(filled) != 1)]
    start = np.flatnonzero(changes) if len(v) else np.zeros(0, dtype=np.int64)
    return _Runs(filled[start], np.diff(np.r_[start, len(v)]), v[start], breaks[filled[start]])


def _repeat_chance(runs: _Runs, which: int) -> float:
    """How often a value is followed by itself outside the longest runs, all values or this one alone."""
    shorter = runs.length < 0.5 * runs.length[which]
    n_values = int(runs.length[shorter].sum())
    overall = (n_values - int(shorter.sum())) / max(n_values, 1)
    same = runs.value == runs.value[which]
    same[which] = False
    n_same = int(runs.length[same].sum())
    alone = (n_same - int(same.sum())) / n_same if n_same else 0.0
    # A value that makes up much of the column elsewhere (0 at night) is at home in long runs.
    at_home = n_same > 2 * runs.length[which] and alone > 0.5
    return max(overall, alone if at_home else 0.0, _constancy(runs, which))


def _constancy(runs: _Runs, which: int) -> float:
    """How often the other rows of the level repeat the value: some levels have one value and no other."""
    there = runs.level == runs.level[which]
    there[which] = False
    n_there = int(runs.length[there].sum())
    if n_there < _SHORTEST:
        return 1.0
    same = there & (runs.value == runs.value[which])
    return float((runs.length[same] - 1).sum()) / n_there


SHORTEST = 5
LEAST_CHANCE = 0.1  # the chance of a repeat is taken to be at least this
LONGER = 2.0  # times the longest run beside it of a value that is often repeated
MOST_SHARE = 0.3  # of a series; what is the same for longer is what the series does
FEWEST_VALUES = 10


@dataclass(frozen=True)
class Run:
    """Readings from `start` up to, not including, `end` that have one value."""

    start: int
    end: int
    value: float
    surprise: float


def find_stuck(values: Floats, level: float) -> list[Run]:
    """Runs of one value whose surprise is above the level, in the order of time.

    A value that is repeated often elsewhere (no rain, no sun at night) must stay much longer than there.
    """
    n = len(values)
    if n < 4 * SHORTEST or len(np.unique(values)) < FEWEST_VALUES:
        return []
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values) != 0]))
    lengths = np.diff(np.append(starts, n))
    found = []
    for i in np.argsort(-lengths, kind="stable")[:20]:
        length = int(lengths[i])
        if length < SHORTEST or length > MOST_SHARE * n:
            continue
        same = values[starts] == values[starts[i]]
        same[i] = False
        if lengths[same].max(initial=1) * LONGER >= length:
            continue
        shorter = lengths < length / LONGER
        n_shorter = int(lengths[shorter].sum())
        repeats = (n_shorter - int(shorter.sum())) / max(n_shorter, 1)
        # Repeats may come together: the longest of n other runs tells how likely one more repeat is.
        longest = int(lengths[lengths < length].max(initial=1))
        chance = max(repeats, LEAST_CHANCE, float(n ** (-1 / max(longest - 1, 0.5))))
        surprise = -(length - 1) * float(np.log(chance)) - float(np.log(n))
        if surprise > level:
            found.append(Run(int(starts[i]), int(starts[i] + length), float(values[starts[i]]), surprise))
    return sorted(found, key=lambda run: run.start)
