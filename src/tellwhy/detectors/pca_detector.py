"""Principal components: rows that a few directions cannot reproduce are odd.

Distances and errors of extreme columns would be 0 or infinite as squares: they are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Rules, integer, real
from tellwhy.core.score import Floats
from tellwhy.detectors.base import Detector, choose_calibration_rows
from tellwhy.kernels.distances import centre_and_unit, squarable_centre_and_unit
from tellwhy.scoring import Projection, ProjectionScore

FOLDS = 5


class PCADetector(Detector):
    """Squared reconstruction error e(x) = ‖x − x̂‖² of the leading principal components.

    Parameters
    ----------
    n_components
        Number of components, or the share of the variance that they hold at least. At least one direction is
        always left out: with all of them every row would be reproduced.
    contamination
        Share of training rows, each scored by components learned without it, above the threshold that `fit`
        sets.

    Attributes
    ----------
    projection_
        Mean and components.
    explained_
        Share of the variance that the components hold.
    training_scores_
        Error of training rows (at most 20,000) under components learned from the four fifths of them without
        it.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 1)) * [3.0, 3.0] + [[0.0, 0.1], [0.1, 0.0]] * 50
    >>> PCADetector().fit(X).predict([[5.0, 5.0], [5.0, -5.0]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "n_components": (real(0, 1), integer(1)),
        "contamination": real(0, 0.5, closed="right"),
    }

    def __init__(self, n_components: float | int = 0.9, *, contamination: float = 0.1):
        self.n_components = n_components
        self.contamination = contamination

    def _fit(self, X: Floats) -> None:
        squarable_centre_and_unit(X, "squared errors")
        found = find_principal_axes(X)
        k = self._count(found.variances, X.shape[1])
        self.projection_ = found.leading(k)
        total = float(found.variances.sum())
        self.explained_ = float(found.variances[:k].sum() / total) if total > 0 else 0.0
        self.training_scores_ = _compute_left_out_errors(X[choose_calibration_rows(len(X))], k)
        self.set_threshold(contamination=self.contamination)

    def _count(self, variances: Floats, d: int) -> int:
        """Return how many components to take: those that exist, and one less than there are columns."""
        # Below this share of the largest, a variance is a rounding error and its direction arbitrary.
        rank = int((variances > 1e-12 * variances[0]).sum()) if variances[0] > 0 else 0
        if self.n_components < 1:
            held = np.cumsum(variances) / variances.sum() if rank else np.zeros(0)
            # The factor lets a share that is reached exactly, but for rounding, count as reached.
            wanted = int(np.searchsorted(held, self.n_components * (1 - 1e-12))) + 1
        else:
            wanted = int(self.n_components)
            if wanted > d:
                raise InvalidInput(f"n_components={wanted} is more than the {d} columns of X.")
        return min(wanted, rank, d - 1)

    def to_score(self) -> ProjectionScore:
        """Return the reconstruction error as a score function with its projection."""
        check_is_fitted(self)
        return ProjectionScore(
            self.projection_,
            feature_names=self._names,
            describes=f"squared reconstruction error ‖x − x̂‖² of {type(self).__name__}",
            threshold=self._known_threshold,
        )


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Mean of rows, their principal directions as rows, and the variance along each, largest first."""

    mean: Floats
    axes: Floats
    variances: Floats

    def leading(self, k: int) -> Projection:
        """Return the projection on the first k directions."""
        return Projection(self.mean, self.axes[:k])


def find_principal_axes(X: Floats) -> PrincipalAxes:
    """Return the directions in which rows vary."""
    centre, unit = centre_and_unit(X)
    mean = centre + (X - centre).mean(axis=0)  # a second pass: large offsets round the first
    centred = (X - mean) / unit
    n, d = centred.shape
    if n > 2 * d:  # a matrix of d × d numbers is cheaper; eigh gives the smallest first
        variances, directions = np.linalg.eigh(centred.T @ centred)
        variances = np.maximum(variances[::-1], 0.0)
        axes = directions.T[::-1]
    else:
        found = np.linalg.svd(centred, full_matrices=False)
        variances = found.S**2
        axes = found.Vh
    return PrincipalAxes(mean, np.ascontiguousarray(axes), variances * (unit**2 / n))


def _compute_left_out_errors(X: Floats, k: int) -> Floats:
    """Error of each row under components learned from the rows of the other folds."""
    folds = np.random.default_rng(0).permutation(len(X)) % min(FOLDS, len(X))
    errors = np.empty(len(X))
    for fold in range(folds.max() + 1):
        others = find_principal_axes(X[folds != fold]).leading(k)
        errors[folds == fold] = ProjectionScore(others).value(X[folds == fold])
    return errors
