"""Many sources report on the same things: which reports are wrong.

A table of reports has a source column, at most one row for each thing and source, and attributes on which
reports of one thing agree more than chance, but not always. Each thing has one true value of each attribute;
source s reports it rightly with probability q_s. Both are learnt together (Dawid and Skene,
1979):

    P(v | reports) ∝ Π_s (K q_s/(1 − q_s))^{w_s [s reports v]},    q_s = mean of P(the value that s reports).

Sources that say the same wherever reports differ are copies of each other, and have one voice together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tellwhy.checks.chance import LEVEL
from tellwhy.checks.contest import Claim
from tellwhy.checks.dependencies import Columns, Groups
from tellwhy.checks.mistakes import BROKEN_DEPENDENCY
from tellwhy.checks.writing import Writing, log_odds
from tellwhy.core.score import Floats, Integers

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts

VALUES = 8.0  # K, so many values a wrong report may have
_CONTESTED = 0.85  # κ below which reports on a thing are contested
_NOISY = 0.6
_AGREES = 0.15
_COPY = 0.003  # a copy differs in such a share of contested reports, and
_OTHER = 0.2  # a good source in such a share
_SURE_COPY = 6.0  # log-odds, of a pair in a table with copies
_EMPTY_WEIGHT = 0.5  # of two sources that are both silent: it says little
_ROUNDS = 40
_START = 0.7
_MOST_THINGS = 2_000  # on which copies are looked for
_TEMPER = 0.3
_SILENT = 0.97  # P that an empty report should have had the value
_BLIND = 0.03  # P that the winning value is wrong all the same
_DIFFER = 2.0  # in how many standard deviations by chance sources differ in reliability, at least
_MOST_COLUMNS = 40


@dataclass(frozen=True, eq=False)
class Reports:
    """A table of reports: the thing and the source of each row, and the attributes they report on."""

    thing: str
    source: str
    attributes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Attribute:
    """What is reported of one attribute.

    Attributes
    ----------
    row, thing, source, value
        Of each report; value −1 where it is empty.
    kappa
        How far reports on a thing agree.
    """

    row: Integers
    thing: Integers
    source: Integers
    value: Integers
    kappa: float

    @cached_property
    def filled(self) -> Integers:
        """Places of the reports that are not empty."""
        return np.flatnonzero(self.value >= 0)

    @cached_property
    def pairs(self) -> Pairs:
        """The different values of each thing."""
        n_values = int(self.value.max(initial=0)) + 1
        found = np.unique(
            self.thing[self.filled] * n_values + self.value[self.filled],
            return_inverse=True,
            return_counts=True,
        )
        keys = found[0]
        thing = keys // n_values
        first = np.flatnonzero(np.r_[True, np.diff(thing) > 0]) if len(thing) else np.zeros(0, np.int64)
        lengths = np.diff(np.r_[first, len(thing)])
        return Pairs(thing, keys % n_values, found[2], found[1], first, lengths)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Different (thing, value), by thing: how many reports say so, the pair of each filled report.

    The pairs of a thing begin at `first` and are so many as `lengths` says.
    """

    thing: Integers
    value: Integers
    n: Integers
    of_report: Integers
    first: Integers
    lengths: Integers

    def shared(self, weight: Floats, rest: Floats | float = 0.0) -> Floats:
        """Weights as shares of their sum within a thing, and of what is left for values that none reports."""
        total = np.add.reduceat(weight, self.first) + rest
        return np.asarray(weight / np.repeat(total, self.lengths))


def claim_reports(seen: Facts, known: Facts) -> list[Claim]:
    """Reports that the sources which are right more often contradict, and missing ones that they know."""
    if seen is not known:
        return []  # what one block of rows says of a thing is not all that was reported of it
    columns = {name: seen.writing(name) for name in seen.frame.columns[:_MOST_COLUMNS]}
    found: list[Claim] = []
    # Copies of a row are no further reports.
    rows = np.arange(seen.n) if seen.voices is None else np.flatnonzero(seen.voices)
    for reports in find_reports(columns, rows):
        found += _claims(seen, columns, reports, rows)
    return found


