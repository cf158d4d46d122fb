"""What is being explained: one number per row, high when the row is anomalous (or a class logit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@runtime_checkable
class ScoreFunction(Protocol):
    """A scalar function of a row.

    What a score can do beyond this has names in `tellwhy.core.capabilities`. The main ones: `gradient(X)`,
    shaped like X (`HasGradient`); `expansion`, the support points, weights and kernel (or the centres, or the
    neighbours) that a distance-based score is made of (`HasExpansion`); `observed`, what is known of the rows
    that the model learned from (`HasObserved`).
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


@dataclass(frozen=True)
class CentreDistance:
    """o(x) = min_c ‖x − c‖²: linear SVDD, k-means."""

    centres: Floats


@dataclass(frozen=True)
class NeighbourDistance:
    """o(x) = mean distance to the k nearest reference points."""

    points: Floats
    n_neighbours: int
    training_rows: Integers | None = None
    n_training: int | None = None


@dataclass(frozen=True)
class RememberedRows:
    """Rows that a score compares others with, in a way of its own."""

    points: Floats
    training_rows: Integers | None = None
    n_training: int | None = None


PointExpansion = KernelExpansion | NeighbourDistance
Remembered = PointExpansion | RememberedRows
Expansion = PointExpansion | CentreDistance
