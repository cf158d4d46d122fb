"""Scores that are broken, flat or bent, one column or thousands, rows far away, background of one row: for all methods
that explain any score (with a gradient, where they need one)."""

import numpy as np
import pytest
from zoo.scores import Own

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.detectors import GaussianMixture, PCADetector
from tellwhy.explainers import (
    AnomalyContribution,
    AnomalyShapley,
    Compensation,
    IntegratedGradients,
    KernelShap,
    Occlusion,
)
from tellwhy.scoring import FunctionScore, as_score

METHODS = [AnomalyShapley, KernelShap, Compensation, IntegratedGradients, AnomalyContribution, Occlusion]
ADDITIVE = [AnomalyShapley, KernelShap, IntegratedGradients]
X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 10.0, 0.1]
NEW = X[:4] + np.array([0.0, 80.0, 0.0])


def made_from(function, kind, gradient=np.zeros_like):
    return (FunctionScore if kind == "function" else Own)(function, gradient=gradient)


def explained(method, model, rows=NEW, ordinary=X, **settings):
    return method(model, **settings).fit(ordinary).explain(rows)


every_method = pytest.mark.parametrize("method", METHODS)
both_kinds = pytest.mark.parametrize("kind", ["function", "own class"])


@every_method
@both_kinds
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite(method, kind, number):
    with pytest.raises(InvalidInput, match=r"is (nan|inf|-inf) for row 0 .* expected a finite number"):
        explained(method, made_from(lambda Z: np.full(len(Z), number), kind))


@every_method
@both_kinds
def test_scores_that_are_finite_for_some_rows_only(method, kind):
    """The explained rows themselves have no score; the background has."""
    with pytest.raises(InvalidInput, match="expected a finite number"):
        explained(method, made_from(lambda Z: np.where(Z[:, 1] > 40.0, np.nan, Z[:, 1]), kind))


@every_method
@both_kinds
@pytest.mark.parametrize(
    ("returned", "shape"),
    [(lambda Z: Z, r"\(\d+, 3\)"), (lambda Z: np.ones(len(Z) + 1), r"\(\d+,\)"), (lambda _: 1.0, r"\(\)")],
    ids=["a table", "one too many", "one number"],
)
def test_scores_of_the_wrong_shape(method, kind, returned, shape):
    with pytest.raises(
        InvalidInput, match=rf"one number per row: for \d+ rows, .* has shape {shape}; expected"
    ):
        explained(method, made_from(returned, kind))


@pytest.mark.parametrize("method", [AnomalyShapley, Compensation, IntegratedGradients])
@both_kinds
@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (lambda Z: Z[:, :2], r"gradient of .* has shape"),
        (lambda Z: np.full(Z.shape, np.nan), "not finite for row 0"),
    ],
    ids=["shape", "NaN"],
)
def test_broken_gradients(method, kind, gradient, message):
    with pytest.raises(InvalidInput, match=message):
        explained(method, made_from(lambda Z: (Z**2).sum(axis=1), kind, gradient))


@every_method
@both_kinds
def test_a_constant_score_leaves_nothing_to_explain(method, kind):
    found = explained(method, made_from(lambda Z: np.full(len(Z), 7.0), kind))
    np.testing.assert_allclose(found.values, 0.0, atol=1e-12)
    np.testing.assert_array_equal(found.scores, 7.0)
    assert found.kind != "attribution" or np.abs(found.residual).max() < 1e-12


@every_method
def test_points_without_a_derivative(method):
    """|x| has none at 0, where two of the columns are, and max(x, 0) is flat on one side."""
    for function, gradient in (
        (lambda Z: np.abs(Z).sum(axis=1), np.sign),
        (lambda Z: np.maximum(Z, 0.0).sum(axis=1), lambda Z: (Z > 0).astype(float)),
    ):
        found = explained(method, FunctionScore(function, gradient=gradient), np.array([[0.0, 95.0, 0.0]]))
        assert np.isfinite(found.values).all()
        assert found.values[0].argmax() == 1


@every_method
def test_one_column(method):
    score = FunctionScore(lambda Z: Z[:, 0] ** 2, gradient=lambda Z: 2.0 * Z)
    found = explained(method, score, np.array([[9.0], [0.1]]), X[:, :1])
    assert found.values.shape == (2, 1)
    assert found.values[0, 0] > 10 * abs(found.values[1, 0])
    if method in ADDITIVE:
        np.testing.assert_allclose(found.values[:, 0], found.scores - found.base_values)


class TestManyColumns:
    """Five thousand, or as many as are needed to sample sets of them."""

    ROWS = np.random.default_rng(0).normal(size=(4, 5000))
    ODD = ROWS[:1] + 300.0 * (np.arange(5000) == 17)
    SCORE = FunctionScore(lambda Z: (Z**2).sum(axis=1), gradient=lambda Z: 2.0 * Z)

    @pytest.mark.parametrize("method", [Compensation, IntegratedGradients, Occlusion])
    def test_methods_that_look_at_each_column(self, method):
        settings = {"max_background": 2} if method is Occlusion else {}
        found = explained(method, self.SCORE, self.ODD, self.ROWS, **settings)
        assert found.values[0].argmax() == 17

    @pytest.mark.parametrize("method", [AnomalyShapley, KernelShap])
    def test_too_few_sets_are_refused(self, method):
        with pytest.raises(InvalidParameter, match="at least 10002 sets are needed"):
            explained(method, self.SCORE, self.ODD, self.ROWS, n_coalitions=64)

    def test_sets_are_sampled_and_it_says_so(self):
        odd, rows = self.ODD[:, :200], self.ROWS[:, :200]
        found = explained(KernelShap, self.SCORE, odd, rows, baseline=rows[1:2])
        assert found.params["coalitions"] == "sampled in pairs"
        assert found.params["coalitions_used"] == 2 * 200 + 2048
        assert (found.stderr >= 0).all()
        assert found.values[0].argmax() == 17
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-6)


@every_method
@pytest.mark.parametrize("detector", [GaussianMixture(2), PCADetector(1)], ids=["mixture", "components"])
def test_rows_outside_the_training_range(method, detector):
    far = np.array([[0.0, 1e6, 0.0], [1e5, 0.0, 0.0], [0.0, 0.0, -1e4]])
    found = explained(method, detector.fit(X), far)
    assert np.isfinite(found.values).all()
    np.testing.assert_allclose(found.scores, detector.outlierness(far))
    if method in ADDITIVE:
        np.testing.assert_allclose(found.residual / found.scores, 0.0, atol=1e-5)
    if isinstance(detector, GaussianMixture):
        assert found.values.argmax(axis=1).tolist() == [1, 0, 2]


@every_method
def test_background_of_one_row(method):
    score = as_score(GaussianMixture(2).fit(X))
    if method.least_rows > 1:  # those that learn how far columns spread
        with pytest.raises(InvalidInput, match=r"was given 1\. Pass at least 2"):
            explained(method, score, NEW, X[:1])
        return
    found = explained(method, score, NEW, X[:1])
    assert np.isfinite(found.values).all()
    np.testing.assert_allclose(found.scores, score.value(NEW))
    if method in ADDITIVE:
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-4)


@every_method
def test_no_background_at_all(method):
    with pytest.raises(InvalidInput, match=r"call fit\(X\)"):
        method(GaussianMixture(2).fit(X)).explain(NEW)
    with pytest.raises(InvalidInput, match="empty"):
        method(GaussianMixture(2).fit(X)).fit(X[:0])
