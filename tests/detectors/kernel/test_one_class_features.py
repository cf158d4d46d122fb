"""One-class SVM on kernel features: solved as certified, told by landmarks, close to the exact model."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import spearmanr

from tellwhy import detectors
from tellwhy.bases import KernelBasis
from tellwhy.core.errors import InvalidParameter, NotConverged
from tellwhy.detectors import SVDD, OneClassSVM
from tellwhy.detectors.kernel.one_class_svm import FeatureRows, choose_landmark_weights, solve_in_features
from tellwhy.explainers import OneClassDTD
from tellwhy.kernels import Exponential

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3_000, 6)) + 3.0 * (RNG.random(3_000) < 0.5)[:, None]
NEW = 1.5 * RNG.normal(size=(60, 6)) + 6.0 * np.eye(6)[RNG.integers(0, 6, 60)]
BASIS = KernelBasis(n_features=600, random_state=0)


def feature_rows(n, width=3.0, n_features=40):
    basis = KernelBasis(n_features=n_features, bandwidth=width, random_state=0).fit(X[:n])
    return FeatureRows.of(X[:n], basis.map_), basis.transform(X[:n])


@pytest.mark.parametrize("nu", [0.05, 0.13, 0.5, 1.0])
def test_the_optimum_is_that_of_a_general_solver(nu):
    rows, features = feature_rows(60)
    solution = solve_in_features(rows, nu=nu, tol=1e-6)
    K, cap = features @ features.T, 1 / (nu * 60)
    found = minimize(
        lambda a: 0.5 * a @ K @ a,
        np.full(60, 1 / 60),
        jac=lambda a: K @ a,
        bounds=[(0, cap)] * 60,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(60)},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    a = solution.weights
    assert a.sum() == pytest.approx(1)
    assert a.min() >= 0
    assert a.max() <= cap * (1 + 1e-9)
    assert 0.5 * a @ K @ a == pytest.approx(found.fun, rel=1e-4)
    w = features.T @ a
    lowest = np.sort(features @ w)
    full = int(nu * 60)
    behind = (lowest[:full].sum() + (nu * 60 - full) * lowest[min(full, 59)]) * cap
    assert solution.gap == pytest.approx((w @ w - behind) / (w @ w), abs=2e-6)


def test_the_order_of_the_columns_does_not_matter():
    order = [4, 2, 0, 5, 1, 3]
    detector = OneClassSVM(features=BASIS).fit(X[:500])
    shuffled = OneClassSVM(features=BASIS).fit(X[:500][:, order])
    np.testing.assert_array_equal(shuffled.support_, detector.support_)
    np.testing.assert_allclose(shuffled.outlierness(NEW[:, order]), detector.outlierness(NEW), rtol=1e-6)


def test_a_loose_tolerance_stops_sooner_and_says_how_far():
    rows, features = feature_rows(2_000, n_features=200)
    loose, tight = (solve_in_features(rows, nu=0.1, tol=tol) for tol in (0.05, 1e-4))
    assert tight.gap <= 1e-4 < loose.gap <= 0.05
    lengths = [np.linalg.norm(features.T @ s.weights) for s in (loose, tight)]
    assert lengths[1] < lengths[0] < 1.03 * lengths[1]


def test_landmarks_stand_for_all_support_points(monkeypatch):
    monkeypatch.setattr("tellwhy.detectors.kernel.one_class_svm.LANDMARKS", 400)
    kernel = Exponential(3.0)
    weights = RNG.random(3_000) * (RNG.random(3_000) < 0.8)
    weights /= weights.sum()
    kept = choose_landmark_weights(X, weights, kernel, tol=1e-3)
    assert np.count_nonzero(kept) <= 400 < np.count_nonzero(weights)
    assert kept.sum() == pytest.approx(1)
    assert kept.min() >= 0
    squared = ((NEW[:, None] - X[None]) ** 2).sum(axis=-1) / 9.0
    before, after = (kernel.of_squared(squared) @ w for w in (weights, kept))
    np.testing.assert_allclose(after, before, atol=5e-3 * before.max())
    few = weights * (np.arange(3_000) < 450)
    assert choose_landmark_weights(X, few, kernel, tol=1e-5) is few


def test_scores_and_explanations_are_close_to_those_of_the_exact_model():
    exact = OneClassSVM(bandwidth=3.0).fit(X)
    fast = OneClassSVM(bandwidth=3.0, features=BASIS).fit(X)
    first, second = (OneClassDTD(model).explain(NEW) for model in (exact, fast))
    assert spearmanr(first.scores, second.scores)[0] > 0.99
    cosine = (first.values * second.values).sum(axis=1) / (
        np.linalg.norm(first.values, axis=1) * np.linalg.norm(second.values, axis=1)
    )
    assert cosine.min() > 0.98
    assert (first.values.argmax(axis=1) == second.values.argmax(axis=1)).mean() > 0.95
    assert (fast.predict(X) == -1).mean() == pytest.approx(0.1, abs=0.002)
    assert fast.violation_ <= 1e-4
    far = OneClassDTD(fast).explain(np.array([[300.0, 0, 0, 0, 0, 0]]))
    assert far.scores[0] > 1_000
    assert far.values[0].argmax() == 0


def test_svdd_on_features_is_the_one_class_svm():
    one, other = (cls(bandwidth=3.0, features=BASIS).fit(X[:300]) for cls in (OneClassSVM, SVDD))
    np.testing.assert_array_equal(one.outlierness(NEW), other.outlierness(NEW))


def test_which_bandwidth_counts():
    def width(**params):
        basis = KernelBasis(n_features=50, random_state=0, **params.pop("basis", {}))
        return OneClassSVM(features=basis, **params).fit(X[:200]).bandwidth_

    assert width() == OneClassSVM().fit(X[:200]).bandwidth_
    assert width(bandwidth=2.5) == width(basis={"bandwidth": 2.5}) == 2.5
    with pytest.raises(InvalidParameter, match=r"bandwidth=2\.5 and its KernelBasis bandwidth=3\.5"):
        width(bandwidth=2.5, basis={"bandwidth": 3.5})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel": "student_t"}, "approximates the Gaussian kernel"),
        ({"q": 1}, "approximates the Gaussian kernel"),
        ({"features": KernelBasis("arccos")}, "approximates the Gaussian kernel"),
        ({"features": KernelBasis(basis="supervised")}, "learns without labels"),
        ({"features": "hadamard"}, "'features' parameter of OneClassSVM must be None or a KernelBasis"),
    ],
    ids=["kernel", "q", "arccos", "supervised", "text"],
)
def test_bases_that_do_not_fit_are_refused(params, message):
    with pytest.raises(InvalidParameter, match=message):
        OneClassSVM(**{"features": BASIS, **params}).fit(X[:100])
    with pytest.raises(InvalidParameter, match="approximates the Gaussian kernel"):
        SVDD("linear", features=BASIS).fit(X[:100])


def test_too_few_features_are_reported():
    with pytest.warns(NotConverged, match="features are too few for this bandwidth"):
        OneClassSVM(bandwidth=0.1, features=KernelBasis(n_features=20, random_state=0)).fit(X[:500])


def test_an_unsupervised_basis_serves_too():
    pytest.importorskip("torch")
    basis = KernelBasis(basis="unsupervised", n_features=60, max_epochs=2, n_batches=20, random_state=0)
    model = OneClassSVM(bandwidth=3.0, features=basis).fit(X[:500])
    assert (
        spearmanr(model.outlierness(NEW), OneClassSVM(bandwidth=3.0).fit(X[:500]).outlierness(NEW))[0] > 0.95
    )


def test_the_basis_of_the_user_is_left_alone(tmp_path):
    basis = KernelBasis(n_features=50, random_state=0)
    model = OneClassSVM(features=basis).fit(X[:200])
    assert not hasattr(basis, "map_")
    again = detectors.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.outlierness(NEW), model.outlierness(NEW))
    assert again.features.get_params() == basis.get_params()
    np.testing.assert_array_equal(again.fit(X[:200]).outlierness(NEW), model.outlierness(NEW))
