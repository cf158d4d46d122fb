"""Equations that tables often obey, each as a prediction of one column and as a polynomial that is 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

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
