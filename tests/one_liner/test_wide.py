"""Tables of many columns are explained by methods whose cost does not grow with sets of columns."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import tellwhy
from tellwhy.one_liner.method import WIDE

RNG = np.random.default_rng(0)
N_COLUMNS = WIDE + 100
X = RNG.normal(size=(80, N_COLUMNS))
ODD = X[:2].copy()
ODD[:, 3] += 9.0


def by_length(rows):
    return np.linalg.norm(rows, axis=1)


MODELS = {
    "mixture": (
        GaussianMixture(1, covariance_type="diag", random_state=0).fit(X),
        "IntegratedGradients",
    ),
    "function": (by_length, "Occlusion"),
}


@pytest.mark.parametrize("name", MODELS)
def test_many_columns_take_few_scores(name):
    model, method = MODELS[name]
    found = tellwhy.explain(model, ODD, background=X)
    assert found.method == method
    assert found.values.argmax(axis=1).tolist() == [3, 3]


def test_integrals_of_a_wide_mixture_add_up():
    found = tellwhy.explain(MODELS["mixture"][0], ODD, background=X)
    np.testing.assert_allclose(found.residual, 0, atol=1e-6 * np.abs(found.scores).max())


def test_fewer_columns_keep_their_shapley_values():
    few = X[:, :4]
    model = GaussianMixture(1, random_state=0).fit(few)
    assert tellwhy.explain(model, ODD[:, :4], background=few).method == "AnomalyShapley"
