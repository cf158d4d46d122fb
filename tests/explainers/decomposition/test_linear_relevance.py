import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tellwhy
from tellwhy.classifiers import WestonWatkinsSVM
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.detectors import OneClassSVM
from tellwhy.explainers import LinearRelevance
from tellwhy.explainers.decomposition.linear_relevance import is_linear


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    X[np.arange(60), np.arange(60) % 3] += 3
    return X, y, WestonWatkinsSVM(random_state=0).fit(X, y)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_lead_over_the_runner_up_is_shared_without_rest(fitted, as_rows):
    X, _, model = fitted
    explanation = model.explain(as_rows(X), against="runner_up")
    scores = np.sort(model.decision_function(X), axis=1)
    np.testing.assert_allclose(explanation.scores, scores[:, -1] - scores[:, -2], atol=1e-12)
    np.testing.assert_allclose(explanation.residual, 0, atol=1e-12)
    np.testing.assert_array_equal(explanation.extras["explained"], model.predict(X))
    np.testing.assert_array_equal(explanation.extras["output"], model.decision_function(X).argmax(axis=1))
    assert (explanation.extras["rival"] != explanation.extras["explained"]).all()
    np.testing.assert_array_equal(explanation[3].data, X[[3]])


def test_score_of_the_class_itself_and_of_a_given_one(fitted):
    X, _, model = fitted
    own = model.explain(X, against=None)
    np.testing.assert_allclose(own.scores, model.decision_function(X).max(axis=1), atol=1e-12)
    given = model.explain(X, target="c", against="a")
    scores = model.decision_function(X)
    np.testing.assert_allclose(given.scores, scores[:, 2] - scores[:, 0], atol=1e-12)
    np.testing.assert_allclose(given.values, X * (model.coef_[2] - model.coef_[0]), atol=1e-12)
    np.testing.assert_allclose(given.base_values, model.intercept_[2] - model.intercept_[0])


def test_explainer_equals_the_method_and_takes_sparse_weights(fitted):
    X, _, model = fitted
    expected = model.explain(X)
    found = LinearRelevance(model).explain(X)
    np.testing.assert_array_equal(found.values, expected.values)
    thin = WestonWatkinsSVM(random_state=0).fit(X, fitted[1]).sparsify(0.0)
    np.testing.assert_allclose(LinearRelevance(thin).explain(X).values, expected.values)


def test_binary_scikit_learn_models(fitted):
    X, _, _ = fitted
    model = LogisticRegression().fit(X, X[:, 0] > 1)
    explanation = LinearRelevance(model).explain(X)
    np.testing.assert_allclose(explanation.scores, np.abs(model.decision_function(X)), atol=1e-12)


def test_a_text_by_its_words():
    texts = [
        "red apple pie",
        "green apple tart",
        "fast red car",
        "old car wheel",
        "deep blue sea",
        "sea and sand",
    ]
    model = make_pipeline(TfidfVectorizer(), WestonWatkinsSVM(random_state=0)).fit(texts, [0, 0, 1, 1, 2, 2])
    explanation = LinearRelevance(model).explain(["an apple by the sea", "a car"])
    words = explanation.feature_names
    assert words[explanation.values[1].argmax()] == "car"
    assert {words[j] for j in np.flatnonzero(explanation.values[0])} <= {"apple", "sea"}


def test_the_one_liner_explains_labels(fitted):
    X, y, model = fitted
    assert "LinearRelevance" in set(tellwhy.methods()["name"])
    labels = tellwhy.explain(model, X, method="LinearRelevance")
    np.testing.assert_array_equal(labels.values, model.explain(X).values)
    own = tellwhy.explain(model, X, method="linear_relevance", against=None)
    np.testing.assert_array_equal(own.values, model.explain(X, against=None).values)
    texts = ["red apple", "fast car", "blue sea", "green apple", "old car", "deep sea"]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, list("fcsfcs"))
    assert tellwhy.explain(pipeline, texts).method == "LinearRelevance"
    with pytest.raises(UnsupportedModel, match="linear classifier"):
        tellwhy.explain(DecisionTreeClassifier().fit(X, y), X, method="LinearRelevance")


def test_explanations_of_texts_are_saved(tmp_path):
    texts, labels = (
        np.array(["red apple", "fast car", "blue sea"], dtype=object),
        np.array(["f", "c", "s"], dtype=object),
    )
    model = make_pipeline(TfidfVectorizer(), WestonWatkinsSVM(random_state=0)).fit(texts, labels)
    explanation = LinearRelevance(model).explain(texts)
    again = Explanation.load(explanation.save(tmp_path / "explanation"))
    assert again.data.tolist() == texts.tolist()
    for name in ("output", "explained", "rival"):
        np.testing.assert_array_equal(again.extras[name], explanation.extras[name])
    with pytest.raises(InvalidInput, match=r"Pass \[text\]"):
        LinearRelevance(model).explain("red apple")


def test_columns_in_another_order_are_refused(fitted):
    X, y, _ = fitted
    frame = pd.DataFrame(X, columns=list("abcde"))
    explainer = LinearRelevance(LogisticRegression().fit(frame, y))
    assert explainer.explain(frame).feature_names == list("abcde")
    with pytest.raises(InvalidInput, match="Column 0 of X is 'e'"):
        explainer.explain(frame[list("edcba")])


@pytest.mark.parametrize("model", [len, OneClassSVM(), object()], ids=["function", "detector", "object"])
def test_other_models_are_simply_not_linear(model):
    assert not is_linear(model)


class TestPipelinesOfTables:
    FRAME = pd.DataFrame(
        {
            "size": np.random.default_rng(0).normal(size=90),
            "colour": np.random.default_rng(1).choice(["red", "blue", "green"], 90),
            "age": np.random.default_rng(2).normal(40, 9, size=90),
        }
    )
    Y = np.where(FRAME["colour"] == "red", 0, np.where(FRAME["age"] > 40, 1, 2))

    def test_values_belong_to_the_users_columns(self):
        encode = make_column_transformer((StandardScaler(), ["age", "size"]), (OneHotEncoder(), ["colour"]))
        model = make_pipeline(encode, LogisticRegression()).fit(self.FRAME, self.Y)
        found = LinearRelevance(model, against=None).explain(self.FRAME)
        assert found.feature_names == ["size", "colour", "age"]
        assert found.values.shape == found.data.shape == self.FRAME.shape
        chosen = model.predict(self.FRAME)
        np.testing.assert_allclose(found.scores, model.decision_function(self.FRAME).max(axis=1))
        coef, made = model[-1].coef_, model[0].transform(self.FRAME)
        # age, size, then three colours: the order of the encoder
        np.testing.assert_allclose(found.values[:, 2], coef[chosen, 0] * made[:, 0])
        np.testing.assert_allclose(found.values[:, 0], coef[chosen, 1] * made[:, 1])
        np.testing.assert_allclose(found.values[:, 1], (coef[chosen, 2:] * made[:, 2:]).sum(axis=1))
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-12)

    def test_mixed_columns_come_with_their_own_numbers(self):
        rows = self.FRAME[["size", "age"]].to_numpy()
        model = make_pipeline(PCA(2), LogisticRegression()).fit(rows, self.Y)
        found = LinearRelevance(model).explain(rows)
        assert found.feature_names == ["pca0", "pca1"]
        np.testing.assert_allclose(found.data, model[0].transform(rows))

    def test_names_of_features_keep_them_apart(self):
        model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(self.FRAME[["colour"]], self.Y)
        found = LinearRelevance(model, feature_names=["b", "g", "r"]).explain(self.FRAME[["colour"]])
        assert found.values.shape == (90, 3)
