"""Which texts are shown and in what order, which words are named, and what is said about the training."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tellwhy
from tellwhy.kinds.label_columns import hold_out, read_text_columns
from tellwhy.kinds.labels import (
    WORDS_OF_CLASS,
    WORDS_OF_TEXT,
    _choose_texts,
    _label_batches,
    _tell_order,
)
from tellwhy.results.labelled_texts import read_labels
from tellwhy.results.notice import Notice
from tellwhy.workflow import explain_texts

WORDS = {"a": [f"apple{i}" for i in range(12)], "b": [f"brick{i}" for i in range(12)]}


def made(n=80, seed=0):
    """Texts of two kinds in unequal numbers, 12 words each."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(n) % 4 == 0, "b", "a")
    texts = [" ".join([*rng.choice(WORDS[label], 9), *rng.choice(WORDS["a"], 3)]) for label in labels]
    return texts, labels


@pytest.fixture(scope="module")
def model():
    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(*made())


@pytest.fixture(scope="module")
def found(model):
    texts, labels = made()
    return explain_texts(model, texts, labels, source="mails")


def weights(model):
    """Weight of each word for the second class."""
    return dict(zip(model[0].get_feature_names_out(), model[-1].coef_[0], strict=True))


def test_the_strongest_words_are_named_those_for_the_label_first(model, found):
    texts, _ = made()
    known = weights(model)
    for reasons in found.shown[:10]:
        sign = 1.0 if reasons.label == "b" else -1.0
        counts = pd.Series(texts[reasons.row].split()).value_counts()
        added = {word: sign * known[word] * n for word, n in counts.items()}
        strongest = sorted(added, key=lambda word: -abs(added[word]))[:WORDS_OF_TEXT]
        assert {word for word, _ in reasons.words} == set(strongest)
        told = [value for _, value in reasons.words]
        assert told == sorted(told, reverse=True)
        for word, value in reasons.words:
            assert value == pytest.approx(added[word])
        assert reasons.n_others == len(added) - len(reasons.words)
        assert reasons.others == pytest.approx(sum(added.values()) - sum(told))
        assert reasons.base == pytest.approx(sign * model[-1].intercept_[0])


def test_classes_are_listed_by_how_many_texts_got_them(model, found):
    labels = model.predict(made()[0])
    assert [(c.name, c.n_texts) for c in found.classes] == [
        ("a", (labels == "a").sum()),
        ("b", (labels == "b").sum()),
    ]
    for words in found.classes:
        assert len(words.words) <= WORDS_OF_CLASS
        assert all(weight > 0 for _, weight in words.words)
        shown = [weight for _, weight in words.words]
        assert shown == sorted(shown, reverse=True)
    assert all(word.startswith("brick") for word, _ in found.classes[1].words)


def test_words_that_speak_against_a_class_are_not_its_words():
    texts = ["moon orbit"] * 6 + ["road car"] * 6
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, ["space"] * 6 + ["autos"] * 6)
    words = {c.name: {word for word, _ in c.words} for c in explain_texts(model, texts).classes}
    assert words == {"space": {"moon", "orbit"}, "autos": {"road", "car"}}


def test_counts_on_the_page(model, found):
    texts, labels = made()
    assert (found.source, found.model) == ("mails", "LogisticRegression")
    assert (found.n_texts, found.n_classes, found.n_words) == (80, 2, len(weights(model)))
    assert found.n_wrong == (model.predict(texts) != labels).sum()
    assert explain_texts(model, texts[:3]).n_wrong is None
    turned = explain_texts(model, texts, np.where(labels == "a", "b", "a"))
    assert turned.n_wrong == 80 - found.n_wrong


def test_leads_are_those_of_the_label_over_the_runner_up(model):
    texts, _ = made()
    given = np.array(["a"] * 40 + ["b"] * 39 + ["c"])
    labels, numbers = _label_batches(model[:-1], model[-1], texts, given)
    np.testing.assert_array_equal(labels, model.predict(texts))
    ahead = np.abs(model.decision_function(texts))
    np.testing.assert_allclose(numbers[0], ahead)
    agree = labels == given
    np.testing.assert_allclose(numbers[1][:-1], np.where(agree, -ahead, ahead)[:-1])
    assert numbers[1][-1] == np.inf  # no class of the model has this label
    assert np.isnan(numbers[2:]).all()  # nor is it calibrated


