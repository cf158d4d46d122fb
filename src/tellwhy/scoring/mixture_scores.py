"""The energy of a Gaussian mixture, −log p(x), and the squared distance of rows to a few directions' span."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from tellwhy.core.arrays import as_floats, check_columns
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, is_one
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats

# A component with a smaller share of a row's density than this does not move its gradient in float64.
NEGLIGIBLE = 1e-40


@dataclass(frozen=True)
class Mixture:
    """p(x) = Σ_k π_k N(x; μ_k, Σ_k), in the units of the rows.

    Weights have shape (K,), means (K, d) and covariances (K, d, d).
    """

    weights: Floats
    means: Floats
    covariances: Floats

    def marginal(self, columns: Sequence[int]) -> Mixture:
        """Return the mixture of some columns alone: sub-blocks of the covariances.

        Examples
        --------
        >>> both = Mixture(np.ones(1), np.array([[1.0, 2.0]]), np.array([[[4.0, 1.0], [1.0, 9.0]]]))
        >>> both.marginal([1]).covariances
        array([[[9.]]])
        """
        kept = np.asarray(columns)
        return Mixture(self.weights, self.means[:, kept], self.covariances[:, kept[:, None], kept])


@dataclass(frozen=True)
class ScaledMixture:
    """A mixture as it is computed with, in coordinates z = (x − centre)/scale.

    `factors` are W_k with Σ_k⁻¹ = W_k W_kᵀ for z, upper triangular (K, d, d), or (K, d) where they are
    diagonal.
    """

    log_weights: Floats
    means: Floats
    factors: Floats
    centre: Floats
    scale: Floats

    def _require(self) -> Iterator[Fit]:
        n, d = self.means.shape
        yield "log_weights", self.log_weights.shape, (n,)
        yield "log_weights", is_one(np.exp(self.log_weights).sum()), True
        yield "centre", self.centre.shape, (d,)
        yield "scale", self.scale.shape, (d,)
        yield "scale", bool((self.scale > 0).all()), True
        # Diagonal covariances have one factor per column, full ones a matrix.
        yield "factors", self.factors.shape in ((n, d), (n, d, d)), True


class MixtureScore:
    """e(x) = −log Σ_k π_k N(x; μ_k, Σ_k), computed from factors of the precisions.

    Examples
    --------
    >>> score = MixtureScore.of(Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None]))
    >>> score.value([[3.0, 4.0]]) - score.value([[0.0, 0.0]])
    array([12.5])
    >>> score.gradient([[3.0, 4.0]])
    array([[3., 4.]])
    """

    def __init__(
        self,
        parts: ScaledMixture,
        *,
        feature_names: Sequence[str] | None = None,
        describes: str = "negative log-density −log p(x) of a Gaussian mixture",
        threshold: float | None = None,
    ):
        self.parts = parts
        self.feature_shape = parts.centre.shape
        self.feature_names = feature_names
        self.describes = describes
        self.threshold = threshold

    @classmethod
    def of(cls, mixture: Mixture, **settings: Any) -> MixtureScore:
        """Return the energy of a mixture."""
        d = mixture.means.shape[1]
        try:
            lower = [cholesky(covariance, lower=True) for covariance in mixture.covariances]
        except LinAlgError as error:
            raise InvalidInput(f"A covariance of the mixture is not positive definite: {error}.") from error
        factors = np.array([solve_triangular(L, np.eye(d), lower=True).T for L in lower])
        parts = ScaledMixture(np.log(mixture.weights), mixture.means, factors, np.zeros(d), np.ones(d))
        return cls(parts, **settings)

    @cached_property
    def mixture(self) -> Mixture:
        """Weights, means and covariances in the units of the rows."""
        parts = self.parts
        d = len(parts.scale)
        covariances = np.empty((len(parts.means), d, d))
        for k, W in enumerate(parts.factors):
            inverse = np.diag(1.0 / W) if W.ndim == 1 else solve_triangular(W, np.eye(d))
            covariances[k] = inverse.T @ inverse
        with np.errstate(over="ignore", under="ignore"):
            # One side after the other: the product of two scales might overflow where this does not.
            covariances *= parts.scale[:, None]
            covariances *= parts.scale
        if not np.isfinite(covariances).all():
            raise InvalidInput(
                "The covariances of the mixture overflow in the units of the rows. Scale the columns."
            )
        return Mixture(np.exp(parts.log_weights), parts.centre + parts.scale * parts.means, covariances)

    def value(self, X: Any) -> Floats:
        """Return −log p of each row."""
        return self._evaluate_components(X, with_gradient=False)[0]

    def gradient(self, X: Any) -> Floats:
        """Σ_k r_k Σ_k⁻¹(x − μ_k), r_k the share of component k in the density at x."""
        return self._evaluate_components(X, with_gradient=True)[1]

    def value_and_gradient(self, X: Any) -> tuple[Floats, Floats]:
        """Both, for little more than the cost of one."""
        return self._evaluate_components(X, with_gradient=True)

    def _evaluate_components(self, X: Any, *, with_gradient: bool) -> tuple[Floats, Floats]:
        check_columns(X, self.feature_names)
        X = as_floats(X, n_columns=self.feature_shape[0])
        energies = np.empty(len(X))
        slopes = np.empty(X.shape if with_gradient else (0, 0))
        for rows in track_batches(len(X), 8 * X.shape[1] * (len(self.parts.means) + 3), "scoring rows"):
            with np.errstate(over="ignore", invalid="ignore"):
                whitened = self.whitened(X[rows])
                squares = np.stack([np.einsum("ij,ij->i", Y, Y) for Y in whitened], axis=1)
                log_terms = self.log_peaks - 0.5 * squares  # log π_k N(x; μ_k, Σ_k), shape (rows, K)
                energies[rows] = -log_sum(log_terms)
            if not np.isfinite(energies[rows]).all():
                self._raise_overflow(rows.start + int(np.argmin(np.isfinite(energies[rows]))))
            if with_gradient:
                shares = np.exp(log_terms + energies[rows, None])  # of each component in the row's density
                slopes[rows] = self._slopes(whitened, shares) / self.parts.scale
        return energies, slopes

    def whitened(self, X: Floats) -> list[Floats]:
        """(z − μ_k) W_k for each component; differences first, so that no offset costs digits."""
        Z = (X - self.parts.centre) / self.parts.scale
        pairs = zip(self.parts.means, self.parts.factors, strict=True)
        return [(Z - mean) * W if W.ndim == 1 else (Z - mean) @ W for mean, W in pairs]

    @cached_property
    def log_peaks(self) -> Floats:
        """log π_k + log N(μ_k; μ_k, Σ_k) in the units of the rows."""
        parts = self.parts
        diagonals = parts.factors if parts.factors.ndim == 2 else np.diagonal(parts.factors, axis1=1, axis2=2)
        volume = 0.5 * len(parts.scale) * math.log(2.0 * math.pi) + np.log(parts.scale).sum()
        return np.asarray(parts.log_weights + np.log(diagonals).sum(axis=1) - volume)

    def _slopes(self, whitened: list[Floats], shares: Floats) -> Floats:
        slopes = np.zeros_like(whitened[0])
        for Y, W, share in zip(whitened, self.parts.factors, shares.T, strict=True):
            rows = np.flatnonzero(share > NEGLIGIBLE)
            part = share[rows, None] * Y[rows]
            slopes[rows] += part * W if W.ndim == 1 else part @ W.T
        return slopes

    def _raise_overflow(self, row: int) -> None:
        raise InvalidInput(
            f"Row {row} of X is too far from the mixture for a finite score: its squared distance, in units "
            "of the components' spread, overflows. Scale the columns, or leave that row out."
        )


def log_sum(log_terms: Floats) -> Floats:
    """log Σ_k exp of each row, without scipy's checks, which cost more than the sum."""
    top = log_terms.max(axis=1)
    return np.asarray(top + np.log(np.exp(log_terms - top[:, None]).sum(axis=1)))


