"""Scores of points that are made from given rows; quadratic forms, whose curvature leads straight down.

Gaussian mixtures and reconstruction errors are a soft minimum of quadratic forms: −log Σ exp(−number) is
close to the lowest number, but smooth.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.running import BATCH_BYTES, cut_batches
from tellwhy.core.score import Floats, HasGradient, HasValueAndGradient, Integers, LeavesRowsOut, OnDevice
from tellwhy.optimise.arrays import HOST, Array, Space, filled
from tellwhy.scoring.distance_scores import find_recorded_rows
from tellwhy.scoring.mixture_scores import MixtureScore, ProjectionScore

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


def find_quadratics(score: object) -> Quadratics | None:
    """Return the quadratic forms that a score is made of.

    None for a score that is made of something else, and where the forms would take too much room.

    Examples
    --------
    >>> from tellwhy.scoring import Projection
    >>> find_quadratics(ProjectionScore(Projection(np.zeros(2), np.array([[1.0, 0.0]])))).curvatures
    array([[[0., 0.],
            [0., 2.]]])
    """
    if isinstance(score, MixtureScore):
        n_bytes = 8 * score.parts.means.size * score.feature_shape[0]
        return _make_of_mixture(score) if n_bytes <= LARGEST_BYTES else None
    if isinstance(score, ProjectionScore) and 8 * score.feature_shape[0] ** 2 <= LARGEST_BYTES:
        V = score.projection.components
        curvature = 2.0 * (np.eye(V.shape[1]) - V.T @ V)  # of the squared distance to the plane that V spans
        return Quadratics(np.zeros(1), score.projection.mean[None], curvature[None])
    return None


def _make_of_mixture(score: MixtureScore) -> Quadratics:
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
        for rows in cut_batches(len(G), 24 * d * d, 4 * BATCH_BYTES):
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
        shared = self._find_shared_inverse(part, float(self._ridge[mask]))
        correction = np.linalg.solve(shared[np.ix_(fixed, fixed)], shared[fixed])
        return _Inverse(slice(None), shared, fixed, np.asarray(correction, dtype=np.float64))

    def _find_shared_inverse(self, part: int, ridge: float) -> Floats:
        if (part, ridge) not in self._shared:
            P = self._curvatures[part]
            self._shared[part, ridge] = np.linalg.inv(P + ridge * np.eye(len(P)))
        return self._shared[part, ridge]


class RowScores:
    """The score of points made from the rows of X.

    A row that the model was trained on is left out of the score of its own points: it would find them all
    familiar.

    Parameters
    ----------
    score
        The score function.
    X
        Rows in the score's own columns.
    left_out
        Support point that each row leaves out, −1 for none; by default its own, where the model was trained
        on it.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> scores = RowScores(FunctionScore(lambda X: X.sum(axis=1)), np.zeros((2, 3)))
    >>> scores.value(np.ones((4, 3)), np.array([0, 0, 1, 1]))
    array([3., 3., 3., 3.])
    """

    def __init__(self, score: Any, X: Floats, left_out: Integers | None = None):
        self.score = score
        if left_out is None and isinstance(score, LeavesRowsOut):
            left_out = score.match(X)
        self.left_out = left_out
        self.quadratics = None if self.left_out is not None else find_quadratics(score)

    @property
    def has_gradient(self) -> bool:
        """Whether `evaluate` can be called."""
        return self.quadratics is not None or isinstance(self.score, HasGradient)

    @property
    def space(self) -> Space:
        """Where points are best made: the device of a network, or this machine's memory.

        `value` and `evaluate` take points from there too.
        """
        return cast(Space, self.score.space) if isinstance(self.score, OnDevice) else HOST

    def of_rows(self, rows: slice | Array) -> RowScores:
        """Return the scores of points made from some of the rows, counted from the first of them."""
        part = copy(self)
        part.left_out = None if self.left_out is None else self.left_out[rows]
        return part

    def value(self, Y: Array, rows: Array) -> Array:
        """Score of each point; `rows[i]` is the row that point i was made from."""
        if not isinstance(Y, np.ndarray):
            return self.score.evaluate_arrays(Y, with_gradient=False)[0]
        return np.asarray(self.score.value(Y, *self._without(rows)))

    def evaluate(self, Y: Array, rows: Array) -> Evaluated:
        """Value and gradient of each point, and the quadratic form that is lowest there."""
        if not isinstance(Y, np.ndarray):
            values, slopes = self.score.evaluate_arrays(Y, with_gradient=True)
            return Evaluated(values, slopes, filled(Y, (len(Y),), 0))
        if self.quadratics is not None:
            return self.quadratics.evaluate(Y)
        value, slope = self._compute_value_and_gradient(Y, self._without(rows))
        return Evaluated(np.asarray(value), np.asarray(slope), np.zeros(len(Y), dtype=np.int64))

    def _compute_value_and_gradient(self, Y: Floats, others: tuple[Integers, ...]) -> tuple[Floats, Floats]:
        """Ask for both at once where the score can do that for less."""
        if isinstance(self.score, HasValueAndGradient) and not others:
            return self.score.value_and_gradient(Y)
        return self.score.value(Y, *others), self.score.gradient(Y, *others)

    def recorded(self) -> dict[str, Integers]:
        """The training rows that were left out, as an explanation records them."""
        if self.left_out is None:
            return {}
        return {"left_out": find_recorded_rows(self.left_out, self.score.remembered)}

    def _without(self, rows: Integers) -> tuple[Integers, ...]:
        """Further argument of the score: the support point that each point's row leaves out."""
        return () if self.left_out is None else (self.left_out[rows],)
