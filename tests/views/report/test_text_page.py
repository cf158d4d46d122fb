"""The page on texts, from labels made by hand: shades, bars and sentences say what the numbers say."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from views.report.drawn import marks

from tellwhy.results.labelled_texts import ClassWords, MarkedText, Piece, TextLabels, TextReasons
from tellwhy.results.notice import written
from tellwhy.views.page.labels import render_texts

PIECES = (Piece("moon", 2.0), Piece(" and "), Piece("engine", -1.2), Piece(" "), Piece("dust", 0.1))
REASONS = TextReasons(
    row=12_345,
    label="space",
    rival="autos",
    lead=0.75,
    base=-0.25,
    truth=None,
    marked=MarkedText(PIECES, 0.0),
    words=(("moon", 1.0), ("engine", -2.0)),
    n_others=0,
    others=0.0,
)
FOUND = TextLabels(
    source="mails.csv",
    model="Example",
    n_texts=40,
    n_classes=3,
    n_words=900,
    n_wrong=None,
    ordering=written("All texts."),
    shown=(REASONS,),
    classes=(ClassWords("space", 1, (("moon", 4.0), ("orbit", 1.0))), ClassWords("autos", 39, ())),
)


def page(**changes: object) -> str:
    return render_texts(replace(FOUND, shown=(replace(REASONS, **changes),)))  # type: ignore[arg-type]


def visible(text: str) -> str:
    return re.sub("[ \n]+", " ", re.sub(r"<[^>]*>", "", text[text.index("<main") :]))


def test_shades_are_in_proportion_to_the_strongest_word_of_the_text() -> None:
    shown = re.findall(r'<mark class="([a-z]+-\d)" title="([^"]*)">(\w+)</mark>', page())
    assert shown == [("for-5", "+2", "moon"), ("against-3", "−1.2", "engine")]  # dust, a twentieth, has none
    half = page(marked=MarkedText((Piece("a", 1.0), Piece(" "), Piece("b", -2.0)), 0.0))
    assert '<mark class="for-2" title="+1">a</mark> <mark class="against-5" title="−2">b</mark>' in half


def test_bars_of_words_lie_on_one_axis_with_zero_in_the_middle() -> None:
    words = page()[page().index('class="word-bars"') :]
    drawn = [marks(svg) for svg in re.findall("<svg.*?</svg>", words)[:2]]
    moon, engine = (next(m for m in found if m.kind in ("usual", "odd")) for found in drawn)
    assert (moon.kind, moon.at("x"), moon.end) == ("usual", 50, 75)
    assert (engine.kind, engine.at("x"), engine.end) == ("odd", 0, 50)
    assert [found[0].words for found in drawn] == ["moon +1", "engine −2"]


def test_the_lead_is_told_with_its_runner_up() -> None:
    assert "row 12\u202f345 space ahead of autos by 0.75" in visible(page())


def test_what_the_bars_do_not_show_is_said() -> None:
    assert "Intercepts −0.25." in visible(page())
    assert "2 other words −0.3, intercepts −0.25." in visible(page(n_others=2, others=-0.3))
    assert "1 other word +0.3, intercepts −0.25." in visible(page(n_others=1, others=0.3))
    hidden = page(marked=MarkedText(PIECES, 0.5, is_cut=True))
    assert "+0.5 belongs to words that are not marked in the text shown." in visible(hidden)
    assert "engine dust …" in visible(hidden)
    assert "belongs to words" not in visible(page(marked=MarkedText(PIECES, 0.001)))
    assert "…" not in visible(page())


@pytest.mark.parametrize(
    ("n_wrong", "words"),
    [
        (None, "40 texts labelled."),
        (0, "All 40 texts got the label they came with."),
        (1, "1 of 40 texts gets another label than it came with (2.5\u202f%)."),
        (10, "10 of 40 texts get another label than they came with (25\u202f%)."),
    ],
)
def test_the_headline_counts_wrong_labels(n_wrong: int | None, words: str) -> None:
    text = render_texts(replace(FOUND, n_wrong=n_wrong))
    assert f'<h1 id="summary-title">{words}</h1>' in text


@pytest.mark.parametrize(
    ("truth", "words"), [("space", "as it came"), ("autos", "came with the label autos")]
)
def test_each_text_says_whether_its_label_is_the_one_it_came_with(truth: str, words: str) -> None:
    assert words in visible(page(truth=truth))
    others = {"as it came", "came with the label"} - {words.removesuffix(" autos")}
    assert not any(other in visible(page(truth=truth)) for other in others)


def test_key_figures_and_classes() -> None:
    text = visible(render_texts(FOUND))
    assert "texts40 classes3 words known900 explained below1" in text
    assert "The 2 classes with most texts are shown; there are 1 more." in text
    assert "space 1 text" in text
    assert "autos 39 texts no word" in text
    assert "are shown; there are" not in visible(render_texts(replace(FOUND, n_classes=2)))


def test_words_of_a_class_are_drawn_against_its_strongest() -> None:
    text = render_texts(FOUND)
    classes = text[text.index('id="classes"') :]
    drawn = [marks(svg) for svg in re.findall("<svg.*?</svg>", classes)]
    lengths = [next(m for m in found if m.kind == "usual").at("width") for found in drawn]
    assert lengths == [100, 25]
