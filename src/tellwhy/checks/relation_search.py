"""A relation between columns: what it predicts, where it holds, and what a cell would have to be.

Which equations could hold: every candidate on a few rows, so that few are left to be verified.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.checks.facts import Facts
from tellwhy.checks.relation_forms import (
    DIFFERENCE,
    DISCOUNTED,
    FORMS,
    INVOICES,
    OF_TWO,
    PRODUCT_MINUS,
    PRODUCT_PLUS,
    SAME,
    SCALABLE,
    SYMMETRIC,
    Columns,
    Form,
    signed_sum,
)
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Floats

Mask = NDArray[np.bool_]
BEFORE = " of the row before"
MOMENT = 2 / 86_400  # two seconds in days: what rounding does to dates


@dataclass(frozen=True, eq=False)
class Relation:
    """columns[0] = factor · f(columns[1], …) + offset, up to rounding or a relative `slack`.

    f is the form of this pattern, or a sum with these signs.
    """

    pattern: str
    columns: tuple[str, ...]
    factor: float = 1.0
    offset: float = 0.0
    slack: float = 1e-9
    signs: tuple[int, ...] = ()
    evidence: float = 0.0  # −log of the chance that columns without it agree so often

    @cached_property
    def form(self) -> Form:
        """What it predicts of the first column."""
        return signed_sum(self.signs) if self.signs else FORMS[self.pattern]

    def _require(self) -> Iterator[Fit]:
        yield "signs", all(sign in (1, -1) for sign in self.signs), True
        yield "pattern", self.pattern, signed_sum(self.signs).pattern if self.signs else self.pattern
        yield "pattern", bool(self.signs) or self.pattern in FORMS, True
        yield "columns", are_texts(*self.columns), True
        yield "columns", all(f"{{{j}}}" in self.pattern for j in range(len(self.columns))), True
        yield "columns", f"{{{len(self.columns)}}}" in self.pattern, False
        yield (
            "factor",
            are_finite(self.factor, self.offset, self.slack, self.evidence) and self.factor != 0,
            True,
        )

    def arrays(self, facts: Facts) -> list[Floats]:
        """The columns' values."""
        return [term_values(facts, name) for name in self.columns]

    def predicted(self, x: Columns) -> Floats:
        """What the first column should be, given the others."""
        with np.errstate(all="ignore"):
            return self.factor * self.form.predict(x[1:]) + self.offset

    def tolerance(self, facts: Facts, x: Columns, predicted: Floats) -> Floats:
        """Half of the last decimal of the first column, and the slack."""
        grain = term_grain(facts, self.columns[0])
        if self.columns[0] in facts.dates:  # counted from an arbitrary day: a share of it means nothing
            return np.full(len(predicted), 0.51 * grain + MOMENT)
        size = np.maximum(np.abs(x[0]), np.abs(predicted))
        for column in x[1:]:
            if not self.form.is_product:  # digits are lost by the largest part of a sum
                size = np.maximum(size, 1e-3 * np.abs(column))
        return 0.51 * grain + self.slack * size

    def solve(self, x: Columns, at: int) -> Floats:
        """What column `at` would have to be for the equation to hold."""
        cells = [(x[0] - self.offset) / self.factor, *x[1:]]
        with np.errstate(all="ignore"):
            low = self.form.residual([np.zeros_like(c) if j == at else c for j, c in enumerate(cells)])
            high = self.form.residual([np.ones_like(c) if j == at else c for j, c in enumerate(cells)])
            value = -low / (high - low)
        return value * self.factor + self.offset if at == 0 else value

    def informative(self, x: Columns) -> Mask:
        """Rows that can tell whether the relation holds: nothing is 0, no factor is 1."""
        if self.form.n_rates:
            return _find_telling_rows(x)
        mask = np.ones(len(x[0]), dtype=np.bool_)
        for column in x:
            mask &= np.isfinite(column) & (column != 0)
        if self.form.is_product:
            for column in x[1:]:
                mask &= column != 1
        return mask

    def fields(self) -> dict[str, Any]:
        """The equation as a finding holds it; of some columns, those of the row before are meant."""
        return {
            "pattern": self.pattern,
            "columns": [name.removesuffix(BEFORE) for name in self.columns],
            "before": [at for at, name in enumerate(self.columns) if name.endswith(BEFORE)],
            "factor": float(self.factor),
            "offset": float(self.offset),
        }


