"""One-Class DTD against loops, its residual identities, and rows that the model was trained on."""

import numpy as np
import pytest
from oracles import one_class as oracle
from sklearn.neighbors import KernelDensity as SklearnKDE
from sklearn.svm import OneClassSVM as SklearnOneClassSVM

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.score import KernelExpansion
from tellwhy.detectors import SVDD, KernelDensity, NearestNeighbours, OneClassSVM
from tellwhy.explainers import OneClassDTD
from tellwhy.kernels import Exponential, StudentT
from tellwhy.scoring import KernelScore

CASES = [("exponential", q) for q in (1, 1.5, 2, 3, 4)] + [("student_t", q) for q in (1, 2, 3.5, 4)]


def model_of(kind, q, *, d=4, m=15, bandwidth=1.3, a=0.7, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(m, d)) * 2
    weights = rng.dirichlet(np.ones(m))
    kernel = Exponential(bandwidth, q) if kind == "exponential" else StudentT(bandwidth, q, a)
    return KernelScore(KernelExpansion(points, weights, kernel)), {"q": q, "bandwidth": bandwidth, "a": a}


def rows_to_explain(score, seed=1):
    rng = np.random.default_rng(seed)
    d = score.feature_shape[0]
    near = score.expansion.points[:3] + 1e-7  # nearly on a support point
    return np.vstack([rng.normal(size=(6, d)) * 3, near, rng.normal(size=(2, d)) * 1e4])


@pytest.mark.parametrize(("kind", "q"), CASES)
def test_values_scores_and_gradient_equal_the_loops(kind, q):
    score, kw = model_of(kind, q)
    points, weights = score.expansion.points, score.expansion.weights
    X = rows_to_explain(score)
    explanation = OneClassDTD(score).explain(X)
    expected_o = np.array([oracle.outlierness(x, points, weights, kind, **kw) for x in X])
    expected_R = np.array([oracle.relevance(x, points, weights, kind, **kw) for x in X])
    np.testing.assert_allclose(explanation.scores, expected_o, rtol=1e-10)
    np.testing.assert_allclose(explanation.values, expected_R, rtol=1e-9, atol=1e-10 * expected_o.max())
    assert np.abs(explanation.values - expected_R).max(axis=1) == pytest.approx(
        0, abs=1e-10 * expected_o.max()
    )


