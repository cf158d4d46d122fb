"""Reconstruction errors of projections."""

import numpy as np
import pytest
from oracles.score_oracles import central_differences

from tellwhy.core.errors import InvalidInput
from tellwhy.scoring import Projection, ProjectionScore

RNG = np.random.default_rng(0)
COMPONENTS = np.linalg.qr(RNG.normal(size=(5, 2)))[0].T
MEAN = RNG.normal(size=5)
X = 3 * RNG.normal(size=(30, 5))


def test_error_is_the_distance_to_the_nearest_point_of_the_plane():
    score = ProjectionScore(Projection(MEAN, COMPONENTS))
    for x, error in zip(X, score.value(X), strict=True):
        _, residual, *_ = np.linalg.lstsq(COMPONENTS.T, x - MEAN)
        assert error == pytest.approx(residual[0], rel=1e-12)
    np.testing.assert_allclose(score.gradient(X), central_differences(score.value, X), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(score.feature_errors(X).sum(axis=1), score.value(X), rtol=1e-12)
    value, gradient = score.value_and_gradient(X)
    np.testing.assert_array_equal(value, score.value(X))
    np.testing.assert_array_equal(gradient, score.gradient(X))


def test_no_components_leave_the_distance_to_the_mean():
    score = ProjectionScore(Projection(MEAN, np.empty((0, 5))))
    np.testing.assert_allclose(score.value(X), ((X - MEAN) ** 2).sum(axis=1), rtol=1e-12)


def test_rows_beyond_floating_point_are_refused_by_name():
    far = X.copy()
    far[4] = 1e200
    with pytest.raises(InvalidInput, match="row 4 overflows"):
        ProjectionScore(Projection(MEAN, COMPONENTS)).value(far)
