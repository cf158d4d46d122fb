"""City to country: columns that follow from others, and cells that do not follow.

Rows with the same city agree on the country far more often than rows do by chance,

    κ = (A − c)/(1 − c),    A = P(two rows of a city agree),    c = P(any two rows agree).

What cells make of that is counted in `votes`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.checks.writing import Writing
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Integers

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts

AGREES = 0.8  # κ from which a column follows from another
_MOST_COLUMNS = 40
_FEWEST_ROWS = 20
_FEWEST_LEVELS = 5  # groups of three rows at least, or
_LARGE = 20  # two groups of so many rows
_PROBED = 20_000
_HINT = 0.6  # κ in a sample, from which all rows are asked
_SECOND = 5  # rows with the same other target, and share of their level, from which it is usual too
_SECOND_SHARE = 0.05
Columns = Mapping[str, Writing]


@dataclass(frozen=True, eq=False)
class Dependency:
    """`source` → `target`, as it was learned.

    Attributes
    ----------
    source, target
        Names of the columns.
    kappa, exceptions
        How far rows agree beyond chance, and share of rows that differ from their group.
    usual
        Of each level of the source: the target that most of its rows have, how many have it, and how many
        there are.
    others
        The other targets of a level, and how many rows have each.
    """

    source: str
    target: str
    kappa: float
    exceptions: float
    usual: Mapping[str, Any]
    others: Mapping[str, Any]

    def _require(self) -> Iterator[Fit]:
        yield "source", are_texts(self.source, self.target), True
        yield "kappa", are_finite(self.kappa, self.exceptions), True
        yield "usual", isinstance(self.usual, Mapping) and isinstance(self.others, Mapping), True


@dataclass(frozen=True, eq=False)
class Groups:
    """How often each pair of a source and a target occurs: codes `source` and `target`, `count` rows."""

    source: Integers
    target: Integers
    count: Integers
    n_sources: int

    @classmethod
    def of(cls, source: Writing, target: Writing, rows: Integers | None = None) -> Groups:
        """Count the pairs in some rows, without cells that say that nothing is known."""
        x = source.codes if rows is None else source.codes[rows]
        y = target.codes if rows is None else target.codes[rows]
        known = (x >= 0) & (y >= 0) & ~source.is_mark[x] & ~target.is_mark[y]
        pairs, count = np.unique(x[known] * target.k + y[known], return_counts=True)
        return cls(pairs // target.k, pairs % target.k, count, source.k)

    @cached_property
    def sizes(self) -> Integers:
        """Rows of each source."""
        return np.bincount(self.source, weights=self.count, minlength=self.n_sources).astype(np.int64)

    @cached_property
    def most(self) -> Integers:
        """Rows of the commonest target of each source."""
        most = np.zeros(self.n_sources, dtype=np.int64)
        np.maximum.at(most, self.source, self.count)
        return most

    @property
    def exceptions(self) -> float:
        """Share of rows whose target is not the commonest of their source."""
        big = self.sizes >= 2
        total = self.sizes[big].sum()
        return max(1 - float(self.most[big].sum() / total), 1e-4) if total else 1.0

    def kappa(self) -> float:
        """Agreement beyond chance; 0 where there are too few groups to tell."""
        big = self.sizes >= 3
        is_enough = big.sum() >= _FEWEST_LEVELS or (self.sizes >= _LARGE).sum() >= 2
        if not is_enough or self.sizes[big].sum() < 0.3 * self.count.sum():
            return 0.0
        found = _kappa(self)
        if found < 0.9 and self.exceptions < 0.1:
            # Of two values with a few slips, chance agrees so often that the slips hide the rest.
            found = max(found, self._kappa_of_usual() - 0.02)
        return found

    def _kappa_of_usual(self) -> float:
        """Agreement among targets that most rows of some source have."""
        sizes = self.sizes[self.source]
        is_usual = (self.count == self.most[self.source]) & (sizes >= 3) & (2 * self.count > sizes)
        usual = np.unique(self.target[is_usual])
        kept = np.isin(self.target, usual)
        if len(usual) < 2:
            return 0.0
        return _kappa(Groups(self.source[kept], self.target[kept], self.count[kept], self.n_sources))


def _kappa(groups: Groups) -> float:
    pairs = np.bincount(
        groups.source, weights=groups.count * (groups.count - 1.0), minlength=groups.n_sources
    )
    big = groups.sizes >= 2
    total = groups.sizes[big].sum()
    if not total:
        return 0.0
    agree = float((pairs[big] / (groups.sizes[big] - 1)).sum() / total)
    shares = np.bincount(groups.target, weights=groups.count) / groups.count.sum()
    chance = float((shares**2).sum())
    return (agree - chance) / (1 - chance) if chance < 1 else 0.0


def learn_dependencies(known: Facts) -> list[Dependency]:
    """Pairs of columns of which one follows from the other, with what follows from each level."""
    columns = {name: known.writing(name) for name in known.frame.columns[:_MOST_COLUMNS]}
    rows = np.arange(known.n) if known.voices is None else np.flatnonzero(known.voices)
    sample = rows[spread_evenly(len(rows), _PROBED)]
    found = []
    # Equal numbers need not mean the same thing; equal labels do.
    labels = [name for name in columns if name not in known.numbers and name not in known.dates]
    for source in [name for name in labels if _is_source(columns[name], len(rows))]:
        for target, column in columns.items():
            if source == target or column.k < 2 or column.n < _FEWEST_ROWS or column.k > 0.7 * column.n:
                continue
            groups = Groups.of(columns[source], column, sample)
            if len(sample) < len(rows) and len(groups.count) and groups.kappa() >= _HINT:
                groups = Groups.of(columns[source], column, rows)
            if len(groups.count) and groups.kappa() >= AGREES:
                found.append(_learned(source, target, columns, groups))
    return found


def _is_source(column: Writing, n: int) -> bool:
    return 2 <= column.k <= 0.5 * n <= column.n


def _learned(source: str, target: str, columns: Columns, groups: Groups) -> Dependency:
    x = columns[source].names
    y = columns[target].names
    usual: dict[str, Any] = {}
    others: dict[str, dict[str, int]] = defaultdict(dict)
    order = np.argsort(-groups.count, kind="stable")
    cells = zip(
        groups.source[order].tolist(),
        groups.target[order].tolist(),
        groups.count[order].tolist(),
        strict=True,
    )
    for level, value, count in cells:
        if x[level] in usual:
            others[x[level]][y[value]] = count
        else:
            usual[x[level]] = [y[value], count, int(groups.sizes[level])]
    # Of a level with a second target that is usual, nothing follows.
    for level, counts in others.items():
        if _has_second(counts, usual[level][2]):
            usual[level][2] = 0
    return Dependency(source, target, groups.kappa(), groups.exceptions, usual, dict(others))


def _has_second(counts: Mapping[str, int], size: int) -> bool:
    return any(count >= _SECOND and count > _SECOND_SHARE * size for count in counts.values())


def dependent_columns(seen: Facts, known: Facts) -> list[tuple[str, str]]:
    """(source, target) of the dependencies that hold."""
    return [(rule.source, rule.target) for rule in known.recall(learn_dependencies) if _has(rule, seen)]


def _has(rule: Dependency, seen: Facts) -> bool:
    return rule.source in seen.frame and rule.target in seen.frame
