"""From a table of texts to the odd ones, and the words that make them so: present ones, and absent ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.data.text import checked_texts, pieces
from tellwhy.kinds.request import rows_equal_to, split_marker
from tellwhy.kinds.table_result import versions
from tellwhy.kinds.table_rows import as_source
from tellwhy.kinds.text_columns import LIKENESS, TextModel, Word
from tellwhy.results.media_run import Item, MediaRun, Place
from tellwhy.storage import clock
from tellwhy.verdicts.ordinary import Judged, judge, judge_by_rank

SHOWN = 2_000  # characters of a text
NAMED = 8  # words named of each text
LEAST_CALIBRATED = 20  # ordinary texts, for one in twenty to be an alarm
LEAST = 2  # texts to learn from
LEAST_SHARE = 0.01
FOLLOWS_LENGTH = 0.8  # rank correlation of scores with the number of words, from which it is told


@dataclass(frozen=True)
class TextRequest:
    """How texts are judged.

    Attributes
    ----------
    text
        Column of the texts.
    reference
        Another table with that column, of ordinary texts; None: the texts are compared with each other.
    normal
        "COLUMN=VALUE": the rows whose texts are ordinary, in the place of a reference.
    id_column
        Column that names texts in the output.
    unit, stem, min_documents
        As in `tellwhy.data.text.BagOfWords`; min_documents is 2, but 5 for the published model (less for
        fewer than 100 texts).
    likeness
        "auto": how far a text's weighted words are from the five nearest texts, and how surprising its
        letters are, joined; "cosine": words alone; "paper": the published one-class SVM of binary words
        (σ = 10, ν = 0.3), whose score follows the length.
    top
        How many texts are explained.
    fdr
        Expected share of false alarms among the alarms; by default, with ordinary texts to compare with, one
        ordinary text in twenty is an alarm.
    random_state
        Seed of every draw.
    """

    text: str
    reference: str | Path | TableLike | None = None
    normal: str | None = None
    id_column: str | None = None
    unit: str = "words"
    stem: bool = False
    min_documents: int | None = None
    likeness: str = "auto"
    top: int = 10
    fdr: float | None = None
    random_state: int = 0


@dataclass(frozen=True, eq=False)
class _Ordinary:
    """Texts that others are compared with."""

    texts: list[str]
    own: Any  # which of them each given text is, −1 for none
    words: str
    is_clean: bool  # whether somebody says that they are ordinary


@dataclass(frozen=True, eq=False)
class _Texts:
    """Texts as they were read, and how they are told apart."""

    given: list[str]
    names: list[str]
    model: TextModel
    judged: Judged
    scores: Floats
    ordinary: _Ordinary


def explain_documents(data: str | Path | TableLike, **settings: Any) -> MediaRun:
    """Find odd texts, and tell which words they have, or lack, that make them so.

    Parameters
    ----------
    data
        A table with a column of texts.
    settings
        See `TextRequest`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> usual = "the cat sat on a mat while rain fell and wind blew".split()
    >>> texts = [" ".join(rng.choice(usual, 8)) for _ in range(60)]
    >>> texts[7] = "quantum gravity needs strings"
    >>> found = explain_documents(pd.DataFrame({"post": texts}), text="post", top=1)
    >>> found.items[0].start, found.items[0].words[0][0]
    (7, 'quantum')
    """
    request = TextRequest(**settings)
    validate_value("explain_documents", "likeness", request.likeness, one_of(*LIKENESS))
    stage("reading texts")
    table = as_source(data)
    given = _column(table, request.text)
    good = _ordinary(table, given, request)
    if len(good.texts) < LEAST:
        raise InvalidInput(
            f"There is one text to compare with; {LEAST} or more are needed to tell what is ordinary. Pass "
            "more texts, or a reference of ordinary ones."
        )
    stage("learning what is ordinary")
    model = TextModel.learn(
        good.texts,
        likeness=request.likeness,
        is_clean=good.is_clean,
        random_state=request.random_state,
        unit=request.unit,
        stem=request.stem,
        min_documents=request.min_documents,
    )
    scores = model.scores(given, good.own)
    usual = model.scores_of_learned()
    if good.is_clean and len(usual) >= LEAST_CALIBRATED:
        judged = judge_by_rank(scores, usual, fdr=request.fdr, of_what="text")
    else:
        judged = judge(scores, usual, fdr=request.fdr, is_clean=good.is_clean)
    texts = _Texts(given, _names(table, request), model, judged, scores, good)
    order = np.argsort(-scores, kind="stable")[: request.top]
    return _run(table, request, texts, [_item(texts, int(k)) for k in order])


def _ordinary(table: Table, given: list[str], request: TextRequest) -> _Ordinary:
    """Texts to compare with: a reference, those that are marked as normal, or all of them."""
    if request.reference is not None and request.normal is not None:
        raise InvalidParameter("Give either a reference of texts or normal='COLUMN=VALUE', not both.")
    own = np.full(len(given), -1, dtype=np.int64)
    if request.reference is not None:
        return _Ordinary(_column(as_source(request.reference), request.text), own, "the reference", True)
    if request.normal is None:
        return _Ordinary(given, np.arange(len(given)), "each other", False)
    column, value = split_marker(table, request.normal)
    if value is None:
        raise InvalidParameter(
            f"normal must be 'COLUMN=VALUE'. Got {request.normal!r}, which names a column alone."
        )
    rows = rows_equal_to(table, column, value)
    own[rows] = np.arange(len(rows))
    return _Ordinary([given[k] for k in rows], own, f"the {len(rows):,} with {column} = {value}", True)


def _column(table: Table, name: str) -> list[str]:
    if name not in table.frame:
        names = ", ".join(map(repr, table.frame.columns[:10]))
        raise InvalidInput(f"{table.source} has no column {name!r} of texts. It has: {names}.")
    cells = table.frame[name]
    texts = checked_texts(cells.astype(object).where(cells.notna(), "").map(str))
    if not any(text.strip() for text in texts):
        raise InvalidInput(f"Column {name!r} of {table.source} holds no text: every cell is empty.")
    return texts


def _names(table: Table, request: TextRequest) -> list[str]:
    if request.id_column is None:
        return [f"row {k}" for k in range(len(table.frame))]
    if request.id_column not in table.frame:
        raise InvalidInput(f"{table.source} has no column {request.id_column!r} that names texts.")
    return [str(name) for name in table.frame[request.id_column]]


def _item(texts: _Texts, at: int) -> Item:
    """A text with the relevance of its words, and the words that it lacks."""
    text = texts.given[at]
    told = texts.model.relevance(text, int(texts.ordinary.own[at]))
    p_values = texts.judged.p_values
    threshold = texts.judged.threshold
    return Item(
        name=texts.names[at],
        score=float(texts.scores[at]),
        is_alarm=threshold is not None and bool(texts.scores[at] > threshold),
        places=[_place(k, word, told.total) for k, word in enumerate(told.words(NAMED, LEAST_SHARE))],
        p_value=None if p_values is None else float(p_values[at]),
        notices=_notices(texts.model, text),
        words=pieces(text[:SHOWN], told.along),
        start=at,
    )


def _place(k: int, word: Word, total: float) -> Place:
    """A word with much relevance, one that is absent told as such."""
    name = f"“{word.text}”"
    return Place(name if word.is_present else f"lacks {name}", word.value / total, (k,))


def _notices(model: TextModel, text: str) -> list[str]:
    if not text.strip():
        return ["The text is empty."]
    if all(token.feature not in model.bag.columns_ for token in model.bag.tokens(text)):
        return ["None of its words is known: all are new."]
    return []


def _run(table: Table, request: TextRequest, texts: _Texts, items: Sequence[Item]) -> MediaRun:
    n_alarms = 0 if texts.judged.threshold is None else int((texts.scores > texts.judged.threshold).sum())
    n_empty = sum(not text.strip() for text in texts.given)
    notices = [
        *table.notices,
        *([f"{n_empty:,} texts are empty."] if n_empty else []),
        *_length_notice(texts),
    ]
    settings = {**vars(request), "threshold_rule": texts.judged.rule, "likeness": texts.model.likeness}
    settings["reference"] = None if request.reference is None else str(request.reference)[:200]
    return MediaRun(
        kind="texts",
        source=table.source,
        headline=_headline(len(texts.given), n_alarms, items[0]),
        summary=_summary(texts),
        notices=notices,
        settings=settings,
        items=items,
        names=texts.names,
        scores=texts.scores,
        threshold=texts.judged.threshold,
        versions=versions(),
        created=clock.stamp(),
    )


def _length_notice(texts: _Texts) -> list[str]:
    """Say where scores follow the number of words: a long text differs from others in more of them."""
    correlation = texts.model.follows_length(texts.given, texts.scores)
    if abs(correlation) < FOLLOWS_LENGTH:
        return []
    return [
        f"Scores follow the number of words (rank correlation {correlation:.2f}): compare texts of similar "
        "length."
    ]


def _headline(n: int, n_alarms: int, first: Item) -> str:
    why = f": {first.places[0].text}" if first.places else ""
    if n_alarms == 0:
        return f"None of the {n:,} texts is odd beyond chance; the oddest is {first.name}{why}."
    verb = "is" if n_alarms == 1 else "are"
    return f"{n_alarms:,} of {n:,} texts {verb} odd; {first.name} most of all{why}."


def _summary(texts: _Texts) -> str:
    how = "One-Class DTD" if texts.model.likeness == "paper" else "each part's own sum over words"
    return (
        f"{len(texts.given):,} texts were compared with {texts.ordinary.words} by {texts.model.describes}. "
        f"Alarms: {texts.judged.rule}. Relevance of words: {how}, for absent words too."
    )