def _find_telling_rows(x: Columns) -> Mask:
    """Rows with an amount in which something was taken off or added: most orders have no discount."""
    mask = np.isfinite(np.array(x)).all(axis=0) & (x[0] != 0) & (x[1] != 0) & (x[2] != 0)
    return np.asarray(mask & (np.array(x[3:]) != 0).any(axis=0))


def term_values(facts: Facts, name: str) -> Floats:
    """Values of a column, or of a column one row before."""
    if name.endswith(BEFORE):
        values = facts.measured()[name.removesuffix(BEFORE)].values
        return np.concatenate([[np.nan], values[:-1]])
    return facts.measured()[name].values


def term_grain(facts: Facts, name: str) -> float:
    """Last decimal in which a column is written."""
    return facts.measured()[name.removesuffix(BEFORE)].grain


def taken(x: Sequence[Floats], rows: NDArray[np.int64]) -> list[Floats]:
    """Some rows of some columns."""
    return [column[rows] for column in x]


ROWS = 128
MOST_COLUMNS = 40
_MOST_SCALED = 25
_MOST_OF_FOUR = 24
_MOST_OF_INVOICE = 12
_MOST_PERCENT = 60
_FEWEST = 12
_SHARE = 0.8
SLACK = 2e-3
_LONGEST_SUM = 12


@dataclass(frozen=True, eq=False)
class Screen:
    """A few rows of the columns (rows × columns), and how far from a prediction each cell may be."""

    names: list[str]
    X: Floats
    slack: Floats
    grain: Floats
    targets: list[int]  # columns that may be predicted: not those of the row before

    def relation(self, form: Form, at: tuple[int, ...], factor: float = 1.0, offset: float = 0.0) -> Relation:
        """The relation of the columns at these places."""
        columns = tuple(self.names[j] for j in at)
        return Relation(form.pattern, columns, factor, offset, signs=form.signs)


def screen_of(facts: Facts) -> Screen:
    """Choose columns with many different values, and rows spread over the table."""
    varied = {
        name: len(np.unique(numbers.filled[spread_evenly(len(numbers.filled), 500)]))
        for name, numbers in facts.measured().items()
        if len(numbers.filled) >= _FEWEST
    }
    names = sorted(varied, key=lambda name: -varied[name])[:MOST_COLUMNS]
    names = [name for name in names if varied[name] > 1]
    order = {name: i for i, name in enumerate(facts.measured())}
    names.sort(key=order.__getitem__)
    n_targets = len(names)
    names += [name + BEFORE for name in names if name in facts.numbers][: MOST_COLUMNS - n_targets]
    rows = spread_evenly(facts.n, ROWS)
    X = np.column_stack([term_values(facts, name)[rows] for name in names]) if names else np.zeros((0, 0))
    grain = np.array([term_grain(facts, name) for name in names])
    is_date = np.array([name in facts.dates for name in names])
    slack = 0.51 * grain + np.where(is_date, MOMENT, SLACK * np.abs(X))
    return Screen(names, X, slack, grain, list(range(n_targets)))


def candidates(facts: Facts) -> Iterator[Relation]:
    """Relations that hold in most of a few rows, the simplest first."""
    screen = screen_of(facts)
    if len(screen.targets) < 2:
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns without a value in these few rows
        yield from _of_one(screen)
        yield from _of_two(screen)
        yield from _of_three(screen)
        yield from _try_invoices(screen)
        yield from _balances(screen)
        yield from _sums(screen)


def n_candidates(facts: Facts) -> int:
    """How many equations are tried: what a coincidence is weighed against."""
    p = min(len(facts.measured()), MOST_COLUMNS)
    n_invoices = 4 * p**5 if p <= _MOST_OF_INVOICE else 0
    return max(p * p + 13 * p**3 + 6 * p**4 + n_invoices, 1)


def _holds(screen: Screen, predicted: Floats, others: tuple[int, ...], *, is_product: bool) -> list[int]:
    """Targets that a prediction meets in most rows that can tell."""
    can_tell = np.isfinite(predicted) & (predicted != 0)
    for j in others:
        can_tell &= screen.X[:, j] != 0
        if is_product:
            can_tell &= screen.X[:, j] != 1
    is_filled = can_tell[:, None] & ~np.isnan(screen.X)
    hits = is_filled & (np.abs(screen.X - predicted[:, None]) <= screen.slack)
    n_filled = is_filled.sum(axis=0)
    good = (n_filled >= _FEWEST) & (hits.sum(axis=0) >= _SHARE * n_filled)
    return [t for t in screen.targets if good[t] and t not in others]


