"""What is being explained: ScoreFunction, and what scores may be able to do.

What is being explained: one number per row, high when the row is anomalous (or a class logit).

What a model or a score function can do beyond giving one number per row, each ability by its name.

A capability is a small protocol. `isinstance(score, HasGradient)` asks whether a score has it: all members
that the protocol adds must be there and be neither None nor False. Nobody has to inherit from a protocol: a
class has the capability as soon as it has the members.

>>> class Slope:
...     def gradient(self, X):
...         return 2.0 * X
>>> isinstance(Slope(), HasGradient), isinstance(Slope(), HasExpansion)
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.arrays import Capability
from tellwhy.core.params import Fit, is_matrix, is_one

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@runtime_checkable
class ScoreFunction(Protocol):
    """A scalar function of a row.

    What a score can do beyond this has names in `tellwhy.core.score`. The main ones: `gradient(X)`,
    shaped like X (`HasGradient`); `expansion`, the support points, weights and kernel (or the centres, or the
    neighbours) that a distance-based score is made of (`HasExpansion`); `reference_rows`, what is known of
    the rows that the model learned from (`HasReferenceRows`).
    """

    @property
    def feature_shape(self) -> tuple[int, ...] | None:
        """Shape of one row, where known."""

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the columns, where known."""

    @property
    def describes(self) -> str:
        """One sentence: which scalar this is."""
        ...

    @property
    def threshold(self) -> float | None:
        """The score above which a row counts as anomalous, where the model has one."""

    def value(self, X: ArrayLike) -> Floats:
        """Return one number per row."""
        ...


class RadialKernel(Protocol):
    """A kernel of the scaled squared distance s = (r/σ)²."""

    @property
    def q(self) -> float:
        """Power of the distance."""
        ...

    @property
    def bandwidth(self) -> float:
        """Length σ that distances are divided by."""
        ...

    @property
    def at_zero(self) -> float:
        """k(0)."""
        ...

    def of_squared(self, s: Floats) -> Floats:
        """Return k as a function of s = (r/σ)²."""
        ...


@dataclass(frozen=True)
class KernelExpansion:
    """g(x) = Σ_j α_j k(‖x − u_j‖) with Σα = 1: the discriminant of a one-class model or a density.

    `training_rows[j]` is the training row that support point j was; `scale` is the factor m of the t-Student
    outlierness o = m/g (the number of support points by default).
    """

    points: Floats
    weights: Floats
    kernel: RadialKernel
    training_rows: Integers | None = None
    n_training: int | None = None
    scale: str = "count"

    def _require(self) -> Iterator[Fit]:
        weights = self.weights
        yield "points", is_matrix(self.points), True
        yield "weights", (weights.shape, weights.dtype), ((len(self.points),), np.dtype(np.float64))
        yield "weights", bool((weights >= 0).all() and is_one(weights.sum())), True
        yield from _training_rows_fit(self)


@dataclass(frozen=True)
class CentreDistance:
    """o(x) = min_c ‖x − c‖²: linear SVDD, k-means."""

    centres: Floats

    def _require(self) -> Iterator[Fit]:
        yield "centres", is_matrix(self.centres), True


@dataclass(frozen=True)
class NeighbourDistance:
    """o(x) = mean distance to the k nearest reference points."""

    points: Floats
    n_neighbours: int
    training_rows: Integers | None = None
    n_training: int | None = None

    def _require(self) -> Iterator[Fit]:
        yield "points", is_matrix(self.points), True
        yield "n_neighbours", 1 <= self.n_neighbours <= len(self.points), True
        yield from _training_rows_fit(self)


@dataclass(frozen=True)
class RememberedRows:
    """Rows that a score compares others with, in a way of its own."""

    points: Floats
    training_rows: Integers | None = None
    n_training: int | None = None


PointExpansion = KernelExpansion | NeighbourDistance
Remembered = PointExpansion | RememberedRows
Expansion = PointExpansion | CentreDistance


