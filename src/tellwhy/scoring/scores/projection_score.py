"""The squared distance of rows to the space spanned by a few orthonormal directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import as_floats
from tellwhy.scoring.model_rows import check_columns


@dataclass(frozen=True)
class Projection:
    """x̂ = mean + VᵀV(x − mean): a mean (d,) and orthonormal components V (k, d)."""

    mean: Floats
    components: Floats


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
        for rows in tracked_batches(len(X), 24 * X.shape[1], "scoring rows"):
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
