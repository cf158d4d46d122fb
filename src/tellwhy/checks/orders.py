"""Rows that break an order which the others keep: delivered before ordered, a minimum above its maximum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tellwhy.checks.bounds import FEW, below_zero
from tellwhy.checks.chance import LEVEL, oddness
from tellwhy.checks.facts import Facts
from tellwhy.checks.mistakes import BROKEN_ORDER
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.names import split_name
from tellwhy.results.result import Finding

_MOST_COLUMNS = 40
_FEWEST = 50
_ALSO = 2.0  # evidence that is enough once another row is sure
_OVERLAP = 0.05  # share of rows that columns shuffled against each other would have in the other order
_RATIOS = frozenset({"rate", "ratio", "share", "pct", "percent", "percentage", "prozent", "anteil"})
_ENDS = (
    ({"min", "minimum", "low", "lower", "lowest"}, {"max", "maximum", "high", "higher", "upper", "highest"}),
    ({"start", "begin", "from", "first", "open", "opened"}, {"end", "stop", "to", "last", "close", "closed"}),
    ({"net", "netto", "cost"}, {"gross", "brutto", "price", "total"}),
    ({"diastolic"}, {"systolic"}),
    ({"tip", "tax", "vat", "fee", "discount", "part", "paid"}, {"total", "fare", "amount", "price", "sum"}),
    ({"successes", "hits", "sold", "used", "reserved", "passed"}, {"trials", "tries", "stock", "capacity"}),
)


@dataclass(frozen=True)
class Order:
    """`low` ≤ `high` in nearly all rows."""

    low: str
    high: str

    def _require(self) -> Iterator[Fit]:
        yield "low", are_texts(self.low, self.high), True


@dataclass(frozen=True, eq=False)
class _Order:
    """Where an order does not hold, and with what evidence."""

    low: str
    high: str
    rows: Integers
    evidence: Floats
    support: int
    distance: float


def find_broken_orders(seen: Facts, known: Facts) -> list[Finding]:
    """Rows in which one column is above another that it never exceeds elsewhere."""
    orders = sorted(_orders(seen, known), key=lambda order: order.distance)
    votes: dict[tuple[int, str], int] = {}
    for order in orders:
        for row in order.rows:
            for name in (order.low, order.high):
                votes[int(row), name] = votes.get((int(row), name), 0) + 1
    findings = []
    told: set[tuple[int, str]] = set()
    for order in orders:
        guilty = _guilty(known, seen, order, votes)
        for name in (order.high, order.low):
            is_new = [(int(row), name) not in told for row in order.rows]
            chosen = (guilty == name) & np.array(is_new, dtype=np.bool_)
            if chosen.any():
                findings.append(_finding(seen, order, name, chosen))
                told |= {(row, name) for row in findings[-1].rows}
    return findings


def _orders(seen: Facts, known: Facts) -> Iterator[_Order]:
    pairs = [(order.low, order.high) for order in known.recall(learn_orders)]
    pairs = [pair for pair in pairs if seen.measured().keys() >= set(pair)]
    for low, high in pairs:
        apart = seen.measured()[high].values - seen.measured()[low].values
        usual = apart if seen is known else known.measured()[high].values - known.measured()[low].values
        below = below_zero(apart, usual)
        evidence = below.evidence - math.log(len(pairs))
        chosen = evidence > _ALSO
        if (evidence > LEVEL).any():
            middle = float(np.median(below.rest))
            yield _Order(low, high, below.rows[chosen], evidence[chosen], len(below.rest), middle)


def learn_orders(known: Facts) -> list[Order]:
    """Pairs of columns in one order in nearly all rows, although their ranges overlap."""
    found = []
    for family in (known.numbers, known.dates):
        names = [name for name, values in family.items() if len(values.filled) >= _FEWEST][:_MOST_COLUMNS]
        for pair in combinations(names, 2):
            if family is known.numbers and not _are_related(*pair):
                continue  # among many columns some are in one order by chance of their scales
            for low, high in (pair, pair[::-1]):
                if _is_ordered(known, low, high):
                    found.append(Order(low, high))
    return found


def _are_related(one: str, other: str) -> bool:
    """Whether names say that two columns measure one thing: a shared word, or words for its two ends.

    Examples
    --------
    >>> _are_related("start_km", "end_km"), _are_related("diastolic", "systolic"), _are_related("x1", "x2")
    (True, True, False)
    >>> _are_related("tax", "tax_rate")
    False
    """
    ours = set(split_name(one))
    theirs = set(split_name(other))
    if _RATIOS.isdisjoint(ours) != _RATIOS.isdisjoint(theirs):
        return False  # an amount and a share of it are on different scales
    shared = {word for word in ours & theirs if len(word) > 1}
    ends = any((a & ours and b & theirs) or (a & theirs and b & ours) for a, b in _ENDS)
    return bool(shared) or ends


def _is_ordered(known: Facts, low: str, high: str) -> bool:
    rows = known.sample[spread_evenly(len(known.sample), 5000)]
    below = known.measured()[low].values[rows]
    above = known.measured()[high].values[rows]
    filled = np.flatnonzero(~np.isnan(below) & ~np.isnan(above))
    if len(filled) < _FEWEST:
        return False
    below = below[filled]
    above = above[filled]
    share = float((above < below).mean())
    if share > max(2 * FEW, 1 / len(filled)) or (above == below).mean() > 0.9:
        return False
    chance = float((np.roll(above, len(above) // 3 + 1) < below).mean())
    # Dates are of one kind, whatever their ranges; numbers only where these overlap.
    return low in known.dates or (chance >= _OVERLAP and share < 0.2 * chance)


def _guilty(known: Facts, seen: Facts, order: _Order, votes: dict[tuple[int, str], int]) -> np.ndarray:
    """The column that breaks most orders of the row; else the one whose value is odder."""
    score = {}
    for name in (order.low, order.high):
        counted = np.array([votes[int(row), name] for row in order.rows], dtype=np.float64)
        values = seen.measured()[name].values[order.rows]
        score[name] = 10 * counted + oddness(known.measured()[name].filled, values)
    is_low = score[order.low] > score[order.high] + 2
    return np.where(is_low, order.low, order.high)


def _finding(seen: Facts, order: _Order, guilty: str, chosen: np.ndarray) -> Finding:
    columns = (guilty, order.high if guilty == order.low else order.low)
    facts = {"low": order.low, "high": order.high, "is_date": guilty in seen.dates}
    usual = {"n": order.support}
    surprise = float(order.evidence[chosen].min())
    rows = order.rows[chosen]
    return BROKEN_ORDER.report(seen, columns, rows, facts, usual, form="order", surprise=surprise)
