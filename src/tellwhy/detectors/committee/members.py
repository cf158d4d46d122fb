"""The members of the committee, from what they have in common to each of them.

`Tails`: values that are far out in their column, or rare for it. `Neighbours`: rows far from those most like
them. `Gaussian`: rows far out in a direction in which rows spread little. `Dependence`: cells that are not
what the other cells of their row make one expect. `RarePairs`: values that are common on their own and hardly
ever come together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, pdtr

from tellwhy.core.params import Fit
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, Integers, NeighbourDistance
from tellwhy.data.columns.codes import measure_scale
from tellwhy.detectors.committee.column_law import (
    ColumnLaw,
    Law,
    PointMassLaw,
    TailShortening,
    compute_surprises,
    count_reaching,
    learn_law,
)
from tellwhy.scoring import NeighbourScore

MOST_CORRELATED = 500  # columns whose correlations are used: the cost grows with the cube of their number

Mask = NDArray[np.bool_]


class Member(Protocol):
    """A fitted member: it scores rows and says what each column contributed.

    `points[i]`, where given, is the remembered row that row i of X is, or −1. A member that compares rows
    with remembered ones leaves that one out; the others take no notice.
    """

    least_scale: ClassVar[float]
    """Smallest scale of the tail of its scores: 1 for scores that are surprises already, else 0."""

    most_shape: ClassVar[float]
    """Heaviest tail that its scores may have, as a shape of `compute_growth`.

    Of surprises it is 0 if the laws behind them can be trusted far out.
    """

    def score(self, X: Floats, points: Integers | None = None) -> Floats:
        """One number per row, high for odd rows."""
        ...

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:
        """What each column contributed to the score of each row; the score is their sum."""
        ...


@dataclass(frozen=True)
class ColumnScales:
    """Columns around 0 with a width of about 1, so that no square overflows or vanishes.

    Members then choose units of their own; this one only takes offsets and powers of ten away.
    """

    centre: Floats
    scale: Floats

    @classmethod
    def learn(cls, X: Floats) -> ColumnScales:
        """Learn from all rows: medians and ranges do not mind a few odd ones."""
        learned = np.array([measure_scale(column) for column in X.T])
        return cls(learned[:, 0], learned[:, 1])

    def of(self, X: Floats) -> Floats:
        """Scale rows; what would overflow ends at ±1e100."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.centre) / self.scale, -1e100, 1e100)

    def _require(self) -> Iterator[Fit]:
        yield "scale", self.scale.shape, self.centre.shape
        yield "scale", bool((self.scale > 0).all()), True


@dataclass(frozen=True)
class Units:
    """Columns in units of what is usual in them, so that distances weigh them alike.

    A unit is a standard deviation. Of a column with two values the distance between them follows from how
    rare they are: Φ⁻¹(1 − p/2) is the distance that a share p of a normal distribution exceeds, and a rare
    value lies that far from a common one. In standard deviations, 1/√p, a rare label would drown all else.

    Attributes
    ----------
    straight
        What is done to long tails first.
    centre, scale
        Zero and unit of each column.
    has_two_values
        Which columns have two values.
    """

    straight: TailShortening
    centre: Floats
    scale: Floats
    has_two_values: Mask

    @classmethod
    def learn(cls, X: Floats, kept: Integers, straight: TailShortening | None = None) -> Units:
        """Learn from the kept rows; how rare each of two values is, from all rows."""
        straight = straight or TailShortening.none(X.shape[1])
        ordinary = straight.of(X[kept])
        centre = ordinary[0] + (ordinary - ordinary[0]).mean(axis=0)  # differences first: offsets round less
        spread = (ordinary - centre).std(axis=0)
        high = X.max(axis=0)
        two = has_two_values(X)
        share = np.clip((high == X).mean(axis=0), 0.5 / len(X), 1 - 0.5 / len(X))
        apart = np.hypot(ndtri(share / 2), ndtri((1 - share) / 2))
        scale = np.where(two, (high - X.min(axis=0)) / apart, spread)
        # A spike and the values beside it have their distances already: their spread follows from how many of
        # these values were kept, and they are the first to be set aside.
        scale = np.where(straight.is_spiked, 1.0, scale)
        centre = np.where(straight.is_spiked, 0.0, centre)
        # A column that does not vary in the ordinary rows has no unit of its own.
        return cls(straight, centre, np.where(scale > 1e-12 * np.abs(centre), scale, 1.0), two)

    @property
    def is_lumped(self) -> Mask:
        """Which columns have two values, or a spike: their distances say how rare values are."""
        return np.asarray(self.has_two_values | self.straight.is_spiked)

    def of(self, X: Floats) -> Floats:
        """Bring rows into these units."""
        return np.asarray((self.straight.of(X) - self.centre) / self.scale)

    def covariance(self, Z: Floats) -> Floats:
        """Covariance of rows in these units, in which lumped columns have at least variance 1.

        The variance of a rare label is small, and a Gaussian would find it absurdly far out.
        """
        found = np.atleast_2d(np.cov(Z.T))
        lacking = np.where(self.is_lumped, np.maximum(1.0 - np.diag(found), 0.0), 0.0)
        return np.asarray(found + np.diag(lacking))

    def _require(self) -> Iterator[Fit]:
        yield "scale", self.scale.shape, self.centre.shape
        yield "scale", bool((self.scale > 0).all()), True
        yield "straight", isinstance(self.straight, TailShortening), True
        yield "straight", self.straight.starts.shape[1:], self.centre.shape
        yield "has_two_values", self.has_two_values.shape, self.centre.shape


