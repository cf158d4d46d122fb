"""City to country: columns that follow from others, also in what is empty.

Rows that break a dependency: a city that is elsewhere in another country, a product with another price.

Cells that are filled where they are otherwise always empty: a closing date of an open case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from tellwhy.checks.chance import LEVEL, agreement
from tellwhy.checks.facts import Coded, Facts, code_column
from tellwhy.checks.mistakes import BROKEN_DEPENDENCY, DECIMAL_SLIP
from tellwhy.core.arrays import evenly_spread
from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.reading import Labels
from tellwhy.results.result import Finding

RARE = 0.02  # exceptions more frequent than this are no errors
_MOST_COLUMNS = 30
_UNKNOWN = -1  # of a level: what it usually goes with
_NOWHERE = -2  # in the table: what it usually goes with
_SMALLEST = 5  # rows of a level from which its usual partner is known
_LIKELY = 0.9
_GROUP = 3.0
_SECOND = 5  # rows with the same other partner, and share of their level, from which it is usual too
_SECOND_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Dependency:
    """`source` → `target`: the level of the target that each level of the source usually has."""

    source: str
    target: str
    evidence: float
    usual: Mapping[Any, Any]

    def _fits(self) -> Iterator[Fit]:
        yield "source", are_texts(self.source, self.target), True
        yield "evidence", are_finite(self.evidence), True
        yield "usual", isinstance(self.usual, Mapping), True


@dataclass(frozen=True, eq=False)
class _State:
    """A dependency in a table: the rows that break it, and of each row whether it has the usual partner."""

    rule: Dependency
    broken: Integers
    holds: np.ndarray


def find_broken_dependencies(seen: Facts, known: Facts) -> list[Finding]:
    """Rows whose value in one column is not the one that another column's value always goes with."""
    rules = [rule for rule in known.recall(learn_dependencies) if _can_be_asked(rule, seen)]
    columns = {name: code_column(seen, name) for rule in rules for name in (rule.source, rule.target)}
    everything = [_judge_rows(rule, columns[rule.source], columns[rule.target]) for rule in rules]
    found = [state for state in everything if len(state.broken)]
    findings = []
    told: set[tuple[int, str]] = set()
    for state in sorted(found, key=lambda each: -each.rule.evidence):
        one = state.rule
        guilty = _guilty(everything, state)
        for name in (one.target, one.source):
            chosen = [
                row
                for row, g in zip(state.broken, guilty, strict=True)
                if g == name and not {(row, one.target), (row, one.source)} & told
            ]
            if chosen:
                findings.append(_finding(seen, columns, one, name, np.array(chosen)))
                told |= {(row, name) for row in chosen}
    return findings


def dependent_columns(seen: Facts, known: Facts) -> list[tuple[str, str]]:
    """(source, target) of the dependencies that hold."""
    rules = known.recall(learn_dependencies)
    return [(rule.source, rule.target) for rule in rules if _can_be_asked(rule, seen)]


def _can_be_asked(rule: Dependency, seen: Facts) -> bool:
    return rule.source in seen.labels and (rule.target in seen.labels or rule.target in seen.numbers)


def learn_dependencies(known: Facts) -> list[Dependency]:
    """Pairs of columns of which one follows from the other, with what follows from each level."""
    columns = _coded_columns(known)
    return list(_dependencies(columns, known))


def _coded_columns(known: Facts) -> dict[str, Coded]:
    """Labels, and numbers that repeat."""
    names = [*known.labels, *(name for name in known.numbers if _repeats(known, name))]
    columns = {name: code_column(known, name) for name in names}
    columns = {name: c for name, c in columns.items() if len(c.names) > 1}
    return dict(list(columns.items())[:_MOST_COLUMNS])


def _repeats(facts: Facts, column: str) -> bool:
    """Whether a column of numbers has few values for its rows, as labels have."""
    probe = facts.numbers[column].values[facts.sample]
    probe = probe[~np.isnan(probe)]
    return 1 < len(np.unique(probe)) <= len(probe) / _GROUP


