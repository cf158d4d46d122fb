"""Equations that tables often obey, each as a prediction of one column and as a polynomial that is 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats

Columns = Sequence[Floats]


@dataclass(frozen=True, eq=False)
class Form:
    """One kind of equation, x₀ = f(x₁, …).

    Attributes
    ----------
    words
        How it is written, with a place for each column.
    predict
        f of the columns after the first.
    residual
        A polynomial in all columns, x₀ first, that is 0 where the equation holds and of degree 1 in each of
        them: from its values with a cell at 0 and at 1 follows what that cell should be.
    is_product
        Whether factors of 0 and 1 say nothing about it.
    """

    words: str
    predict: Callable[[Columns], Floats]
    residual: Callable[[Columns], Floats]
    is_product: bool = False


def _discount(sign: float, scale: float, words: str) -> Form:
    return Form(
        words,
        lambda x: x[0] * (1 + sign * x[1] / scale),
        lambda x: x[0] - x[1] * (1 + sign * x[2] / scale),
        is_product=True,
    )


def _discounted_product(sign: float, scale: float, words: str) -> Form:
    return Form(
        words,
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


def signed_sum(signs: Sequence[int]) -> Form:
    """x₀ = ± x₁ ± x₂ …, with these signs.

    Examples
    --------
    >>> form = signed_sum([1, -1, 1])
    >>> form.words
    '{0} = {1} − {2} + {3}'
    >>> form.predict([np.array([5.0]), np.array([2.0]), np.array([1.0])])
    array([4.])
    """
    parts = [f"{'+' if sign > 0 else '−'} {{{j}}}" for j, sign in enumerate(signs, start=1)]
    words = "{0} = " + " ".join(parts).removeprefix("+ ")
    weights = list(signs)

    def predict(x: Columns) -> Floats:
        return np.asarray(sum(w * column for w, column in zip(weights, x, strict=True)))

    return Form(words, predict, lambda x: x[0] - predict(x[1:]))