class TestWhichTexts:
    leads = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 9.0])

    def test_all_of_few_in_the_order_they_came(self):
        assert _choose_texts(6, np.array([3, 5]), self.leads, self.leads, 6).tolist() == [0, 1, 2, 3, 4, 5]

    def test_wrong_ones_the_surest_first_then_the_closest(self):
        wrong = np.array([1, 2, 3])
        behind = np.array(
            [0.0, 1.5, 7.0, 6.0, 0.0, 0.0]
        )  # how far the own label is behind says which is sure
        assert _choose_texts(6, wrong, self.leads, behind, 5).tolist() == [2, 3, 1, 4, 0]
        assert _choose_texts(6, wrong, self.leads, behind, 2).tolist() == [2, 3]
        assert _choose_texts(6, wrong, self.leads, behind[::-1], 2).tolist() == [3, 2]
        assert _choose_texts(6, None, self.leads, self.leads, 3).tolist() == [1, 3, 4]

    @pytest.mark.parametrize(
        ("n_wrong", "n_shown", "words"),
        [
            (2, 9, "All texts, in the order they came."),
            (None, 4, "4 of 9 texts: those whose label has the smallest lead."),
            (0, 4, "4 of 9 texts: those whose label has the smallest lead."),
            (4, 4, "4 of 9 texts: those with a wrong label, the surest first."),
            (7, 4, "4 of 9 texts: those with a wrong label, the surest first."),
            (
                3,
                4,
                "4 of 9 texts: first those with a wrong label, the surest first, then those whose label has "
                "the smallest lead.",
            ),
        ],
    )
    def test_words(self, n_wrong, n_shown, words):
        assert _tell_order(9, None if n_wrong is None else np.arange(n_wrong), n_shown).text == words


class TestTraining:
    def table(self, folder):
        texts, labels = made(100)
        frame = pd.DataFrame({"body": texts, "topic": labels})
        frame.loc[2, "body"] = None
        frame.to_csv(folder / "mails.csv", index=False)
        return folder / "mails.csv"

    def test_the_share_held_out(self):
        def draw(n, share, seed):
            return hold_out(np.arange(n) % 2, share, seed)

        assert len(draw(100, 0.1, 0)) == 10
        assert len(draw(500_000, 0.5, 0)) == 10_000
        assert len(draw(11, 0.9, 3)) >= 8  # two are left to learn from, of one class each
        assert len(draw(100, 0.0, 0)) == 0
        held = draw(1_000, 0.2, 3)
        assert (np.diff(held) > 0).all()
        assert held.min() < 50 < 950 < held.max()  # from all over the table
        assert (held != draw(1_000, 0.2, 4)).any()
        names = np.array(["a"] * 20 + ["once"])
        assert all(names[hold_out(names, 0.9, seed)].tolist().count("once") == 0 for seed in range(20))

    def test_what_is_counted_is_said(self, tmp_path):
        path = self.table(tmp_path)
        model = tellwhy.fit(path, text="body", label="topic", seed=1, held_out=0.2)
        found = read_labels(tellwhy.judge(model, path))
        assert len(model.trained_on_.held) == found.n_texts == 20
        assert found.source == "mails.csv"
        assert found.notes == (
            "Trained on 79 texts; those counted and shown here are 20 others, chosen at random.",
            "Left out 1 row without a text or a label.",
        )
        frame = pd.read_csv(path)
        for reasons in found.shown:
            assert reasons.row != 2
            shown = "".join(piece.text for piece in reasons.marked.pieces)
            assert frame["body"][reasons.row].startswith(shown)
            assert reasons.truth == frame["topic"][reasons.row]

    def test_with_nothing_held_out_errors_are_said_to_be_too_few(self):
        assert Notice("trained_on", {"n": 1_234, "n_held": 0}).text == (
            "Trained on 1,234 texts, the same texts that are counted and shown here: expect more errors on new "
            "texts."
        )

    def test_complete_tables_need_no_note(self, tmp_path):
        pd.DataFrame({"body": ["x y", "z w"], "topic": ["p", "q"]}).to_csv(tmp_path / "t.csv", index=False)
        columns = read_text_columns(tmp_path / "t.csv", "body", "topic")
        assert columns.said == ()
        assert columns.rows.tolist() == [0, 1]
        assert columns.texts == ["x y", "z w"]
