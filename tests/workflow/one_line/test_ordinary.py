"""Which ordinary rows the one-liner compares with, and what it says where there are none."""

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidInput

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) * [1.0, 2.0, 0.7, 1.5] + [0.0, 100.0, 3.0, -7.0]
SCALE = X.std(axis=0)
TRUE = np.arange(20) % 4
ODD = X[:20] + 8 * SCALE * np.eye(4)[TRUE]
FOREST = IsolationForest(random_state=0).fit(X)


def right(explanation):
    return int((explanation.values[:20].argmax(axis=1) == TRUE).sum())


@pytest.mark.parametrize("method", ["AnomalyShapley", "KernelShap", "Occlusion", "AnomalyContribution"])
@pytest.mark.parametrize("n", [1, 20])
def test_a_model_that_keeps_no_rows_asks_for_some(method, n):
    with pytest.raises(InvalidInput, match=rf"{method} compares.*background=X_train"):
        tellwhy.explain(FOREST, ODD[:n], method)


def test_given_rows_serve():
    found = tellwhy.explain(FOREST, ODD, "AnomalyShapley", background=X)
    assert right(found) >= 19
    assert found.params["ordinary_rows"] == "300 rows given"


@pytest.mark.parametrize(
    "model",
    [
        LocalOutlierFactor(novelty=True),
        GaussianMixture(2, random_state=0),
        EllipticEnvelope(random_state=0),
        make_pipeline(StandardScaler(), LocalOutlierFactor(novelty=True)),
        make_pipeline(StandardScaler(), GaussianMixture(1, random_state=0)),
    ],
    ids=str,
)
def test_models_that_keep_rows_or_their_distribution_need_none(model):
    model.fit(X)
    found = tellwhy.explain(model, ODD, "AnomalyShapley")
    assert right(found) >= 19
    assert "the model" in found.params["ordinary_rows"]
    one = tellwhy.explain(model, ODD[:1], "AnomalyShapley")
    np.testing.assert_allclose(one.values, found.values[:1], rtol=1e-6, atol=1e-8)


def test_rows_drawn_from_a_distribution_are_like_those_it_was_fitted_on():
    from tellwhy.scoring import as_score
    from tellwhy.scoring.reference_rows import find_reference_rows

    for model in (GaussianMixture(1), EllipticEnvelope(random_state=0), PCA(3)):
        rows = find_reference_rows(as_score(model.fit(X))).rows
        np.testing.assert_allclose(rows.mean(axis=0), X.mean(axis=0), atol=0.3 * SCALE.max())
        np.testing.assert_allclose(rows.std(axis=0), SCALE, rtol=0.2)


def test_support_vectors_are_not_taken_for_ordinary_rows():
    with pytest.raises(InvalidInput, match="the model keeps none"):
        tellwhy.explain(OneClassSVM(nu=0.1).fit(X), ODD, "KernelShap")


def test_rows_serve_themselves_where_they_are_many_and_different():
    found = tellwhy.explain(FOREST, np.vstack([ODD, X[20:]]), "AnomalyShapley")
    assert right(found) >= 19
    assert "the explained rows themselves" in found.params["ordinary_rows"]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (X[:49], "X has 49 of the 50 rows"),
        (np.repeat(X[:1], 80, axis=0), "X has 1 different rows"),
        (X[:80] + 8 * SCALE * np.eye(4)[0], "calls 9[0-9]% of the rows of X anomalous"),
        (pd.DataFrame(np.repeat(X[:1], 80, axis=0)), "X has 1 different rows"),
    ],
)
def test_rows_do_not_serve_themselves_where_they_are_few_alike_or_odd(rows, why):
    with pytest.raises(InvalidInput, match=why):
        tellwhy.explain(FOREST, rows, "KernelShap")


def test_a_linear_one_class_svm_gives_the_exact_shares():
    model = OneClassSVM(kernel="linear", nu=0.1).fit(X)
    found = tellwhy.explain(model, ODD, background=X)
    assert found.method == "LinearShapley"
    weights = -model.coef_[0]
    np.testing.assert_allclose(found.values, weights * (ODD - X.mean(axis=0)), rtol=1e-9)
    np.testing.assert_allclose(found.scores, -model.score_samples(ODD), rtol=1e-9)
    np.testing.assert_allclose(found.base_values, -model.score_samples(X).mean(), rtol=1e-9)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-7 * np.abs(found.scores).max())


def test_models_that_need_no_rows_do_not_ask_for_them():
    found = tellwhy.explain(OneClassSVM(nu=0.1).fit(X / SCALE), ODD[:1] / SCALE)
    assert found.method == "OneClassDTD"
    assert "ordinary_rows" not in found.params
