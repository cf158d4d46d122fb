"""Baselines, occlusion and edges against plain arithmetic."""

import numpy as np
import pytest
from oracles import one_class as oracle

import tellwhy
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.detectors import SVDD, KernelDensity, NearestNeighbours, OneClassSVM, PatchModel
from tellwhy.explainers import (
    ExpectedValue,
    GaussianNLL,
    NearestSupport,
    Occlusion,
    RandomAttribution,
    Sensitivity,
    SimpleTaylor,
    Sobel,
)
from tellwhy.scoring import as_score

RNG = np.random.default_rng(0)


X = RNG.normal(size=(60, 3))


NEW = RNG.normal(size=(8, 3)) * 3


def test_nearest_support_is_another_row_than_the_row_itself():
    detector = KernelDensity(bandwidth=1.0).fit(X)
    for rows in (NEW, X[:5]):
        found = NearestSupport(detector).explain(rows)
        for x, values in zip(rows, found.values, strict=True):
            distances = np.array([oracle.distance(x, u) for u in X])
            distances[distances == 0] = np.inf
            np.testing.assert_allclose(values, (x - X[distances.argmin()]) ** 2, rtol=1e-12)
    assert NearestSupport(detector).explain(X[:2]).extras["left_out"].tolist() == [0, 1]
    with pytest.raises(UnsupportedModel, match="distance to a centre"):
        NearestSupport(SVDD("linear").fit(X)).explain(NEW)


def test_expected_value_is_the_weighted_mean():
    svm = OneClassSVM(nu=0.4).fit(X)
    centre = svm.expansion_.weights @ svm.expansion_.points
    np.testing.assert_allclose(ExpectedValue(svm).explain(NEW).values, (NEW - centre) ** 2, rtol=1e-12)
    knn = NearestNeighbours().fit(X)
    np.testing.assert_allclose(
        ExpectedValue(knn).explain(NEW).values, (NEW - X.mean(axis=0)) ** 2, rtol=1e-12
    )
    ball = SVDD("linear").fit(X)
    expected = (NEW - ball.expansion_.centres[0]) ** 2
    np.testing.assert_allclose(ExpectedValue(ball).explain(NEW).values, expected, rtol=1e-12)


def test_gaussian_nll_terms_and_constant_features():
    background = X.copy()
    background[:, 2] = 5.0
    found = GaussianNLL(KernelDensity().fit(X), regularisation=0.1).fit(background).explain(NEW)
    variance = background.var(axis=0)
    expected = (NEW - background.mean(axis=0)) ** 2 / (2 * (variance + 0.1 * variance.mean()))
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    strict = GaussianNLL(KernelDensity().fit(X), regularisation=0.0).fit(background)
    assert np.isfinite(strict.explain(NEW).values).all()
    with pytest.raises(InvalidInput, match="call fit"):
        GaussianNLL(KernelDensity().fit(X)).explain(NEW)


@pytest.mark.parametrize(
    "detector", [OneClassSVM(nu=0.4), KernelDensity("student_t"), SVDD("linear"), NearestNeighbours()]
)
def test_sensitivity_is_the_squared_slope(detector):
    score = as_score(detector.fit(X))
    found = Sensitivity(detector).explain(NEW)
    step = 1e-6
    for i in range(3):
        shift = np.eye(3)[i] * step
        slope = (score.value(NEW + shift) - score.value(NEW - shift)) / (2 * step)
        np.testing.assert_allclose(found.values[:, i], slope**2, rtol=1e-4, atol=1e-8)
    assert found.residual is None
    with pytest.raises(UnsupportedModel, match="a gradient"):
        Sensitivity(lambda rows: rows.sum(axis=1)).explain(NEW)


