"""An explainer of a model that was fitted again explains the model as it is, or says that it cannot."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture as SklearnMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tellwhy.core.errors import InvalidInput
from tellwhy.detectors import GaussianMixture, KernelDensity, NearestNeighbours
from tellwhy.explainers import AnomalyShapley, KernelShap, OneClassDTD, Sensitivity
from tellwhy.explainers.base import find_changed_names, read_fitted_state

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
OTHER = RNG.normal(size=(80, 3)) * [5.0, 0.1, 1.0]
NEW = X[:3] + np.array([0.0, 4.0, 0.0])
MODELS = {
    "ours": KernelDensity,
    "mixture": lambda: GaussianMixture(1, random_state=0),
    "scikit-learn's": lambda: SklearnMixture(1, random_state=0),
    "a forest": lambda: IsolationForest(n_estimators=10, random_state=0),
    "a pipeline": lambda: make_pipeline(StandardScaler(), SklearnMixture(1, random_state=0)),
}
every_model = pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)


@every_model
def test_what_was_learned_from_a_background_belongs_to_the_model_of_then(made):
    model = made().fit(X)
    explainer = KernelShap(model).fit(X)
    before = explainer.explain(NEW)
    model.fit(OTHER)
    for _ in range(2):  # it does not forget
        with pytest.raises(InvalidInput, match="was fitted again after the fit of this KernelShap"):
            explainer.explain(NEW)
    again = explainer.fit(OTHER).explain(NEW)
    fresh = KernelShap(model).fit(OTHER).explain(NEW)
    np.testing.assert_array_equal(again.values, fresh.values)
    assert not np.array_equal(again.scores, before.scores)


@every_model
def test_a_fit_that_finds_the_same_changes_nothing(made):
    model = made().fit(X)
    if "forest" in str(model).lower():
        pytest.skip("trees cannot be compared")
    explainer = AnomalyShapley(model).fit(X)
    before = explainer.explain(NEW).values
    model.fit(X)
    np.testing.assert_array_equal(explainer.explain(NEW).values, before)


def test_an_explainer_without_a_background_reads_the_model_anew():
    model = KernelDensity().fit(X)
    explainer = OneClassDTD(model)
    before = explainer.explain(NEW)
    model.fit(OTHER)
    again = explainer.explain(NEW)
    np.testing.assert_array_equal(again.values, OneClassDTD(model).explain(NEW).values)
    assert not np.array_equal(again.scores, before.scores)


def test_a_model_that_is_fitted_after_the_explainer_is_made():
    model = KernelDensity()
    explainer = OneClassDTD(model)
    model.fit(X)
    explainer.explain(NEW)
    model.fit(OTHER)
    np.testing.assert_array_equal(explainer.explain(NEW).scores, model.outlierness(NEW))


def test_a_threshold_is_no_fit():
    model = NearestNeighbours().fit(X)
    explainer = AnomalyShapley(model).fit(X)
    values = explainer.explain(NEW).values
    model.set_threshold(value=0.5)
    np.testing.assert_array_equal(explainer.explain(NEW).values, values)
    assert explainer.score.threshold == 0.5


def test_functions_and_models_without_a_state():
    explainer = KernelShap(lambda rows: rows.sum(axis=1)).fit(X)
    np.testing.assert_array_equal(explainer.explain(NEW).values, explainer.explain(NEW).values)
    assert read_fitted_state(len) == {}
    assert find_changed_names({}, len) == []


def test_states_are_told_apart_by_what_they_hold():
    model = NearestNeighbours().fit(X)
    before = read_fitted_state(model)
    assert find_changed_names(before, model) == []
    model.training_scores_ = model.training_scores_.copy()
    assert find_changed_names(before, model) == []
    model.training_scores_ = model.training_scores_ + 1
    assert find_changed_names(before, model) == ["training_scores_"]
    del model.training_scores_
    assert find_changed_names(before, model) == ["training_scores_"]


def test_sensitivity_after_a_new_fit():
    model = GaussianMixture(1, random_state=0).fit(X)
    explainer = Sensitivity(model)
    explainer.explain(NEW)
    model.fit(OTHER)
    np.testing.assert_allclose(explainer.explain(NEW).scores, model.outlierness(NEW))
