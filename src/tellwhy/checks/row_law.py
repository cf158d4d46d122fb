"""How probable a number is beside the rest of its row, the rows around it, and the other rows of its label.

Columns become normal scores. Given the rest, a score is one of four things: independent of it; about
what a linear rule of the other scores says; like the row before or after; like the other rows with the
same label. The parts of these four are learned, with a law of its own for how far scores are away from
each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.checks.column_mass import ColumnMass, learn_column
from tellwhy.checks.density import Density, learn_density
from tellwhy.checks.facts import Facts, Numbers
from tellwhy.checks.level_law import LevelLaw, learn_levels
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit, are_finite
from tellwhy.core.score import Floats, Integers

FEWEST = 40  # rows: fewer tell no law
_LEARNED = 10_000  # rows that are learned from
_FEWEST_VALUES = 3
_LARGEST = 1e60
_SMALLEST = 1e-60
_MOST_COLUMNS = 120
_MOST_MARKS = 40
_MARKS_OF_LABEL = 8
_FEWEST_OF_LEVEL = 5
_FARTHEST = 5.0  # a normal score beyond tells nothing more about other columns
_FLOOR = 0.01  # least part that is independent of the rest: what the other laws exclude may still be
_NEAR = 0.05  # smaller parts of rows that are like the next are not believed
_INDEPENDENT = 0
_BY_RULE = 1
_BY_ROW = 2
BY_LABEL = 3


@dataclass(frozen=True, eq=False)
class CellLaw:
    """What is known of one column beside the others.

    Attributes
    ----------
    mass
        The probabilities of its values.
    marginal, residual, step, within
        Densities of its normal scores; of their distance from the linear rule; from the next rows; and
        of the distance of (bent) values from the mean of their level, in its spreads.
    slopes
        Of a constant, what the other columns say, and the mean of the rows before and after.
    parts
        Of the four things that a score may be.
    farthest
        The least and the greatest score: beyond these, densities are not compared.
    levels
        What it is like within the levels of a label.
    """

    mass: ColumnMass
    marginal: Density
    residual: Density
    step: Density
    within: Density
    slopes: Floats
    parts: Floats
    farthest: Floats
    levels: LevelLaw

    def _require(self) -> Iterator[Fit]:
        yield "slopes", self.slopes.shape, (3,)
        yield "parts", self.parts.shape, (4,)
        yield "farthest", self.farthest.shape, (2,)

    def score(self, values: Floats) -> Floats:
        """Normal scores, kept where the column was seen: ratios of extrapolated densities mean nothing."""
        return np.clip(self.mass.normal_score(values), *self.farthest)


@dataclass(frozen=True, eq=False)
class RowLaw:
    """The law of all numbers of a table.

    Attributes
    ----------
    names
        Of its columns.
    columns
        The law of each.
    marks
        Labels that take part in the linear rule: column and level.
    precision
        Inverse of the correlations of the normal scores, then the marks.
    centre, size
        Mean and standard deviation of the marks.
    """

    names: tuple[str, ...]
    columns: tuple[CellLaw, ...]
    marks: tuple[tuple[str, str], ...]
    precision: Floats
    centre: Floats
    size: Floats

    def _require(self) -> Iterator[Fit]:
        p = len(self.names) + len(self.marks)
        yield "columns", len(self.columns), len(self.names)
        yield "precision", self.precision.shape, (p, p)
        yield "precision", are_finite(*self.precision.ravel().tolist()), True
        yield "centre", len(self.centre), len(self.marks)
        yield "size", len(self.size), len(self.marks)

    def expected(self, scores: Floats, marks: Floats) -> Floats:
        """What the linear rule says of each score given the others of its row; missing ones are usual."""
        filled = np.clip(np.nan_to_num(scores), -_FARTHEST, _FARTHEST)
        return expected_scores(self.precision, filled, marks)


def expected_scores(precision: Floats, scores: Floats, marks: Floats) -> Floats:
    """E[zⱼ | others] = zⱼ − (Λz)ⱼ/Λⱼⱼ of normal variables with precision Λ, for each row and each score."""
    d = scores.shape[1]
    pull = scores @ precision[:d, :d] + marks @ precision[d:, :d]
    return np.asarray(scores - pull / np.diag(precision)[:d])


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows as the law sees them.

    Attributes
    ----------
    values, scores
        Numbers and their normal scores, a column each; NaN where missing.
    marks
        Labels of the linear rule, standardised.
    around
        Scores of the row before and of the row after; 0 where there is none.
    codes
        Of each column: the level of its label, −1 where it has none.
    is_own
        Whether the law was learned from these rows.
    """

    values: Floats
    scores: Floats
    marks: Floats
    codes: tuple[Integers, ...]
    is_own: bool

    def around(self, rows: Integers, column: int) -> tuple[Floats, Floats]:
        """Scores of the row before and of the row after; 0 where there is none."""
        return _neighbours(self.scores[:, column], rows)