def _dependencies(columns: dict[str, Coded], known: Facts) -> Iterator[Dependency]:
    tried = math.log(max(len(columns) * (len(columns) - 1), 1))
    for source, target in permutations(columns, 2):
        if source not in known.labels:
            continue  # equal numbers need not mean the same thing; equal labels do
        x = columns[source]
        y = columns[target]
        rows = np.flatnonzero((x.known >= 0) & (y.known >= 0))
        sample = rows[evenly_spread(len(rows), 20_000)]
        if _weight(x.known[sample], y.known[sample], len(y.names)) - tried <= LEVEL:
            continue
        evidence = _weight(x.known[rows], y.known[rows], len(y.names)) - tried
        if evidence > LEVEL:
            yield Dependency(source, target, evidence, _usual_partners(x, y, rows))


@dataclass(frozen=True, eq=False)
class _Groups:
    """Of each level of the source: its rows (`n`), its usual target, how often that and the next occur."""

    level: Integers
    n: Integers
    usual: Integers
    most: Integers
    next: Integers

    def known(self, share: float = 0.0) -> _Groups:
        """The levels with enough rows, such a share of which have the usual target."""
        return self._only((self.n >= _SMALLEST) & (self.most >= share * self.n))

    def with_one_partner(self) -> _Groups:
        """The levels without a second target that is usual, too."""
        return self._only((self.next < _SECOND) | (self.next <= _SECOND_SHARE * self.n))

    def _only(self, good: np.ndarray) -> _Groups:
        return _Groups(self.level[good], self.n[good], self.usual[good], self.most[good], self.next[good])


def _groups(x: Integers, y: Integers, n_y: int) -> _Groups:
    pairs, counts = np.unique(x * n_y + y, return_counts=True)
    level = pairs // n_y
    order = np.lexsort((-counts, level))
    levels, first = np.unique(level[order], return_index=True)
    counts = counts[order]
    total = np.add.reduceat(counts, first) if len(first) else counts
    following = np.append(counts, 0)[first + 1]
    following[np.append(first[1:], len(counts)) == first + 1] = 0  # a level with one target
    return _Groups(levels, total, (pairs % n_y)[order][first], counts[first], following)


def _weight(x: Integers, y: Integers, n_y: int) -> float:
    """−log of the chance that y follows from x so often when the two are shuffled; 0 where it does not."""
    if len(x) < 20:
        return 0.0
    groups = _groups(x, y, n_y).known()
    n = int(groups.n.sum())
    hits = int(groups.most.sum())
    if len(groups.n) < 2 or n < 0.5 * len(x) or hits < (1 - RARE) * n or len(set(groups.usual)) < 2:
        return 0.0
    shuffled = _groups(x, np.random.default_rng(0).permutation(y), n_y).known()
    chance = float(shuffled.most.sum() / max(int(shuffled.n.sum()), 1))
    return agreement(hits, n, chance) if chance <= _LIKELY else 0.0


def _usual_partners(x: Coded, y: Coded, rows: Integers) -> dict[Any, Any]:
    groups = _groups(x.known[rows], y.known[rows], len(y.names)).known(0.8).with_one_partner()
    pairs = zip(groups.level.tolist(), groups.usual.tolist(), strict=True)
    return {x.names[level]: y.names[usual] for level, usual in pairs}


def _judge_rows(rule: Dependency, x: Coded, y: Coded) -> _State:
    place = {name: code for code, name in enumerate(y.names)}
    usual = np.full(len(x.names) + 1, _UNKNOWN)  # the last is for what is missing
    for code, name in enumerate(x.names):
        if name in rule.usual:
            usual[code] = place.get(rule.usual[name], _NOWHERE)
    expected = usual[x.seen]
    can_tell = (expected != _UNKNOWN) & (y.seen >= 0)
    broken = np.flatnonzero(can_tell & (y.seen != expected))
    if len(broken) > RARE * len(x.seen):
        broken = broken[:0]
    return _State(rule, broken, can_tell & (y.seen == expected))