def find_reports(columns: Columns, rows: Integers) -> Iterator[Reports]:
    """Columns that are things, sources and contested attributes."""
    n = len(rows)
    taken: set[str] = set()
    for thing, x in columns.items():
        if thing in taken or not 5 <= x.k <= 0.5 * n or x.n < 0.5 * n:
            continue
        others = [name for name, y in columns.items() if name != thing and 10 <= y.k <= 0.7 * max(y.n, 1)]
        kappas = {name: Groups.of(x, columns[name]).kappa() for name in others}
        attributes = [name for name, kappa in kappas.items() if kappa > _AGREES]
        if sum(kappas[name] < _CONTESTED for name in attributes) < 2:
            continue
        source = next(
            (s for s in columns if s != thing and _is_source(columns, thing, s, attributes, rows)), None
        )
        if source is not None:
            taken |= {thing, *attributes}
            yield Reports(thing, source, tuple(attributes))


def _is_source(columns: Columns, thing: str, name: str, attributes: list[str], rows: Integers) -> bool:
    """Whether a column names who reports: once for each thing, and nothing follows from it."""
    n = len(rows)
    x = columns[thing]
    s = columns[name]
    if (
        name in attributes
        or not 4 <= s.k <= min(0.5 * n, n / 4)
        or s.number_share > 0.5
        or (s.codes < 0).any()
    ):
        return False
    if len(np.unique(x.codes[rows] * s.k + s.codes[rows])) < 0.95 * n:
        return False
    follows = [Groups.of(s, columns[other]).kappa() for other in (thing, *attributes)]
    return follows[0] <= 0.3 and max(follows[1:]) <= _AGREES


def _claims(seen: Facts, columns: Columns, reports: Reports, rows: Integers) -> Iterator[Claim]:
    x = columns[reports.thing]
    s = columns[reports.source]
    attributes = {name: _reported(x, s, columns[name], rows) for name in reports.attributes}
    weights = voices_of(list(attributes.values()), s.k)
    noisy = [name for name, each in attributes.items() if each.kappa < _NOISY]
    others = [name for name in attributes if name not in noisy]
    for block in ([noisy] if noisy else []) + [[name] for name in others]:
        values, apart = believe([attributes[name] for name in block], weights)
        if apart < _DIFFER and block is noisy:
            return
        for name, p in zip(block, values, strict=True):
            told = _reported(x, s, columns[name], np.arange(seen.n))
            yield from _of_attribute(reports, name, columns, told, p)


def _reported(x: Writing, s: Writing, y: Writing, rows: Integers) -> Attribute:
    codes = y.codes[rows]
    is_known = (codes >= 0) & ~np.append(y.is_mark, True)[codes]
    kept = x.codes[rows] >= 0
    value = np.where(is_known, codes, -1)[kept]
    return Attribute(
        rows[kept], x.codes[rows][kept], s.codes[rows][kept], value, Groups.of(x, y, rows).kappa()
    )


def voices_of(attributes: list[Attribute], n_sources: int) -> Floats:
    """Weight of each source: 1 over the number of sources that are copies of each other."""
    same = np.zeros((n_sources, n_sources))
    both = np.zeros((n_sources, n_sources))
    for each in attributes:
        order = np.argsort(each.thing, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(each.thing[order]) > 0])
        for part in np.split(order, starts[1:])[:_MOST_THINGS]:
            value = each.value[part]
            if len(set(value.tolist()) - {-1}) < 2:
                continue
            at = np.ix_(each.source[part], each.source[part])
            equal = value[:, None] == value[None]
            weight = np.where(equal & (value[:, None] == -1), _EMPTY_WEIGHT, 1.0)
            same[at] += equal * weight
            both[at] += weight
    evidence = same * math.log((1 - _COPY) / (1 - _OTHER)) + (both - same) * math.log(_COPY / _OTHER)
    is_copy = evidence > _choose_evidence(evidence[np.triu_indices(n_sources, 1)])
    np.fill_diagonal(is_copy, True)
    return np.asarray(1 / is_copy.sum(axis=1))


def _choose_evidence(of_pairs: Floats) -> float:
    """Evidence from which two sources are copies.

    Chance may make no pair look like copies; once there are some, others are as likely as these are common.
    """
    n_pairs = max(len(of_pairs), 1)
    strict = LEVEL + math.log(n_pairs)
    n_sure = int((of_pairs > strict).sum())
    if not n_sure or n_sure == n_pairs:
        return strict
    return min(strict, math.log((n_pairs - n_sure) / n_sure) + _SURE_COPY)


