"""Rows of a classifier of two classes in terms of one of them."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation_parts import complement_of

X = np.random.default_rng(0).normal(size=(120, 4))
TWO = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, "yes", "no")
MODELS = [
    GradientBoostingClassifier(n_estimators=8, random_state=0),
    RandomForestClassifier(8, random_state=0),
    LogisticRegression(),
    KNeighborsClassifier(),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


@pytest.mark.parametrize("output", ["auto", "probability"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_turned_around_it_is_what_that_class_would_have_got(model, output):
    model.fit(X, TWO)
    predicted = tellwhy.explain(model, X[:25], background=X[50:90], output=output, target="predicted")
    assert set(predicted.extras["explained"]) == {"no", "yes"}
    for label in ("no", "yes"):
        asked = tellwhy.explain(model, X[:25], background=X[50:90], output=output, target=label)
        for found in (predicted.of_class(label), asked.of_class("no").of_class(label)):
            np.testing.assert_allclose(found.values, asked.values, atol=1e-12)
            np.testing.assert_allclose(found.scores, asked.scores, atol=1e-12)
            np.testing.assert_allclose(found.base_values, asked.base_values, atol=1e-12)
            np.testing.assert_allclose(found.residual, 0.0, atol=1e-12)
            assert set(found.extras["explained"]) == {label}
            assert found.params["explains"] == asked.params["explains"]


def test_interactions_turn_around_with_values():
    model = GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, TWO)
    found = tellwhy.explain(model, X[:25], interactions=True, target="predicted").of_class("yes")
    np.testing.assert_allclose(found.extras["interactions"].sum(axis=2), found.values, atol=1e-12)


def test_labels_may_be_truth_values_or_numbers():
    model = LogisticRegression().fit(X, TWO == "yes")
    found = tellwhy.explain(model, X[:25], background=X, target="predicted").of_class(True)
    np.testing.assert_allclose(found.scores, model.decision_function(X[:25]))


def test_it_survives_a_folder(tmp_path):
    model = LogisticRegression().fit(X, TWO)
    found = tellwhy.explain(model, X[:25], background=X)
    loaded = tellwhy.Explanation.load(found.save(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.of_class("yes").values, found.of_class("yes").values)


def test_others_are_answered():
    three = LogisticRegression().fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    with pytest.raises(InvalidInput, match=r"target=1\)"):
        tellwhy.explain(three, X[:25], background=X).of_class(1)
    two = LogisticRegression().fit(X, TWO)
    with pytest.raises(InvalidInput, match=r"no class 'maybe'\. The classes are no, yes"):
        tellwhy.explain(two, X[:25], background=X).of_class("maybe")


def test_only_outputs_that_add_up_to_a_constant_are_each_others_complement():
    assert complement_of(np.array([[-2.0, 2.0], [0.5, -0.5]])) == 0.0
    assert complement_of(np.array([[0.3, 0.7], [0.4, 0.6]], dtype=np.float32)) == 1.0
    assert complement_of(np.array([[0.3, 0.7], [0.4, 0.7]])) is None
    assert complement_of(np.array([[0.3, 0.3, 0.4]])) is None
