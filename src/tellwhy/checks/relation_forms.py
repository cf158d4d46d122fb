"""Equations between columns.

Equations that tables often obey, each as a prediction of one column and as a polynomial that is 0.

A relation between columns: what it predicts, where it holds, and what a cell would have to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.checks.facts import Facts
from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Floats

Columns = Sequence[Floats]


@dataclass(frozen=True, eq=False)
class Form:
    """One kind of equation, x₀ = f(x₁, …).

    Attributes
    ----------
    pattern
        How it is written, with a place for each column; it names the form.
    predict
        f of the columns after the first.
    residual
        A polynomial in all columns, x₀ first, that is 0 where the equation holds and of degree 1 in each of
        them: from its values with a cell at 0 and at 1 follows what that cell should be.
    is_product
        Whether factors of 0 and 1 say nothing about it.
    """

    pattern: str
    predict: Callable[[Columns], Floats]
    residual: Callable[[Columns], Floats]
    is_product: bool = False
    signs: tuple[int, ...] = ()  # of a sum of any length
    n_rates: int = 0  # of an invoice: rates, behind the two factors


def _discount(sign: float, scale: float, pattern: str) -> Form:
    return Form(
        pattern,
        lambda x: x[0] * (1 + sign * x[1] / scale),
        lambda x: x[0] - x[1] * (1 + sign * x[2] / scale),
        is_product=True,
    )


def _discounted_product(sign: float, scale: float, pattern: str) -> Form:
    return Form(
        pattern,
        lambda x: x[0] * x[1] * (1 + sign * x[2] / scale),
        lambda x: x[0] - x[1] * x[2] * (1 + sign * x[3] / scale),
        is_product=True,
    )


SAME = Form("{0} = {1}", lambda x: x[0], lambda x: x[0] - x[1])
PRODUCT = Form("{0} = {1} × {2}", lambda x: x[0] * x[1], lambda x: x[0] - x[1] * x[2], is_product=True)
QUOTIENT = Form("{0} = {1} / {2}", lambda x: x[0] / x[1], lambda x: x[0] * x[2] - x[1], is_product=True)
SUM = Form("{0} = {1} + {2}", lambda x: x[0] + x[1], lambda x: x[0] - x[1] - x[2])
DIFFERENCE = Form("{0} = {1} − {2}", lambda x: x[0] - x[1], lambda x: x[0] - x[1] + x[2])
CHANGE = Form(
    "{0} = ({1} − {2}) / {2}",
    lambda x: (x[0] - x[1]) / x[1],
    lambda x: x[0] * x[2] - x[1] + x[2],
    is_product=True,
)
OF_TWO = (
    PRODUCT,
    SUM,
    DIFFERENCE,
    QUOTIENT,
    _discount(-1, 1, "{0} = {1} × (1 − {2})"),
    _discount(1, 1, "{0} = {1} × (1 + {2})"),
    _discount(-1, 100, "{0} = {1} × (1 − {2}/100)"),
    _discount(1, 100, "{0} = {1} × (1 + {2}/100)"),
    CHANGE,
)
SCALABLE = (PRODUCT, SUM, DIFFERENCE, QUOTIENT)  # tried with a constant factor too
SYMMETRIC = (PRODUCT, SUM)

PRODUCT_PLUS = Form(
    "{0} = {1} × {2} + {3}",
    lambda x: x[0] * x[1] + x[2],
    lambda x: x[0] - x[1] * x[2] - x[3],
    is_product=True,
)
PRODUCT_MINUS = Form(
    "{0} = {1} × {2} − {3}",
    lambda x: x[0] * x[1] - x[2],
    lambda x: x[0] - x[1] * x[2] + x[3],
    is_product=True,
)
DISCOUNTED = {
    1: _discounted_product(-1, 1, "{0} = {1} × {2} × (1 − {3})"),
    -1: _discounted_product(1, 1, "{0} = {1} × {2} × (1 + {3})"),
    100: _discounted_product(-1, 100, "{0} = {1} × {2} × (1 − {3}/100)"),
    -100: _discounted_product(1, 100, "{0} = {1} × {2} × (1 + {3}/100)"),
}


def _make_invoice(rates: Sequence[tuple[int, int]], *, has_more: bool) -> Form:
    """b × c × (1 ± d/scale) × …, and + e: rates are told by their signs and scales."""
    parts = [
        f"(1 {'+' if sign > 0 else '−'} {{{at}}}{'/100' if scale > 1 else ''})"
        for at, (sign, scale) in enumerate(rates, start=3)
    ]
    more = f" + {{{3 + len(rates)}}}" if has_more else ""

    def predict(x: Columns) -> Floats:
        found = x[0] * x[1]
        for cells, (sign, scale) in zip(x[2:], rates, strict=False):
            found = found * (1 + sign * cells / scale)
        return found + x[-1] if has_more else found

    pattern = " × ".join(["{0} = {1} × {2}", *parts]) + more
    return Form(pattern, predict, lambda x: x[0] - predict(x[1:]), is_product=True, n_rates=len(rates))


# Of each number of rates: with signs and scales, and whether something (postage) is added.
_RATES = [(-1, 1), (1, 1), (-1, 100), (1, 100)]
INVOICES = {
    (rates, has_more): _make_invoice(rates, has_more=has_more)
    for rates in [*[(one,) for one in _RATES], *permutations(_RATES, 2)]
    for has_more in (False, True)
    if len(rates) > 1 or has_more
}


def signed_sum(signs: Sequence[int]) -> Form:
    """x₀ = ± x₁ ± x₂ …, with these signs.

    Examples
    --------
    >>> form = signed_sum([1, -1, 1])
    >>> form.pattern
    '{0} = {1} − {2} + {3}'
    >>> form.predict([np.array([5.0]), np.array([2.0]), np.array([1.0])])
    array([4.])
    """
    parts = [f"{'+' if sign > 0 else '−'} {{{j}}}" for j, sign in enumerate(signs, start=1)]
    pattern = "{0} = " + " ".join(parts).removeprefix("+ ")
    weights = tuple(signs)

    def predict(x: Columns) -> Floats:
        return np.asarray(sum(w * column for w, column in zip(weights, x, strict=True)))

    return Form(pattern, predict, lambda x: x[0] - predict(x[1:]), signs=weights)


FORMS = {
    form.pattern: form
    for form in (SAME, *OF_TWO, PRODUCT_PLUS, PRODUCT_MINUS, *DISCOUNTED.values(), *INVOICES.values())
}


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
