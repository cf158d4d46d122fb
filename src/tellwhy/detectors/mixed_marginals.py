"""Columns of point masses and smooth parts, bound together by a Gaussian copula.

Where many rows share a value, a column has a point mass there and a smooth part beside it; either becomes
normal scores, whose covariance is the copula.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, ndtri
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import Scaling, as_floats, check_columns, draw_sample
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, Rules, one_of, real
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.base import Detector, choose_calibration_rows

LEAST_SHARE = 0.05  # of the rows, that make a value a point mass
LEAST_ROWS = 3
N_CENTRES = 64  # quantiles of the other values that carry kernels
N_LEVELS = 257  # quantiles that the distribution function runs through
LEAST_WIDTH = 0.05  # of a column's standard deviation: kernels on values that hardly differ
_PEAK = np.log(2.0 / (np.pi * np.sqrt(3.0)))  # of Student's t with 3 degrees of freedom
_LARGEST = 1e150  # a difference whose square is still a number


@dataclass(frozen=True, eq=False)
class MixedColumns:
    """Each column by itself: values that repeat, and a density of the others.

    The atoms of column j are `atoms[starts[j]:starts[j + 1]]`, in ascending order, each with its share of the
    rows (`masses`) and its level, the middle of its step in the distribution function. All other values
    together have the share `rest`; their density is a mean of Student kernels (3 degrees of freedom: a value
    far away is unlikely, not impossible) on `centres`. These and the widths are in units of the column's
    standard deviation.
    """

    starts: Integers  # (d + 1,)
    atoms: Floats
    masses: Floats
    levels: Floats
    rest: Floats  # (d,)
    centres: Floats  # (d, 64)
    widths: Floats  # (d,)
    scales: Floats  # (d,)
    quantiles: Floats  # (d, 257) of all values
    n_rows: int

    @classmethod
    def of(cls, X: Floats) -> MixedColumns:
        """Learn from rows."""
        scales = Scaling.of(X, constant=1.0).scale
        columns = [_Column.of(x, scale) for x, scale in zip(X.T, scales, strict=True)]
        return cls(
            starts=np.concatenate([[0], np.cumsum([len(c.atoms) for c in columns])]).astype(np.int64),
            atoms=np.concatenate([c.atoms for c in columns]),
            masses=np.concatenate([c.masses for c in columns]),
            levels=np.concatenate([c.levels for c in columns]),
            rest=np.array([c.rest for c in columns]),
            centres=np.stack([c.centres for c in columns]),
            widths=np.array([c.width for c in columns]),
            scales=scales,
            quantiles=np.quantile(X, np.linspace(0.0, 1.0, N_LEVELS), axis=0).T.copy(),
            n_rows=len(X),
        )

    def surprises(self, X: Floats) -> Floats:
        """−log of the share of rows that have the value, or of the density beside the atoms; shape (n, d)."""
        found = np.empty_like(X)
        for j, x in enumerate(X.T):
            gaps = ((x / self.scales[j])[:, None] - self.centres[j]) / self.widths[j]
            kernels = _PEAK - 2.0 * np.log1p(np.clip(gaps, -_LARGEST, _LARGEST) ** 2 / 3.0)
            height = self.rest[j] / self.widths[j] / N_CENTRES
            found[:, j] = -logsumexp(kernels, axis=1) - np.log(height)
            place = self._find_atom(j, x)
            found[place >= 0, j] = -np.log(self.masses[place[place >= 0]])
        return found

    def normal_scores(self, X: Floats) -> Floats:
        """Quantile of the standard normal distribution at each cell's level in its column; shape (n, d)."""
        edge = 0.5 / (self.n_rows + 1.0)  # no level is 0 or 1, which have no finite quantile
        grid = np.linspace(0.0, 1.0, N_LEVELS)
        found = np.empty_like(X)
        for j, x in enumerate(X.T):
            level = np.interp(x, self.quantiles[j], grid)
            place = self._find_atom(j, x)
            level[place >= 0] = self.levels[place[place >= 0]]
            found[:, j] = ndtri(np.clip(level, edge, 1.0 - edge))
        return found

    def _find_atom(self, j: int, x: Floats) -> Integers:
        """Place of the atom that each value is; −1 for a value that is none."""
        start, stop = self.starts[j : j + 2]
        if start == stop:
            return np.full(len(x), -1)
        atoms = self.atoms[start:stop]
        place = np.minimum(np.searchsorted(atoms, x), len(atoms) - 1)
        return np.where(atoms[place] == x, start + place, -1)

    def _require(self) -> Iterator[Fit]:
        d = len(self.scales)
        yield "starts", (self.starts.shape, self.starts.dtype), ((d + 1,), np.dtype(np.int64))
        steps = np.diff(self.starts)
        yield "starts", bool((steps >= 0).all() and self.starts[0] == 0), True
        yield "atoms", len(self.atoms), int(self.starts[-1])
        for name in ("masses", "levels"):
            yield name, getattr(self, name).shape, self.atoms.shape
        for name in ("rest", "widths"):
            yield name, getattr(self, name).shape, (d,)
        yield "widths", bool((self.widths > 0).all() and (self.scales > 0).all()), True
        for name in ("centres", "quantiles"):
            yield name, len(getattr(self, name)), d


