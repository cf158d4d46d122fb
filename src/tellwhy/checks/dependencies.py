"""City to country: columns that follow from others, and cells that do not follow.

Rows with the same city agree on the country far more often than rows do by chance,

    κ = (A − c)/(1 − c),    A = P(two rows of a city agree),    c = P(any two rows agree).

Of each cell that differs from its group, the odds are weighed that the group's value was meant and written
wrongly, or not meant at all; the determinants of a cell are asked for the median. Groups that agree with a cell
vouch for it. An empty cell whose group knows the value is missing by mistake.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.checks.contest import CAP, Claim, Support
from tellwhy.checks.facts import Facts
from tellwhy.checks.keyboard import Edit, Keyboard, are_of_digits, edits_between
from tellwhy.checks.mistakes import BROKEN_DEPENDENCY, DECIMAL_SLIP
from tellwhy.checks.spelling import CONFIDENT, RATE, Slip
from tellwhy.checks.writing import NUMBER, Writing
from tellwhy.core.arrays import evenly_spread
from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Integers

AGREES = 0.8  # κ from which a column follows from another
_MOST_COLUMNS = 40
_FEWEST_ROWS = 20
_FEWEST_LEVELS = 5  # groups of three rows at least, or
_LARGE = 20  # two groups of so many rows
_PROBED = 20_000
_HINT = 0.6  # κ in a sample, from which all rows are asked
_STRICT = 0.01  # share of exceptions below which a dependency has none by its nature
_SECOND = 5  # rows with the same other target, and share of their level, from which it is usual too
_SECOND_SHARE = 0.05
_MOST_WRONG = 40.0
_AGAIN = 0.5  # P that a slip is one that was made before
_VOUCHED = -4.0
_SUPPORT = 4.0
_OTHER_THING = 5.0
_OFTEN = 0.7
_SLIPPED_POINT = 0.05  # P that a number that is wrong is off by a power of ten
_MOST_DIFFERENT = 20_000
_MOST_BROKEN = 0.02  # of new rows
_FITTED = (0.0, 0.8)  # log-odds that came true in tables with planted mistakes: a + b·l
_FITTED_EMPTY = (0.8, 0.5)
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
        Of each level of the source: the target that most of its rows have, how many have it, and how many there
        are.
    others
        The other targets of a level, and how many rows have each.
    """

    source: str
    target: str
    kappa: float
    exceptions: float
    usual: Mapping[str, Any]
    others: Mapping[str, Any]

    def _fits(self) -> Iterator[Fit]:
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
    pairs = np.bincount(groups.source, weights=groups.count * (groups.count - 1.0), minlength=groups.n_sources)
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
    sample = rows[evenly_spread(len(rows), _PROBED)]
    found = []
    for source in [name for name, column in columns.items() if _is_source(column, len(rows))]:
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
    cells = zip(groups.source[order].tolist(), groups.target[order].tolist(), groups.count[order].tolist(), strict=True)
    for level, value, count in cells:
        if x[level] in usual:
            others[x[level]][y[value]] = count
        else:
            usual[x[level]] = [y[value], count, int(groups.sizes[level])]
    # Of a level with a second target that is usual, nothing follows.
    for level, counts in others.items():
        if _has_second(counts, usual[level][2]):
            usual[level][2] = 0
    rare = sum(sum(counts.values()) for level, counts in others.items() if usual[level][2])
    exceptions = max(rare / max(sum(told[2] for told in usual.values()), 1), 1e-4)
    return Dependency(source, target, groups.kappa(), exceptions, usual, dict(others))


def _has_second(counts: Mapping[str, int], size: int) -> bool:
    return any(count >= _SECOND and count > _SECOND_SHARE * size for count in counts.values())


def dependent_columns(seen: Facts, known: Facts) -> list[tuple[str, str]]:
    """(source, target) of the dependencies that hold."""
    return [(rule.source, rule.target) for rule in known.recall(learn_dependencies) if _has(rule, seen)]


def _has(rule: Dependency, seen: Facts) -> bool:
    return rule.source in seen.frame and rule.target in seen.frame


@dataclass(frozen=True, eq=False)
class Vote:
    """What one determinant says of a cell: log-odds that it is wrong, what was meant, from how many rows."""

    source: str
    log_odds: float
    meant: str
    n: int
    edits: list[Edit] | None = None
    is_empty: bool = False
    is_slip: bool = False  # of the decimal point