@pytest.mark.parametrize(("kind", "q"), CASES)
def test_gradient_equals_finite_differences(kind, q):
    score, _ = model_of(kind, q)
    X = np.random.default_rng(2).normal(size=(5, 4)) * 3
    step = 1e-6
    for i in range(4):
        shift = np.eye(4)[i] * step
        numeric = (score.value(X + shift) - score.value(X - shift)) / (2 * step)
        np.testing.assert_allclose(score.gradient(X)[:, i], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_equation_6_is_the_integrated_gradient_of_the_support_relevance(q):
    rng = np.random.default_rng(3)
    x, u = rng.normal(size=3) * 2, rng.normal(size=3)
    r = np.linalg.norm(x - u)
    for C, D in [(0.7, 0.4), (0.7, -0.5 * 0.7 * r**q)]:
        numeric = oracle.integrated_gradients_of_support_relevance(x, u, C, D, q)
        closed = ((x - u) / r) ** 2 * (C * r**q + D - max(D, 0.0))
        np.testing.assert_allclose(numeric, closed, rtol=1e-4)


@pytest.mark.parametrize("q", [1, 2, 4])
def test_exponential_residual_is_the_positive_part_of_the_log_ratio(q):
    score, kw = model_of("exponential", q)
    X = np.random.default_rng(4).normal(size=(20, 4)) * 3
    explanation = OneClassDTD(score).explain(X)
    weights = score.expansion.weights
    p = np.array([oracle.shares(x, score.expansion.points, weights, "exponential", **kw) for x in X])
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.where(p > 0, np.log(p / weights), 0.0)
    expected = (p * np.maximum(log_ratio, 0)).sum(axis=1)
    divergence = (p * log_ratio).sum(axis=1)
    np.testing.assert_allclose(explanation.residual, expected, atol=1e-10)
    assert (explanation.residual >= divergence - 1e-12).all()
    assert (explanation.residual <= divergence + 1 / np.e).all()
    assert (explanation.values.sum(axis=1) <= explanation.scores + 1e-12).all()


@pytest.mark.parametrize("q", [1, 2, 4])
def test_student_residual_identity_and_base_value(q):
    score, kw = model_of("student_t", q)
    points, weights, m = score.expansion.points, score.expansion.weights, len(score.expansion.weights)
    X = np.random.default_rng(5).normal(size=(20, 4)) * 3
    explanation = OneClassDTD(score).explain(X)
    k = np.array([[oracle.kernel(oracle.distance(x, u), "student_t", **kw) for u in points] for x in X])
    not_attributed = m * kw["a"] * (weights * k**2).sum(axis=1) / (k @ weights) ** 2
    np.testing.assert_allclose(
        explanation.scores - explanation.values.sum(axis=1), not_attributed, rtol=1e-10
    )
    np.testing.assert_allclose(explanation.base_values, m * kw["a"])
    assert (explanation.residual >= -1e-9).all()


def test_additivity_is_exact():
    score, _ = model_of("exponential", 2)
    e = OneClassDTD(score).explain(rows_to_explain(score))
    np.testing.assert_array_equal(e.residual, e.scores - e.base_values - e.values.sum(axis=1))


@pytest.mark.parametrize(("kind", "q"), CASES)
def test_support_relevances_sum_to_the_outlierness_and_the_inlierness(kind, q):
    score, kw = model_of(kind, q)
    points, weights = score.expansion.points, score.expansion.weights
    X = np.random.default_rng(6).normal(size=(5, 4)) * 3
    outliers, inliers = OneClassDTD(score).explain_support(X), OneClassDTD(score).explain_inliers(X)
    for i, x in enumerate(X):
        o = oracle.outlierness(x, points, weights, kind, **kw)
        p = oracle.shares(x, points, weights, kind, **kw)
        np.testing.assert_allclose(outliers.values[i], p * o, rtol=1e-10, atol=1e-14)
        g_j = [
            w * oracle.kernel(oracle.distance(x, u), kind, **kw) for w, u in zip(weights, points, strict=True)
        ]
        np.testing.assert_allclose(inliers.values[i], g_j, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(outliers.values.sum(axis=1), outliers.scores, rtol=1e-12)
    assert outliers.top(0, 2)[0][1] == outliers.values[0].max()


@pytest.mark.parametrize("scale", ["count", "one"])
def test_student_scale_is_only_a_factor(scale):
    X = np.random.default_rng(7).normal(size=(40, 3))
    detector = OneClassSVM("student_t", scale=scale, nu=0.5).fit(X)
    far = np.array([[9.0, 0.0, 0.0]])
    g = detector.inlierness(far)
    m = len(detector.support_) if scale == "count" else 1
    np.testing.assert_allclose(detector.outlierness(far), m / g, rtol=1e-12)
    np.testing.assert_allclose(OneClassDTD(detector).explain(far).base_values, m * 1.0)


@pytest.mark.parametrize("kind", ["exponential", "student_t"])
def test_a_training_row_is_explained_without_itself(kind):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 3))
    X[7] = [12.0, 0.0, 0.0]
    detector = KernelDensity(kind, bandwidth=1.0).fit(X)
    weights = np.full(60, 1 / 60)
    explanation = OneClassDTD(detector).explain(X)
    for i in (0, 7, 59):
        points, rest = oracle.without(i, X, weights)
        expected = oracle.relevance(X[i], points, rest, kind, q=2, bandwidth=1.0)
        np.testing.assert_allclose(explanation.values[i], expected, rtol=1e-9, atol=1e-10)
        assert explanation.scores[i] == pytest.approx(
            oracle.outlierness(X[i], points, rest, kind, q=2, bandwidth=1.0), rel=1e-10
        )
    np.testing.assert_array_equal(explanation.extras["left_out"], np.arange(60))
    assert explanation.params["rows_left_out"] == 60
    assert explanation.scores.argmax() == 7


