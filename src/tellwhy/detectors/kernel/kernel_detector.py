"""What one-class SVM, SVDD and kernel density share: g(x) = Σ_j α_j k(‖x − u_j‖), and its bandwidth.

With many columns, a kernel as wide as the rows are apart sees all of them at nearly equal distances, and the
relevance of a moved column drowns in what the others always have. How narrow is best depends on the data: so
it is tried, on training rows only. Rows held out get one column moved, and the bandwidth is taken whose
explanations name that column best.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import NotConverged
from tellwhy.core.params import Rules, one_of, real
from tellwhy.core.score import Floats, Integers, KernelExpansion
from tellwhy.detectors.base import Detector
from tellwhy.kernels import Exponential, StudentT, is_positive_definite
from tellwhy.kernels.distances import WIDTHS, ScaledPoints, median_distance
from tellwhy.optimise.one_class_qp import Columns
from tellwhy.scoring import KernelScore
from tellwhy.scoring.moved_columns import LEAST_MOVED, MovedColumns, Naming
from tellwhy.scoring.one_class import measure_usual_relevance, relevance

LEARNED_ROWS = 1_000  # that each candidate is fitted on: the cost of a fit grows with their square
HELD_OUT_ROWS = 200
MOVED_ROWS = 500
USUAL_ROWS = 300
LEAST_ROWS = 20  # fewer training rows decide nothing


class Trials(NamedTuple):
    """Bandwidths that were tried, and how well each named the moved columns.

    `named` has one line per bandwidth: mean reciprocal rank of plain and of relative relevance.
    """

    bandwidths: Floats
    named: Floats

    @property
    def best(self) -> float:
        """The bandwidth with the highest mean reciprocal rank, of either form."""
        return float(self.bandwidths[self.named.max(axis=1).argmax()])


def try_bandwidths(detector: Any, X: Floats) -> Trials | None:
    """Try bandwidths for a detector on its training rows; None where there are too few to hold some out.

    A fifth of the rows, at most 200, is held out. 500 rows are made from them by moving one column each, by
    one to two standard deviations. The detector learns at most 1,000 of the other rows, with each of six
    bandwidths between a sixteenth of and twice the median distance, and explains the moved rows. The rows are
    the same in every fit, and the order of the columns does not matter.
    """
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    n_held = min(HELD_OUT_ROWS, len(X) // 5)
    learned = X[order[n_held : n_held + LEARNED_ROWS]]
    if len(X) < LEAST_ROWS:
        return None
    owner = np.arange(X.shape[1])
    moved = MovedColumns.drawn(X[order[:n_held]], owner, MOVED_ROWS, rng, known=X)
    if len(moved.X) < LEAST_MOVED:
        return None
    widths = np.array(WIDTHS) * median_distance(X)
    named = [_named(clone(detector).set_params(bandwidth=w), learned, moved) for w in widths.tolist()]
    return Trials(widths, np.array(named))


def _named(detector: Any, learned: Floats, moved: MovedColumns) -> tuple[float, float]:
    """How well a detector names the moved columns, in plain and in relative form."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the detector itself will say so, once
        score = detector.set_params(**_compute_exact(detector)).fit(learned).to_score()
    some = learned[:USUAL_ROWS]  # in random order
    usual = measure_usual_relevance(*relevance(score, some, score.match(some)))
    values, _ = relevance(score, moved.X, np.full(len(moved.X), -1, dtype=np.int64))
    found = Naming.of(moved, values, usual)
    return found.plain, found.relative


def _compute_exact(detector: Any) -> dict[str, Any]:
    """Without kernel features: few rows need none."""
    return {"features": None} if "features" in detector.get_params(deep=False) else {}


KERNEL_PARAMETERS: dict[str, Rules] = {
    "kernel": one_of("exponential", "student_t"),
    "q": real(1, np.inf, closed="left"),
    "bandwidth": (one_of("auto", "localisation"), real(0, np.inf)),
    "a": real(0, np.inf),
    "scale": one_of("count", "one"),
}


class KernelDetector(Detector):
    """A detector whose model is a kernel expansion over (some of) its training rows."""

    _parameters: ClassVar[dict[str, Rules]] = KERNEL_PARAMETERS
    _auto_share: ClassVar[float]  # bandwidth='auto', as a share of the median distance between rows
    kernel: str
    q: float
    bandwidth: str | float
    a: float
    scale: str
    expansion_: Any

    def radial_kernel(self, X: Floats) -> Exponential | StudentT:
        """Return the kernel that the parameters name, its bandwidth learned from X where it is a word."""
        for name in ("tried_bandwidths_", "tried_names_"):  # of an earlier fit, with another bandwidth
            if hasattr(self, name):
                delattr(self, name)
        width = self._learn_width(X) if isinstance(self.bandwidth, str) else float(self.bandwidth)
        if self.kernel == "student_t":
            return StudentT(width, float(self.q), float(self.a))
        return Exponential(width, float(self.q))

    def _learn_width(self, X: Floats) -> float:
        """Return the bandwidth for 'auto', or for 'localisation' the one that names moved columns best."""
        trials = try_bandwidths(self, X) if self.bandwidth == "localisation" else None
        if trials is None:
            return self._auto_share * median_distance(X)
        self.tried_bandwidths_ = trials.bandwidths
        self.tried_names_ = trials.named
        return trials.best

    @property
    def bandwidth_(self) -> float:
        """The bandwidth in use."""
        return float(self.expansion_.kernel.bandwidth)

    def _keep(self, X: Floats, weights: Floats, kernel: Exponential | StudentT) -> None:
        """Store the rows that have weight as support points."""
        support = np.flatnonzero(weights)  # in order, so that a row's place among them is found by halving
        self.support_ = support
        self.expansion_ = KernelExpansion(
            X[support], weights[support] / weights[support].sum(), kernel, support, len(X), self.scale
        )

    def to_score(self) -> KernelScore:
        """Return the outlierness as a score function with its expansion."""
        check_is_fitted(self)
        formula = "−log g(x)" if isinstance(self.expansion_.kernel, Exponential) else "m/g(x)"
        return KernelScore(
            self.expansion_,
            feature_names=self._names,
            describes=f"outlierness o(x) = {formula} of {type(self).__name__}",
            threshold=self._known_threshold,
        )

    def inlierness(self, X: ArrayLike) -> Floats:
        """g(x) = Σ_j α_j k(‖x − u_j‖), between 0 and k(0)."""
        check_is_fitted(self)
        score = self.to_score()
        # The score takes rows that are left out; here, as in `outlierness`, nobody is.
        nobody = np.full(len(self._validated(X, reset=False)), -1)
        return score.inlierness_of(self.outlierness(X), nobody)


def make_kernel_columns(X: Floats, kernel: Exponential | StudentT) -> Columns:
    """Kernel columns on demand, for the solver: the whole matrix of many rows would not fit into memory."""
    points = ScaledPoints.of(X, kernel.bandwidth)

    def columns(index: Integers) -> Floats:
        some = ScaledPoints(points.centre, points.length, points.scaled[index], points.squared_norms[index])
        return kernel.of_squared(some.squared_distances(points.scaled))

    return columns


def warn_if_indefinite(kernel: Exponential | StudentT, owner: str) -> None:
    """Say that only a local optimum can be promised."""
    if not is_positive_definite(kernel):
        warnings.warn(
            f"{owner} with q = {kernel.q:g} > 2 uses a kernel that is not positive definite: its training "
            "problem is not convex, and the model is one that satisfies the optimality conditions, not a "
            "global optimum.",
            NotConverged,
            stacklevel=4,
        )