@dataclass(frozen=True)
class Projection:
    """x̂ = mean + VᵀV(x − mean): a mean (d,) and orthonormal components V (k, d)."""

    mean: Floats
    components: Floats

    def _require(self) -> Iterator[Fit]:
        yield "components", self.components.ndim, 2
        yield "mean", self.mean.shape, self.components.shape[1:]


class ProjectionScore:
    """e(x) = ‖x − x̂‖² for a projection x̂ of x.

    Examples
    --------
    >>> score = ProjectionScore(Projection(np.zeros(2), np.array([[1.0, 0.0]])))
    >>> score.value([[5.0, 3.0]]), score.gradient([[5.0, 3.0]])
    (array([9.]), array([[0., 6.]]))
    """

    covariance: Floats | None = None  # of the training rows, where the model has it

    def __init__(
        self,
        projection: Projection,
        *,
        feature_names: Sequence[str] | None = None,
        describes: str = "squared reconstruction error ‖x − x̂‖² of a projection",
        threshold: float | None = None,
    ):
        self.projection = projection
        self.feature_shape = projection.mean.shape
        self.feature_names = feature_names
        self.describes = describes
        self.threshold = threshold

    def residual(self, X: Any) -> Floats:
        """x − x̂ of each row: what the projection leaves out."""
        check_columns(X, self.feature_names)
        X = as_floats(X, n_columns=self.feature_shape[0])
        left = np.empty_like(X)
        V = self.projection.components
        for rows in track_batches(len(X), 24 * X.shape[1], "scoring rows"):
            with np.errstate(over="ignore", invalid="ignore"):
                centred = X[rows] - self.projection.mean
                # Two thin products: VᵀV itself would be a d × d matrix.
                left[rows] = centred - (centred @ V.T) @ V
        return left

    def feature_errors(self, X: Any) -> Floats:
        """(x_i − x̂_i)², shape (n, d); they sum to the score."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.residual(X) ** 2)

    def value(self, X: Any) -> Floats:
        """Return the squared reconstruction error of each row."""
        return self._errors(self.residual(X))

    def gradient(self, X: Any) -> Floats:
        """2 (x − x̂)."""
        return 2.0 * self.residual(X)

    def value_and_gradient(self, X: Any) -> tuple[Floats, Floats]:
        """Both, for the cost of one."""
        left = self.residual(X)
        return self._errors(left), 2.0 * left

    def _errors(self, left: Floats) -> Floats:
        errors = np.einsum("ij,ij->i", left, left)  # rows of squares are never written to memory
        if not np.isfinite(errors).all():
            row = int(np.argmin(np.isfinite(errors)))
            raise InvalidInput(f"The reconstruction error of row {row} overflows. Scale the columns first.")
        return np.asarray(errors)
