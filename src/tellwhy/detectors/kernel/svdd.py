"""Support vector data description: the smallest ball around the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rules, one_of
from tellwhy.core.score import CentreDistance, Floats
from tellwhy.detectors.base import calibration_rows
from tellwhy.detectors.kernel.one_class_svm import OneClassSVM
from tellwhy.detectors.pca_detector import squarable_centre_and_unit
from tellwhy.optimise.one_class_qp import solve
from tellwhy.scoring import CentreScore, KernelScore


class SVDD(OneClassSVM):
    """Smallest enclosing ball, in input space (kernel='linear') or in a kernel's feature space.

    With a kernel of the distance, the ball's problem is the one-class SVM's and so are the model, its
    outlierness and its explanation. With the linear kernel, o(x) = ‖x − c‖² for the centre c = Σ_j α_j u_j.

    Parameters are those of `OneClassSVM`; `kernel` may also be 'linear', which ignores q, bandwidth, a and
    scale.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> SVDD(kernel="linear").fit(X).predict([[0.0, 0.0], [3.0, 4.0]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **OneClassSVM._parameters,
        "kernel": one_of("exponential", "student_t", "linear"),
    }

    def _fit(self, X: Floats) -> None:
        if self.kernel != "linear" or self.features is not None:
            super()._fit(X)
            return
        if self.solver == "libsvm":
            raise InvalidParameter(
                "The 'solver' parameter of SVDD must be 'auto' or 'smo' for kernel='linear'."
            )
        ball = linear_ball(X, nu=self.nu, tol=self.tol)
        self.support_ = np.flatnonzero(ball.weights)
        self.expansion_ = CentreDistance(ball.centre[None, :])
        self.violation_ = ball.violation
        self.training_scores_ = self.to_score().value(X[calibration_rows(len(X))])
        self.threshold_ = ball.squared_radius

    def to_score(self) -> Any:
        """Return the outlierness as a score function with its expansion."""
        check_is_fitted(self)
        if isinstance(self.expansion_, CentreDistance):
            return CentreScore(
                self.expansion_,
                feature_names=self._names,
                describes="squared distance to the centre of SVDD",
                threshold=self._known_threshold,
            )
        score: KernelScore = super().to_score()
        return score


@dataclass(frozen=True, eq=False)
class Ball:
    """The smallest ball in input space.

    Its centre is Σ_j α_j u_j over the rows u_j with the weights α. `violation` says how far these are from
    the best ones.
    """

    centre: Floats
    squared_radius: float
    weights: Floats
    violation: float


def linear_ball(X: Floats, *, nu: float, tol: float) -> Ball:
    """Return the smallest ball that leaves out a share ν of the rows at most.

    It minimises t + 1/(νn) Σ_i max(0, ‖c − x_i‖² − t) over the centre c and the squared radius t ≥ 0.
    """
    centre, unit = squarable_centre_and_unit(X, "squared distances")
    centred = (X - centre) / unit
    squared = np.einsum("ij,ij->i", centred, centred)
    # The dual problem: ½‖Σ_i α_i x_i‖² − ½ Σ_i α_i ‖x_i‖², with 0 ≤ α_i ≤ 1/(νn) and Σα = 1.
    solution = solve(
        lambda index: centred @ centred[index].T, len(X), nu=nu, linear=-0.5 * squared, tol=tol, solver="smo"
    )
    middle = solution.weights @ centred
    # `level` is (‖c‖² − t)/2; rounding may put a ball of radius 0 slightly below it.
    squared_radius = max(float(middle @ middle) - 2.0 * solution.level, 0.0) * unit**2
    return Ball(middle * unit + centre, squared_radius, solution.weights, solution.violation)