def _training_rows_fit(expansion: KernelExpansion | NeighbourDistance) -> Iterator[Fit]:
    rows = expansion.training_rows
    if rows is None:
        return
    yield "training_rows", (rows.shape, rows.dtype), ((len(expansion.points),), np.dtype(np.int64))
    yield "training_rows", bool((rows >= 0).all()), True
    yield "n_training", bool(rows.max() < expansion.n_training), True


@runtime_checkable
class GivesScore(Protocol, metaclass=Capability):
    """A model that knows its own score function."""

    def to_score(self) -> ScoreFunction:
        """Return the score function of the fitted model."""
        ...


@runtime_checkable
class HasGradient(ScoreFunction, Protocol, metaclass=Capability):
    """A score with a slope."""

    def gradient(self, X: ArrayLike, *further: Integers) -> Floats:
        """Return the derivative of each row's score by each of its cells, shaped like X.

        `further` arguments are those of the score's `value`, one entry per row.
        """
        ...


@runtime_checkable
class HasValueAndGradient(ScoreFunction, Protocol, metaclass=Capability):
    """A score that gives value and slope together, for less than the cost of both."""

    def value_and_gradient(self, X: ArrayLike, *further: Integers) -> tuple[Floats, Floats]:
        """Return what `value` and `gradient` would."""
        ...


@runtime_checkable
class HasExpansion(ScoreFunction, Protocol, metaclass=Capability):
    """A score made of distances: to support points, to neighbours or to centres."""

    @property
    def expansion(self) -> Expansion:
        """What it is made of."""
        ...


@runtime_checkable
class LeavesRowsOut(ScoreFunction, Protocol, metaclass=Capability):
    """A score that can do without one of its points: a row it was trained on is then judged by the others.

    Such a row is a support point itself, at distance 0, which hides how odd it is.
    """

    @property
    def remembered(self) -> Remembered:
        """The points, and which training rows they are."""
        ...

    def value(self, X: ArrayLike, left_out: Integers | None = None) -> Floats:
        """Return one number per row; row i does without point `left_out[i]` (−1: without none)."""
        ...

    def match(self, X: ArrayLike) -> Integers:
        """Return the point that each row is, or −1 for a row that is none of them."""
        ...

    def leave_some(self, left_out: Integers) -> Integers:
        """Return `left_out` with −1 where nothing can be left out, since too little would remain."""
        ...


class ReferenceRowsLike(Protocol):
    """What a model keeps of the rows that it learned from: `ReferenceRows` of `scoring/reference_rows.py`."""

    @property
    def rows(self) -> Floats:
        """Some of the rows."""
        ...

    @property
    def low(self) -> Floats:
        """Smallest value of each column."""
        ...

    @property
    def high(self) -> Floats:
        """Largest value of each column."""
        ...

    @property
    def whole(self) -> Any:
        """Mask of the columns that hold whole numbers only."""
        ...


@runtime_checkable
class HasReferenceRows(ScoreFunction, Protocol, metaclass=Capability):
    """A score whose model remembers what its training rows looked like."""

    @property
    def reference_rows(self) -> ReferenceRowsLike:
        """Some of the rows, and the range of each column."""
        ...


class GaussianParts(Protocol):
    """A Gaussian mixture in the units of the rows; see `tellwhy.scoring.Mixture`."""

    @property
    def weights(self) -> Floats:
        """Share of each component, shape (K,)."""
        ...

    @property
    def means(self) -> Floats:
        """Shape (K, d)."""
        ...

    @property
    def covariances(self) -> Floats:
        """Shape (K, d, d)."""
        ...


@runtime_checkable
class HasMixture(ScoreFunction, Protocol, metaclass=Capability):
    """A score that is the negative log-density of a Gaussian mixture."""

    @property
    def mixture(self) -> GaussianParts:
        """The mixture, perhaps of features that a network computed: compare the number of columns."""
        ...