def test_simple_taylor_expands_on_the_threshold():
    detector = OneClassSVM(nu=0.2, bandwidth=1.5).fit(X)
    far = np.array([[6.0, 0.0, 0.0], [0.0, -7.0, 1.0]])
    detector.set_threshold(
        value=1.6
    )  # above the score of the nearest support points, so that the way crosses it
    score = detector.to_score()
    found = SimpleTaylor(detector).explain(far)
    np.testing.assert_allclose(found.base_values, detector.threshold_, rtol=1e-6)
    for x, values in zip(far, found.values, strict=True):
        distances = [oracle.distance(x, u) for u in detector.expansion_.points]
        goal = detector.expansion_.points[int(np.argmin(distances))]
        shares = np.linspace(0, 1, 200_001)
        on_the_way = score.value(x + shares[:, None] * (goal - x))
        reference = x + shares[np.argmax(on_the_way <= detector.threshold_)] * (goal - x)
        expected = score.gradient(reference[None])[0] * (x - reference)
        np.testing.assert_allclose(values, expected, rtol=1e-3)
    detector.set_threshold(value=0.5)  # never reached: the way ends at the support point
    assert (SimpleTaylor(detector).explain(far).base_values > 0.5).all()
    detector.set_threshold(value=1.6)
    inside = SimpleTaylor(detector).explain(X[detector.predict(X) == 1][:5] + 1e-9)
    np.testing.assert_allclose(inside.values[inside.scores <= detector.threshold_], 0, atol=1e-8)


def test_simple_taylor_without_a_threshold_goes_half_way_down():
    from sklearn.neighbors import KernelDensity as SklearnKDE

    density = SklearnKDE(bandwidth=1.0).fit(X)
    found = SimpleTaylor(density).explain(NEW)
    assert ((found.base_values < found.scores) | (np.abs(found.values).sum(axis=1) < 1e-9)).all()


def test_occlusion_is_exact_for_additive_scores():
    background = RNG.normal(size=(20, 3))
    score = lambda rows: (rows**2).sum(axis=1)  # noqa: E731
    found = Occlusion(score, max_background=20).fit(background).explain(NEW)
    np.testing.assert_allclose(found.values, NEW**2 - (background**2).mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.residual, 0, atol=1e-10)
    np.testing.assert_allclose(found.base_values, (background**2).sum(axis=1).mean())
    with pytest.raises(InvalidInput, match="call fit"):
        Occlusion(score).explain(NEW)


def test_occlusion_draws_at_most_max_background_rows():
    explainer = Occlusion(lambda rows: rows.sum(axis=1), max_background=5, random_state=3).fit(X)
    assert explainer.background_.shape == (5, 3)
    assert {tuple(b) for b in explainer.background_} <= {tuple(x) for x in X}


def test_random_attribution_depends_on_the_seed_alone():
    detector = KernelDensity().fit(X)
    a, b = (RandomAttribution(detector, random_state=s).explain(NEW).values for s in (1, 2))
    assert (a != b).any()
    np.testing.assert_array_equal(a, RandomAttribution(detector, random_state=1).explain(NEW * 2).values)


def test_edges_are_those_of_the_filter_written_out():
    images = RNG.normal(size=(2, 6, 7, 3))
    model = PatchModel(KernelDensity(), 3, n_train_patches=30).fit(images)
    found = Sobel(model).explain(images)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    for k, i, j, c in np.ndindex(2, 6, 7, 3):
        block = padded[k, i : i + 3, j : j + 3, c]
        expected = (block * across).sum() ** 2 + (block * across.T).sum() ** 2
        assert found.values[k, i, j, c] == pytest.approx(expected)
    assert found.kind == "ranking"
    np.testing.assert_allclose(found.scores, model.outlierness(images))


def test_of_series_the_slope_along_time_is_taken():
    series = RNG.normal(size=(2, 20, 2))
    model = PatchModel(KernelDensity(), (4,), n_train_patches=30).fit(series)
    found = tellwhy.explain(model, series, "Sobel").values
    np.testing.assert_allclose(found[:, 1:-1], (series[:, 2:] - series[:, :-2]) ** 2)