@dataclass(frozen=True)
class _Column:
    atoms: Floats
    masses: Floats
    levels: Floats
    rest: float
    centres: Floats
    width: float

    @classmethod
    def of(cls, x: Floats, scale: float) -> _Column:
        values, counts = np.unique(x, return_counts=True)
        is_atom = counts >= max(LEAST_SHARE * len(x), LEAST_ROWS)
        middles = (np.cumsum(counts) - 0.5 * counts) / len(x)
        others = np.repeat(values[~is_atom], counts[~is_atom])
        # Half a row for each atom and for all other values together: a value never seen is not impossible.
        total = len(x) + 0.5 * (is_atom.sum() + 1)
        carried = others if len(others) else values
        carried = carried / scale  # large numbers have no squares
        centres = np.quantile(carried, (np.arange(N_CENTRES) + 0.5) / N_CENTRES)
        return cls(
            values[is_atom],
            (counts[is_atom] + 0.5) / total,
            middles[is_atom],
            float((len(others) + 0.5) / total),
            centres,
            _width(carried),
        )


def _width(values: Floats) -> float:
    """Silverman's width, with the smaller of standard deviation and quartile distance; never next to 0."""
    low, high = np.quantile(values, [0.25, 0.75])
    spreads = [spread for spread in (float(np.std(values)), (high - low) / 1.349) if spread > 0]
    return float(max(0.9 * min(spreads, default=0.0) * len(values) ** -0.2, LEAST_WIDTH))


FOLDS = 5
LEARNED_ROWS = 100_000  # at most: shares and correlations are then known to a few thousandths
LEAST_SHRINKAGE = 0.01  # columns that determine each other would otherwise have no inverse


@dataclass(frozen=True, eq=False)
class GaussianCopula:
    """A Gaussian copula: correlations of normal scores, and what ordinary rows have on average."""

    centre: Floats  # (d,) of the normal scores
    scale: Floats  # (d,)
    excess: Floats  # (d, d) Q = R⁻¹ − I
    offset: float  # ½ log det R
    means: Floats  # (d,) of each column's part, over the rows that were learned from

    def _require(self) -> Iterator[Fit]:
        d = len(self.centre)
        yield "excess", self.excess.shape, (d, d)
        yield "scale", self.scale.shape, (d,)
        yield "scale", bool((self.scale > 0).all()), True
        yield "means", self.means.shape, (d,)