def has_two_values(X: Floats) -> Mask:
    """Which columns hold two different values."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    return np.asarray(((low == X) | (high == X)).all(axis=0) & (high > low))


def excess(surprises: Floats, n_asked: float | Floats) -> Floats:
    """What is left of surprises once so many are asked for at once: [t − log n − 1]₊ + t/1000.

    The largest of n surprises of ordinary cells is about log n. The thousandth part orders rows in which no
    cell is odd.
    """
    return np.maximum(surprises - np.log(np.maximum(n_asked, 1.0)) - 1.0, 0.0) + 1e-3 * surprises


ODD = 3.0  # surprise from which a cell is odd: one in twenty


@dataclass(frozen=True)
class Tails:
    """Excess surprise of the cells of a row, each in its own column.

    Columns that go together are odd together. Of a column with correlation ρ to the oddest one of the row
    only the part 1 − ρ² is counted: the rest has been said.

    Attributes
    ----------
    laws
        What is usual in each column.
    alike
        ρ² of each two columns, in straightened units.
    """

    least_scale: ClassVar[float] = 1.0
    most_shape: ClassVar[float] = 0.0
    laws: tuple[Law, ...]
    alike: Floats

    @classmethod
    def learn(cls, X: Floats, laws: tuple[Law, ...] | None = None) -> Tails:
        """Learn the law of each column from all rows: a few per cent of anomalies do not move it."""
        laws = laws or tuple(learn_law(column) for column in X.T)
        alike = _alike(TailShortening.learn(X, laws).of(X))
        return cls(laws, np.maximum(alike, _judge_odd_together(compute_surprises(laws, X))))

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum of the excess surprises of a row."""
        return np.asarray(self.shares(X).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Excess surprise of each cell, as far as the oddest cell of its row has not told it."""
        surprises = compute_surprises(self.laws, X)
        found = excess(surprises, count_reaching(self.laws, surprises))
        oddest = np.argmax(found, axis=1)
        counted = 1.0 - self.alike[oddest]
        counted[np.arange(len(X)), oddest] = 1.0
        return np.asarray(found * counted)

    def _require(self) -> Iterator[Fit]:
        yield "laws", all(isinstance(law, (ColumnLaw, PointMassLaw)) for law in self.laws), True
        yield "alike", self.alike.shape, (len(self.laws), len(self.laws))
        yield "alike", bool(((self.alike >= 0) & (self.alike <= 1)).all()), True


def _alike(Z: Floats) -> Floats:
    """Squared correlations; 0 where a column does not vary, and in very wide tables, where they are noise."""
    d = Z.shape[1]
    if d == 1 or d > MOST_CORRELATED:
        return np.zeros((d, d))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(np.nan_to_num(np.corrcoef(Z.T)) ** 2, 0.0, 1.0))


def _judge_odd_together(surprises: Floats) -> Floats:
    """Part of a column's surprise that is told once another is odd: 1 − log p(odd | other odd)/log p(odd).

    Correlations do not see it: of two columns of zeros, other values may be in the same few rows.
    """
    n, d = surprises.shape
    if d == 1 or d > MOST_CORRELATED:
        return np.zeros((d, d))
    is_odd = (surprises > ODD).astype(np.float64)
    together = is_odd.T @ is_odd
    counts = np.diag(together)
    # As many as there are at least, by one standard error: a few rows may be odd together by chance.
    sure = np.maximum(together - np.sqrt(together), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        told = 1.0 - np.log(sure / counts[:, None]) / np.log(counts / n)
    return np.asarray(np.clip(np.nan_to_num(told, nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0))


@dataclass(frozen=True)
class Neighbours:
    """Mean distance to the k nearest of the remembered rows, r̄ = (1/k) Σ_j ‖z − u_j‖.

    Squeezed units grow like a logarithm, ±log(1 + |z|): long tails then do not decide every distance, and
    rows between clusters are seen better.
    """

    least_scale: ClassVar[float] = 0.0
    most_shape: ClassVar[float] = 0.3
    units: Units
    squeezed: bool
    expansion: NeighbourDistance

    @classmethod
    def learn(
        cls,
        X: Floats,
        remembered: Integers,
        k: int,
        *,
        squeezed: bool = False,
        straight: TailShortening | None = None,
    ) -> Neighbours:
        """Remember some rows; of few rows fewer neighbours count."""
        units = Units.learn(X, remembered, straight)
        points = X[remembered]
        n_neighbours = max(1, min(k, len(points) // 3))
        Z = _squeeze(units.of(points)) if squeezed else units.of(points)
        return cls(units, squeezed, NeighbourDistance(Z, n_neighbours))

    @cached_property
    def distance(self) -> NeighbourScore:
        """The distance, which keeps the remembered rows as products of matrices need them."""
        return NeighbourScore(self.expansion)

    def score(self, X: Floats, points: Integers | None = None) -> Floats:
        """Mean distance of each row to its neighbours."""
        return self.distance.value(self._in_units(X), points)

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:
        """(1/k) Σ_j (z_i − u_ji)²/r_j: the columns' parts of each distance."""
        Z = self._in_units(X)
        found = np.zeros_like(Z)
        index, distance = self.distance.neighbours(Z, points)
        for rows in track_batches(len(Z), Z.shape[1] * 16, "sharing distances"):
            for j, r in zip(index[rows].T, distance[rows].T, strict=True):
                # Of a neighbour at distance 0 no column has a part.
                found[rows] += (Z[rows] - self.expansion.points[j]) ** 2 / np.where(r > 0, r, np.inf)[:, None]
        return found / self.expansion.n_neighbours

    def _in_units(self, X: Floats) -> Floats:
        Z = self.units.of(X)
        return _squeeze(Z) if self.squeezed else Z

    def _require(self) -> Iterator[Fit]:
        yield "expansion", self.expansion.points.shape[1:], self.units.centre.shape


def _squeeze(Z: Floats) -> Floats:
    return np.asarray(np.sign(Z) * np.log1p(np.abs(Z)))


@dataclass(frozen=True)
class Gaussian:
    """Mahalanobis distance √(zᵀPz), with P the inverse of a shrunken covariance.

    The root, because the tail of a square is too heavy to be followed from where most rows are.
    P is a matrix; of a very wide table, whose correlations are noise, it is the diagonal alone.
    """

    least_scale: ClassVar[float] = 0.0
    most_shape: ClassVar[float] = 0.3
    units: Units
    precision: Floats

    @classmethod
    def learn(cls, X: Floats, kept: Integers, straight: TailShortening | None = None) -> Gaussian:
        """Learn from the kept rows."""
        units = Units.learn(X, kept, straight)
        n, d = len(kept), X.shape[1]
        if d > MOST_CORRELATED:
            variances = np.where(units.is_lumped, 1.0, units.of(X[kept]).var(axis=0))
            return cls(units, 1.0 / (variances + 1e-6))
        covariance = units.covariance(units.of(X[kept]))
        # With few rows for the columns, correlations are noise: they are shrunk towards none.
        shrinkage = min(0.5, d / n)
        shrunken = (1 - shrinkage) * covariance + shrinkage * np.diag(np.diag(covariance))
        # Directions without spread would be infinitely far; the ridge keeps the inverse finite.
        return cls(units, np.linalg.inv(shrunken + 1e-6 * np.eye(d)))

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Distance of each row."""
        return np.asarray(np.sqrt(np.maximum(self._squares(X).sum(axis=1), 0.0)))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """z_i (Pz)_i/√(zᵀPz), which is negative where a column makes the row less odd."""
        squares = self._squares(X)
        length = np.sqrt(np.maximum(squares.sum(axis=1), 0.0))
        return squares / np.where(length > 0, length, np.inf)[:, None]

    def _squares(self, X: Floats) -> Floats:
        Z = self.units.of(X)
        if self.precision.ndim == 1:
            return np.asarray(Z * Z * self.precision)
        return np.asarray(Z * (Z @ self.precision))

    def _require(self) -> Iterator[Fit]:
        d = len(self.units.centre)
        yield "precision", self.precision.shape in ((d, d), (d,)), True


LEAST_VALUES = 10  # of a column that is measured


@dataclass(frozen=True)
class Dependence:
    """Excess surprise of what is left of each column once the others have predicted it.

    The linear prediction of every column from the others comes from one inverse covariance P: the rest of
    column j is z·P_j / P_jj, taken relative to large predictions. Judged are measured columns: those with
    many values, none of which most rows have. What is left of a label or of a column of zeros has few values,
    far apart; a rare one would look like broken dependence.

    Attributes
    ----------
    judged
        The measured columns; none of a very wide table, whose correlations are noise.
    weights
        Each column turns a row into the rest of a judged column.
    laws
        What is usual for these rests.
    """

    least_scale: ClassVar[float] = 1.0
    most_shape: ClassVar[float] = 0.15  # far from the middle a straight line predicts badly
    units: Units
    judged: Integers
    weights: Floats
    laws: tuple[ColumnLaw, ...]

    @classmethod
    def learn(cls, X: Floats, kept: Integers, straight: TailShortening | None = None) -> Dependence:
        """Learn the dependence from the kept rows, and what is left over from all of them."""
        units = Units.learn(X, kept, straight)
        n, d = len(kept), X.shape[1]
        judged = np.flatnonzero(is_measured(X)) if d <= MOST_CORRELATED else np.empty(0, dtype=np.int64)
        if not len(judged):
            return cls(units, judged, np.empty((d, 0)), ())
        # The ridge stands for noise in every column: without it, a column that the others give exactly
        # would make rounding errors look odd.
        ridge = 0.01 + 0.1 * d / n
        precision = np.linalg.inv(units.covariance(units.of(X[kept])) + ridge * np.eye(d))
        weights = (precision / np.diag(precision))[:, judged]
        rest = _compute_relative_rest(units.of(X), judged, weights)
        # What a straight line leaves over has longer tails than its middle tells: no light ones are believed.
        laws = tuple(ColumnLaw.learn(column, lightest=0.0) for column in rest.T)
        return cls(units, judged, weights, laws)

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum of the excess surprises of a row."""
        return np.asarray(self._excess(self.units.of(X)).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Each surprise shared between its column and those that predicted it, by the size of their terms."""
        Z = self.units.of(X)
        odd = self._excess(Z)
        found = np.zeros_like(Z)
        for rows in track_batches(len(Z), 8 * self.weights.size, "sharing broken dependence"):
            terms = np.abs(Z[rows])[:, :, None] * np.abs(self.weights)  # row, column, whose rest
            totals = terms.sum(axis=1, keepdims=True)
            terms /= np.where(totals > 0, totals, 1.0)
            found[rows] = np.einsum("nij,nj->ni", terms, odd[rows])
        return found

    def _excess(self, Z: Floats) -> Floats:
        if not len(self.judged):
            return np.zeros((len(Z), 0))
        rest = _compute_relative_rest(Z, self.judged, self.weights)
        return excess(compute_surprises(self.laws, rest), Z.shape[1])

    def _require(self) -> Iterator[Fit]:
        d = len(self.units.centre)
        yield "weights", self.weights.shape, (d, len(self.judged))
        yield "judged", bool(((self.judged >= 0) & (self.judged < d)).all()), True
        yield "laws", all(isinstance(law, (ColumnLaw, PointMassLaw)) for law in self.laws), True
        yield "laws", len(self.laws), len(self.judged)


def _compute_relative_rest(Z: Floats, judged: Integers, weights: Floats) -> Floats:
    """What is left of the judged columns, relative to the size of the prediction where that is large.

    Errors of a straight line grow with what it predicts where the truth is a product or a power.
    """
    rest = Z @ weights
    return np.asarray(rest / (1.0 + np.abs(Z[:, judged] - rest)))


def is_measured(X: Floats) -> Mask:
    """Tell which columns have many values, none of them in most rows."""
    found = np.zeros(X.shape[1], dtype=bool)
    for j, column in enumerate(X.T):
        counts = np.unique(column, return_counts=True)[1]
        found[j] = len(counts) >= LEAST_VALUES and counts.max() <= len(column) / 2
    return found


MOST_LABELS = 1_000  # whose pairs are counted
FEW_ROWS = 3
FEW_SHARE = 1e-3
FEW_MORE = 6.0  # surprise of a pair that only a few rows have, above what says how rare these are


@dataclass(frozen=True)
class RarePairs:
    """Excess surprise of pairs of labels that come together less often than chance would have it.

    Labels are the higher values of columns with two values: the labels of an encoded category, or 'true'.
    With n·p·q rows expected, so few as were seen have the probability of a Poisson variable's lower tail. Of
    a pair that k rows have the surprise is at most log(n/k), and 6 more where k is only a few: labels depend
    on each other in most tables, and a row that is the only one of its kind is met in many of them.

    Attributes
    ----------
    labels
        Columns that are labels: those with two values.
    high
        The higher value of each of them.
    surprises
        Labels × labels, 0 where the pair is not rarer than expected.
    """

    least_scale: ClassVar[float] = 1.0
    most_shape: ClassVar[float] = 0.15  # labels that depend on a third have rare pairs in many rows
    labels: Integers
    high: Floats
    surprises: Floats

    @classmethod
    def learn(cls, X: Floats) -> RarePairs:
        """Count pairs in all rows."""
        high = X.max(axis=0)
        labels = np.flatnonzero(has_two_values(X))
        if len(labels) > MOST_LABELS:  # the most common ones: a rare label has few pairs anyway
            common = np.argsort(-(X[:, labels] == high[labels]).mean(axis=0), kind="stable")
            labels = np.sort(labels[common[:MOST_LABELS]])
        present = _present(X, labels, high[labels])
        counts = present.T @ present
        singles = np.diag(counts)
        expected = np.outer(singles, singles) / len(X)
        # A rare label has few pairs anyway: that is the label's own surprise, not the pair's.
        surprises = -np.log(np.maximum(pdtr(counts, expected), 1e-300))
        np.fill_diagonal(surprises, 0.0)
        n_pairs = max(1, len(labels) * (len(labels) - 1) // 2)
        surprises = np.where(counts < expected, np.maximum(excess(surprises, n_pairs), 0.0), 0.0)
        # A pair is no odder than the rows are rare that have it; one that only a few have may be an error.
        is_habit = counts > max(FEW_ROWS, FEW_SHARE * len(X))
        most = np.log(len(X) / np.maximum(counts, 1.0)) + np.where(is_habit, 0.0, FEW_MORE)
        surprises = np.minimum(surprises, most)
        return cls(labels, high[labels], surprises)

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum over the pairs of labels that a row has."""
        return np.asarray(self._halve_surprises(X).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Half of each pair's surprise for either label."""
        found = np.zeros_like(X)
        found[:, self.labels] = self._halve_surprises(X)
        return found

    def _halve_surprises(self, X: Floats) -> Floats:
        present = _present(X, self.labels, self.high)
        return np.asarray(0.5 * present * (present @ self.surprises))

    def _require(self) -> Iterator[Fit]:
        n = len(self.labels)
        yield "high", self.high.shape, (n,)
        yield "labels", bool((self.labels >= 0).all()), True
        yield "surprises", self.surprises.shape, (n, n)


def _present(X: Floats, labels: Integers, high: Floats) -> Floats:
    """1 where a row has a label, 0 elsewhere."""
    return (X[:, labels] == high).astype(np.float64)