def test_a_training_row_is_recognised_alone_in_a_batch_and_by_index():
    X = np.random.default_rng(9).normal(size=(50, 3))
    detector = OneClassSVM(nu=0.5, bandwidth=1.0).fit(X)
    whole = OneClassDTD(detector).explain(X)
    some = OneClassDTD(detector).explain(X[[3, 30]])
    by_index = OneClassDTD(detector, training_rows=[3, 30]).explain(X[[3, 30]])
    np.testing.assert_allclose(some.values, whole.values[[3, 30]], rtol=1e-12)
    np.testing.assert_array_equal(by_index.values, some.values)
    as_new = OneClassDTD(detector, training_rows=None).explain(X)
    np.testing.assert_allclose(as_new.scores, detector.outlierness(X), rtol=1e-12)
    assert as_new.params["rows_left_out"] == 0


def test_a_duplicate_of_a_training_row_still_counts():
    X = np.random.default_rng(10).normal(size=(30, 2))
    X[1] = X[0] = [8.0, 8.0]
    detector = KernelDensity(bandwidth=1.0).fit(X)
    explanation = OneClassDTD(detector).explain(X)
    points, rest = oracle.without(0, X, np.full(30, 1 / 30))
    assert explanation.scores[0] == pytest.approx(
        oracle.outlierness(X[0], points, rest, "exponential", q=2, bandwidth=1.0), rel=1e-10
    )
    assert explanation.scores[0] < 5  # its duplicate is near; without any copy the score would exceed 30


def test_a_new_row_and_wrong_training_rows():
    X = np.random.default_rng(11).normal(size=(30, 2))
    detector = KernelDensity().fit(X)
    assert OneClassDTD(detector).explain(X + 0.5).params["rows_left_out"] == 0
    with pytest.raises(InvalidInput, match="one whole number per explained row"):
        OneClassDTD(detector, training_rows=[1, 2]).explain(X)
    with pytest.raises(InvalidInput, match="names row 99"):
        OneClassDTD(detector, training_rows=[99]).explain(X[:1])
    with pytest.raises(InvalidParameter, match="'training_rows' parameter of OneClassDTD"):
        OneClassDTD(detector, training_rows="yes").explain(X)


def test_sklearn_one_class_svm_is_explained_like_ours():
    rng = np.random.default_rng(12)
    X, new = rng.normal(size=(300, 5)), rng.normal(size=(40, 5)) * 3
    ours = OneClassSVM(nu=0.2, bandwidth=2.0, solver="libsvm", tol=1e-8).fit(X)
    theirs = SklearnOneClassSVM(nu=0.2, gamma=1 / (2 * 2.0**2), tol=1e-9).fit(X)
    for rows in (new, X):
        a, b = OneClassDTD(ours).explain(rows), OneClassDTD(theirs).explain(rows)
        np.testing.assert_allclose(a.values, b.values, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-6)
    same = KernelScore(
        KernelExpansion(
            theirs.support_vectors_, theirs.dual_coef_[0] / theirs.dual_coef_.sum(), Exponential(2.0)
        )
    )
    np.testing.assert_allclose(
        OneClassDTD(theirs).explain(new).values, OneClassDTD(same).explain(new).values, 1e-10
    )


def test_sklearn_kernel_density_is_explained_on_its_own_scale():
    rng = np.random.default_rng(13)
    X, new = rng.normal(size=(80, 3)), rng.normal(size=(20, 3)) * 4
    for kernel, q in (("gaussian", 2), ("exponential", 1)):
        theirs = SklearnKDE(bandwidth=0.8, kernel=kernel).fit(X)
        ours = KernelDensity(bandwidth=0.8, q=q).fit(X)
        explanation = OneClassDTD(theirs).explain(new)
        np.testing.assert_allclose(explanation.scores, -theirs.score_samples(new), rtol=1e-8)
        np.testing.assert_allclose(explanation.values, OneClassDTD(ours).explain(new).values, rtol=1e-10)


