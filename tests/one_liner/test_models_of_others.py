"""Models and tables of other libraries that need a form of their own."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.svm import OneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.explainers import OneClassDTD

X = np.random.default_rng(0).normal(size=(150, 3))
CLASSES = (X[:, 0] + X[:, 1] > 0).astype(int)


def test_a_table_of_arrow_keeps_its_names():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({name: X[:, place] for place, name in enumerate("abc")})
    model = OneClassSVM().fit(X)
    found = tellwhy.explain(model, table)
    assert found.names() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.values, tellwhy.explain(model, X).values)
    by_class = OneClassDTD(model).explain(table)
    assert by_class.names() == ["a", "b", "c"]
    assert by_class[:2].data.num_rows == 2


@pytest.mark.parametrize("degree", [2, 3])
def test_a_score_without_an_end_is_compared_with_ordinary_rows(degree):
    model = OneClassSVM(kernel="poly", degree=degree).fit(X)
    rows = np.vstack([X[:3], np.full((1, 3), 6.0)])
    found = tellwhy.explain(model, rows, background=X)
    assert found.method == "KernelShap"
    np.testing.assert_allclose(found.scores, -model.score_samples(rows))
    np.testing.assert_allclose(found.base_values, -model.score_samples(X).mean())
    with pytest.raises(UnsupportedModel, match="falls without end"):
        tellwhy.explain(model, rows, "AnomalyShapley", background=X)


OBJECTIVES = {"binary:logistic": CLASSES, "multi:softprob": np.digitize(X[:, 0], [-0.5, 0.5])}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_boosters_of_xgboost_give_probabilities_and_margins(objective):
    xgboost = pytest.importorskip("xgboost")
    labels = OBJECTIVES[objective]
    several = {"num_class": 3} if labels.max() > 1 else {}
    booster = xgboost.train({"objective": objective, **several}, xgboost.DMatrix(X, label=labels), 4)
    chance = booster.predict(xgboost.DMatrix(X[:3]))
    chance = chance if chance.ndim == 1 else chance[:, 1]
    found = tellwhy.explain(booster, X[:3], output="probability", target=1, background=X)
    np.testing.assert_allclose(found.scores, chance, rtol=1e-5)
    margin = tellwhy.explain(booster, X[:3], output="margin", target=1, background=X)
    assert (found.method, margin.method) == ("KernelShap", "TreeShapley")
    by_name = tellwhy.explain(booster, X[:3], "KernelShap", output="margin", target=1, background=X)
    np.testing.assert_allclose(by_name.values, margin.values, atol=1e-5)


@pytest.mark.parametrize("objective", ["reg:squarederror", "count:poisson"])
def test_boosters_of_numbers(objective):
    xgboost = pytest.importorskip("xgboost")
    booster = xgboost.train({"objective": objective}, xgboost.DMatrix(X, label=np.abs(X[:, 0])), 4)
    found = tellwhy.explain(booster, X[:3], "KernelShap", background=X)
    np.testing.assert_allclose(found.scores, booster.predict(xgboost.DMatrix(X[:3])), rtol=1e-5)
    with pytest.raises(InvalidParameter, match="predicts a number"):
        tellwhy.explain(booster, X[:3], output="probability", background=X)


@pytest.mark.filterwarnings("ignore")
def test_a_fitted_detector_without_a_threshold_is_fitted():
    pytest.importorskip("xgboost")
    module = pytest.importorskip("pyod.models.xgbod")
    from pyod.models.knn import KNN

    model = module.XGBOD(estimator_list=[KNN()], standardization_flag_list=[True], random_state=0)
    model.fit(X, (np.arange(len(X)) < 10).astype(int))
    found = tellwhy.explain(model, X[:3], background=X)
    np.testing.assert_allclose(found.scores, model.decision_function(X[:3]), rtol=1e-6)


def test_a_class_is_known_by_what_equals_it():
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=3).fit(X, CLASSES.astype(bool))
    found = tellwhy.explain(model, X[:3])
    np.testing.assert_array_equal(found.of_class(True).values, found.values)
    np.testing.assert_array_equal(found.of_class(False).values, -found.values)
    with pytest.raises(InvalidInput, match="There is no class 2"):
        found.of_class(2)


def test_a_linear_model_of_numbers_is_told_that_it_has_no_probability():
    with pytest.raises(InvalidParameter, match="LinearRegression predicts a number"):
        tellwhy.explain(LinearRegression().fit(X, X[:, 0]), X[:2], background=X, output="probability")