def _of_one(screen: Screen) -> Iterator[Relation]:
    for a, b in permutations(screen.targets, 2):
        x = screen.X[:, b]
        y = screen.X[:, a]
        half = len(x) // 2
        rise = (y[half : 2 * half] - y[:half]) / (x[half : 2 * half] - x[:half])
        slope = _nice(float(np.nanmedian(rise)))
        if a > b and np.isclose(slope, 1):
            continue  # the same as the other way round
        if not np.isfinite(slope) or slope == 0:
            continue
        offset = float(np.nanmedian(y - slope * x))
        is_none = abs(offset) < max(1e-6 * float(np.nanmax(np.abs(y))), screen.grain[a])
        offset = 0.0 if is_none else _nice(offset)
        if a in _holds(screen, slope * x + offset, (b,), is_product=False):
            yield screen.relation(SAME, (a, b), slope, offset)


def _nice(value: float) -> float:
    """The value with four digits, where that is the same up to 1e-4: constants are written short."""
    short = float(f"{value:.3g}")
    return short if abs(short - value) <= 2e-4 * abs(value) else value


def _of_two(screen: Screen) -> Iterator[Relation]:
    for form in OF_TWO:
        choose = combinations if form in SYMMETRIC else permutations
        for pair in choose(screen.targets, 2):
            predicted = form.predict([screen.X[:, j] for j in pair])
            for a in _holds(screen, predicted, pair, is_product=form.is_product):
                yield screen.relation(form, (a, *pair))
            if form in SCALABLE and len(screen.targets) <= _MOST_SCALED:
                yield from _scaled(screen, form, pair, predicted)


def _scaled(screen: Screen, form: Form, pair: tuple[int, ...], predicted: Floats) -> Iterator[Relation]:
    ratio = screen.X[:, : len(screen.targets)] / predicted[:, None]
    ratio[~np.isfinite(ratio) | (ratio == 0)] = np.nan
    middle = np.nanmedian(ratio, axis=0)
    near = (np.abs(ratio / middle - 1) < 3 * SLACK).sum(axis=0)
    for a in np.flatnonzero(near >= np.maximum(_SHARE / 2 * (~np.isnan(ratio)).sum(axis=0), _FEWEST / 2)):
        factor = _nice(float(middle[a]))
        if a in pair or np.isclose(factor, 1) or (form is DIFFERENCE and factor < 0):
            continue  # told without a factor, or of the columns the other way round
        if a in _holds(screen, factor * predicted, pair, is_product=form.is_product):
            yield screen.relation(form, (int(a), *pair), factor)


def _of_three(screen: Screen) -> Iterator[Relation]:
    """Products with a further part: a = b × c ± d, a = b × c × (1 ± d)."""
    targets = screen.targets if len(screen.targets) <= _MOST_OF_FOUR else []
    part = screen.X[:, targets]
    for pair in combinations(targets, 2):
        product = screen.X[:, pair[0]] * screen.X[:, pair[1]]
        for a in targets:
            if a in pair:
                continue
            for form, wanted, per_unit in _missing_parts(screen.X[:, a], product):
                near = np.abs(part - wanted[:, None]) <= (screen.slack[:, a] * per_unit)[:, None]
                near &= part != 0
                n_told = (~np.isnan(wanted)[:, None] & (part != 0) & ~np.isnan(part)).sum(axis=0)
                good = (n_told >= _FEWEST) & (near.sum(axis=0) >= _SHARE * n_told)
                for d in np.flatnonzero(good):
                    if targets[d] not in (a, *pair):
                        yield screen.relation(form, (a, *pair, targets[d]))


def _try_invoices(screen: Screen) -> Iterator[Relation]:
    """a = b × c × (1 ± d) × (1 ± e) + f, with one or two rates, and with or without something added."""
    targets = screen.targets
    if len(targets) > _MOST_OF_INVOICE:
        return
    scales = {j: scale for j in targets if (scale := _find_scale(screen.X[:, j]))}
    for (rates, has_more), form in INVOICES.items():
        for chosen in permutations(scales, len(rates)):
            if any(scales[j] != scale for j, (_, scale) in zip(chosen, rates, strict=True)):
                continue
            for pair in combinations([j for j in targets if j not in chosen], 2):
                yield from _try_invoice(screen, form, (*pair, *chosen), has_more=has_more)


