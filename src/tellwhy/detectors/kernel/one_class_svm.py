"""One-class SVM with exponential and t-Student kernels, or over the features of very many rows.

The problem: among all weighted means w = Σ_i α_i φ(x_i) of the rows, with Σα = 1 and 0 ≤ α ≤ 1/(νn), find the
shortest. With a kernel it is the quadratic programme of `optimise.one_class_qp`. With features φ:

1. For the current w, take the mean a(w) of the share ν of rows with the smallest products w·φ(x). No allowed
   mean lies farther back, against w.
2. So ½‖w‖² can fall by at most ‖w‖² − w·a(w), called the duality gap. Stop where that is small enough.
3. Else add a(w) to the points found so far, and let w be the shortest vector in their convex hull.

Each round needs two passes over the rows, whose features are computed again each time rather than kept.

The model over all rows with weight, g(x) = Σ_j α_j k(x, u_j), then becomes Σ_l β_l k(x, z_l) over landmarks
z_l that are drawn among them. The weights β ≥ 0 with Σβ = 1 make the two functions as equal as possible: they
minimise ½βᵀKβ − βᵀg(z). The kernel itself is used, not an approximation of it. So the score stays −log g: it
grows with the distance and is explained like that of any kernel model.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tellwhy.core.arrays import sort_columns
from tellwhy.core.errors import InvalidParameter, NotConverged
from tellwhy.core.params import Rule, Rules, none, one_of, real
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches, track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.base import choose_calibration_rows
from tellwhy.detectors.kernel.kernel_detector import (
    KERNEL_PARAMETERS,
    KernelDetector,
    make_kernel_columns,
    warn_if_indefinite,
)
from tellwhy.kernels import Exponential, StudentT
from tellwhy.kernels.distances import ScaledPoints
from tellwhy.optimise._compiled_smo import smo
from tellwhy.optimise.one_class_qp import solve

if TYPE_CHECKING:  # most one-class SVMs need no basis
    from tellwhy.bases.kernel_basis import KernelBasis
    from tellwhy.bases.projections import FeatureMap

MAX_ROUNDS = 100
_BATCH_BYTES = 16 * 2**20


@dataclass(frozen=True)
class FeatureRows:
    """Rows in single precision, divided by the bandwidth; their features are computed whenever needed."""

    Z: NDArray[np.float32]
    feature_map: FeatureMap

    @classmethod
    def of(cls, X: Floats, fitted: FeatureMap) -> FeatureRows:
        """Centre and scale in double precision, then keep single precision."""
        scaled = ((X - fitted.centre) / fitted.bandwidth).astype(np.float32)
        return cls(scaled, replace(fitted, bandwidth=1.0, centre=np.zeros(X.shape[1])))

    def __len__(self) -> int:
        return len(self.Z)

    def products(self, w: Floats) -> Floats:
        """w·φ(x) of every row."""
        direction = w.astype(np.float32)
        out = np.empty(len(self))
        room, batches = self._room(len(self))
        for rows in batches:
            out[rows] = self.feature_map.apply(self.Z[rows], room) @ direction
        return out

    def combination(self, index: Integers, weights: Floats) -> Floats:
        """Σ weights · φ(x) over some rows."""
        total = np.zeros(self.feature_map.n_features)
        room, batches = self._room(len(index))
        for rows in batches:
            total += weights[rows].astype(np.float32) @ self.feature_map.apply(self.Z[index[rows]], room)
        return total

    def _room(self, n: int) -> tuple[NDArray[np.float32], list[slice]]:
        """Return memory for the features of a batch, and the batches."""
        batches = cut_batches(n, 4 * self.feature_map.n_features, _BATCH_BYTES)
        return np.empty((batches[0].stop, self.feature_map.n_features), dtype=np.float32), batches


@dataclass(frozen=True)
class FeatureSolution:
    """Weights of the rows, and the duality gap as a share of ‖w‖²."""

    weights: Floats
    gap: float


def solve_in_features(rows: FeatureRows, *, nu: float, tol: float) -> FeatureSolution:
    """Solve the one-class problem to a duality gap of at most `tol` · ‖w‖²."""
    n = len(rows)
    cap = 1.0 / (nu * n)
    if cap * n <= 1 + 1e-12:  # ν = 1 leaves one feasible point
        return FeatureSolution(np.full(n, 1.0 / n), 0.0)
    sets: list[tuple[Integers, Floats]] = []
    points: list[Floats] = []
    shares = np.ones(1)
    gap = np.inf
    w = rows.combination(np.arange(n), np.full(n, 1.0 / n))
    for _ in track(range(MAX_ROUNDS), MAX_ROUNDS, "fitting the one-class model on features"):
        lowest = _lowest(rows.products(w), cap)
        point = rows.combination(*lowest)
        gap = float(w @ w - w @ point)
        if points and gap <= tol * float(w @ w):
            break
        sets.append(lowest)
        points.append(point)
        shares = _find_shortest(np.array(points))
        w = shares @ np.array(points)
        if w @ w < 1.0 / len(w):  # as short as the features' own error: nothing is left to gain
            break
    _warn_if_unsolved(gap / float(w @ w), w, tol)
    return FeatureSolution(_compute_row_weights(sets, shares, n), gap / float(w @ w))


def _lowest(products: Floats, cap: float) -> tuple[Integers, Floats]:
    """Rows with the smallest products, at the cap, and one with what is left; their weights sum to 1."""
    full = min(int(1.0 / cap + 1e-9), len(products) - 1)  # 1/cap = νn may be whole but for rounding
    order = np.argpartition(products, full)[: full + 1]
    last = order[np.argmax(products[order])]
    index = np.append(np.sort(order[order != last]), last)
    weights = np.full(len(index), cap)
    weights[-1] = max(1.0 - full * cap, 0.0)
    return index, weights


def _find_shortest(points: Floats) -> Floats:
    """Convex weights of the shortest vector in the hull of some points."""
    K = points @ points.T
    shares = np.zeros(len(points))
    shares[-1] = 1.0  # any feasible start will do; the newest point is close to the solution
    smo(K, K[:, -1].copy(), shares, 1.0, 1e-10 * float(np.trace(K)) / len(K), 100_000)
    return shares / shares.sum()


def _compute_row_weights(sets: list[tuple[Integers, Floats]], shares: Floats, n: int) -> Floats:
    weights = np.zeros(n)
    for (index, own), share in zip(sets, shares, strict=True):
        weights[index] += share * own
    return weights


def _warn_if_unsolved(gap: float, w: Floats, tol: float) -> None:
    """Say that features were too few for the bandwidth, or rounds for the tolerance."""
    if w @ w < 2.0 / len(w):
        warnings.warn(
            f"{len(w)} features are too few for this bandwidth: the kernel between rows is smaller than the "
            "features' own error, and the model is little better than a density of all rows. Raise "
            "n_features or the bandwidth.",
            NotConverged,
            stacklevel=6,
        )
    elif gap > tol:
        warnings.warn(
            f"The one-class problem was solved to a duality gap of {gap:.1e}, not to tol={tol:g}. Raise tol.",
            NotConverged,
            stacklevel=6,
        )


LANDMARKS = 1_000


def choose_landmark_weights(
    X: Floats, weights: Floats, kernel: Exponential | StudentT, *, tol: float
) -> Floats:
    """Return weights of which at most 1,000 are not zero, and that give nearly the same model."""
    support = np.flatnonzero(weights)
    if len(support) <= LANDMARKS:
        return weights
    share = weights[support] / weights[support].sum()
    # Rows with more weight are likelier landmarks; the same ones in every fit.
    chosen = np.sort(np.random.default_rng(0).choice(support, LANDMARKS, replace=False, p=share))
    # target_l = g(z_l): the model at the landmarks, summed over all rows in batches.
    points = ScaledPoints.of(X[chosen], kernel.bandwidth)
    target = np.zeros(LANDMARKS)
    for rows in track_batches(len(support), 8 * (LANDMARKS + X.shape[1]), "choosing landmarks"):
        values = kernel.of_squared(points.squared_distances(points.rescale(X[support[rows]])))
        target += share[rows] @ values
    K = kernel.of_squared(points.squared_distances(points.scaled))
    solution = solve(
        lambda index: K[:, index], LANDMARKS, nu=1 / LANDMARKS, linear=-target, tol=tol, solver="smo"
    )
    out = np.zeros(len(X))
    out[chosen] = solution.weights
    return out


def _is_basis(value: object) -> bool:
    from tellwhy.bases.kernel_basis import KernelBasis

    return isinstance(value, KernelBasis)


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
        "features": (none, Rule("a KernelBasis", _is_basis)),
    }

    # With a narrower kernel, rows inside the data are flagged too: new normal rows then exceed the threshold
    # more often than ν.
    _auto_share = 0.5

    def __init__(
        self,
        kernel: str = "exponential",
        q: float = 2,
        bandwidth: str | float = "auto",
        *,
        a: float = 1.0,
        nu: float = 0.1,
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
        solution = solve(make_kernel_columns(X, kernel), len(X), nu=self.nu, tol=self.tol, solver=self.solver)
        self._keep(X, solution.weights, kernel)
        self.training_scores_ = self.to_score().value(X[choose_calibration_rows(len(X))])
        self.violation_ = solution.violation
        self.threshold_ = self._compute_outlierness_at(solution.level)

    def _fit_on_features(self, X: Floats, basis: KernelBasis) -> None:
        """Solve on features, keep landmarks, and let ν of the training rows lie outside."""
        self._check_basis(basis)
        width = basis.bandwidth if isinstance(self.bandwidth, str) else self.bandwidth
        kernel = self.radial_kernel(X) if isinstance(width, str) else Exponential(float(width))
        # The random directions meet the columns in an order of their own: a table with its columns in
        # another order gives the same model.
        order = sort_columns((X - X.mean(axis=0)) / kernel.bandwidth)
        fitted = clone(basis).set_params(bandwidth=kernel.bandwidth).fit(X[:, order])
        solution = solve_in_features(FeatureRows.of(X[:, order], fitted.map_), nu=self.nu, tol=self.tol)
        self._keep(X, choose_landmark_weights(X, solution.weights, kernel, tol=self.tol), kernel)
        self.violation_ = solution.gap
        self.training_scores_ = self.to_score().value(X[choose_calibration_rows(len(X))])
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

    def _compute_outlierness_at(self, g: float) -> float:
        """Return the outlierness of a row whose discriminant is g."""
        if isinstance(self.expansion_.kernel, Exponential):
            return -math.log(g)
        return (len(self.support_) if self.scale == "count" else 1) / g