def believe(attributes: list[Attribute], weights: Floats) -> tuple[list[Floats], float]:
    """Learn the reliability of each source and the value of each thing, in turn.

    Returns P of each (thing, value) of each attribute, and how far sources differ in reliability, in standard
    deviations by chance.
    """
    source = np.concatenate([each.source[each.filled] for each in attributes])
    total = np.bincount(source, minlength=len(weights))
    reliable = np.full(len(weights), _START)
    for _ in range(_ROUNDS):
        values = [p_of_values(each, reliable, weights) for each in attributes]
        right = np.concatenate([p[each.pairs.of_report] for p, each in zip(values, attributes, strict=True)])
        n_right = np.bincount(source, weights=right, minlength=len(weights))
        base = (n_right.sum() + 2) / (total.sum() + 4)
        before = reliable
        reliable = np.clip((n_right + 4 * base) / (total + 4), 0.03, 0.97)
        if np.abs(reliable - before).max() < 1e-3:
            break
    met = total >= 5
    apart = (n_right[met] / total[met] - base) / np.sqrt(base * (1 - base) / total[met])
    return values, float(np.sqrt((apart**2).mean())) if met.sum() >= 3 else 0.0


def p_of_values(attribute: Attribute, reliable: Floats, weights: Floats) -> Floats:
    """P of each (thing, value), given how reliable the sources are."""
    pairs = attribute.pairs
    votes = weights * np.log(VALUES * reliable / (1 - reliable))
    score = np.bincount(
        pairs.of_report, weights=votes[attribute.source[attribute.filled]], minlength=len(pairs.thing)
    )
    best = np.maximum.reduceat(score, pairs.first)
    return pairs.shared(np.exp(score - np.repeat(best, pairs.lengths)), np.exp(-best - 2))


@dataclass(frozen=True, eq=False)
class _Verdict:
    """Of each report: the pair that is probable, P(wrong), and how many report on its thing."""

    chosen: Integers
    wrong: Floats
    n_reports: Integers

    @classmethod
    def of(cls, told: Attribute, p: Floats) -> _Verdict:
        """Judge the reports by P of each (thing, value)."""
        pairs = told.pairs
        # Camps of copies that were not recognised are fewer witnesses than reports.
        tempered = (1 - _BLIND) * pairs.shared(p**_TEMPER)
        best = np.full(int(told.thing.max()) + 1, -1)
        best[pairs.thing[pairs.first]] = np.lexsort((p, pairs.thing))[np.cumsum(pairs.lengths) - 1]
        n_reports = np.zeros(len(best), dtype=np.int64)
        np.add.at(n_reports, pairs.thing, pairs.n)
        wrong = np.full(len(told.row), _SILENT)
        wrong[told.filled] = 1 - tempered[pairs.of_report]
        return cls(best[told.thing], wrong, n_reports[told.thing])


def _of_attribute(
    reports: Reports, name: str, columns: Columns, told: Attribute, p: Floats
) -> Iterator[Claim]:
    """Claims of the reports that differ from the most probable value of their thing, and of empty ones."""
    verdict = _Verdict.of(told, p)
    is_told = (verdict.chosen >= 0) & (verdict.n_reports >= 2)
    is_told &= told.value != told.pairs.value[verdict.chosen]
    things = columns[reports.thing].names
    values = columns[name].names
    for is_such, form in ((told.value < 0, "missing_cell"), (told.value >= 0, "report")):
        at = np.flatnonzero(is_told & is_such)
        chosen = verdict.chosen[at]
        own = zip(told.thing[at], told.pairs.n[chosen], verdict.n_reports[at], strict=True)
        yield Claim(
            BROKEN_DEPENDENCY,
            (name, reports.thing),
            told.row[at],
            log_odds(np.clip(verdict.wrong[at], 1e-4, 1 - 1e-4)),
            expected=[values[code] for code in told.pairs.value[chosen]],
            facts={"source": reports.thing, "target": name},
            form=form,
            own=[{"level": things[thing], "n": int(n), "n_reports": int(of)} for thing, n, of in own],
            is_of_group=True,
        )
