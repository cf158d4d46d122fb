"""Support vector data description: the smallest ball around the data."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rules, one_of
from tellwhy.core.score import CentreDistance, Floats
from tellwhy.detectors.base import choose_calibration_rows
from tellwhy.detectors.kernel.one_class_svm import OneClassSVM
from tellwhy.detectors.kernel.smallest_ball import fit_linear_ball
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
        ball = fit_linear_ball(X, nu=self.nu, tol=self.tol)
        self.support_ = np.flatnonzero(ball.weights)
        self.expansion_ = CentreDistance(ball.centre[None, :])
        self.violation_ = ball.violation
        self.training_scores_ = self.to_score().value(X[choose_calibration_rows(len(X))])
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
