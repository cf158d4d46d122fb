"""Texts as rows of words or strings of letters."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data.text import OTHERS, BagOfWords, cut_pieces, stem

TEXTS = ["the cat sat", "The cat ran!", "the dog sat", "a Bird sat"]


def test_words_are_present_or_absent_however_often_they_occur():
    bag = BagOfWords(min_documents=2).fit(TEXTS)
    assert list(bag.words_) == ["cat", "sat", "the", OTHERS]
    rows = bag.transform(["cat Cat CAT", "the sat", "", None, float("nan"), pd.NA])
    np.testing.assert_array_equal(rows[:2], [[1, 0, 0, 0], [0, 1, 1, 0]])
    assert not rows[2:].any()


def test_every_word_without_a_column_counts_as_much_as_one_with_a_column():
    bag = BagOfWords(min_documents=2).fit(TEXTS)
    rows = bag.transform(["cat new newer newest", "cat"])
    assert ((rows[0] - rows[1]) ** 2).sum() == pytest.approx(3.0)


def test_the_most_common_words_are_kept_and_ties_do_not_depend_on_the_order():
    bag = BagOfWords(min_documents=1, max_features=2).fit(TEXTS)
    assert list(bag.words_) == ["sat", "the", OTHERS]
    assert list(BagOfWords(min_documents=1, max_features=3).fit(TEXTS[::-1]).words_) == [
        "cat",
        "sat",
        "the",
        OTHERS,
    ]


def test_strings_of_letters_do_not_mind_misspellings():
    bag = BagOfWords("letters", min_documents=1, n_letters=3).fit(["explanation", "anomaly"])
    rows = bag.transform(["explanation", "explannation", "zzzzz"])
    assert rows[0, :-1] @ rows[1, :-1] >= 7
    assert rows[0, :-1] @ rows[2, :-1] == 0
    assert rows[2, -1] == 1.0


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("cats", "cat"),
        ("caress", "caress"),
        ("motoring", "motor"),
        ("feed", "feed"),
        ("conflated", "conflate"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("happy", "happi"),
        ("sky", "sky"),
        ("is", "is"),
    ],
)
def test_stems_are_those_of_porters_first_step(word, stemmed):
    assert stem(word) == stemmed


def test_values_of_columns_are_put_where_their_words_stand():
    bag = BagOfWords(min_documents=1).fit(["a moon, a sun"])
    text = "A moon: the Moon!"
    along = bag.spread_columns(text, np.array([0.0, 5.0, 0.0, 3.0]))
    told = cut_pieces(text, along)
    assert "".join(piece for piece, _ in told) == text
    assert [(piece, round(value, 9)) for piece, value in told if value] == [
        ("moon", 2.5),
        ("the", 3.0),
        ("Moon", 2.5),
    ]


def test_values_of_strings_of_letters_add_up_over_words():
    bag = BagOfWords("letters", min_documents=1).fit(["abcd efgh"])
    values = np.arange(float(len(bag.words_)))
    told = cut_pieces("abcd efgh", bag.spread_columns("abcd efgh", values))
    assert sum(value for _, value in told) == pytest.approx(values[:-1].sum())
    assert [piece for piece, _ in told] == ["abcd", " ", "efgh"]


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        ("one text", r"Pass \[text\]"),
        ([1, 2], "Text 0 is 1, a int"),
        (["a", "b"], "No word occurs in 5 texts"),
    ],
)
def test_what_is_no_text_is_told(texts, match):
    with pytest.raises(InvalidInput, match=match):
        BagOfWords().fit(texts)


def test_wrong_parameters_are_told():
    with pytest.raises(InvalidParameter, match="'unit' parameter of BagOfWords"):
        BagOfWords("syllables").fit(TEXTS)