class Votes:
    """What all dependencies of a table say of its cells."""

    def __init__(self, columns: Columns, rules: list[Dependency], keyboard: Keyboard, *, is_same: bool) -> None:
        self.columns = columns
        self.keyboard = keyboard
        self.own = 0 if is_same else 1  # a new cell is counted beside the known ones
        self.cells: dict[tuple[str, int], list[Vote]] = defaultdict(list)
        self.vouched: dict[tuple[str, int], int] = defaultdict(int)
        self.agreeing: dict[str, list[Integers]] = defaultdict(list)
        self.rules = rules
        for rule in rules:
            self._ask(rule)
        self._count_vouchers()

    def _ask(self, rule: Dependency) -> None:
        x = self.columns[rule.source]
        y = self.columns[rule.target]
        usual = np.full(x.k + 1, -1)
        sizes = np.zeros(x.k + 1, dtype=np.int64)
        most = np.zeros(x.k + 1, dtype=np.int64)
        for level, (value, count, size) in rule.usual.items():
            code = x.place.get(level)
            if code is not None:
                usual[code] = y.place.get(value, y.k)
                most[code] = count
                sizes[code] = size
        usual[-1] = -1
        expected = usual[x.codes]
        can_tell = (expected >= 0) & (sizes[x.codes] >= 3)
        is_mark = np.append(y.is_mark, False)
        is_empty = (y.codes < 0) | is_mark[y.codes]
        agrees = can_tell & (expected == y.codes)
        self.agreeing[rule.target].append(np.flatnonzero(agrees & (most[x.codes] > 0.6 * sizes[x.codes])))
        differs = np.flatnonzero(can_tell & ~is_empty & ~agrees)
        # A dependency that holds no longer is not told row by row.
        if len(differs) <= (max(_MOST_BROKEN * len(x.codes), 1) if self.own else _MOST_DIFFERENT):
            self._ask_of_different(rule, differs)
        known = can_tell & is_empty & (most[x.codes] >= 0.8 * sizes[x.codes])
        if known.any():
            self._ask_of_empty(rule, np.flatnonzero(known))

    def _ask_of_empty(self, rule: Dependency, rows: Integers) -> None:
        x = self.columns[rule.source]
        # A column that is often empty is so by its nature.
        odds = min(2.5, math.log((1 - rule.exceptions) / rule.exceptions) - 1.0) - _OFTEN * math.log(len(rows))
        for row in rows.tolist():
            value, _, size = rule.usual[x.names[x.codes[row]]]
            self.cells[rule.target, row].append(Vote(rule.source, odds, value, size, is_empty=True))

    def _ask_of_different(self, rule: Dependency, rows: Integers) -> None:
        x = self.columns[rule.source]
        y = self.columns[rule.target]
        pairs, of_pair = np.unique(x.codes[rows] * y.k + y.codes[rows], return_inverse=True)
        total = sum(sum(each.values()) for each in rule.others.values()) + self.own
        for at, pair in enumerate(pairs.tolist()):
            level = x.names[pair // y.k]
            vote = self._weigh(rule, level, pair % y.k, total)
            for row in rows[of_pair == at].tolist():
                self.cells[rule.target, row].append(vote)

    def _weigh(self, rule: Dependency, level: str, code: int, total: int) -> Vote:
        """Log-odds that the group's value was meant, against an exception of its own."""
        y = self.columns[rule.target]
        written = y.names[code]
        meant, n_meant, size = rule.usual[level]
        count = rule.others.get(level, {}).get(written, 0) + self.own
        eps = rule.exceptions
        evidence = (n_meant - (count - 1)) * math.log((1 - eps) / eps * 4)
        evidence = min(max(evidence, -CAP), CAP)
        is_meant = -math.log1p(math.exp(-evidence))
        is_own = -math.log1p(math.exp(evidence))
        elsewhere = int(y.counts[code]) - count
        if elsewhere > 0:
            price = math.log(elsewhere / y.n)
        else:
            price = y.price(code) if count <= 1 else math.log(count / y.n)
        edits = edits_between(written, meant)
        slip = self._slip(written, meant, edits, price, int(y.counts[code]), total)
        trace = price + math.log(min(_MOST_WRONG, (_STRICT / eps) ** 3))
        times = _power_of_ten(written, meant)
        if times:
            slip = math.log(_SLIPPED_POINT)
        wrong = is_meant + float(np.logaddexp(math.log(RATE) + slip, math.log(eps / 2) + trace))
        odds = wrong - float(np.logaddexp(is_own, math.log(eps) + price))
        return Vote(rule.source, odds, meant, n_meant, edits, is_slip=bool(times))

    def _slip(
        self, written: str, meant: str, edits: list[Edit] | None, price: float, count: int, total: int
    ) -> float:
        """log P of what is written, by a slip; one that was made before is likely to be made again."""
        if edits is None:
            return -math.inf
        log_p = self.keyboard.log_p(edits, len(meant))
        if are_of_digits(edits):
            return min(log_p, price + 1)  # neighbouring codes are different things
        if len(written) >= 5 and count > 1:
            again = math.log(_AGAIN * (count - 1) / max(total, count))
            log_p = float(np.logaddexp(log_p, again))
        return log_p

    def _count_vouchers(self) -> None:
        """Of each cell in doubt: how many dependencies on other columns it agrees with."""
        doubted = defaultdict(set)
        for name, row in self.cells:
            doubted[name].add(row)
        for name, parts in self.agreeing.items():
            if name in doubted:
                rows = np.array(sorted(doubted[name]))
                for part in parts:
                    for row in rows[np.isin(rows, part)].tolist():
                        self.vouched[name, row] += 1

    def log_odds(self, cell: tuple[str, int]) -> float:
        """The median of what the determinants of a cell say."""
        found = [vote.log_odds for vote in self.cells[cell]]
        return float(np.median(found + [_VOUCHED] * self.vouched[cell]))

    def slips(self) -> list[list[Edit]]:
        """Edits of cells that are beyond doubt another value, written wrongly."""
        found = []
        for cell, votes in self.cells.items():
            best = max(votes, key=lambda vote: vote.log_odds)
            if best.edits and self.log_odds(cell) > CONFIDENT and not are_of_digits(best.edits):
                found.append(best.edits)
        return found

    def claims(self) -> Iterator[Claim | Support]:
        """Claims on the cells that do not follow, and support for those that do."""
        alike: dict[tuple[str, str, int, float], list[int]] = defaultdict(list)
        best: dict[tuple[str, str, int, float], Vote] = {}
        for (name, row), votes in self.cells.items():
            vote = max(votes, key=lambda each: each.log_odds)
            code = int(self.columns[name].codes[row])
            odds = self.log_odds((name, row))
            key = (name, self._level(vote.source, row), code, round(odds, 9))
            best.setdefault(key, vote)
            alike[key].append(row)
        for key, rows in alike.items():
            yield _claim(best[key], key[0], key[1], key[3], rows)
        for name, parts in self.agreeing.items():
            rows = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
            doubted = [row for column, row in self.cells if column == name]
            free = rows[~np.isin(rows, doubted)]
            if len(free):
                yield Support(name, free, np.full(len(free), _SUPPORT))

    def support(self, name: str, slips: list[Slip]) -> Iterator[Support]:
        """Support for labels near another whose rows have other things beside them: two counties, both real."""
        column = self.columns[name]
        rules = [rule for rule in self.rules if rule.source == name]
        for slip in slips:
            meant = column.names[slip.meant]
            rows = column.rows_of(slip.code)
            same = np.zeros(len(rows))
            for rule in rules:
                if meant in rule.usual:
                    target = self.columns[rule.target]
                    codes = target.codes[rows]
                    alike = codes == target.place.get(rule.usual[meant][0], target.k)
                    same += np.where(codes < 0, 0, np.where(alike, 1, -1))
            yield Support(name, rows, np.where(same < 0, _OTHER_THING, 0.0))

    def _level(self, source: str, row: int) -> str:
        column = self.columns[source]
        return column.names[column.codes[row]]


def _claim(vote: Vote, name: str, level: str, odds: float, rows: list[int]) -> Claim:
    """The claim on cells of one group that hold the same: one mistake, which was repeated."""
    a, b = _FITTED_EMPTY if vote.is_empty else _FITTED
    return Claim(
        DECIMAL_SLIP if vote.is_slip else BROKEN_DEPENDENCY,
        (name, vote.source),
        np.array(rows),
        np.full(len(rows), a + b * odds),
        expected=[vote.meant] * len(rows),
        facts={"source": vote.source, "target": name},
        form="missing_cell" if vote.is_empty else "dependency",
        own=[{"level": level, "n": vote.n}] * len(rows),
        is_one=True,
        is_of_group=vote.is_empty,
    )


def _power_of_ten(written: str, meant: str) -> int:
    """How many places the decimal point slipped between two numbers; 0 for others.

    Examples
    --------
    >>> _power_of_ten("150", "1.5"), _power_of_ten("1.5", "1.7"), _power_of_ten("ten", "1")
    (2, 0, 0)
    """
    if not (NUMBER.fullmatch(written) and NUMBER.fullmatch(meant)) or not float(meant) * float(written):
        return 0
    places = math.log10(abs(float(written) / float(meant)))
    return round(places) if abs(places - round(places)) < 1e-6 and float(written) * float(meant) > 0 else 0