def test_neighbour_and_centre_models_sum_to_their_score():
    rng = np.random.default_rng(14)
    X, new = rng.normal(size=(50, 3)), rng.normal(size=(10, 3)) * 3
    k = 4
    neighbours = OneClassDTD(NearestNeighbours(k).fit(X)).explain(new)
    for i, x in enumerate(new):
        r = np.array([oracle.distance(x, u) for u in X])
        nearest = np.argsort(r)[:k]
        expected = sum((x - X[j]) ** 2 / r[j] for j in nearest) / k
        np.testing.assert_allclose(neighbours.values[i], expected, rtol=1e-10)
        assert neighbours.scores[i] == pytest.approx(r[nearest].mean(), rel=1e-10)
    np.testing.assert_allclose(neighbours.residual, 0, atol=1e-12)
    ball = SVDD("linear").fit(X)
    explanation = OneClassDTD(ball).explain(new)
    np.testing.assert_allclose(explanation.values, (new - ball.expansion_.centres[0]) ** 2, rtol=1e-12)
    np.testing.assert_allclose(explanation.scores, ball.outlierness(new), rtol=1e-12)
    trained = OneClassDTD(NearestNeighbours(k).fit(X)).explain(X)
    assert (trained.scores > 0).all()
    with pytest.raises(UnsupportedModel, match="plain distance"):
        OneClassDTD(ball).explain_support(new)


def test_permuting_columns_permutes_relevances():
    rng = np.random.default_rng(15)
    X, new = rng.normal(size=(100, 6)), rng.normal(size=(10, 6)) * 3
    order = rng.permutation(6)
    plain = OneClassDTD(KernelDensity(bandwidth=2.0).fit(X)).explain(new)
    permuted = OneClassDTD(KernelDensity(bandwidth=2.0).fit(X[:, order])).explain(new[:, order])
    np.testing.assert_allclose(permuted.values, plain.values[:, order], rtol=1e-10)


def test_far_clusters_keep_their_digits():
    """Two clusters 1e8 bandwidths apart: products cancel, plain differences do not."""
    rng = np.random.default_rng(16)
    points = np.vstack([rng.normal(size=(10, 3)), rng.normal(size=(10, 3)) + 1e8])
    weights = np.full(20, 1 / 20)
    score = KernelScore(KernelExpansion(points, weights, Exponential(1.0)))
    X = np.vstack([rng.normal(size=(3, 3)) * 3, 1e8 + rng.normal(size=(3, 3)) * 3])
    explanation = OneClassDTD(score).explain(X)
    for i, x in enumerate(X):
        R = oracle.relevance(x, points, weights, "exponential", q=2, bandwidth=1.0)
        np.testing.assert_allclose(explanation.values[i], R, rtol=1e-7)


def test_no_relevance_is_negative_where_a_row_has_the_cells_of_all_points_nearby():
    rng = np.random.default_rng(0)
    near = np.column_stack([rng.normal(size=(300, 1)), np.full((300, 3), 0.1)])
    far = rng.normal([3.0, 5.3, 5.7, 6.1], size=(30, 4))
    model = KernelDensity(bandwidth=1.0).fit(np.concatenate([near, far]))
    rows = np.column_stack([rng.normal(size=(200, 1)) * 3.0, np.full((200, 3), 0.1)])
    assert OneClassDTD(model).explain(rows).values.min() >= 0.0


def test_any_number_below_0_stands_for_a_new_row():
    X = np.random.default_rng(3).normal(size=(20, 2))
    model = OneClassSVM(nu=0.5).fit(X)
    plain = OneClassDTD(model, training_rows=None).explain(X[:2])
    for given in (-1, -2, -20):
        found = OneClassDTD(model, training_rows=np.array([given, given])).explain(X[:2])
        np.testing.assert_array_equal(found.scores, plain.scores)
