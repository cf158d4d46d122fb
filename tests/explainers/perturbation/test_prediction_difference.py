"""Prediction difference: evidence in bits, draws given what surrounds a part."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.explainers import PredictionDifference
from tellwhy.explainers.perturbation.prediction_difference import ConditionalGaussian
from tellwhy.scoring import FunctionScore

rng = np.random.default_rng(0)
BACKGROUND = rng.normal(size=(400, 3))


def bits(p, n=400):
    mean = (np.mean(p) * n + 1) / (n + 2)
    return np.log2(mean / (1 - mean))


def test_evidence_is_the_difference_of_log_odds_in_bits():
    p = lambda X: 1 / (1 + np.exp(-(2 * X[:, 0] - X[:, 1])))  # noqa: E731
    x = np.array([[1.0, -1.0, 5.0]])
    found = (
        PredictionDifference(p, scale="probability", sampling="marginal", n_samples=5_000)
        .fit(BACKGROUND)
        .explain(x)
    )
    for column in range(3):
        many = np.repeat(x, 400, axis=0)
        many[:, column] = BACKGROUND[:, column]
        wanted = bits(p(x)) - bits(p(many))
        assert abs(found.values[0, column] - wanted) < 5 * found.stderr[0, column] + 1e-9
    assert abs(found.values[0, 2]) < 1e-12
    np.testing.assert_allclose(found.scores, bits(p(x)))
    assert found.params["unit"] == "bits"


def test_log_odds_and_probabilities_say_the_same():
    logit = lambda X: X[:, 0] - 2 * X[:, 2]  # noqa: E731
    p = lambda X: 1 / (1 + np.exp(-logit(X)))  # noqa: E731
    x = BACKGROUND[:4]
    one = PredictionDifference(logit, scale="log_odds").fit(BACKGROUND).explain(x)
    two = PredictionDifference(p, scale="probability").fit(BACKGROUND).explain(x)
    np.testing.assert_allclose(one.values, two.values, atol=1e-9)


def test_classifiers_are_read_as_probabilities_and_other_scores_as_they_are():
    labels = (BACKGROUND[:, 0] > 0).astype(int)
    model = LogisticRegression().fit(BACKGROUND, labels)
    found = tellwhy.explain(
        model, BACKGROUND[:3], "PredictionDifference", background=BACKGROUND, output="probability"
    )
    assert found.params["scale"] == "probability"
    score = PredictionDifference(lambda X: X[:, 0]).fit(BACKGROUND).explain(BACKGROUND[:3])
    assert score.params["scale"] == "score"
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        PredictionDifference(lambda X: 5 * X[:, 0], scale="probability").fit(BACKGROUND).explain(BACKGROUND)


def test_a_part_that_its_surroundings_tell_is_not_missed():
    """Two copies of a column: without one of them, a conditional draw knows it from the other."""
    doubled = np.column_stack(
        [BACKGROUND[:, 0], BACKGROUND[:, 0] + 0.01 * BACKGROUND[:, 1], BACKGROUND[:, 2]]
    )
    score = lambda X: X[:, 0]  # noqa: E731
    x = np.array([[2.0, 2.0, 0.0]])
    given = {
        kind: PredictionDifference(score, sampling=kind).fit(doubled).explain(x)
        for kind in ("conditional", "marginal")
    }
    assert abs(given["conditional"].values[0, 0]) < 0.2
    assert given["marginal"].values[0, 0] > 1.0


def test_the_conditional_distribution_is_the_gaussian_one():
    mixing = rng.normal(size=(4, 4))
    rows = rng.normal(size=(200_000, 4)) @ mixing.T
    covariance = mixing @ mixing.T
    found = ConditionalGaussian.of(rows, np.array([0, 2]), np.array([1, 3]))
    near, part = covariance[np.ix_([1, 3], [1, 3])], covariance[np.ix_([0, 2], [1, 3])]
    np.testing.assert_allclose(found.slopes, part @ np.linalg.inv(near), atol=0.03)
    left = covariance[np.ix_([0, 2], [0, 2])] - part @ np.linalg.inv(near) @ part.T
    np.testing.assert_allclose(found.spread @ found.spread.T, left, atol=0.05)


def test_patches_of_pictures():
    pictures = rng.normal(size=(80, 6, 6))
    score = FunctionScore(lambda X: X[:, :3, :3].sum(axis=(1, 2)), feature_shape=(6, 6))
    x = np.ones((1, 6, 6))
    found = (
        PredictionDifference(score, patch_size=3, sampling="marginal", n_samples=64).fit(pictures).explain(x)
    )
    assert found.values[0, :3, :3].sum() > 6
    np.testing.assert_array_equal(found.values[0, 3:], 0)
    smooth = PredictionDifference(score, patch_size=3, margin=2).fit(pictures).explain(x)
    assert smooth.values[0, :3, :3].sum() > 6
    np.testing.assert_allclose(smooth.values[0, 3:], 0, atol=1e-12)
