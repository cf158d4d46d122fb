"""One-class SVM, SVDD and kernel density: the solver against a QP, definitions 1 and 2, far rows, large n."""

import numpy as np
import pytest
from oracles import one_class as oracle
from sklearn.neighbors import KernelDensity as SklearnKDE
from sklearn.svm import OneClassSVM as SklearnOneClassSVM

from tellwhy.core.errors import InvalidInput, NotConverged
from tellwhy.detectors import SVDD, KernelDensity, NearestNeighbours, OneClassSVM
from tellwhy.kernels.distances import median_distance
from tellwhy.optimise.one_class_qp import solve

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3)) @ RNG.normal(size=(3, 3))


def kernel_matrix(X, kind, **kw):
    return np.array([[oracle.kernel(oracle.distance(x, u), kind, **kw) for u in X] for x in X])


@pytest.mark.parametrize("kind", ["exponential", "student_t"])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("solver", ["smo", "libsvm"])
def test_solver_reaches_the_optimum_of_a_general_solver(kind, nu, solver):
    K = kernel_matrix(X[:40], kind, q=2, bandwidth=1.0)
    cap = 1 / (nu * 40)
    found = solve(lambda index: K[:, index], 40, nu=nu, tol=1e-7, solver=solver)
    reference = oracle.one_class_qp(K, cap)
    assert found.weights.sum() == pytest.approx(1)
    assert found.weights.max() <= cap * (1 + 1e-6)
    objective = 0.5 * found.weights @ K @ found.weights
    assert objective <= 0.5 * reference @ K @ reference + 1e-8
    np.testing.assert_allclose(K @ found.weights, K @ reference, atol=1e-4)
    np.testing.assert_allclose(found.gradient, K @ found.weights, atol=1e-8)


def test_decomposition_rounds_agree_with_libsvm():
    """More rows than one working set, so that several rounds are needed."""
    rows = np.random.default_rng(1).normal(size=(2500, 4))
    ours = OneClassSVM(nu=0.3, solver="smo", tol=1e-6).fit(rows)
    theirs = SklearnOneClassSVM(nu=0.3, gamma=1 / (2 * ours.bandwidth_**2), tol=1e-7).fit(rows)
    total = theirs.dual_coef_.sum()
    np.testing.assert_allclose(ours.inlierness(rows) * total, theirs.score_samples(rows), rtol=1e-4)
    assert ours.threshold_ == pytest.approx(-np.log(theirs.offset_[0] / total), rel=1e-4)
    assert (ours.predict(rows) != theirs.predict(rows)).mean() < 0.005


def test_nu_bounds_the_outliers_and_the_support():
    for nu in (0.1, 0.5):
        detector = OneClassSVM(nu=nu).fit(X)
        assert (detector.predict(X) == -1).mean() <= nu + 1e-9
        assert len(detector.support_) >= nu * len(X) - 1e-9


@pytest.mark.parametrize("kind", ["exponential", "student_t"])
@pytest.mark.parametrize("nu", [0.13, 0.37])
def test_the_threshold_is_the_outlierness_of_rows_on_the_boundary(kind, nu):
    detector = OneClassSVM(kind, nu=nu, tol=1e-7).fit(X)
    weights = detector.expansion_.weights
    free = weights < 0.999 / (nu * len(X))  # neither outside, at the cap, nor inside, without weight
    assert free.sum() >= 2
    on_boundary = detector.outlierness(X[detector.support_[free]])
    np.testing.assert_allclose(on_boundary, detector.threshold_, rtol=1e-4)


@pytest.mark.parametrize("kind", ["exponential", "student_t"])
def test_svdd_with_a_radial_kernel_is_the_one_class_svm(kind):
    a, b = OneClassSVM(kind, nu=0.2).fit(X), SVDD(kind, nu=0.2).fit(X)
    np.testing.assert_array_equal(a.outlierness(X), b.outlierness(X))
    assert a.threshold_ == b.threshold_


