"""The one-liner: which method it picks, for which model, and in which columns."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity as SklearnKDE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import OneClassSVM as SklearnOneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.detectors import KernelDensity, NearestNeighbours, OneClassSVM

X = np.random.default_rng(0).normal(size=(120, 4))
ODD = np.array([[0.0, 0.0, 9.0, 0.0], [0.0, -9.0, 0.0, 0.0]])
EXACT = [
    OneClassSVM(nu=0.2),
    KernelDensity(),
    NearestNeighbours(),
    SklearnOneClassSVM(nu=0.2),
    SklearnKDE(),
    make_pipeline(StandardScaler(), SklearnOneClassSVM(nu=0.2)),
]


@pytest.mark.parametrize("model", EXACT, ids=lambda m: type(m).__name__)
def test_distance_models_are_decomposed(model):
    explanation = tellwhy.explain(model.fit(X), ODD)
    assert explanation.method == "OneClassDTD"
    assert "automatically" in explanation.params["chosen"]
    assert explanation.values.argmax(axis=1).tolist() == [2, 1]


@pytest.mark.parametrize(
    "model",
    [
        IsolationForest(random_state=0),
        GaussianMixture(2, random_state=0),
        PCA(2),
        make_pipeline(PCA(3), KernelDensity()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_other_models_are_explained_in_their_own_columns(model):
    explanation = tellwhy.explain(model.fit(X), ODD, background=X)
    assert explanation.values.shape == ODD.shape
    assert explanation.kind == "attribution"
    total = explanation.base_values + explanation.values.sum(axis=1) + explanation.residual
    np.testing.assert_allclose(total, explanation.scores)


def test_any_function_and_an_isolation_forest_name_the_odd_column():
    for model in (IsolationForest(random_state=0).fit(X), lambda rows: np.abs(rows).max(axis=1)):
        assert tellwhy.explain(model, ODD, background=X).values.argmax(axis=1).tolist() == [2, 1]


def test_categories_are_explained_as_one_raw_column():
    colour = np.random.default_rng(1).choice(["red", "blue"], size=len(X))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(colour=colour)
    encode = make_column_transformer((StandardScaler(), list("abcd")), (OneHotEncoder(), ["colour"]))
    model = make_pipeline(encode, SklearnOneClassSVM(nu=0.2)).fit(frame)
    explanation = tellwhy.explain(model, frame.iloc[:6])
    assert explanation.feature_names == ["a", "b", "c", "d", "colour"]
    assert explanation.values.shape == (6, 5)


def test_a_named_method_and_its_parameters():
    detector = KernelDensity().fit(X)
    explanation = tellwhy.explain(detector, ODD, "occlusion", background=X, max_background=4)
    assert explanation.method == "Occlusion"
    assert explanation.params["max_background"] == 4
    assert "chosen" not in explanation.params
    with pytest.raises(InvalidParameter, match="no explainer named 'magic'"):
        tellwhy.explain(detector, ODD, method="magic")
    with pytest.raises(InvalidParameter, match="'max_background' parameter of Occlusion"):
        tellwhy.explain(detector, ODD, "occlusion", background=X, max_background=0)


def test_network_methods_go_by_their_names():
    torch = pytest.importorskip("torch")
    from tellwhy.explainers import LRP

    torch.manual_seed(0)
    model, x = torch.nn.Linear(3, 2).eval(), torch.randn(4, 3)
    expected = LRP(model, rule="z_plus").explain(x)
    for name in ("LRP", "lrp"):
        found = tellwhy.explain(model, x, method=name, rule="z_plus")
        np.testing.assert_array_equal(found.values, expected.values)
    assert tellwhy.explain(model, x, method="excitation_backprop").method == "ExcitationBackprop"
