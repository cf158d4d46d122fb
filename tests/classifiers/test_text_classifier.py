"""Texts classified by their words: scikit-learn's own weights, saved and loaded, bad texts named by row."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from storage.changed_files import members_of, pack
from tellwhy.classifiers import CrammerSingerSVM, TextClassifier, WestonWatkinsSVM, load
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile

TEXTS = [
    "The engine will not start",
    "New brakes for my old car",
    "A rocket to the moon, a new moon",
    "Orbit of the moon",
    "The goalie saved the puck",
    "They lost on the ice",
]
LABELS = ["autos", "autos", "space", "space", "hockey", "hockey"]


@pytest.mark.parametrize("ngrams", [1, 2])
def test_features_are_those_of_scikit_learn(ngrams):
    model = TextClassifier(ngrams=ngrams).fit(TEXTS, LABELS)
    peer = TfidfVectorizer(ngram_range=(1, ngrams), sublinear_tf=True).fit(TEXTS)
    unseen = ["the puck on the moon moon", "Ünknown wörds only", ""]
    np.testing.assert_allclose(
        model.transform(unseen).toarray(), peer.transform(unseen).toarray(), atol=1e-15
    )
    assert model.get_feature_names_out().tolist() == peer.get_feature_names_out().tolist()
    svm = WestonWatkinsSVM(random_state=0).fit(peer.transform(TEXTS), LABELS)
    np.testing.assert_allclose(
        model.decision_function(unseen), svm.decision_function(peer.transform(unseen)), atol=1e-12
    )


def test_rare_words_are_left_out():
    assert TextClassifier(min_texts=2).fit(TEXTS, LABELS).words_.tolist() == ["moon", "new", "the"]
    assert len(TextClassifier(max_words=4).fit(TEXTS, LABELS).words_) == 4
    with pytest.raises(InvalidInput, match="No word is left to learn from in 6 texts"):
        TextClassifier(min_texts=6).fit(TEXTS, LABELS)


@pytest.mark.parametrize("labels", [LABELS, [len(label) for label in LABELS]], ids=["text", "numbers"])
def test_loaded_models_label_alike(labels, tmp_path):
    model = TextClassifier(CrammerSingerSVM(random_state=0), ngrams=2).fit(pd.Series(TEXTS), labels)
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.decision_function(TEXTS), model.decision_function(TEXTS))
    assert again.predict(["the moon"]) == model.predict(["the moon"])
    assert again.get_params()["ngrams"] == 2
    assert TextClassifier.load(tmp_path / "model").words_.tolist() == model.words_.tolist()
    members = members_of(tmp_path / "model")
    members["model.json"] = members["model.json"].replace(b'"brakes"', b'"engine"')
    pack(tmp_path / "model", members)
    with pytest.raises(UnreadableFile, match="do not fit together"):
        load(tmp_path / "model")


def test_leads_are_shared_among_words():
    model = TextClassifier().fit(TEXTS, LABELS)
    explanation = model.explain(["the old moon", "nothing known"])
    np.testing.assert_allclose(explanation.residual, 0, atol=1e-14)
    np.testing.assert_array_equal(
        model.classes_[explanation.extras["output"]], model.predict(explanation.data)
    )
    present = {explanation.feature_names[j] for j in np.flatnonzero(explanation.values[0])}
    assert present <= {"the", "old", "moon"}
    assert not explanation.values[1].any()
    assert explanation[1].data.tolist() == ["nothing known"]


def test_best_classes_and_probabilities_are_those_of_the_machine_on_the_words(tmp_path):
    model = TextClassifier().fit(TEXTS, LABELS)
    np.testing.assert_array_equal(model.predict_top_k(TEXTS, 2)[:, 0], model.predict(TEXTS))
    assert not hasattr(model, "predict_proba")
    found = model.calibrate(TEXTS, LABELS).predict_proba(TEXTS)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(TEXTS))
    np.testing.assert_array_equal(load(model.save(tmp_path / "model")).predict_proba(TEXTS), found)
    assert not hasattr(TextClassifier(), "predict_proba")
    with pytest.raises(InvalidInput, match="fitted on"):
        model.calibrate(TEXTS, ["other"] * len(TEXTS))


def test_bad_texts_are_told():
    model = TextClassifier().fit(TEXTS, LABELS)
    for act in (model.predict, model.transform, lambda X: TextClassifier().fit(X, LABELS)):
        with pytest.raises(InvalidInput, match="Row 1 is not a text but nan"):
            act(["fine", np.nan])
        with pytest.raises(InvalidInput, match="Got one text"):
            act("a single text")
        with pytest.raises(InvalidInput, match=r"an array of shape \(2, 2\)"):
            act([["a", "b"], ["c", "d"]])
        with pytest.raises(InvalidInput, match="no texts"):
            act([])
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        TextClassifier().fit(TEXTS, ["same"] * 6)
    with pytest.raises(InvalidInput, match="sample"):
        TextClassifier().fit(TEXTS, LABELS[:3])
    for wrong in ({"ngrams": 4}, {"min_texts": 0}, {"classifier": "ww"}):
        with pytest.raises(InvalidParameter, match=f"'{next(iter(wrong))}' parameter of TextClassifier"):
            TextClassifier(**wrong).fit(TEXTS, LABELS)