def test_linear_svdd_is_the_smallest_soft_ball():
    nu = 0.2
    detector = SVDD("linear", nu=nu, tol=1e-8).fit(X + 1e6)
    K = X @ X.T
    weights = oracle.one_class_qp(K, 1 / (nu * len(X)), p=-0.5 * np.diagonal(K))
    centre = weights @ X + 1e6
    np.testing.assert_allclose(detector.expansion_.centres[0] - 1e6, centre - 1e6, atol=1e-4)
    outside = (detector.predict(X + 1e6) == -1).mean()
    assert outside <= nu + 1e-9
    hard = SVDD("linear", nu=1 / len(X), tol=1e-8).fit(X)  # no row may lie outside
    assert hard.outlierness(X).max() == pytest.approx(hard.threshold_, rel=1e-5)


@pytest.mark.parametrize(("kernel", "q"), [("gaussian", 2), ("exponential", 1)])
def test_kernel_density_differs_from_scikit_learn_by_the_normaliser(kernel, q):
    ours = KernelDensity(q=q, bandwidth=0.7).fit(X).outlierness(X * 3)
    theirs = -SklearnKDE(bandwidth=0.7, kernel=kernel).fit(X).score_samples(X * 3)
    gap = theirs - ours
    np.testing.assert_allclose(gap, gap[0], atol=1e-8)
    if kernel == "gaussian":
        assert gap[0] == pytest.approx(1.5 * np.log(2 * np.pi * 0.7**2))


def test_the_gaussian_is_scikit_learns_rbf():
    """γ = 1/(2σ²)."""
    sigma = 1.7
    theirs = SklearnOneClassSVM(nu=0.3, gamma=1 / (2 * sigma**2), tol=1e-9).fit(X)
    ours = OneClassSVM(nu=0.3, bandwidth=sigma, tol=1e-8).fit(X)
    np.testing.assert_allclose(
        ours.inlierness(X) * theirs.dual_coef_.sum(), theirs.score_samples(X), rtol=1e-6
    )


@pytest.mark.parametrize("kind", ["exponential", "student_t"])
@pytest.mark.parametrize("q", [1, 1.5, 2])
def test_definitions_1_and_2(kind, q):
    """Inlierness is bounded and vanishes; outlierness grows like c‖x‖^q, c = 1/(qσ^q) or m/σ^q."""
    sigma, a = 2.0, 0.5
    detector = OneClassSVM(kind, q, sigma, a=a, nu=0.3).fit(X)
    c = 1 / (q * sigma**q) if kind == "exponential" else len(detector.support_) / sigma**q
    upper = 1.0 if kind == "exponential" else 1 / a
    for x in np.random.default_rng(2).normal(size=(5, 3)):
        assert 0 <= detector.inlierness(x[None])[0] <= upper
        assert detector.outlierness(x[None])[0] >= 0
        far = x[None] * 1e7
        assert detector.inlierness(far)[0] < 1e-6
        assert detector.outlierness(far)[0] / np.linalg.norm(far) ** q == pytest.approx(c, rel=1e-4)


def test_scores_stay_finite_a_million_bandwidths_away_and_beyond():
    detector = OneClassSVM(bandwidth=1.0).fit(X)
    scores = detector.outlierness([[1e6, 0, 0], [1e7, 0, 0], [1e100, 0, 0]])
    assert np.isfinite(scores).all()
    assert (np.diff(scores) > 0).all()
    with pytest.raises(InvalidInput, match=r"Row 1 of X is too far.*overflows"):
        detector.outlierness([[0, 0, 0], [1e200, 0, 0]])


