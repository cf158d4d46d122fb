"""Scores that are a soft minimum of quadratic forms, and the inverse curvatures that lead straight down.

Gaussian mixtures and reconstruction errors have this shape. A soft minimum of numbers is −log Σ exp(−number):
close to the lowest of them, but smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.parallel import BATCH_BYTES, row_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.optimise.arrays import Array
from tellwhy.scoring.scores.mixture_score import MixtureScore
from tellwhy.scoring.scores.projection_score import ProjectionScore

Mask = NDArray[np.bool_]
LARGEST_BYTES = 512 * 2**20


class Evaluated(NamedTuple):
    """What descent asks of a function at some points."""

    value: Array  # (n,)
    slope: Array  # (n, d)
    form: Array  # (n,): the quadratic form that is lowest there, 0 for a function that is not made of them


@dataclass(frozen=True)
class Quadratics:
    """e(x) = −log Σ_k exp(−c_k − ½(x − μ_k)ᵀP_k(x − μ_k)); a single one is c + ½(x − μ)ᵀP(x − μ).

    Examples
    --------
    >>> bowl = Quadratics(np.zeros(1), np.zeros((1, 2)), 2 * np.eye(2)[None])
    >>> found = bowl.evaluate(np.array([[3.0, 4.0]]))
    >>> found.value, found.slope
    (array([25.]), array([[6., 8.]]))
    """

    offsets: Floats  # (K,)
    centres: Floats  # (K, d)
    curvatures: Floats  # (K, d, d)

    def evaluate(self, X: Floats) -> Evaluated:
        """Value, gradient, and the form that is lowest, for each row."""
        heights = np.empty((len(X), len(self.offsets)))
        slopes = []
        for k, offset in enumerate(self.offsets):
            deviation = X - self.centres[k]
            slopes.append(deviation @ self.curvatures[k])
            heights[:, k] = offset + 0.5 * np.einsum("ij,ij->i", deviation, slopes[k])
        if len(slopes) == 1:
            return Evaluated(heights[:, 0], slopes[0], np.zeros(len(X), dtype=np.int64))
        lowest = heights.min(axis=1)  # taken off before exp, which would underflow far from all centres
        shares = np.exp(lowest[:, None] - heights)
        total = shares.sum(axis=1)
        shares /= total[:, None]
        gradient = sum(share[:, None] * slope for share, slope in zip(shares.T, slopes, strict=True))
        return Evaluated(lowest - np.log(total), np.asarray(gradient), heights.argmin(axis=1))


def quadratics_of(score: object) -> Quadratics | None:
    """Return the quadratic forms that a score is made of.

    None for a score that is made of something else, and where the forms would take too much room.

    Examples
    --------
    >>> from tellwhy.scoring import Projection
    >>> quadratics_of(ProjectionScore(Projection(np.zeros(2), np.array([[1.0, 0.0]])))).curvatures
    array([[[0., 0.],
            [0., 2.]]])
    """
    if isinstance(score, MixtureScore):
        n_bytes = 8 * score.parts.means.size * score.feature_shape[0]
        return _of_mixture(score) if n_bytes <= LARGEST_BYTES else None
    if isinstance(score, ProjectionScore) and 8 * score.feature_shape[0] ** 2 <= LARGEST_BYTES:
        V = score.projection.components
        curvature = 2.0 * (np.eye(V.shape[1]) - V.T @ V)  # of the squared distance to the plane that V spans
        return Quadratics(np.zeros(1), score.projection.mean[None], curvature[None])
    return None


def _of_mixture(score: MixtureScore) -> Quadratics:
    """−log π_k N(x; μ_k, Σ_k) of each component, with P_k = W_k W_kᵀ in the units of the rows."""
    parts = score.parts
    factors = parts.factors
    if factors.ndim == 2:  # diagonal covariances keep only their diagonals
        factors = factors[:, :, None] * np.eye(len(parts.scale))
    W = factors / parts.scale[:, None]
    return Quadratics(-score.log_peaks, parts.centre + parts.scale * parts.means, W @ W.swapaxes(1, 2))


@dataclass(frozen=True)
class _Inverse:
    """G ↦ G·matrix on the columns `among`, made zero in the columns `fixed` by taking `correction` off."""

    among: Any  # slice or indices
    matrix: Floats
    fixed: Integers
    correction: Floats

    def __call__(self, G: Floats) -> Floats:
        W = np.zeros_like(G)
        W[:, self.among] = G[:, self.among] @ self.matrix
        if len(self.fixed):
            W -= W[:, self.fixed] @ self.correction
            W[:, self.fixed] = 0.0
        return W


class FreeInverses:
    """(P_k + ridge·I)⁻¹ restricted to the free coordinates of each mask: the Newton step of one form.

    Masks that fix few coordinates S share one inverse B, from which B[:, S] B[S, S]⁻¹ B[S, :] is taken off;
    that costs less than an inverse for each mask. Masks that fix many have their own.
    """

    def __init__(self, curvatures: Floats, free: Mask, ridge: Floats):
        self._curvatures = curvatures
        self._free = free
        # A form that is flat in some direction has no inverse; a ridge of rounding size gives it one.
        self._least = max(1e-14 * np.einsum("kii->ki", curvatures).max(), np.finfo(float).tiny)
        self._ridge = np.maximum(ridge, self._least)
        self._shared: dict[tuple[int, float], Floats] = {}
        self._known: dict[tuple[int, int], _Inverse] = {}

    @cached_property
    def n_forms(self) -> int:
        """Number of quadratic forms."""
        return len(self._curvatures)

    def apply(self, G: Floats, masks: Integers, parts: Integers) -> Floats:
        """Multiply each row by the inverse of its mask and form."""
        W = np.empty_like(G)
        keys = masks * self.n_forms + parts  # rows with the same mask and form go through one product
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            rows = order[start:stop]
            mask, part = divmod(int(keys[rows[0]]), self.n_forms)
            W[rows] = self._inverse(mask, part)(G[rows])
        return W

    def apply_along_walls(self, G: Floats, parts: Integers, diagonal: Floats) -> Floats:
        """Multiply each row by (P + its diagonal)⁻¹ among the columns where the row is not 0."""
        W = np.empty_like(G)
        d = G.shape[1]
        for rows in row_batches(len(G), 24 * d * d, 4 * BATCH_BYTES):
            is_open = G[rows] != 0
            H = self._curvatures[parts[rows]]
            H[~(is_open[:, :, None] & is_open[:, None, :])] = 0.0  # closed columns: a unit row each
            H[:, np.arange(d), np.arange(d)] += np.where(
                is_open, np.maximum(diagonal[rows], self._least), 1.0
            )
            W[rows] = np.linalg.solve(H, G[rows, :, None])[:, :, 0]
        return W

    def _inverse(self, mask: int, part: int) -> _Inverse:
        if (mask, part) not in self._known:
            self._known[mask, part] = self._make(mask, part)
        return self._known[mask, part]

    def _make(self, mask: int, part: int) -> _Inverse:
        free = np.flatnonzero(self._free[mask])
        fixed = np.flatnonzero(~self._free[mask])
        nothing = np.empty(0, dtype=np.int64)
        if len(fixed) > len(free) / 3:
            block = self._curvatures[part][np.ix_(free, free)] + self._ridge[mask] * np.eye(len(free))
            return _Inverse(free, np.linalg.inv(block), nothing, np.empty((0, 0)))
        shared = self._shared_inverse(part, float(self._ridge[mask]))
        correction = np.linalg.solve(shared[np.ix_(fixed, fixed)], shared[fixed])
        return _Inverse(slice(None), shared, fixed, np.asarray(correction, dtype=np.float64))

    def _shared_inverse(self, part: int, ridge: float) -> Floats:
        if (part, ridge) not in self._shared:
            P = self._curvatures[part]
            self._shared[part, ridge] = np.linalg.inv(P + ridge * np.eye(len(P)))
        return self._shared[part, ridge]
