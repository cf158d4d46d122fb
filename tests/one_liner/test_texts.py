"""Texts through the one-liner: words against the definition of each method, written out with strings."""

import numpy as np
import pytest
from oracles.shapley_oracles import shapley_by_definition
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.explainers.perturbation.text_pieces import text_pieces

TEXTS = ["good film great", "bad film awful", "great fun good", "awful boring bad"] * 4
LABELS = ["good", "bad"] * 8
ASKED = ["a great film, not bad", "boring", "fun fun"]
WORDS = [["a", "great", "film", ",", "not", "bad"], ["boring"], ["fun", "fun"]]


def shouting(texts):
    """Not additive: what two words do together belongs to both."""
    return [len(text) + 5.0 * ("not" in text and "bad" in text) for text in texts]


def written(words, kept):
    return " ".join(word for place, word in enumerate(words) if place in kept).replace(" ,", ",")


@pytest.mark.parametrize("method", ["auto", "shap", "KernelShap"])
def test_words_have_their_shapley_values(method):
    found = tellwhy.explain(shouting, ASKED, method)
    for row, words in enumerate(WORDS):
        exact = shapley_by_definition(lambda S, w=words: shouting([written(w, S)])[0], len(words))
        np.testing.assert_allclose(found.values[row, : len(words)], exact, atol=1e-9)
        assert not found.values[row, len(words) :].any()
    np.testing.assert_allclose(found.scores, shouting(ASKED))
    assert [[word for word in row if word] for row in found.data] == WORDS


def test_a_word_that_is_left_out_costs_what_occlusion_says():
    found = tellwhy.explain(shouting, ASKED[:1], "Occlusion")
    every = set(range(6))
    one_less = [shouting([written(WORDS[0], every - {word})])[0] for word in range(6)]
    np.testing.assert_allclose(found.values[0], shouting(ASKED[:1])[0] - np.array(one_less))


def test_lime_gives_a_linear_function_of_words_back():
    counted = lambda texts: [3.0 * ("great" in text) - 2.0 * ("film" in text) for text in texts]  # noqa: E731
    found = tellwhy.explain(counted, ASKED[:1], "Lime")
    np.testing.assert_allclose(found.values[0], [0, 3, -2, 0, 0, 0], atol=1e-6)


def test_what_replaces_a_word_and_how_texts_are_cut():
    masked = []

    def note(texts):
        masked.extend(texts)
        return [float(len(text)) for text in texts]

    tellwhy.explain(note, ["one two"], baseline="[MASK]")
    assert set(masked) == {"one two", "one [MASK]", "[MASK] two", "[MASK] [MASK]"}
    masked.clear()
    by_sentence = tellwhy.explain(note, ["It rains. I stay in."], pieces="sentences")
    assert by_sentence.data.tolist() == [["It rains.", "I stay in."]]
    assert set(masked) == {"It rains. I stay in.", "It rains.", "I stay in.", ""}
    own = tellwhy.explain(note, ["a-b"], pieces=lambda text: text.split("-"))
    assert own.data.tolist() == [["a", "b"]]
    with pytest.raises(InvalidParameter, match="does not stand in the text"):
        tellwhy.explain(note, ["a b"], pieces=lambda _: ["c"])


def test_scripts_without_spaces_are_cut_by_character():
    assert text_pieces("天気 is好き, isn't it?").written == [
        "天",
        "気",
        "is",
        "好",
        "き",
        ",",
        "isn't",
        "it",
        "?",
    ]


MODELS = {
    "hashes": make_pipeline(HashingVectorizer(n_features=64), LogisticRegression()),
    "forest": make_pipeline(TfidfVectorizer(), RandomForestClassifier(5, random_state=0)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["good", "bad"])
def test_pipelines_of_texts_are_explained_by_the_probability_that_is_asked_for(name, target):
    model = MODELS[name].fit(TEXTS, LABELS)
    place = list(model.classes_).index(target)
    found = tellwhy.explain(model, ASKED, output="probability", target=target)
    np.testing.assert_allclose(found.scores, model.predict_proba(ASKED)[:, place])
    np.testing.assert_allclose(found.base_values, model.predict_proba([",", "", ""])[:, place], atol=0.3)
    assert found.extras["explained"].tolist() == [target] * 3
    by_method = tellwhy.explain(model.predict_proba, ASKED, target=target)
    np.testing.assert_allclose(by_method.values, found.values)


def test_weights_are_read_where_nothing_else_is_asked():
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, LABELS)
    assert tellwhy.explain(model, ASKED).method == "LinearRelevance"
    for asked in ({"pieces": "words"}, {"output": "probability"}, {"method": "shap"}):
        assert tellwhy.explain(model, ASKED, **asked).method == "KernelShap"


