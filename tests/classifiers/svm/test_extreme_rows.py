"""Rows so small or so large that sums of them cancel: what is reported is that of the weights that are returned."""

import numpy as np
import pytest

from tellwhy.classifiers import CrammerSingerSVM, LeeLinWahbaSVM

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = RNG.integers(0, 3, 60)


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-6, 1e-8])
def test_tiny_rows_without_an_intercept_are_certified(scale):
    model = CrammerSingerSVM(fit_intercept=False).fit(scale * X, Y)
    assert 0.0 <= model.dual_gap_ <= 1e-3
    assert model.objective_ <= 60.0 * (1 + 1e-3)  # that of weights of 0


@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged")
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_the_objective_is_that_of_the_weights(scale, C):
    rows = scale * X
    model = LeeLinWahbaSVM(C=C, fit_intercept=False, random_state=0, max_epochs=200).fit(rows, Y)
    losses = np.maximum(1.0 + rows @ model.coef_.T, 0.0)
    losses[np.arange(len(rows)), Y] = 0.0
    objective = 0.5 * np.square(model.coef_).sum() + C * losses.sum()
    np.testing.assert_allclose(model.objective_, objective, rtol=1e-6)
    assert model.history_[-1]["objective"] == model.objective_
