"""The page on the labels of texts: every shown text with its words coloured, and the words of each class."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from tellwhy.views.page.overview import Overview, shorten_notices, show_overview, show_settings
from tellwhy.views.page.shell import (
    Contents,
    Limits,
    Panel,
    Text,
    clip,
    draw_page,
    fit_page,
    make_panel,
    write_page,
)
from tellwhy.views.page.svg import bar, element
from tellwhy.words import wording

if TYPE_CHECKING:
    from tellwhy.results.labelled_texts import ClassWords, Piece, TextLabels, TextReasons

SHADES = 5  # of each colour
_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_EMPTY_LINES = re.compile(r"\n[ \t]*\n[ \t\n]*\n")


@dataclass(frozen=True)
class Bar:
    """A word and its part, as a bar."""

    word: Text
    bar: Markup
    amount: str


@dataclass(frozen=True)
class Card:
    """What the page shows of one text."""

    row: str
    label: Text
    rival: Text
    truth: Text | None
    is_wrong: bool
    lead: str
    text: Markup
    is_cut: bool
    words: list[Bar]
    rest: str


@dataclass(frozen=True)
class Group:
    """What the page shows of one class."""

    name: Text
    count: str
    words: list[Bar]


def render_texts(found: TextLabels) -> str:
    """Return the page on the labels of texts: one HTML file of at most 8 MB that makes no request.

    Parameters
    ----------
    found
        What `tellwhy.workflow.explain_texts` gave.
    """
    return fit_page(lambda limits: draw_page(make_contents(found, limits)), n_items=len(found.shown))


def write_text_report(found: TextLabels, path: str | Path) -> Path:
    """Write the page on the labels of texts to a file, whole or not at all, and return its path.

    Examples
    --------
    >>> import tempfile
    >>> from tellwhy.classifiers import TextClassifier
    >>> from tellwhy.workflow import explain_texts
    >>> texts = ["a new car", "the old car", "the moon", "a moon rocket"]
    >>> model = TextClassifier().fit(texts, ["c", "c", "s", "s"])
    >>> found = explain_texts(model, ["a new moon"])
    >>> write_text_report(found, tempfile.mkdtemp() + "/texts.html").name
    'texts.html'
    """
    return write_page(render_texts(found), path)


def make_contents(found: TextLabels, limits: Limits) -> Contents:
    """Return the panels of the page."""
    source = clip(found.source, 80)
    n = min(limits.items, len(found.shown))
    opening = Overview(
        title=Markup("Why these labels: {}").format(source),
        headline=found.headline.text,
        figures=_list_figures(found, n),
        **shorten_notices(found.notes, limits),
    )
    settings = show_settings({"": {"model": found.model, "input": found.source}})
    return Contents(opening.title, source, [show_overview(opening), show_labels(found, n), settings])


def show_labels(found: TextLabels, n: int) -> Panel:
    """Return the panel of the first n texts with the words that decided, and of the words of each class."""
    fewer = "" if n == len(found.shown) else f" The first {n} fit on this page."
    return make_panel(
        "labels",
        ("texts", "Texts"),
        ("classes", "Classes"),
        order=found.order + fewer,
        cards=[_make_card(reasons) for reasons in found.shown[:n]],
        groups=[_group(words) for words in found.classes],
        more_classes=found.n_classes - len(found.classes),
        shades=range(1, SHADES + 1),
    )


def _list_figures(found: TextLabels, n: int) -> list[tuple[str, Text]]:
    return [
        ("texts", wording.number(found.n_texts)),
        ("classes", wording.number(found.n_classes)),
        ("words known", wording.number(found.n_words)),
        ("explained below", wording.number(n)),
    ]


def _make_card(reasons: TextReasons) -> Card:
    # Bars and shades are each in proportion to the strongest of their own text.
    reach = max((abs(value) for _, value in reasons.words), default=1.0)
    largest = max((abs(piece.relevance) for piece in reasons.marked.pieces), default=0.0)
    return Card(
        row=wording.number(reasons.row, 9),
        label=clip(reasons.label, 60),
        rival=clip(reasons.rival, 60),
        truth=None if reasons.truth is None else clip(reasons.truth, 60),
        is_wrong=reasons.is_wrong,
        lead=wording.number(reasons.lead, 3),
        text=Markup("").join(_draw_piece(piece, largest) for piece in reasons.marked.pieces),
        is_cut=reasons.marked.is_cut,
        words=[_make_bar(word, value, reach) for word, value in reasons.words],
        rest=_write_rest(reasons, reach),
    )


def _write_rest(reasons: TextReasons, reach: float) -> str:
    """What the bars do not show, in a sentence."""
    words = f"Intercepts {_write_signed(reasons.base)}."
    if reasons.n_others:
        words = (
            f"{wording.count(reasons.n_others, 'other word')} {_write_signed(reasons.others)}, i{words[1:]}"
        )
    elsewhere = reasons.marked.elsewhere
    if abs(elsewhere) > 1e-3 * reach:  # less than that is not worth a sentence
        words += f" {_write_signed(elsewhere)} belongs to words that are not marked in the text shown."
    return words


def _draw_piece(piece: Piece, largest: float) -> Markup:
    """A piece of text, escaped; a word with relevance in the shade of it."""
    text = _EMPTY_LINES.sub("\n\n", _BREAK.sub("\n", piece.text)).replace("\t", " ")
    safe = "\n".join(wording.replace_unsafe(part) for part in text.split("\n"))
    shade = round(SHADES * abs(piece.relevance) / largest) if largest > 0 else 0
    if shade == 0:  # a tenth of the strongest word, or less, stays plain
        return escape(safe)
    side = "for" if piece.relevance > 0 else "against"
    return element("mark", safe, class_=f"{side}-{shade}", title=_write_signed(piece.relevance))


def _write_signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{wording.number(value, 2)}"


def _make_bar(word: str, value: float, reach: float) -> Bar:
    name = wording.shorten(word, 40)
    drawn = bar(
        value, -reach, reach, f"{name} {_write_signed(value)}", class_="usual" if value > 0 else "odd"
    )
    return Bar(clip(word, 40), drawn, _write_signed(value))


def _group(words: ClassWords) -> Group:
    reach = max((value for _, value in words.words), default=1.0)
    bars = [
        Bar(
            clip(word, 40),
            bar(value, 0.0, reach, f"{wording.shorten(word, 40)} {_write_signed(value)}", class_="usual"),
            wording.number(value, 2),
        )
        for word, value in words.words
    ]
    return Group(clip(words.name, 60), wording.count(words.n_texts, "text"), bars)
