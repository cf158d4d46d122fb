"""One-class SVM with exponential and t-Student kernels."""

from __future__ import annotations

import math
from typing import ClassVar

from tellwhy.core.params import Rules, one_of, real
from tellwhy.core.registry import register_detector
from tellwhy.core.score_function import Floats
from tellwhy.detectors.base import calibration_rows
from tellwhy.detectors.kernel_detector import (
    KERNEL_PARAMETERS,
    KernelDetector,
    kernel_columns,
    warn_if_indefinite,
)
from tellwhy.detectors.one_class_qp import solve
from tellwhy.kernels import Exponential


@register_detector(
    needs="numeric columns on comparable scales",
    cost="fit between O(n·νn) and O(n²); score O(n m d)",
    exactness="global optimum for q ≤ 2",
    citation="Schölkopf, Platt, Shawe-Taylor, Smola, Williamson, Neural Computation 13 (2001)",
)
class OneClassSVM(KernelDetector):
    """One-class support vector machine that scores outlierness in log space.

    g(x) = Σ_j α_j k(‖x − u_j‖) with Σα = 1; o(x) = −log g(x) for exponential kernels k = exp(−(r/σ)^q/q), and
    o(x) = m/g(x) for t-Student kernels k = 1/(a + (r/σ)^q). Far outliers keep finite, growing scores.

    Parameters
    ----------
    kernel
        'exponential' (Gaussian at q=2, Laplacian at q=1) or 'student_t'.
    q
        Power of the distance, at least 1. Above 2 the problem is not convex; a warning says so.
    bandwidth
        σ, in the units of the data; 'auto' takes half the median distance between rows.
    a
        Offset of the t-Student kernel.
    nu
        Upper bound on the share of training rows outside, lower bound on the share of support points.
    scale
        Factor m of the t-Student outlierness: 'count' (number of support points, as published) or 'one', which
        makes scores comparable between models.
    tol
        Relative violation of the optimality conditions to stop at.
    solver
        'smo' (ours, any size), 'libsvm' (scikit-learn's, needs the whole kernel matrix) or 'auto'.

    Attributes
    ----------
    expansion_
        Support points, weights and kernel.
    threshold_
        Outlierness on the model's boundary; see `set_threshold`.
    training_scores_
        Outlierness of training rows (at most 20,000, drawn at random), which thresholds are drawn from.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detector = OneClassSVM(nu=0.1).fit(X)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **KERNEL_PARAMETERS,
        "nu": real(0, 1, closed="right"),
        "tol": real(0, 1),
        "solver": one_of("auto", "smo", "libsvm"),
    }

    # Below half, rows inside the data are flagged too: new normal rows exceed the threshold more often than ν.
    _auto_share = 0.5

    def __init__(
        self,
        kernel: str = "exponential",
        q: float = 2,
        bandwidth: str | float = "auto",
        a: float = 1.0,
        nu: float = 0.1,
        *,
        scale: str = "count",
        tol: float = 1e-4,
        solver: str = "auto",
    ):
        self.kernel = kernel
        self.q = q
        self.bandwidth = bandwidth
        self.a = a
        self.nu = nu
        self.scale = scale
        self.tol = tol
        self.solver = solver

    def _fit(self, X: Floats) -> None:
        kernel = self.radial_kernel(X)
        warn_if_indefinite(kernel, type(self).__name__)
        solution = solve(kernel_columns(X, kernel), len(X), nu=self.nu, tol=self.tol, solver=self.solver)
        self._keep(X, solution.weights, kernel)
        self.training_scores_ = self.to_score().value(X[calibration_rows(len(X))])
        self.violation_ = solution.violation
        self.threshold_ = self._outlierness_at(solution.level)

    def _outlierness_at(self, g: float) -> float:
        """Return the outlierness of a row whose discriminant is g."""
        if isinstance(self.expansion_.kernel, Exponential):
            return -math.log(g)
        return (len(self.support_) if self.scale == "count" else 1) / g
