"""Models of trees through the one-liner: exact, without a background, on the scale that was asked for."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import GradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.explainers import KernelShap, Occlusion, Sensitivity, TreeShapley

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
LABEL = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
ODD = np.array([[0.0, 0.0, 9.0, 0.0]])


def test_an_isolation_forest_needs_no_background():
    found = tellwhy.explain(IsolationForest(random_state=0).fit(X), ODD)
    assert found.method == "TreeShapley"
    assert int(found.values.argmax()) == 2
    assert "training rows" in found.params["ordinary_rows"]
    assert "automatically" in found.params["chosen"]


def test_a_background_is_used_where_it_is_given():
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, X[:, 0])
    found = tellwhy.explain(model, X[:5], background=X[100:])
    np.testing.assert_allclose(found.base_values, model.predict(X[100:]).mean(), rtol=1e-6)
    by_kernel = tellwhy.explain(model, X[:5], "KernelShap", background=X[100:])
    np.testing.assert_allclose(found.values, by_kernel.values, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "output", "method"),
    [
        (RandomForestClassifier(5, random_state=0), "auto", "TreeShapley"),
        (RandomForestClassifier(5, random_state=0), "probability", "TreeShapley"),
        (RandomForestClassifier(5, random_state=0), "margin", "KernelShap"),
        (GradientBoostingClassifier(n_estimators=5, random_state=0), "auto", "TreeShapley"),
        (GradientBoostingClassifier(n_estimators=5, random_state=0), "margin", "TreeShapley"),
        (GradientBoostingClassifier(n_estimators=5, random_state=0), "probability", "KernelShap"),
    ],
)
def test_the_scale_decides_whether_trees_add_up(model, output, method):
    model.fit(X, LABEL)
    found = tellwhy.explain(model, X[:4], background=X, target="up", output=output)
    assert found.method == method
    if output == "probability":
        np.testing.assert_allclose(found.scores, model.predict_proba(X[:4])[:, 1], atol=1e-9)
        np.testing.assert_allclose(found.base_values, model.predict_proba(X)[:, 1].mean(), atol=1e-6)


def test_of_each_row_the_predicted_class():
    model = RandomForestClassifier(5, random_state=0).fit(X, LABEL)
    found = tellwhy.explain(model, X[:20], target="predicted")
    chances = model.predict_proba(X[:20]).max(axis=1)
    np.testing.assert_allclose(found.scores, chances, atol=1e-9)
    assert found.extras["explained"].tolist() == model.predict(X[:20]).tolist()


def test_pipelines_and_searches():
    trees = DecisionTreeRegressor(max_depth=3, random_state=0)
    scaled = make_pipeline(StandardScaler(), trees).fit(X, X[:, 0])
    assert tellwhy.explain(scaled, X[:3]).method == "TreeShapley"
    search = GridSearchCV(trees, {"max_depth": [2]}, cv=2).fit(X, X[:, 0])
    assert tellwhy.explain(search, X[:3]).method == "TreeShapley"
    # one column becomes several: it is explained as a whole
    codes = RNG.integers(0, 3, size=(200, 2))
    encoded = make_pipeline(OneHotEncoder(), trees).fit(codes, codes[:, 0])
    found = tellwhy.explain(encoded, codes[:3], background=codes)
    by_kernel = tellwhy.explain(encoded, codes[:3], "KernelShap", background=codes)
    assert found.method == "TreeShapley"
    np.testing.assert_allclose(found.values, by_kernel.values, atol=1e-9)
    np.testing.assert_allclose(found.values[:, 0], codes[:3, 0] - codes[:, 0].mean(), atol=1e-9)


def test_other_methods_explain_the_models_own_number():
    forest = IsolationForest(random_state=0).fit(X)
    found = tellwhy.explain(forest, ODD, "Occlusion", background=X)
    np.testing.assert_allclose(found.scores, -forest.score_samples(ODD))


def test_backgrounds_are_given_in_the_same_place_as_to_any_method():
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, X[:, 0])
    by_fit = TreeShapley(model).fit(X[100:]).explain(X[:5])
    np.testing.assert_array_equal(by_fit.values, tellwhy.explain(model, X[:5], background=X[100:]).values)
    for cls in (TreeShapley, KernelShap, Occlusion):
        with pytest.raises(InvalidParameter, match=rf"{cls.__name__}\(model\)\.fit\(rows\)"):
            cls(model, background=X[100:])
    with pytest.raises(InvalidParameter, match="Sensitivity compares with no other rows"):
        Sensitivity(model, background=X)


def test_slips_in_the_parameters_of_explainers_are_answered():
    with pytest.raises(InvalidParameter, match=r"no parameter 'n_job'; did you mean 'n_jobs'\?"):
        TreeShapley(None, n_job=2)
    with pytest.raises(InvalidParameter, match=r"KernelShap\(model\)\.explain\(X, progress=True\)"):
        KernelShap(None, progress=True)


def test_sparse_zeros_of_xgboost_are_empty_cells():
    xgboost = pytest.importorskip("xgboost")
    rows = np.where(X > 0.5, X, 0.0)
    sparse = csr_matrix(rows)
    model = xgboost.XGBRegressor(n_estimators=5).fit(sparse, X[:, 0])
    with pytest.raises(InvalidInput, match=r"dense\[dense == 0\] = numpy.nan"):
        tellwhy.explain(model, sparse)
    found = tellwhy.explain(model, np.where(rows == 0, np.nan, rows))
    np.testing.assert_allclose(found.scores, model.predict(sparse), atol=1e-5)
