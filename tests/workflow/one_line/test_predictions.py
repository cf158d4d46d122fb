"""Predictions of classifiers, regressors and functions: which number, for which class, against which base."""

import numpy as np
import pandas as pd
import pytest
from oracles.shapley_oracles import shapley_by_definition
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import IsolationForest, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.explainers import TreeShapley

D, Y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
D = D[["age", "bmi", "bp", "s5"]]
IRIS, SPECIES = load_iris(return_X_y=True, as_frame=True)
SPECIES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
SMALL = IRIS.iloc[::7]


def by_definition(function, x, background):
    """Shapley values of a function of arrays, with every background row as a reference."""

    def worth(members):
        inside = np.array([i in members for i in range(len(x))])
        return float(np.mean(function(np.where(inside, x, background))))

    return shapley_by_definition(worth, len(x)), worth(frozenset())


class TestRegressors:
    @pytest.mark.parametrize("given", ["model", "predict"])
    def test_a_linear_regression_gives_its_exact_shares(self, given):
        model = LinearRegression().fit(D, Y)
        found = tellwhy.explain(getattr(model, given, model), D)
        exact = model.coef_ * (D - D.mean()).to_numpy()
        np.testing.assert_allclose(found.values, exact, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.base_values, model.predict(D).mean(), rtol=1e-12)
        np.testing.assert_allclose(found.scores, model.predict(D), rtol=1e-12)
        assert found.method == "LinearShapley"
        assert found.feature_names == list(D.columns)

    def test_a_function_with_the_task_prediction_gives_the_same(self):
        model = LinearRegression().fit(D, Y)
        found = tellwhy.explain(
            lambda rows: 1.0 * model.predict(rows), D.iloc[:3], background=D, task="prediction"
        )
        exact = model.coef_ * (D.iloc[:3] - D.mean()).to_numpy()
        np.testing.assert_allclose(found.values, exact, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize(
        "model",
        [
            DecisionTreeRegressor(max_depth=4, random_state=0),
            PoissonRegressor(),
            MLPRegressor(hidden_layer_sizes=(5,), max_iter=50),
        ],
        ids=lambda m: type(m).__name__,
    )
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_against_enumeration(self, model):
        model.fit(D.to_numpy(), Y)
        background = D.to_numpy()[:40]
        found = tellwhy.explain(model, D.to_numpy()[50:52], "KernelShap", background=background)
        for i in range(2):
            exact, base = by_definition(model.predict, D.to_numpy()[50 + i], background)
            np.testing.assert_allclose(found.values[i], exact, rtol=1e-6, atol=1e-6)
            assert found.base_values[i] == pytest.approx(base)

    def test_weights_behind_a_link_are_not_taken_for_the_prediction(self):
        model = PoissonRegressor().fit(D.to_numpy(), Y)
        found = tellwhy.explain(model, D.to_numpy()[50:51], background=D.to_numpy()[:30])
        assert found.method == "KernelShap"
        exact, _ = by_definition(model.predict, D.to_numpy()[50], D.to_numpy()[:30])
        np.testing.assert_allclose(found.values[0], exact, rtol=1e-6, atol=1e-6)

    def test_several_outputs_are_chosen_by_number(self):
        model = Ridge().fit(D, np.column_stack([Y, -2 * Y]))
        one = tellwhy.explain(model, D, target=0)
        two = tellwhy.explain(model, D, target=1)
        np.testing.assert_allclose(two.values, -2 * one.values, rtol=1e-6)
        with pytest.raises(InvalidParameter, match=r"2 outputs per row.*target=0, …, target=1"):
            tellwhy.explain(model, D)
        with pytest.raises(InvalidParameter, match="out of range"):
            tellwhy.explain(model, D, target=2)


class TestClassifiers:
    def test_the_predicted_class_is_explained_and_named(self):
        model = GaussianNB().fit(IRIS, SPECIES)
        found = tellwhy.explain(model, SMALL, background=IRIS)
        assert found.extras["explained"].tolist() == model.predict(SMALL).tolist()
        rows = np.arange(len(SMALL))
        np.testing.assert_allclose(found.scores, model.predict_proba(SMALL)[rows, found.extras["output"]])
        means = model.predict_proba(IRIS).mean(axis=0)
        np.testing.assert_allclose(found.base_values, means[found.extras["output"]])
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-12)
        assert found.params["explains"] == "probability of the predicted class by GaussianNB"

    def test_against_enumeration_for_each_class(self):
        rows, background = IRIS.to_numpy()[:1], IRIS.to_numpy()[::10]
        model = GaussianNB().fit(IRIS.to_numpy(), SPECIES)
        for number, name in enumerate(model.classes_):
            found = tellwhy.explain(model, rows, background=background, target=name)
            exact, base = by_definition(lambda r, k=number: model.predict_proba(r)[:, k], rows[0], background)
            np.testing.assert_allclose(found.values[0], exact, atol=1e-9)
            assert found.base_values[0] == pytest.approx(base)

    def test_margins_and_probabilities(self):
        model = LogisticRegression(max_iter=500).fit(IRIS, SPECIES)
        margin = tellwhy.explain(model, SMALL, background=IRIS, target="virginica")
        np.testing.assert_allclose(margin.scores, model.decision_function(SMALL)[:, 2])
        np.testing.assert_allclose(margin.values, model.coef_[2] * (SMALL - IRIS.mean()).to_numpy())
        chance = tellwhy.explain(model, SMALL, background=IRIS, target="virginica", output="probability")
        np.testing.assert_allclose(chance.scores, model.predict_proba(SMALL)[:, 2])
        np.testing.assert_allclose(chance.base_values, model.predict_proba(IRIS)[:, 2].mean())
        by_method = tellwhy.explain(model.predict_proba, SMALL, background=IRIS, target="virginica")
        np.testing.assert_array_equal(by_method.values, chance.values)

    def test_two_classes_have_opposite_margins(self):
        model = LogisticRegression(max_iter=500).fit(IRIS[:100], SPECIES[:100])
        rows = IRIS[:100]
        first, second = (tellwhy.explain(model, rows, target=name) for name in model.classes_)
        np.testing.assert_allclose(first.values, -second.values)
        np.testing.assert_allclose(second.scores, model.decision_function(rows))

    def test_a_function_is_explained_as_the_function_it_is(self):
        rows, background = IRIS.to_numpy()[40:44], IRIS.to_numpy()[::10]
        numbers = IRIS.index.to_numpy() // 50
        two = LogisticRegression(max_iter=500).fit(IRIS.to_numpy()[:100], numbers[:100])
        forest = RandomForestClassifier(10, random_state=0).fit(IRIS.to_numpy(), numbers)
        for function in (two.decision_function, two.predict, forest.predict):
            found = tellwhy.explain(function, rows, background=background)
            np.testing.assert_allclose(found.scores, function(rows))
            exact, base = by_definition(function, rows[0], background)
            np.testing.assert_allclose(found.values[0], exact, atol=1e-9)
            assert found.base_values[0] == pytest.approx(base)

    def test_labels_are_no_numbers_and_methods_have_one_output(self):
        model = LogisticRegression(max_iter=500).fit(IRIS, SPECIES)
        with pytest.raises(InvalidInput, match=r"expected numbers\. Pass the classifier itself"):
            tellwhy.explain(model.predict, SMALL[:2], background=IRIS[::5])
        with pytest.raises(InvalidParameter, match=r"does not go with LogisticRegression\.decision_function"):
            tellwhy.explain(model.decision_function, SMALL, background=IRIS, output="probability")

    def test_of_two_classes_the_second_is_explained_in_every_row(self):
        rows, labels = IRIS[:100], SPECIES[:100]
        for model in (LogisticRegression(max_iter=500), GaussianNB(), RandomForestClassifier(5)):
            model.fit(rows, labels)
            found = tellwhy.explain(model, rows[::9], background=rows)
            assert set(found.extras["explained"]) == {model.classes_[1]}
        of_trees = TreeShapley(model).fit(rows).explain(rows[::9])
        np.testing.assert_allclose(found.values, of_trees.values)
        predicted = tellwhy.explain(model, rows[::9], background=rows, target="predicted")
        assert set(predicted.extras["explained"]) == set(model.classes_)

    def test_a_classifier_without_scores_is_explained_by_its_votes(self):
        model = VotingClassifier([("a", GaussianNB()), ("b", KNeighborsClassifier())]).fit(IRIS, SPECIES)
        found = tellwhy.explain(model, SMALL[:3], background=IRIS)
        assert set(found.scores) == {1.0}
        assert "whether VotingClassifier predicts" in found.params["explains"]

    def test_numbers_as_classes_are_chosen_as_they_are(self):
        model = GaussianNB().fit(IRIS, np.where(SPECIES == "setosa", 7, 9))
        found = tellwhy.explain(model, SMALL, background=IRIS, target=9)
        np.testing.assert_allclose(found.scores, model.predict_proba(SMALL)[:, 1])
        with pytest.raises(InvalidParameter, match="There is no class 1"):
            tellwhy.explain(model, SMALL, background=IRIS, target=1)

    def test_a_model_that_keeps_its_rows_needs_no_background(self):
        model = KNeighborsClassifier().fit(IRIS.to_numpy(), SPECIES)
        found = tellwhy.explain(model, SMALL.to_numpy()[:2])
        assert "the model keeps" in found.params["ordinary_rows"]
        np.testing.assert_allclose(found.base_values, 1 / 3, atol=0.02)

    def test_searches_and_pipelines(self):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        search = GridSearchCV(pipeline, {"logisticregression__C": [1.0]}, cv=2).fit(IRIS, SPECIES)
        found = tellwhy.explain(search, SMALL, background=IRIS, target="setosa")
        np.testing.assert_allclose(found.scores, search.decision_function(SMALL)[:, 0])
        np.testing.assert_allclose(found.base_values, search.decision_function(IRIS)[:, 0].mean())
        assert found.method == "LinearShapley"

    def test_encoded_columns_are_added_up_in_the_users_own(self):
        frame = IRIS.assign(colour=np.where(IRIS.iloc[:, 0] > 5.5, "red", "blue"))
        encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
        model = make_pipeline(encode, LogisticRegression(max_iter=2000)).fit(frame, SPECIES)
        found = tellwhy.explain(model, frame[:4], background=frame, target="setosa")
        assert found.feature_names == list(frame.columns)
        exact, _ = by_definition_of_frame(model, frame[:4], frame)
        np.testing.assert_allclose(found.values, exact, atol=1e-6)


