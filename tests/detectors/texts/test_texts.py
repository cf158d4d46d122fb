"""Letters and words of texts, beside slow twins."""

import numpy as np
import pytest
from oracles.text_oracles import surprises, unlikeness

from tellwhy.core.errors import InvalidInput
from tellwhy.detectors.texts import letter_surprise
from tellwhy.detectors.texts.letter_surprise import LetterSurprise
from tellwhy.detectors.texts.word_neighbours import WordNeighbours

TEXTS = [
    "The cat sat on the mat",
    "the cat ran to the hat",
    "a cat, a mat and the hat",
    "the dog sat on the cat",
    "a dog\tran  over the mat",
    "the quick dog sat",
    "",
    "żółw 漢字 Istanbul",
]
NEW = ["the cat sat", "THE dog sat  on a quark", "zzz qqq", "", "漢字 cat"]


@pytest.mark.parametrize("text", NEW)
def test_surprises_are_those_of_counted_strings(text):
    model = LetterSurprise.learn(TEXTS)
    np.testing.assert_allclose(model.surprises(text), surprises(TEXTS, text), rtol=1e-12)


@pytest.mark.parametrize("k", range(6))
def test_a_text_is_left_out_as_if_it_had_not_been_learned(k):
    model = LetterSurprise.learn(TEXTS[:6])
    others = TEXTS[:k] + TEXTS[k + 1 : 6]
    found = model.surprises(TEXTS[k], is_own=True)
    np.testing.assert_allclose(found, surprises(others, TEXTS[k]), rtol=1e-12)


def test_the_surprise_of_letters_stands_where_they_stand():
    model = LetterSurprise.learn(TEXTS)
    text = "  the cat \n zqx  "
    along = model.along(text)
    assert (along[[k for k, letter in enumerate(text) if letter.isspace()]] == 0).all()
    line = "the cat zqx"
    solid = [v for letter, v in zip(line, model.surprises(text), strict=False) if letter != " "]
    np.testing.assert_allclose(along[along > 0], solid)
    relevance, lacking = model.relevance(text, -1)
    assert relevance[text.index("zqx")] > 3 * relevance[text.index("cat")]
    assert not lacking


def test_a_capital_that_becomes_two_letters_moves_no_place():
    model = LetterSurprise.learn(TEXTS)
    assert len(model.along("İİ cat")) == len("İİ cat")
    assert model.along("İİ cat")[-1] < model.along("İİ cax")[-1]


def test_too_many_characters_are_refused(monkeypatch):
    monkeypatch.setattr(letter_surprise, "MOST_CHARACTERS", 5)
    with pytest.raises(InvalidInput, match="different characters"):
        LetterSurprise.learn(TEXTS)


@pytest.mark.parametrize("text", NEW)
def test_words_are_compared_one_by_one(text):
    texts = TEXTS * 2 + ["a lone quark"]
    model = WordNeighbours.learn(texts)
    found = model.scores([text], np.array([-1]))[0]
    assert found == pytest.approx(unlikeness(texts, text, 4), abs=1e-12)


def test_relevance_of_words_adds_up_to_the_score_where_neighbours_are_alike():
    texts = ["red green blue"] * 12 + ["one two three"] * 12
    model = WordNeighbours.learn(texts)
    along, lacking = model.relevance("red green quark", -1)
    score = model.scores(["red green quark"], np.array([-1]))[0]
    assert set(lacking) == {"blue"}
    assert along.sum() + lacking["blue"] == pytest.approx(score, abs=1e-12)
    assert along[len("red green ") :].sum() > along[:9].sum()