@pytest.mark.parametrize("q", [3, 4])
def test_indefinite_kernels_reach_a_kkt_point_and_warn(q):
    K = kernel_matrix(X, "exponential", q=q, bandwidth=1.0)
    assert np.linalg.eigvalsh(K).min() < -0.01
    with pytest.warns(NotConverged, match="not positive definite"):
        detector = OneClassSVM(q=q, bandwidth=1.0, nu=0.3, solver="smo", tol=1e-6).fit(X)
    assert detector.violation_ <= 1e-5
    weights = np.zeros(len(X))
    weights[detector.support_] = detector.expansion_.weights
    gradient, cap = K @ weights, 1 / (0.3 * len(X))
    level = gradient[(weights > 1e-6) & (weights < cap * (1 - 1e-6))]
    if len(level):
        assert gradient[weights < 1e-9].min() >= level.mean() - 1e-4
        assert gradient[weights > cap * (1 - 1e-9)].max() <= level.mean() + 1e-4


def test_training_scores_are_those_of_left_out_rows():
    detector = KernelDensity(bandwidth=1.0).fit(X)
    points, weights = oracle.without(5, X, np.full(len(X), 1 / len(X)))
    expected = oracle.outlierness(X[5], points, weights, "exponential", q=2, bandwidth=1.0)
    assert detector.training_scores_[5] == pytest.approx(expected, rel=1e-10)
    assert (detector.training_scores_ > detector.threshold_).mean() == pytest.approx(0.1, abs=0.02)
    assert (detector.fit_predict(X) == -1).mean() == pytest.approx(0.1, abs=0.02)


def test_thresholds_hold_for_new_rows_and_for_the_training_rows():
    rng = np.random.default_rng(5)
    rows, new = rng.normal(size=(1000, 10)), rng.normal(size=(4000, 10))
    for detector in (KernelDensity(contamination=0.05), NearestNeighbours(contamination=0.05)):
        assert (detector.fit(rows).predict(new) == -1).mean() == pytest.approx(0.05, abs=0.015)
        assert (detector.fit_predict(rows) == -1).mean() == pytest.approx(0.05, abs=0.005)
    for share in (0.05, 0.2):
        svm = OneClassSVM().fit(rows).set_threshold(contamination=share)
        assert (svm.predict(rows) == -1).mean() == pytest.approx(share, abs=0.005)


def test_median_distance_follows_units_offsets_and_survives_duplicates():
    width = median_distance(X)
    distances = [oracle.distance(a, b) for i, a in enumerate(X) for b in X[:i]]
    assert width == pytest.approx(np.median(distances), rel=1e-3)
    assert median_distance(X * 1e300) == pytest.approx(width * 1e300, rel=1e-9)
    assert median_distance(X * 1e-300) == pytest.approx(width * 1e-300, rel=1e-9)
    assert median_distance(X + 1e9) == pytest.approx(width, rel=1e-5)
    mostly_equal = np.zeros((50, 2))
    mostly_equal[:3, 0] = [1.0, 2.0, 3.0]
    assert median_distance(mostly_equal) > 0
    assert OneClassSVM().fit(X).bandwidth_ == pytest.approx(width / 2)
    assert KernelDensity().fit(X).bandwidth_ == pytest.approx(width / 4)
    with pytest.raises(InvalidInput, match="All rows are equal"):
        median_distance(np.ones((5, 2)))


def test_polars_frames_are_read_and_their_names_kept():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    detector = OneClassSVM().fit(frame)
    np.testing.assert_array_equal(detector.outlierness(frame), detector.outlierness(detector_frame(X)))
    assert detector.to_score().feature_names == ["a", "b"]


def detector_frame(rows):
    import pandas as pd

    return pd.DataFrame(rows[:, :2], columns=["a", "b"])


@pytest.mark.slow
def test_fifty_thousand_rows_fit():
    rows = np.random.default_rng(3).normal(size=(50_000, 20))
    detector = OneClassSVM(nu=0.1).fit(rows)
    assert (detector.predict(rows) == -1).mean() == pytest.approx(0.1, abs=0.01)
    assert len(detector.training_scores_) == 20_000
