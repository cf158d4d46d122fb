"""What is claimed of texts, codes and the links between columns, by all that knows something of them.

Last come votes: what dependencies say of cells that do not follow, such as Rome in Germany, or an empty
country of a known city. Of each cell that differs from its group, the odds are weighed that the group's
value was meant and written wrongly, or not meant at all; the determinants of a cell are asked for the
median. Groups that agree with a cell vouch for it. An empty cell whose group knows the value is missing by
mistake.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tellwhy.checks.contest import CAP, Claim, Support
from tellwhy.checks.dates import MOST_UNREAD
from tellwhy.checks.dependencies import Columns, Dependency, learn_dependencies
from tellwhy.checks.entities import claim_reports
from tellwhy.checks.facts import Facts
from tellwhy.checks.formats import claim_formats
from tellwhy.checks.keyboard import Edit, Keyboard, are_of_digits, edits_between
from tellwhy.checks.mistakes import BROKEN_DEPENDENCY, DECIMAL_SLIP
from tellwhy.checks.places import claim_misplaced
from tellwhy.checks.spelling import (
    CONFIDENT,
    RATE,
    Slip,
    claim_misspelt,
    claim_written_otherwise,
    misspelt_labels,
)
from tellwhy.checks.writing import NUMBER, Writing
from tellwhy.core.score import Integers

_MOST_COLUMNS = 200


def claim_texts(seen: Facts, known: Facts) -> list[Claim | Support]:
    """Claim what is wrong with texts and codes, and with what follows from them."""
    if seen is not known:
        seen = replace(seen, raw=seen.frame, writings={})
    columns = columns_beside(seen, known)
    keyboard = known.recall(learn_keyboard)[0]
    reports = claim_reports(seen, known)
    contested = {claim.columns[0] for claim in reports}
    rules = _open(known.recall(learn_dependencies), columns, contested)
    found: list[Claim | Support] = [*reports]
    votes = Votes(columns, rules, keyboard, is_same=seen is known)
    found += votes.claims()
    for name, column in columns.items():
        slips = misspelt_labels(column, keyboard)
        found += claim_misspelt(name, column, slips)
        found += votes.support(name, slips)
        found += claim_written_otherwise(name, column)
        found += claim_formats(name, column, keyboard, is_read=_is_read(seen, name, column))
    found += claim_misplaced(columns)
    return list(_of_empty_cells(seen, found))


def _of_empty_cells(seen: Facts, claims: Iterable[Claim | Support]) -> Iterator[Claim | Support]:
    """Leave out claims that a value is missing where a finding emptied the cell."""
    for claim in claims:
        if not isinstance(claim, Claim) or claim.form != "missing_cell":
            yield claim
            continue
        kept = np.flatnonzero(~np.isin(claim.rows, seen.explained.get(claim.columns[0], ())))
        if len(kept) == len(claim.rows):
            yield claim
        elif len(kept):
            yield replace(
                claim,
                rows=claim.rows[kept],
                log_odds=claim.log_odds[kept],
                expected=[claim.expected[at] for at in kept.tolist()] if claim.expected else (),
                own=[claim.own[at] for at in kept.tolist()] if claim.own else (),
            )


def _is_read(seen: Facts, name: str, column: Writing) -> bool:
    """Whether cells of a column that are no number are told as unread ones."""
    if name not in seen.numbers and name not in seen.dates:
        return False
    return int(column.counts[~column.is_number].sum()) <= MOST_UNREAD * seen.n


def _open(rules: list[Dependency], columns: Mapping[str, Writing], contested: set[str]) -> list[Dependency]:
    """Dependencies that can be asked; attributes of a table of reports do not follow from each other."""
    return [r for r in rules if {r.source, r.target} <= set(columns) and r.target not in contested]


def columns_beside(seen: Facts, known: Facts) -> Mapping[str, Writing]:
    """Columns as written, with the counts of the rows to learn from; new cells are counted besides."""
    names = [name for name in seen.frame.columns[:_MOST_COLUMNS] if name in known.frame]
    if seen is known:
        return {name: seen.writing(name) for name in names}
    both = {name: (seen.writing(name), known.writing(name)) for name in names}
    return {name: _joined(*pair) for name, pair in both.items() if pair[0].is_text == pair[1].is_text}


def _joined(new: Writing, known: Writing) -> Writing:
    """The new rows in the codes of the known ones; each of their cells as if it alone were new."""
    place = dict(known.place)
    for name in new.names:
        place.setdefault(name, len(place))
    lookup = np.array([*(place[name] for name in new.names), -1], dtype=np.int64)
    counts = np.zeros(len(place), dtype=np.int64)
    counts[: known.k] = known.counts
    counts[lookup[:-1]] += 1
    return Writing(lookup[new.codes], tuple(place), known.is_text, counts)


def learn_keyboard(known: Facts) -> list[Keyboard]:
    """Which characters come in by mistake, from slips that are beyond doubt without knowing that."""
    plain = Keyboard()
    columns = columns_beside(known, known)
    slips: list[list[Edit]] = [
        slip.edits
        for column in columns.values()
        for slip in misspelt_labels(column, plain)
        if slip.log_odds > CONFIDENT
    ]
    rules = known.recall(learn_dependencies)
    slips += Votes(columns, rules, plain, is_same=True).slips()
    return [Keyboard.learned(slips)]


_STRICT = 0.01  # share of exceptions below which a dependency has none by its nature
_MOST_WRONG = 40.0
_LARGE = 10  # rows of a group
_AGAIN = 0.5  # P that a slip is one that was made before
_VOUCHED = -4.0
_SUPPORT = 4.0
_OTHER_THING = 5.0
_OFTEN = 0.7
_SLIPPED_POINT = 0.05  # P that a number that is wrong is off by a power of ten
_MOST_DIFFERENT = 20_000
_MOST_BROKEN = 0.02  # of new rows, or so many
_FEW_BROKEN = 3
_FITTED = (0.0, 0.8)  # log-odds that came true in tables with planted mistakes: a + b·l
_FITTED_EMPTY = (0.8, 0.5)


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

    def __init__(
        self, columns: Columns, rules: list[Dependency], keyboard: Keyboard, *, is_same: bool
    ) -> None:
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
        if len(differs) <= (max(_MOST_BROKEN * len(x.codes), _FEW_BROKEN) if self.own else _MOST_DIFFERENT):
            self._ask_of_different(rule, differs)
        known = can_tell & is_empty & (most[x.codes] >= 0.8 * sizes[x.codes])
        if known.any():
            self._ask_of_empty(rule, np.flatnonzero(known))

    def _ask_of_empty(self, rule: Dependency, rows: Integers) -> None:
        x = self.columns[rule.source]
        # A column that is often empty is so by its nature.
        odds = min(2.5, math.log((1 - rule.exceptions) / rule.exceptions) - 1.0) - _OFTEN * math.log(
            len(rows)
        )
        for row in rows.tolist():
            told = rule.usual[x.names[x.codes[row]]]
            self.cells[rule.target, row].append(Vote(rule.source, odds, told[0], told[2], is_empty=True))

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
        meant, n_meant = rule.usual[level][:2]
        count = rule.others.get(level, {}).get(written, 0) + self.own
        eps = rule.exceptions
        evidence = (n_meant - (count - 1)) * math.log((1 - eps) / eps * 4)
        evidence = min(max(evidence, -CAP), CAP)
        is_meant = -math.log1p(math.exp(-evidence))
        is_own = -math.log1p(math.exp(evidence))
        elsewhere = int(y.counts[code]) - count
        alone = y.price(code) if count <= 1 else math.log(count / y.n)
        price = math.log(elsewhere / y.n) if elsewhere > 0 else alone
        edits = edits_between(written, meant)
        slip = self._slip(written, meant, edits, price=price, again=(int(y.counts[code]), total))
        trace = price + math.log(min(_MOST_WRONG, (_STRICT / eps) ** 3))
        times = _power_of_ten(written, meant)
        if times:
            slip = math.log(_SLIPPED_POINT)
        # A handful of rows cannot tell a mistake from a change: people move, and learn.
        trace += min(0.0, math.log(n_meant / _LARGE))
        wrong = is_meant + float(np.logaddexp(math.log(RATE) + slip, math.log(eps / 2) + trace))
        odds = wrong - float(np.logaddexp(is_own, math.log(eps) + price))
        return Vote(rule.source, odds, meant, n_meant, edits, is_slip=bool(times))

    def _slip(
        self, written: str, meant: str, edits: list[Edit] | None, *, price: float, again: tuple[int, int]
    ) -> float:
        """log P of what is written, by a slip; one that was made before is likely to be made again."""
        if edits is None:
            return -math.inf
        log_p = self.keyboard.log_p(edits, len(meant))
        if are_of_digits(edits):
            return min(log_p, price + 1)  # neighbouring codes are different things
        count, total = again
        if len(written) >= 5 and count > 1:
            log_p = float(np.logaddexp(log_p, math.log(_AGAIN * (count - 1) / max(total, count))))
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
        for key, same in alike.items():
            yield _claim(best[key], key[0], key[1], key[3], same)
        for name, parts in self.agreeing.items():
            rows = np.unique(np.concatenate(parts))
            doubted = [row for column, row in self.cells if column == name]
            free = rows[~np.isin(rows, doubted)]
            if len(free):
                yield Support(name, free, np.full(len(free), _SUPPORT))

    def support(self, name: str, slips: list[Slip]) -> Iterator[Support]:
        """Support for labels near another whose rows have other things beside them: two real counties."""
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
