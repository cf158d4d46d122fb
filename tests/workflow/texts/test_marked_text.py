"""Relevance on the words of a text: nothing is lost, wherever it goes."""

import pytest

from tellwhy.results.labelled_texts import mark_text


def marks(text, relevance, **settings):
    found = mark_text(text, relevance, **settings)
    return [(piece.text, piece.relevance) for piece in found.pieces if piece.relevance], found


@pytest.mark.parametrize(
    "text", ["", "moon", " Moon-landing: a MOON\tand\nmore ", "Ünïcode móon İstanbul 月 moon", "a" * 50]
)
def test_pieces_are_the_text_and_relevance_adds_up(text):
    relevance = {"moon": 1.5, "landing": -0.5, "nowhere": 0.25, "moon landing": 1.0}
    found = mark_text(text, relevance)
    assert "".join(piece.text for piece in found.pieces) == text
    assert sum(piece.relevance for piece in found.pieces) + found.elsewhere == pytest.approx(2.25)
    assert not found.is_cut


def test_places_share_the_relevance_of_their_word():
    shown, found = marks("The moon, the MOON and a moonlit moon", {"moon": 3.0, "the": 1.0})
    assert shown == [("The", 0.5), ("moon", 1.0), ("the", 0.5), ("MOON", 1.0), ("moon", 1.0)]
    assert found.elsewhere == 0.0


def test_pairs_of_words_share_theirs_and_skip_single_letters():
    shown, found = marks("New, a York; york new", {"new york": 2.0, "york": 1.0})
    assert shown == [("New", 1.0), ("York", 1.5), ("york", 0.5)]
    assert found.elsewhere == 0.0
    shown, _ = marks("one two three", {"one two three": 3.0, "two three": 1.0})
    assert shown == [("one", 1.0), ("two", 1.5), ("three", 1.5)]


def test_long_texts_are_cut_and_the_rest_is_told():
    shown, found = marks("word " * 1_000, {"word": 10.0}, most=23)
    assert len(shown) == 4
    assert found.is_cut
    assert "".join(piece.text for piece in found.pieces) == "word word word word wor"
    assert found.elsewhere == pytest.approx(10.0 * 996 / 1_000)