def test_regressors_and_detectors_of_texts():
    ridge = make_pipeline(TfidfVectorizer(), Ridge()).fit(TEXTS, np.arange(16.0))
    np.testing.assert_allclose(tellwhy.explain(ridge, ASKED).scores, ridge.predict(ASKED))
    svm = make_pipeline(TfidfVectorizer(), OneClassSVM()).fit(TEXTS)
    found = tellwhy.explain(svm, [*TEXTS[:2], "film of another kind"])
    assert found.params["task"] == "anomaly"
    assert found.scores[2] > found.scores[:2].max()
    with pytest.raises(InvalidParameter, match="one anomaly score"):
        tellwhy.explain(svm, ASKED, target=1)


class Pipeline:
    """What `transformers.pipeline("text-classification")` gives, by the name of its class."""

    def _sanitize_parameters(self, top_k=None, function_to_apply=None):
        raise NotImplementedError

    def __call__(self, texts, top_k=1, function_to_apply="softmax"):
        assert top_k is None
        shift = 0.5 if function_to_apply == "softmax" else 0.0
        scores = [0.1 * text.count("good") + shift for text in texts]
        return [[{"label": "POS", "score": s}, {"label": "NEG", "score": 1.0 - s}] for s in scores]


Pipeline.__module__ = "transformers.pipelines.base"


def test_pipelines_of_transformers_have_labels():
    found = tellwhy.explain(Pipeline(), ["good film good"])
    np.testing.assert_allclose(found.values, [[0.1, 0.0, 0.1]], atol=1e-12)
    assert found.params["explains"] == "probability of class 'POS'"
    other = tellwhy.explain(Pipeline(), ["good film good"], target="NEG", output="margin")
    np.testing.assert_allclose(other.scores, [0.8])
    one_label = lambda texts: [{"label": "POS", "score": 1.0} for _ in texts]  # noqa: E731
    with pytest.raises(InvalidInput, match="scores of all labels"):
        tellwhy.explain(one_label, ["good"])


def test_words_go_with_the_explanation(tmp_path):
    found = tellwhy.explain(shouting, ASKED)
    again = tellwhy.Explanation.load(found.save(tmp_path / "kept"))
    assert str(again) == str(found)
    assert "\n2" in str(found)
    assert "bad +" in str(found)
    assert "boring" in found._repr_html_()
    notes = [note.text for note in tellwhy.plot.text(found, 2).layout.annotations]
    assert notes == ["fun", "fun"]


def test_shap_gets_the_words():
    pytest.importorskip("shap")
    found = tellwhy.explain(shouting, ASKED)
    theirs = found.to_shap()
    assert [list(row) for row in theirs.data] == WORDS
    for row in range(3):
        assert len(theirs.values[row]) == len(WORDS[row])
        np.testing.assert_allclose(theirs.values[row].sum() + theirs.base_values[row], found.scores[row])


@pytest.mark.parametrize(
    ("texts", "further", "error", "words"),
    [
        (["one", ""], {}, InvalidInput, "Text 1 of X is empty"),
        (["one"], {"background": ["two"]}, InvalidParameter, "a background would be ignored"),
        (["one"], {"method": "AnomalyShapley"}, UnsupportedModel, "does not explain texts"),
        (["one"], {"method": "tried"}, InvalidParameter, "X holds texts"),
        (["one"], {"target": 0}, InvalidParameter, "would change nothing"),
        (["one"], {"output": "margin"}, InvalidParameter, "would change nothing"),
        (["one"], {"pieces": "letters"}, InvalidParameter, "The 'pieces' parameter"),
        (["one"], {"n_sets": 4}, InvalidParameter, "n_sets"),
    ],
)
def test_what_cannot_be_done_with_texts_is_told(texts, further, error, words):
    with pytest.raises(error, match=words):
        tellwhy.explain(shouting, texts, **further)


def test_a_text_without_words_has_its_score_alone():
    found = tellwhy.explain(lambda texts: [7.0] * len(texts), ["one", "\u200b"])
    assert found.scores.tolist() == [7.0, 7.0]
    assert not found.values.any()