@runtime_checkable
class HasFeatureErrors(ScoreFunction, Protocol, metaclass=Capability):
    """A score that is a sum of one error per column, such as a reconstruction error."""

    def feature_errors(self, X: ArrayLike) -> Floats:
        """Return the error of each cell; those of a row add up to its score."""
        ...


@runtime_checkable
class HasShares(ScoreFunction, Protocol, metaclass=Capability):
    """A score that knows in closed form what each column contributed to it."""

    def shares(self, X: Any, *further: Integers) -> Floats:
        """Return each column's part in the score of each row; what the parts leave over is unattributed."""
        ...


@runtime_checkable
class KeepsOutput(ScoreFunction, Protocol, metaclass=Capability):
    """A score that picks one of several outputs for each row, and can stay with it when the row changes."""

    def fixed(self, X: ArrayLike) -> tuple[Integers, ...]:
        """Return further arguments of `value` and `gradient` that keep the output that each row has now."""
        ...


@runtime_checkable
class IsPrediction(ScoreFunction, Protocol, metaclass=Capability):
    """A prediction: high is no more anomalous than low, so that nothing is gained by making it small."""

    @property
    def is_prediction(self) -> bool:
        """Whether it is one."""
        ...

    def output_names(self, numbers: Integers) -> Any:
        """Names of outputs by their numbers; None where they have none."""
        ...


@runtime_checkable
class HasLinear(ScoreFunction, Protocol, metaclass=Capability):
    """A score that is weights times the row, plus an intercept."""

    @property
    def linear(self) -> Any:
        """Weights and intercepts of its outputs (`tellwhy.scoring.predictions.LinearOutputs`)."""
        ...


@runtime_checkable
class HasLevels(ScoreFunction, Protocol, metaclass=Capability):
    """A score of rows whose cells are numbers of levels in some columns, which have no order."""

    @property
    def has_levels(self) -> bool:
        """Whether it is one."""
        ...


@runtime_checkable
class HasNoMinimum(ScoreFunction, Protocol, metaclass=Capability):
    """A score that falls without end, so that no row is the least anomalous."""

    @property
    def has_no_minimum(self) -> bool:
        """Whether it is one."""
        ...


@runtime_checkable
class TakesAnyShape(ScoreFunction, Protocol, metaclass=Capability):
    """A score of images, sequences and other arrays, whose `feature_shape` is not known beforehand."""

    @property
    def any_shape(self) -> bool:
        """Whether it is one."""
        ...


@runtime_checkable
class SharesOfOne(ScoreFunction, Protocol, metaclass=Capability):
    """A score of rows whose cells are all between 0 and 1, such as grey values or probabilities."""

    @property
    def unit_interval(self) -> bool:
        """Whether it is one."""
        ...


@runtime_checkable
class OnDevice(ScoreFunction, Protocol, metaclass=Capability):
    """A score that computes on tensors, perhaps on a graphics card: rows that stay there save the copying."""

    @property
    def space(self) -> Any:
        """Where it computes (`tellwhy.optimise.arrays.Space`)."""
        ...

    def evaluate_arrays(self, X: Any, *, with_gradient: bool) -> tuple[Any, Any]:
        """Return value and gradient of rows that are in its `space`."""
        ...


@runtime_checkable
class IsTensor(Protocol, metaclass=Capability):
    """A PyTorch tensor, told without loading PyTorch."""

    def detach(self) -> Any:
        """Return the numbers without the record of how they were computed."""
        ...


def support_points(score: object) -> Floats | None:
    """Return the support points or neighbours that a score is made of; None for other scores.

    Examples
    --------
    >>> from tellwhy.detectors import NearestNeighbours
    >>> support_points(NearestNeighbours(1).fit([[0.0], [1.0]]).to_score()).ravel()
    array([0., 1.])
    """
    expansion = score.expansion if isinstance(score, HasExpansion) else None
    return expansion.points if isinstance(expansion, PointExpansion) else None