def _find_scale(values: Floats) -> int:
    """1 of shares between 0 and 1, 100 of percentages, 0 of other columns."""
    filled = values[~np.isnan(values)]
    if not len(filled) or filled.min() < 0 or filled.max() == 0:
        return 0
    return 1 if filled.max() < 1 else 100 if filled.max() <= _MOST_PERCENT else 0


def _try_invoice(screen: Screen, form: Form, at: tuple[int, ...], *, has_more: bool) -> Iterator[Relation]:
    cells = [screen.X[:, j] for j in at]
    amount = form.predict([*cells, np.zeros(len(cells[0]))] if has_more else cells)
    can_tell = np.isfinite(amount) & (amount != 0)
    is_off = np.any([cell != 0 for cell in cells[2:]], axis=0)
    for a in screen.targets:
        if a in at:
            continue
        rest = screen.X[:, a] - amount
        parts = [j for j in screen.targets if j not in (a, *at)] if has_more else [-1]
        for j in parts:
            more = screen.X[:, j] if has_more else np.zeros(len(rest))
            tells = can_tell & ~np.isnan(rest) & ~np.isnan(more) & (is_off | (more != 0))
            near = np.abs(rest - more) <= screen.slack[:, a]
            if tells.sum() >= _FEWEST and (near & tells).sum() >= _SHARE * tells.sum():
                yield screen.relation(form, (a, *at, j) if has_more else (a, *at))


def _missing_parts(a: Floats, product: Floats) -> Iterator[tuple[Form, Floats, Floats]]:
    """What the fourth column would have to be, for each form, and how it changes with a unit of the first."""
    one = np.ones_like(a)
    yield PRODUCT_PLUS, a - product, one
    yield PRODUCT_MINUS, product - a, one
    share = 1 - a / product
    for scale, form in DISCOUNTED.items():
        yield form, share * scale, np.abs(scale / product)


def _balances(screen: Screen) -> Iterator[Relation]:
    """a = a of the row before + b, or + b − c."""
    for a in screen.targets:
        if (name := screen.names[a] + BEFORE) not in screen.names:
            continue
        before = screen.names.index(name)
        step = screen.X[:, a] - screen.X[:, before]
        others = [j for j in screen.targets if j != a]
        for signs, columns in _steps(others):
            predicted = sum(s * screen.X[:, j] for s, j in zip(signs, columns, strict=True))
            is_filled = ~np.isnan(step) & ~np.isnan(predicted) & (step != 0)
            hits = is_filled & (
                np.abs(step - predicted) <= 1e-3 * np.abs(step) + 2 * screen.slack[:, a].min()
            )
            if is_filled.sum() >= _FEWEST and hits.sum() >= _SHARE * is_filled.sum():
                yield screen.relation(signed_sum([1, *signs]), (a, before, *columns))


def _steps(others: list[int]) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    for j in others:
        yield [1], (j,)
        yield [-1], (j,)
    for pair in permutations(others, 2):
        yield [1, -1], pair


def _sums(screen: Screen) -> Iterator[Relation]:
    """Sums of three and more columns: add or subtract what makes the rest smallest, while it gets smaller."""
    for a in screen.targets:
        rest = screen.X[:, a].copy()
        signs: list[int] = []
        chosen: list[int] = []
        while len(chosen) < _LONGEST_SUM:
            j, sign = _best_part(screen, rest, [a, *chosen])
            smaller = rest - sign * screen.X[:, j]
            if j == a or not _size(smaller) < 0.97 * _size(rest):
                break
            rest = smaller
            chosen.append(j)
            signs.append(sign)
            told = ~np.isnan(rest)
            near = told & (np.abs(rest) <= screen.slack[:, a])
            if len(chosen) > 2 and told.sum() >= _FEWEST and near.sum() >= _SHARE * told.sum():
                yield screen.relation(signed_sum(signs), (a, *chosen))
                break


def _best_part(screen: Screen, rest: Floats, used: list[int]) -> tuple[int, int]:
    best = (used[0], 1)
    least = np.inf
    for j in screen.targets:
        if j in used:
            continue
        for sign in (1, -1):
            size = _size(rest - sign * screen.X[:, j])
            if size < least:
                least = size
                best = (j, sign)
    return best


def _size(values: Floats) -> float:
    """Typical size of values, whatever a few of them are."""
    filled = np.abs(values[~np.isnan(values)])
    return float(np.mean(np.sort(filled)[: max(int(0.9 * len(filled)), 1)])) if len(filled) else np.inf
