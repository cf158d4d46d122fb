"""A relation between columns: what it predicts, where it holds, and what a cell would have to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.links.forms import Columns, Form
from tellwhy.data.quality.words import number_words

Mask = NDArray[np.bool_]
BEFORE = " of the row before"
MOMENT = 2 / 86_400  # two seconds in days: what rounding does to dates


@dataclass(frozen=True, eq=False)
class Relation:
    """columns[0] = factor · f(columns[1], …) + offset, up to rounding or a relative `slack`."""

    form: Form
    columns: tuple[str, ...]
    factor: float = 1.0
    offset: float = 0.0
    slack: float = 1e-9

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
        mask = np.ones(len(x[0]), dtype=np.bool_)
        for column in x:
            mask &= np.isfinite(column) & (column != 0)
        if self.form.is_product:
            for column in x[1:]:
                mask &= column != 1
        return mask

    def words(self) -> str:
        """The equation as people write it."""
        text = self.form.words.format(*self.columns)
        left, right = text.split(" = ", maxsplit=1)
        if not np.isclose(self.factor, 1):
            many = "+" in right or "−" in right
            right = f"{number_words(_short(self.factor))} × {f'({right})' if many else right}"
        if self.offset:
            sign = "+" if self.offset > 0 else "−"
            right = f"{right} {sign} {number_words(_short(abs(self.offset)))}"
        return f"{left} = {right}"


def _short(value: float) -> float:
    return float(f"{value:.4g}")


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