def by_definition_of_frame(model, rows, background):
    """Shapley values of the first class's margin, from frames made cell by cell."""
    values = []
    for x in range(len(rows)):

        def worth(members, x=x):
            mixed = background.copy()
            for c in members:
                mixed[background.columns[c]] = rows.iloc[x, c]
            return float(model.decision_function(mixed)[:, 0].mean())

        values.append(shapley_by_definition(worth, rows.shape[1]))
    return np.array(values), None


class TestOtherLibraries:
    def test_xgboost(self):
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(n_estimators=8, max_depth=3).fit(IRIS, IRIS.index // 50)
        found = tellwhy.explain(model, SMALL[:2], "KernelShap", background=IRIS, target=0)
        np.testing.assert_allclose(
            found.scores, model.predict(SMALL[:2], output_margin=True)[:, 0], rtol=1e-5
        )
        two = xgboost.XGBClassifier(n_estimators=8).fit(IRIS[:100], IRIS.index[:100] // 50)
        found = tellwhy.explain(two, SMALL[:2], "KernelShap", background=IRIS, target=1)
        np.testing.assert_allclose(found.scores, two.predict(SMALL[:2], output_margin=True), rtol=1e-5)

    def test_lightgbm_with_categories(self):
        lightgbm = pytest.importorskip("lightgbm")
        frame = IRIS.assign(kind=pd.Categorical(np.where(np.arange(150) % 3, "a", "b")))
        model = lightgbm.LGBMRegressor(n_estimators=8, verbose=-1, min_child_samples=5)
        model.fit(
            frame.drop(columns="petal width (cm)"), frame["petal width (cm)"] + (np.arange(150) % 3 > 0)
        )
        rows = frame.drop(columns="petal width (cm)")
        found = tellwhy.explain(model, rows[:3], "KernelShap", background=rows)
        np.testing.assert_allclose(found.scores, model.predict(rows[:3]))
        np.testing.assert_allclose(found.base_values, model.predict(rows).mean(), rtol=1e-9)
        assert np.abs(found.values[:, 3]).max() > 0.1

    def test_what_is_written_like_a_classifier(self):
        class Foreign:
            classes_ = ("no", "yes")

            def predict_proba(self, rows):
                p = 1 / (1 + np.exp(-np.asarray(rows)[:, 0]))
                return np.column_stack([1 - p, p])

            def predict(self, rows):
                return np.array(self.classes_)[self.predict_proba(rows).argmax(axis=1)]

        rows = np.random.default_rng(0).normal(size=(60, 3))
        found = tellwhy.explain(Foreign(), rows)
        assert (np.abs(found.values).argmax(axis=1) == 0).mean() > 0.95
        np.testing.assert_allclose(found.values[:, 1:], 0.0, atol=1e-12)

    def test_what_has_a_prediction_and_nothing_else_is_a_regressor(self):
        class Plain:
            def predict(self, rows):
                return 2.0 * np.asarray(rows)[:, 1]

        found = tellwhy.explain(Plain(), D[:3], background=D)
        np.testing.assert_allclose(found.values[:, 1], 2 * (D["bmi"] - D["bmi"].mean())[:3], rtol=1e-6)
        np.testing.assert_allclose(found.values[:, [0, 2, 3]], 0.0, atol=1e-9)


class TestWhatIsNotOne:
    def test_methods_of_a_detector_are_refused_for_their_sign(self):
        detector = IsolationForest(random_state=0).fit(IRIS.to_numpy())
        with pytest.raises(
            UnsupportedModel, match=r"score_samples is low for anomalies.*the detector itself"
        ):
            tellwhy.explain(detector.score_samples, IRIS.to_numpy())

    def test_methods_that_look_for_lower_scores_refuse_predictions(self):
        model = LinearRegression().fit(D, Y)
        for method in ("AnomalyShapley", "AnomalyContribution", "Compensation"):
            with pytest.raises(UnsupportedModel, match=rf"{method} asks.*is a prediction"):
                tellwhy.explain(model, D, method)

    def test_an_anomaly_score_has_no_classes(self):
        with pytest.raises(InvalidParameter, match="target='a' chooses an output"):
            tellwhy.explain(lambda rows: rows.sum(axis=1), IRIS.to_numpy(), target="a")

    def test_labels_are_no_numbers(self):
        with pytest.raises(InvalidInput, match="expected numbers"):
            tellwhy.explain(lambda rows: np.full(len(rows), "a"), IRIS.to_numpy(), task="prediction")

    def test_probabilities_of_a_model_that_has_none(self):
        with pytest.raises(InvalidParameter, match="SVC gives no probabilities"):
            tellwhy.explain(SVC().fit(IRIS, SPECIES), IRIS, output="probability")


def test_views_do_not_call_high_predictions_odd():
    from tellwhy.views.plots.style import is_anomaly

    def function(rows):
        return np.asarray(rows)[:, 0] * 1.0

    assert not is_anomaly(tellwhy.explain(LinearRegression().fit(D, Y), D))
    assert not is_anomaly(tellwhy.explain(function, D, task="prediction"))
    assert not is_anomaly(tellwhy.explain(DecisionTreeRegressor(max_depth=2).fit(D, Y), D))
    assert is_anomaly(tellwhy.explain(function, D))
    assert is_anomaly(tellwhy.explain(IsolationForest(n_estimators=5).fit(D), D))


def test_a_sample_of_a_large_background_is_said_and_near_the_whole():
    background = np.random.default_rng(0).normal(size=(3000, 10))

    def function(rows):
        return rows[:, 0] * rows[:, 1] + rows[:, 2] ** 2

    found = tellwhy.explain(function, background[:1] + 1.0, background=background, task="prediction")
    assert found.params["baseline"] == "128 of 3000 rows, drawn at random"
    spread = np.std(function(background)) / np.sqrt(128)
    assert abs(found.base_values[0] - function(background).mean()) < 4 * spread
    few = tellwhy.explain(function, background[:1], background=background[:100], task="prediction")
    assert few.params["baseline"] == "sample"
    assert few.base_values[0] == pytest.approx(function(background[:100]).mean())