@dataclass(frozen=True, eq=False)
class Beside:
    """What is known about some cells of a column without looking at them."""

    expected: Floats
    before: Floats
    after: Floats
    mean: Floats
    spread: Floats

    def taken(self, chosen: NDArray[Any]) -> Beside:
        """Of some of them."""
        return Beside(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def log_parts(law: CellLaw, values: Floats, beside: Beside, *, own: bool = False) -> Floats:
    """Log of how much likelier each of the four things makes values than their column alone does."""
    scores = law.score(values)
    alone = law.marginal.log_density(scores, own=own)
    away = scores - linear(law, beside)
    as_rows = [law.step.log_density(scores - each, own=own) for each in (beside.before, beside.after)]
    # Between two groups there is room on the scale of the values, and none among ranks.
    bent = law.mass.bent(values)
    as_label = law.within.log_density((bent - beside.mean) / beside.spread, own=own) - np.log(beside.spread)
    in_column = law.mass.density.log_density(bent, own=own)
    return np.array(
        [
            np.zeros(len(scores)),
            law.residual.log_density(away, own=own) - alone,
            np.logaddexp(*as_rows) - np.log(2) - alone,
            as_label - in_column,
        ]
    )


def linear(law: CellLaw, beside: Beside) -> Floats:
    """What the other columns and the rows around say together."""
    return _linear(law.slopes, beside)


def _linear(slopes: Floats, beside: Beside) -> Floats:
    near = (beside.before + beside.after) / 2
    return np.asarray(slopes[0] + slopes[1] * beside.expected + slopes[2] * near)


def log_ratio(law: CellLaw, values: Floats, beside: Beside, *, own: bool = False) -> Floats:
    """Log of P(value | all that is known) / P(value)."""
    found = log_parts(law, values, beside, own=own)
    with np.errstate(divide="ignore"):
        mixed = np.logaddexp.reduce(found + np.log(law.parts)[:, None], axis=0)
    return np.minimum(mixed, np.log(law.mass.n) + 1)


def beside_of(law: RowLaw, cells: Cells, rows: Integers, column: int, expected: Floats) -> Beside:
    """What is known about the cells of some rows of a column, each left out where the law saw it."""
    before, after = cells.around(rows, column)
    own = law.columns[column].mass.bent(cells.values[rows, column]) if cells.is_own else None
    mean, spread = law.columns[column].levels.of(cells.codes[column][rows], own)
    return Beside(expected, before, after, mean, spread)


def log_given(
    law: CellLaw,
    values: Floats,
    beside: Beside,
    *,
    own: bool = False,
    is_meant: bool = False,
    stretch: float = 1.0,
) -> Floats:
    """Log probability of values given all else that is known of their cells (see `ColumnMass.log_mass`)."""
    mass = law.mass.log_mass(values, own=own, is_meant=is_meant, stretch=stretch)
    # Values that recur have a probability, scores a density: together they must not exceed 1.
    return np.minimum(mass + log_ratio(law, values, beside, own=own), 0.0)


def read_cells(law: RowLaw, facts: Facts, *, is_own: bool) -> Cells:
    """The numbers of a table as the law sees them."""
    values = np.column_stack([facts.numbers[name].values for name in law.names])
    scores = np.full(values.shape, np.nan)
    for at, column in enumerate(law.columns):
        filled = ~np.isnan(values[:, at])
        scores[filled, at] = column.score(values[filled, at])
    codes = tuple(column.levels.codes(facts) for column in law.columns)
    marks = (_marks(facts, law.marks) - law.centre) / law.size
    return Cells(values, scores, marks, codes, is_own)


def _marks(facts: Facts, marks: Sequence[tuple[str, str]]) -> Floats:
    table = np.zeros((facts.n, len(marks)))
    for at, (column, level) in enumerate(marks):
        labels = facts.labels.get(column)
        if labels is not None and level in labels.names:
            table[:, at] = labels.codes == labels.names.index(level)
    return table


def learn_row_law(facts: Facts) -> list[RowLaw]:
    """Learn the law of the numbers of a table, from a sample of many rows; none of a small table."""
    # Times of day go round: 1:15 is no slip of 11:15, and nobody writes one in other units.
    measured = [name for name, numbers in facts.numbers.items() if _is_told(numbers)]
    names = [name for name in measured if not facts.is_clock(name)][:_MOST_COLUMNS]
    if not names:
        return []
    rows = spread_evenly(facts.n, _LEARNED)
    masses = []
    scores = np.full((facts.n, len(names)), np.nan)
    for at, name in enumerate(names):
        values = facts.numbers[name].values
        here = values[rows]
        here = here[~np.isnan(here)]
        mass = learn_column(here if len(here) >= FEWEST else facts.numbers[name].filled)
        told = ~np.isnan(values)
        scores[told, at] = mass.normal_score(values[told])
        masses.append(mass)
    marks = _chosen_marks(facts)
    table = _marks(facts, marks)
    centre = table.mean(axis=0)
    size = table.std(axis=0) + 1e-9
    seen = np.hstack([np.nan_to_num(scores), (table - centre) / size])[rows]
    precision = _precision(np.clip(seen, -_FARTHEST, _FARTHEST))
    standard = (table[rows] - centre) / size
    expected = expected_scores(precision, seen[:, : len(names)], standard)
    columns = [
        _learn_column(facts, mass, facts.numbers[names[at]].values, rows, (scores[:, at], expected[:, at]))
        for at, mass in enumerate(masses)
    ]
    return [RowLaw(tuple(names), tuple(columns), tuple(marks), precision, centre, size)]


def _is_told(numbers: Numbers) -> bool:
    """Whether a column has enough values, of sizes that are no accident."""
    filled = numbers.filled
    if len(filled) < FEWEST or numbers.n_different < _FEWEST_VALUES:
        return False
    return bool(max(-filled[0], filled[-1]) < _LARGEST and np.ptp(filled) > _SMALLEST)


def _chosen_marks(facts: Facts) -> list[tuple[str, str]]:
    """The common levels of labels."""
    chosen: list[tuple[str, str]] = []
    for column, labels in facts.labels.items():
        counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
        for code in np.argsort(-counts, kind="stable")[:_MARKS_OF_LABEL]:
            if _FEWEST_OF_LEVEL <= counts[code] <= facts.n - _FEWEST_OF_LEVEL:
                chosen.append((column, labels.names[code]))
    return chosen[:_MOST_MARKS]


def _precision(table: Floats) -> Floats:
    """Inverse of the correlations, drawn to independence the more, the fewer rows a column has."""
    n, p = table.shape
    table = table - table.mean(axis=0)
    size = np.sqrt((table**2).mean(axis=0)) + 1e-9
    correlations = (table / size).T @ (table / size) / n
    doubt = min(0.02 + p / (n + p), 0.9)
    drawn = (1 - doubt) * correlations + doubt * np.eye(p)
    scaled = np.linalg.inv(drawn)
    return np.asarray(scaled / np.outer(size, size))


def _learn_column(
    facts: Facts, mass: ColumnMass, values: Floats, rows: Integers, known: tuple[Floats, Floats]
) -> CellLaw:
    """Learn the law of a column; `known` are normal scores, and what the others say of the rows."""
    scores, expected = known
    told = ~np.isnan(scores[rows])
    here = rows[told]
    z = scores[here]
    bent = mass.bent(values[here])
    before, after = _neighbours(scores, here)
    slopes = _robust_slopes(z, expected[told], (before + after) / 2)
    levels = learn_levels(facts, bent, here, (mass.density.width, mass.least))
    mean, spread = levels.of(levels.codes(facts)[here], bent)
    beside = Beside(expected[told], before, after, mean, spread)
    marginal = learn_density(z, step=0.05)
    law = CellLaw(
        mass=mass,
        marginal=marginal,
        residual=learn_density(z - _linear(slopes, beside), step=0.01),
        step=learn_density(np.concatenate([z - before, z - after]), step=0.05),
        within=learn_density((bent - mean) / spread, step=0.01),
        slopes=slopes,
        parts=np.full(4, 0.25),
        farthest=np.array([z.min() - 0.05, z.max() + 0.05]),
        levels=levels,
    )
    found = log_parts(law, values[here], beside, own=True)
    return replace(law, parts=_learn_parts(found, has_label=bool(levels.label)))


def _neighbours(scores: Floats, rows: Integers) -> tuple[Floats, Floats]:
    """Scores of the row before and of the row after; 0 where there is none."""
    last = len(scores) - 1
    before = np.where(rows > 0, scores[rows - 1], np.nan)
    after = np.where(rows < last, scores[np.minimum(rows + 1, last)], np.nan)
    return np.nan_to_num(before), np.nan_to_num(after)


def _robust_slopes(z: Floats, expected: Floats, near: Floats) -> Floats:
    """Regression on what other columns and the next rows say; rows far away count less (Huber)."""
    design = np.column_stack([np.ones(len(z)), expected, near])
    ridge = 0.5 * np.diag([1, 0.1, 1])
    slopes = np.array([0.0, 1.0, 0.0])
    for _ in range(4):
        away = np.clip(z - design @ slopes, -6, 6)
        wide = 1.48 * np.median(np.abs(away)) + 1e-3
        weights = 1 / np.maximum(1, np.abs(away) / wide / 2)
        weighted = (design * weights[:, None]).T
        slopes = np.linalg.solve(weighted @ design + ridge, weighted @ z + np.array([0, 0.05, 0]))
    return slopes


def _learn_parts(found: Floats, *, has_label: bool) -> Floats:
    """The parts of the four things, by expectation-maximisation."""
    parts = np.array([0.25, 0.35, 0.2, 0.2 if has_label else 0.0])
    likely = np.exp(found - found.max(axis=0))
    for _ in range(25):
        given = likely * parts[:, None]
        parts = (given / given.sum(axis=0)).mean(axis=1)
    if parts[_BY_ROW] < _NEAR:
        parts[_BY_ROW] = 0.0
    parts[_INDEPENDENT] = max(parts[_INDEPENDENT], _FLOOR)
    return np.asarray(parts / parts.sum())
