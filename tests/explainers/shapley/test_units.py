"""Shares do not depend on the units of the columns, nor of the score."""

import numpy as np
import pytest

from tellwhy.detectors import (
    SVDD,
    GaussianMixture,
    KernelDensity,
    NearestNeighbours,
    OneClassSVM,
    PCADetector,
)
from tellwhy.explainers import AnomalyShapley, Compensation
from tellwhy.scoring import FunctionScore

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)) @ RNG.normal(size=(3, 3))
NEW = X[:4] + X.std(axis=0) * [0.0, 5.0, 0.0]
FACTORS = [1e-6, 1e-3, 1e3, 1e6]
DETECTORS = [NearestNeighbours, KernelDensity, SVDD, OneClassSVM, GaussianMixture, PCADetector]


def shares(found):
    return found.values / np.abs(found.values).sum(axis=1, keepdims=True)


def bowl(factor):
    """A score with a gradient that is no quadratic form."""
    return FunctionScore(
        lambda Y: factor * (np.abs(Y) ** 3).sum(axis=1),
        gradient=lambda Y: factor * 3 * np.sign(Y) * Y**2,
    )


@pytest.mark.parametrize("method", [AnomalyShapley, Compensation])
@pytest.mark.parametrize("factor", FACTORS)
def test_units_of_the_score(method, factor):
    plain = method(bowl(1.0)).fit(X).explain(NEW)
    scaled = method(bowl(factor)).fit(X).explain(NEW)
    np.testing.assert_allclose(shares(scaled), shares(plain), atol=2e-3)


@pytest.mark.parametrize("method", [AnomalyShapley, Compensation])
@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("factor", FACTORS)
def test_units_of_the_columns(method, detector, factor):
    """Scores that are distances change with the units of the data; what is told of them does not."""
    plain = method(detector().fit(X)).fit(X).explain(NEW)
    scaled = method(detector().fit(X * factor)).fit(X * factor).explain(NEW * factor)
    np.testing.assert_allclose(shares(scaled), shares(plain), atol=2e-3)


@pytest.mark.parametrize("gamma", ["balance", "injection", 1.0])
def test_units_of_chosen_weights(gamma):
    plain = AnomalyShapley(bowl(1.0), gamma=gamma).fit(X)
    scaled = AnomalyShapley(bowl(1e-3), gamma=gamma).fit(X)
    assert scaled.gamma_ == pytest.approx(plain.gamma_, rel=1e-3)
    np.testing.assert_allclose(shares(scaled.explain(NEW)), shares(plain.explain(NEW)), atol=2e-3)


def test_one_row_far_away_does_not_set_the_unit():
    background = np.vstack([X, X[:1] + 1e4])
    unit = AnomalyShapley(bowl(1.0)).fit(background).neighbourhood_.score_unit
    assert unit == pytest.approx(AnomalyShapley(bowl(1.0)).fit(X).neighbourhood_.score_unit, rel=0.1)


def test_scores_that_are_all_the_same_have_a_unit():
    flat = FunctionScore(lambda Y: np.full(len(Y), 5.0), gradient=np.zeros_like)
    assert AnomalyShapley(flat).fit(X).neighbourhood_.score_unit == 5.0
    zero = FunctionScore(lambda Y: np.zeros(len(Y)), gradient=np.zeros_like)
    assert AnomalyShapley(zero).fit(X).neighbourhood_.score_unit == 1.0
