"""How odd a node is for each class.

It is the squared distance from the centre of the class; or, where classes live in a kernel's feature space,
minus the logarithm of the kernel's mean over the members of the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.arrays import Capability, draw_sample
from tellwhy.core.params import Fit
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers, KernelExpansion
from tellwhy.detectors.kernel.smallest_ball import fit_linear_ball
from tellwhy.detectors.lccad.costs import squared_distances
from tellwhy.detectors.map_inference.field import Labels
from tellwhy.kernels import Exponential
from tellwhy.kernels.distances import median_distance
from tellwhy.scoring import KernelScore

if TYPE_CHECKING:
    from tellwhy.detectors.lccad.lccad import LCCAD

MOST_POINTS = 2_000  # of a class, at random, that its kernel outlierness is computed from


@dataclass(frozen=True, eq=False)
class ClassScores:
    """o_k(x) of each class k: ‖x − c_k‖² where `expansions` is None, else −log f_k(x) by the exact kernel."""

    centres: Floats
    expansions: tuple[KernelExpansion | None, ...] | None = None
    feature_names: list[str] | None = None

    @cached_property
    def kernels(self) -> tuple[KernelScore | None, ...] | None:
        """The score of each class, None for a class without members."""
        if self.expansions is None:
            return None
        describes = "outlierness o(x) = −log f_h(x) of the node's latent class h"
        return tuple(
            None if f is None else KernelScore(f, feature_names=self.feature_names, describes=describes)
            for f in self.expansions
        )

    def own(self, X: NDArray[Any], labels: Labels, *, is_training: bool) -> Floats:
        """o_h of each row for its own class h; NaN where there is no label."""
        scores = np.full(len(X), np.nan)
        if self.kernels is None:
            for rows in cut_batches(len(X), 16 * X.shape[1]):
                difference = X[rows] - self.centres[labels[rows]]
                scores[rows] = np.einsum("ij,ij->i", difference, difference)
            scores[labels < 0] = np.nan  # label −1 took the last centre
            return scores
        for k, kernel in enumerate(self.kernels):
            chosen = np.flatnonzero(labels == k)
            if kernel is not None and len(chosen):
                scores[chosen] = kernel.value(X[chosen], self.left_out(k, chosen) if is_training else None)
        return scores

    def all(self, X: NDArray[Any], *, is_training: bool, rows: Integers | None = None) -> Floats:
        """o_k of every row for every class, shape (n, K); infinite for a class without members."""
        if self.kernels is None:
            return squared_distances(X, self.centres).astype(np.float64)
        places = np.arange(len(X)) if rows is None else rows
        found = np.full((len(X), len(self.kernels)), np.inf)
        for k, kernel in enumerate(self.kernels):
            if kernel is not None:
                found[:, k] = kernel.value(X, self.left_out(k, places) if is_training else None)
        return found

    def left_out(self, k: int, rows: Integers) -> Integers:
        """Return which support point of class k each training row is, or −1 for none.

        A row that is a support point would find itself at distance 0, and so never look odd.
        """
        assert self.kernels is not None
        kernel = self.kernels[k]
        assert kernel is not None
        points = kernel.expansion.training_rows
        assert points is not None
        # The points are in order of their rows. A row beyond the last is compared with the last, and differs.
        found = np.minimum(np.searchsorted(points, rows), len(points) - 1)
        return kernel.leave_some(np.where(points[found] == rows, found, -1))

    def _require(self) -> Iterator[Fit]:
        yield "centres", self.centres.ndim, 2


def class_scores(model: LCCAD, features: NDArray[Any], rng: np.random.Generator) -> ClassScores:
    """Return the scores of a fitted model's classes."""
    if model.transformer_ is None:
        return ClassScores(model.centres_)
    labels = model.labels_
    present = model.training_X_[labels >= 0].astype(np.float64)
    kernel = Exponential(_choose_bandwidth(model.transformer_, present), 2.0)
    expansions = [
        _expand_class(model, features, np.flatnonzero(labels == k), kernel, rng)
        for k in range(model.n_classes)
    ]
    return ClassScores(model.centres_, tuple(expansions), model.feature_names_)


def _expand_class(
    model: LCCAD,
    features: NDArray[Any],
    members: Integers,
    kernel: Exponential,
    rng: np.random.Generator,
) -> KernelExpansion | None:
    """f_k(x) = Σ_j α_j K(x, x_j) over (a sample of) the members of a class.

    The weights α are those of the class's SVDD for the hinge with ν < 1, else equal.
    """
    if not len(members):
        return None
    members = members[np.sort(draw_sample(len(members), MOST_POINTS, rng))]
    weights = np.full(len(members), 1.0 / len(members))  # ν = 1: the centre is the mean of all members
    if model.loss == "hinge" and model.nu < 1:
        weights = fit_linear_ball(features[members].astype(np.float64), nu=model.nu, tol=1e-6).weights
    kept = members[weights > 0]
    points = model.training_X_[kept].astype(np.float64)
    n_training = len(model.training_X_)
    return KernelExpansion(points, weights[weights > 0], kernel, kept, n_training, "count")


@runtime_checkable
class _LearnsBandwidth(Protocol, metaclass=Capability):
    """A transformer that stands for a Gaussian kernel whose width it learned, such as a `KernelBasis`."""

    @property
    def bandwidth_(self) -> float: ...


@runtime_checkable
class _HasBandwidth(Protocol, metaclass=Capability):
    """A transformer that was given the width σ of its Gaussian kernel."""

    @property
    def bandwidth(self) -> float | str: ...


@runtime_checkable
class _HasGamma(Protocol, metaclass=Capability):
    """A transformer of scikit-learn, whose Gaussian kernel is exp(−γ r²)."""

    @property
    def gamma(self) -> float | str: ...


def _choose_bandwidth(transformer: object, X: Floats) -> float:
    """Width of a transformer's Gaussian kernel; half the median distance if it does not tell."""
    found: list[object] = []
    if isinstance(transformer, _LearnsBandwidth):
        found.append(transformer.bandwidth_)
    if isinstance(transformer, _HasBandwidth):
        found.append(transformer.bandwidth)
    for width in found:
        if _is_positive(width):
            return float(width)  # type: ignore[arg-type]
    if isinstance(transformer, _HasGamma) and _is_positive(transformer.gamma):
        return float(np.sqrt(0.5 / float(transformer.gamma)))
    return 0.5 * median_distance(X)


def _is_positive(value: object) -> bool:
    """Whether a parameter is a number at all ('auto' and 'scale' are not), and one that can be a width."""
    return isinstance(value, (int, float, np.floating)) and bool(value > 0)
