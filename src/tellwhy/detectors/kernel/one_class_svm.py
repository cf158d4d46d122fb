"""One-class SVM with exponential and t-Student kernels."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from sklearn.base import clone

from tellwhy.bases.kernel_basis import KernelBasis
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rules, instance_of, none, one_of, real
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import canonical_order
from tellwhy.detectors.base import calibration_rows
from tellwhy.detectors.kernel.feature_space import FeatureRows, solve_in_features
from tellwhy.detectors.kernel.kernel_detector import (
    KERNEL_PARAMETERS,
    KernelDetector,
    kernel_columns,
    warn_if_indefinite,
)
from tellwhy.detectors.kernel.landmarks import landmark_weights
from tellwhy.kernels import Exponential
from tellwhy.optimise.one_class_qp import solve


@register(
    "detector",
    needs="numeric columns on comparable scales",
    cost="fit between O(n·νn) and O(n²), O(n) on features; score O(n m d)",
    exactness="global optimum for q ≤ 2; on features, certified in their space and told by landmarks",
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
        σ, in the units of the data; 'auto' takes half the median distance between rows. 'localisation' tries
        six widths and takes the one whose explanations best name the column of training rows in which it was
        moved: better reasons where columns are many. It fits 1,000 rows six times more. A narrower kernel may
        flag more new rows than ν, and detect worse or better.
    a
        Offset of the t-Student kernel.
    nu
        Upper bound on the share of training rows outside, lower bound on the share of support points.
    scale
        Factor m of the t-Student outlierness: 'count' (number of support points, as published) or 'one',
        which makes scores comparable between models.
    tol
        Relative violation of the optimality conditions to stop at.
    solver
        'smo' (ours, any size), 'libsvm' (scikit-learn's, needs the whole kernel matrix) or 'auto'.
    features
        A `KernelBasis` for the Gaussian kernel, for very many rows: the problem is solved on its features, in
        time and memory linear in the rows, to a duality gap of `tol`. The model is then told by at most 1,000
        landmarks among the support points, with the exact kernel: scores and explanations are those of any
        kernel model. A bandwidth given to the basis is used unless one is given here.

    Attributes
    ----------
    expansion_
        Support points, weights and kernel.
    threshold_
        Outlierness on the model's boundary; see `set_threshold`.
    tried_bandwidths_, tried_names_
        With 'localisation': the widths that were tried, and for each the mean reciprocal rank of the moved
        column by plain and by relative relevance (see `OneClassDTD`).
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
        "features": (none, instance_of(KernelBasis, words="a KernelBasis")),
    }

    # With a narrower kernel, rows inside the data are flagged too: new normal rows then exceed the threshold
    # more often than ν.
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
        features: KernelBasis | None = None,
    ):
        self.kernel = kernel
        self.q = q
        self.bandwidth = bandwidth
        self.a = a
        self.nu = nu
        self.scale = scale
        self.tol = tol
        self.solver = solver
        self.features = features

    def _fit(self, X: Floats) -> None:
        if self.features is not None:
            self._fit_on_features(X, self.features)
            return
        kernel = self.radial_kernel(X)
        warn_if_indefinite(kernel, type(self).__name__)
        solution = solve(kernel_columns(X, kernel), len(X), nu=self.nu, tol=self.tol, solver=self.solver)
        self._keep(X, solution.weights, kernel)
        self.training_scores_ = self.to_score().value(X[calibration_rows(len(X))])
        self.violation_ = solution.violation
        self.threshold_ = self._outlierness_at(solution.level)

    def _fit_on_features(self, X: Floats, basis: KernelBasis) -> None:
        """Solve on features, keep landmarks, and let ν of the training rows lie outside."""
        self._check_basis(basis)
        width = basis.bandwidth if isinstance(self.bandwidth, str) else self.bandwidth
        kernel = self.radial_kernel(X) if isinstance(width, str) else Exponential(float(width))
        # The random directions meet the columns in an order of their own: a table with its columns in
        # another order gives the same model.
        order = canonical_order((X - X.mean(axis=0)) / kernel.bandwidth)
        fitted = clone(basis).set_params(bandwidth=kernel.bandwidth).fit(X[:, order])
        solution = solve_in_features(FeatureRows.of(X[:, order], fitted.map_), nu=self.nu, tol=self.tol)
        self._keep(X, landmark_weights(X, solution.weights, kernel, tol=self.tol), kernel)
        self.violation_ = solution.gap
        self.training_scores_ = self.to_score().value(X[calibration_rows(len(X))])
        # The solution's own boundary is one of features; landmarks score a little differently.
        self.threshold_ = float(np.quantile(self.training_scores_, 1 - self.nu))

    def _check_basis(self, basis: KernelBasis) -> None:
        """Say why a basis does not approximate this detector's kernel."""
        name = type(self).__name__
        if self.kernel != "exponential" or self.q != 2 or basis.kernel != "gaussian":
            raise InvalidParameter(
                f"{name}(features=…) approximates the Gaussian kernel: it needs kernel='exponential', q=2 "
                f"and a KernelBasis with kernel='gaussian'. Got {self.kernel!r}, {self.q!r} and "
                f"{basis.kernel!r}."
            )
        if basis.basis not in ("random", "unsupervised"):
            raise InvalidParameter(
                f"{name} learns without labels, so that its KernelBasis must be 'random' or 'unsupervised'. "
                f"Got basis={basis.basis!r}."
            )
        widths = [w for w in (self.bandwidth, basis.bandwidth) if w != "auto"]
        if len(set(widths)) == 2:
            raise InvalidParameter(
                f"{name} has bandwidth={widths[0]!r} and its KernelBasis bandwidth={widths[1]!r}. "
                "Give one of them."
            )

    def _outlierness_at(self, g: float) -> float:
        """Return the outlierness of a row whose discriminant is g."""
        if isinstance(self.expansion_.kernel, Exponential):
            return -math.log(g)
        return (len(self.support_) if self.scale == "count" else 1) / g