def _guilty(everything: list[_State], state: _State) -> list[str]:
    """Of each broken row: the column that breaks most dependencies and keeps fewest; in doubt the target."""
    one = state.rule
    score = {}
    for name in (one.target, one.source):
        votes = np.zeros(len(state.broken))
        for other in everything:
            if name in (other.rule.source, other.rule.target) and other is not state:
                votes += np.isin(state.broken, other.broken)
                votes -= other.holds[state.broken]
        score[name] = votes
    return [
        one.source if s > t else one.target for s, t in zip(score[one.source], score[one.target], strict=True)
    ]


def _finding(seen: Facts, columns: dict[str, Coded], one: Dependency, guilty: str, rows: Integers) -> Finding:
    x = columns[one.source]
    y = columns[one.target]
    level = x.names[x.seen[rows[0]]]
    usual = one.usual[level]
    is_same = y.seen == (y.names.index(usual) if usual in y.names else _NOWHERE)
    same = int((is_same & (x.seen == x.seen[rows[0]])).sum())
    mistake = BROKEN_DEPENDENCY
    if one.target in seen.numbers and guilty == one.target:
        values = seen.numbers[one.target].values[rows]
        if _are_slips(values, [one.usual[x.names[code]] for code in x.seen[rows]]):
            mistake = DECIMAL_SLIP
    names = (guilty, one.source if guilty == one.target else one.target)
    pair = {"level": level, "expected": usual, "n": same}
    facts = {"source": one.source, "target": one.target}
    others = {**pair, "are_several": len(np.unique(x.seen[rows])) > 1}
    return mistake.report(seen, names, rows, facts, others, form="dependency", surprise=one.evidence)


def _are_slips(values: Floats, usual: list[float]) -> bool:
    """Whether all values are ten, a hundred or a thousand times what is usual, or such a part of it."""
    should = np.array(usual, dtype=np.float64)
    with np.errstate(all="ignore"):
        power = np.log10(values / should)
    is_slip = np.isfinite(power) & (np.abs(power) > 0.5) & (np.abs(power - np.round(power)) < 0.002)
    return bool(is_slip.all())


_FEWEST = 20
_MOST_LEVELS = 100
_RARE = 0.03  # of a level's rows
_OFTEN = 0.5  # share of filled cells that some other level has


def find_filled_cells(seen: Facts, known: Facts) -> list[Finding]:  # noqa: ARG001
    """Columns that are empty for a level of a label, but for a few rows."""
    labels = {name: values for name, values in seen.labels.items() if len(values.names) <= _MOST_LEVELS}
    findings: list[Finding] = []
    for column in seen.frame.columns:
        is_filled = seen.frame[column].notna().to_numpy()
        if not 0.02 * seen.n <= is_filled.sum() <= 0.98 * seen.n:
            continue
        for name, values in labels.items():
            if name != column:
                findings += _of_label(seen, column, is_filled, name, values)
    return findings


def _of_label(
    seen: Facts, column: str, is_filled: np.ndarray, name: str, labels: Labels
) -> Iterator[Finding]:
    total = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
    filled = np.bincount(labels.codes[is_filled & (labels.codes >= 0)], minlength=len(labels.names))
    share = filled / np.maximum(total, 1)
    if not (share[total >= _FEWEST] > _OFTEN).any():
        return
    tried = math.log(len(seen.frame.columns) * max(len(seen.labels), 1) * len(labels.names))
    for code in np.flatnonzero((total >= _FEWEST) & (filled > 0) & (share <= _RARE)):
        empty = int(total[code] - filled[code])
        evidence = agreement(empty, int(total[code]), 1 - float(is_filled.mean())) - tried
        if evidence <= LEVEL:
            continue
        yield BROKEN_DEPENDENCY.report(
            seen,
            (column, name),
            np.flatnonzero(is_filled & (labels.codes == code)),
            {"level": labels.names[code]},
            {"n": empty},
            form="filled_cell",
            surprise=evidence,
        )