class MixedMarginals(Detector):
    """Columns with repeated values: how rare each value is, and how rare the values are together.

    e(x) = Σ_j m_j(x_j) + ½ zᵀ(R⁻¹ − I)z + ½ log det R. A value that at least 5 % of the rows share is a point
    mass, and m is −log of its share; all others have m = −log of a density, in units of the column's standard
    deviation. So a cell beside the one value that nearly all rows have is odd, however small the difference,
    and a rare code is as odd as it is rare. z are normal scores (the cell's rank, as a quantile of the normal
    distribution), and R is their correlation matrix, shrunk towards independence. No share depends on units.

    Its explanation is in closed form: shares are the Shapley values of the score against all rows that were
    learned from. What they leave over is the mean score of these rows.

    Parameters
    ----------
    shrinkage
        Weight of independence in R: at least 0.01; 'auto' is Ledoit and Wolf's.
    contamination
        Share of training rows, each scored as if it were new, above the threshold that `fit` sets.

    Attributes
    ----------
    columns_
        Point masses, densities and ranks of each column.
    dependence_
        The copula.
    shrinkage_
        Weight in use.
    training_scores_
        Scores of training rows (at most 20,000), each by what four fifths of them without it taught.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=500), np.zeros(500)])
    >>> X[::50, 1] = 1.0
    >>> MixedMarginals(contamination=0.05).fit(X).predict([[0.3, 0.0], [0.3, 0.2]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "shrinkage": (one_of("auto"), real(0, 1, closed="both")),
        "contamination": real(0, 0.5, closed="right"),
    }

    def __init__(self, *, shrinkage: str | float = "auto", contamination: float = 0.1):
        self.shrinkage = shrinkage
        self.contamination = contamination

    def _fit(self, X: Floats) -> None:
        learned = X[np.sort(draw_sample(len(X), LEARNED_ROWS, np.random.default_rng(0)))]
        self.columns_ = MixedColumns.of(learned)
        self.shrinkage_ = self._weight(self.columns_, learned)
        self.dependence_ = _dependence(self.columns_, learned, self.shrinkage_)
        self.training_scores_ = self._left_out(X[choose_calibration_rows(len(X))])
        self.set_threshold(contamination=self.contamination)

    def _weight(self, columns: MixedColumns, X: Floats) -> float:
        if not isinstance(self.shrinkage, str):
            return max(float(self.shrinkage), LEAST_SHRINKAGE)
        Z = _standardise_scores(columns.normal_scores(X))[0]
        return float(np.clip(ledoit_wolf_shrinkage(Z, assume_centered=True), LEAST_SHRINKAGE, 1.0))

    def _left_out(self, X: Floats) -> Floats:
        """Score each row by what the rows of the other folds taught."""
        folds = np.random.default_rng(0).permutation(len(X)) % min(FOLDS, len(X))
        scores = np.empty(len(X))
        for fold in range(folds.max() + 1):
            others = X[folds != fold]
            columns = MixedColumns.of(others)
            taught = MixedScore(columns, _dependence(columns, others, self.shrinkage_))
            scores[folds == fold] = taught.value(X[folds == fold])
        return scores

    def to_score(self) -> MixedScore:
        """Return the outlierness as a score function that knows its shares."""
        check_is_fitted(self)
        return MixedScore(
            self.columns_,
            self.dependence_,
            feature_names=self._names,
            describes="surprise −log p(x) of MixedMarginals, columns in standard deviations",
            threshold=self._known_threshold,
        )


class MixedScore:
    """e(x) = Σ_j m_j(x_j) + ½ zᵀQz + offset, with closed-form shares of the columns."""

    def __init__(
        self,
        columns: MixedColumns,
        dependence: GaussianCopula,
        *,
        feature_names: Sequence[str] | None = None,
        describes: str = "surprise −log p(x)",
        threshold: float | None = None,
    ):
        self.columns = columns
        self.dependence = dependence
        self.feature_shape = columns.scales.shape
        self.feature_names = feature_names
        self.describes = describes
        self.threshold = threshold

    def value(self, X: Any) -> Floats:
        """Return the surprise of each row."""
        return np.asarray(self._parts(X).sum(axis=1) + self.dependence.offset)

    def shares(self, X: Any, *_: Integers) -> Floats:
        """Return the Shapley value of each column against all rows that were learned from.

        The score is a sum of terms of one column and of products of two. The value of column j in a product
        z_j z_k, against a reference row b, is ½(z_j − b_j)(z_k + b_k); normal scores have mean 0, so that its
        mean over the reference rows is ½(z_j z_k − mean b_j b_k).
        """
        return np.asarray(self._parts(X) - self.dependence.means)

    def _parts(self, X: Any) -> Floats:
        """Each column's own term, and half of its products with the others."""
        check_columns(X, self.feature_names)
        X = as_floats(X, n_columns=self.feature_shape[0])
        parts = np.empty_like(X)
        for rows in track_batches(len(X), 8 * (3 * N_CENTRES + 6 * X.shape[1]), "scoring rows"):
            parts[rows] = _parts(self.columns, self.dependence, X[rows])
        return parts


def _parts(columns: MixedColumns, dependence: GaussianCopula, X: Floats) -> Floats:
    Z = (columns.normal_scores(X) - dependence.centre) / dependence.scale
    return columns.surprises(X) + 0.5 * Z * (Z @ dependence.excess)


def _standardise_scores(Z: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
    """Normal scores with mean 0 and deviation 1 (0 in a column of one value), their centre and scale."""
    centre = Z.mean(axis=0)
    deviation = Z.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return (Z - centre) / scale, (centre, scale)


def _dependence(columns: MixedColumns, X: Floats, shrinkage: float) -> GaussianCopula:
    """Learn the copula of rows."""
    Z, (centre, scale) = _standardise_scores(columns.normal_scores(X))
    R = (1.0 - shrinkage) * (Z.T @ Z / len(Z))
    np.fill_diagonal(R, 1.0)
    sign, log_det = np.linalg.slogdet(R)
    if sign <= 0:
        raise InvalidInput("The correlations of X have no inverse: raise the shrinkage.")
    excess = np.linalg.inv(R) - np.eye(len(R))
    found = GaussianCopula(centre, scale, excess, 0.5 * float(log_det), np.zeros(len(R)))
    total = np.zeros(len(R))
    for rows in track_batches(len(X), 8 * (3 * N_CENTRES + 6 * X.shape[1]), "learning from rows"):
        total += _parts(columns, found, X[rows]).sum(axis=0)
    return GaussianCopula(centre, scale, excess, found.offset, total / len(X))
