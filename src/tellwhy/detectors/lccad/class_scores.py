"""How odd a node is for each class: squared distances, or kernel outlierness where classes live in a feature space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, KernelExpansion
from tellwhy.core.tables import random_sample
from tellwhy.detectors.kernel.svdd import linear_ball
from tellwhy.detectors.lccad.balls import squared_distances
from tellwhy.detectors.map_inference.field import Labels
from tellwhy.kernels import Exponential
from tellwhy.kernels.bandwidth import median_distance
from tellwhy.scoring import KernelScore

MOST_POINTS = 2_000  # of a class, at random, that its kernel outlierness is computed from


@dataclass(frozen=True, eq=False)
class ClassScores:
    """o_k(x) for each class k: ‖x − c_k‖² where `expansions` is None, else −log f_k(x) by the exact kernel."""

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
            for rows in row_batches(len(X), 16 * X.shape[1]):
                difference = X[rows] - self.centres[labels[rows]]
                scores[rows] = np.einsum("ij,ij->i", difference, difference)
            scores[labels < 0] = np.nan
            return scores
        for k, kernel in enumerate(self.kernels):
            chosen = np.flatnonzero(labels == k)
            if kernel is not None and len(chosen):
                scores[chosen] = kernel.value(X[chosen], self.left_out(k, chosen) if is_training else None)
        return scores

    def all(self, X: NDArray[Any], *, is_training: bool, rows: Any = None) -> Floats:
        """o_k of every row for every class, shape (n, K); infinite for a class without members."""
        if self.kernels is None:
            return squared_distances(X, self.centres).astype(np.float64)
        places = np.arange(len(X)) if rows is None else rows
        found = np.full((len(X), len(self.kernels)), np.inf)
        for k, kernel in enumerate(self.kernels):
            if kernel is not None:
                found[:, k] = kernel.value(X, self.left_out(k, places) if is_training else None)
        return found

    def left_out(self, k: int, rows: Any) -> Any:
        """Return the support point of class k that each training row is, or −1: a row is not its own witness."""
        assert self.kernels is not None
        kernel = self.kernels[k]
        assert kernel is not None
        points = kernel.expansion.training_rows
        assert points is not None
        found = np.searchsorted(points, rows)
        found = np.minimum(found, len(points) - 1)
        return kernel.leave_some(np.where(points[found] == rows, found, -1))


def class_scores(model: Any, features: NDArray[Any], rng: np.random.Generator) -> ClassScores:
    """Return the scores of a fitted model's classes."""
    if model.transformer_ is None:
        return ClassScores(model.centres_)
    rows, labels = model.training_X_, model.labels_
    present = labels >= 0
    kernel = Exponential(_bandwidth(model.transformer_, rows[present].astype(np.float64)), 2.0)
    expansions = [
        _expansion(model, features, np.flatnonzero(labels == k), kernel, rng) for k in range(model.n_classes)
    ]
    return ClassScores(model.centres_, tuple(expansions), model.feature_names_)


def _expansion(
    model: Any,
    features: NDArray[Any],
    members: NDArray[np.int64],
    kernel: Exponential,
    rng: np.random.Generator,
) -> KernelExpansion | None:
    """f_k(x) = Σ_j α_j K(x, x_j) over (a sample of) the class; α is the SVDD's for the hinge with ν < 1, else equal."""
    if not len(members):
        return None
    members = members[np.sort(random_sample(len(members), MOST_POINTS, rng))]
    weights = np.full(len(members), 1.0 / len(members))
    if model.loss == "hinge" and model.nu < 1:
        weights = linear_ball(features[members].astype(np.float64), nu=model.nu, tol=1e-6).weights
    kept, rows = weights > 0, model.training_X_
    points = rows[members[kept]].astype(np.float64)
    return KernelExpansion(points, weights[kept], kernel, members[kept], len(rows), "count")


def _bandwidth(transformer: Any, X: Floats) -> float:
    """σ of the Gaussian kernel that the transformer stands for, where it says so; else half the median distance."""
    for name in ("bandwidth_", "bandwidth"):
        width = getattr(transformer, name, None)
        if isinstance(width, (int, float, np.floating)) and width > 0:
            return float(width)
    gamma = getattr(transformer, "gamma", None)
    if isinstance(gamma, (int, float)) and gamma > 0:  # scikit-learn's: exp(−γ r²)
        return float(np.sqrt(0.5 / gamma))
    return 0.5 * median_distance(X)
