"""From a table of texts to the odd ones, and the words that make them so: present ones, and absent ones."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from tellwhy.core.errors import InvalidInput
from tellwhy.core.parallel import tracked_batches
from tellwhy.core.progress import stage
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import random_sample
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.data.text import OTHERS, BagOfWords, checked_texts, spread
from tellwhy.detectors import OneClassSVM
from tellwhy.explainers import OneClassDTD
from tellwhy.workflow.media.media_run import Item, MediaRun, Place
from tellwhy.workflow.media.ordinary import Judged, judge
from tellwhy.workflow.tables.selection import as_source
from tellwhy.workflow.tables.table_run import versions

MOST_TEXTS = 5_000  # learned from
SHOWN = 2_000  # characters of a text
NAMED = 8  # words named of each text
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
    id_column
        Column that names texts in the output.
    unit, stem, min_documents
        As in `tellwhy.data.text.BagOfWords`; min_documents is 5, and less for fewer than 100 texts.
    top
        How many texts are explained.
    fdr
        Expected share of false alarms among the alarms.
    random_state
        Seed of every draw.
    """

    text: str
    reference: str | Path | TableLike | None = None
    id_column: str | None = None
    unit: str = "words"
    stem: bool = False
    min_documents: int | None = None
    top: int = 10
    fdr: float | None = None
    random_state: int = 0


@dataclass(frozen=True, eq=False)
class _Texts:
    """Texts as they were read, and how they are told apart."""

    given: list[str]
    names: list[str]
    bag: BagOfWords
    judged: Judged
    scores: Floats
    detector: OneClassSVM


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
    stage("reading texts")
    table = as_source(data)
    given = _column(table, request.text)
    other = None if request.reference is None else as_source(request.reference)
    good = given if other is None else _column(other, request.text)
    stage("learning what is ordinary")
    learned = [
        good[k] for k in random_sample(len(good), MOST_TEXTS, np.random.default_rng(request.random_state))
    ]
    least = request.min_documents or max(1, min(5, len(learned) // 20))
    bag = BagOfWords(request.unit, stem=request.stem, min_documents=least).fit(learned)
    rows = bag.transform(learned)
    detector = OneClassSVM(nu=0.1).fit(rows)
    ordinary = _scores(detector, bag, learned)
    scores = ordinary if learned is given else _scores(detector, bag, given)
    judged = judge(scores, ordinary, fdr=request.fdr, is_clean=other is not None)
    texts = _Texts(given, _names(table, request), bag, judged, scores, detector)
    order = np.argsort(-scores, kind="stable")[: request.top]
    return _run(table, request, texts, [_item(texts, int(k)) for k in order])


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


def _scores(detector: OneClassSVM, bag: BagOfWords, texts: Sequence[str]) -> Floats:
    """Score texts in batches, those that were learned from without themselves."""
    score = detector.to_score()
    found = np.empty(len(texts))
    for rows in tracked_batches(len(texts), 16 * len(bag.words_), "scoring texts"):
        some = bag.transform(texts[rows])
        found[rows] = score.value(some, score.match(some))
    return found


def _item(texts: _Texts, at: int) -> Item:
    """A text with the relevance of its words, and the words that it lacks."""
    text = texts.given[at]
    bag = texts.bag
    values = OneClassDTD(texts.detector).explain(bag.transform([text])).values[0]
    tokens = bag.tokens(text)
    columns = [bag.column_of(token.feature) for token in tokens]
    counts = np.bincount(columns, minlength=len(values))
    relevance = [values[c] / counts[c] for c in columns]  # shared among the places of a word
    shown = [token for token in tokens if token.end <= SHOWN]
    p_values = texts.judged.p_values
    threshold = texts.judged.threshold
    return Item(
        name=texts.names[at],
        score=float(texts.scores[at]),
        is_alarm=threshold is not None and bool(texts.scores[at] > threshold),
        places=_places(bag, values, counts > 0),
        p_value=None if p_values is None else float(p_values[at]),
        notices=_notices(text, bag, columns),
        words=spread(text[:SHOWN], shown, relevance[: len(shown)]),
        start=at,
    )


def _places(bag: BagOfWords, values: Floats, is_present: Any) -> list[Place]:
    """The words with most relevance, those that are absent told as such."""
    total = float(np.clip(values, 0.0, None).sum()) or 1.0
    order = [k for k in np.argsort(-values, kind="stable")[:NAMED] if values[k] / total >= LEAST_SHARE]
    told = []
    for k in order:
        name = str(bag.words_[k])
        words = f"“{name}”" if name != OTHERS else "words that are rare or new"
        told.append(Place(words if is_present[k] else f"lacks {words}", float(values[k] / total), (int(k),)))
    return told


def _notices(text: str, bag: BagOfWords, columns: Sequence[int]) -> list[str]:
    if not text.strip():
        return ["The text is empty."]
    if all(c == len(bag.words_) - 1 for c in columns):
        return ["None of its words is known: all are rare or new."]
    return []


def _run(table: Table, request: TextRequest, texts: _Texts, items: Sequence[Item]) -> MediaRun:
    n_alarms = 0 if texts.judged.threshold is None else int((texts.scores > texts.judged.threshold).sum())
    n_empty = sum(not text.strip() for text in texts.given)
    notices = [
        *table.notices,
        *([f"{n_empty:,} texts are empty."] if n_empty else []),
        *_length_notice(texts),
    ]
    settings = {**vars(request), "threshold_rule": texts.judged.rule}
    settings["reference"] = None if request.reference is None else str(request.reference)[:200]
    return MediaRun(
        kind="texts",
        source=table.source,
        headline=_headline(len(texts.given), n_alarms, items[0]),
        summary=_summary(request, texts),
        notices=notices,
        settings=settings,
        items=items,
        names=texts.names,
        scores=texts.scores,
        threshold=texts.judged.threshold,
        versions=versions(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _length_notice(texts: _Texts) -> list[str]:
    """Say where scores follow the number of words: a long text differs from others in more of them."""
    lengths = np.array([len({token.feature for token in texts.bag.tokens(text)}) for text in texts.given])
    if np.ptp(lengths) == 0 or np.ptp(texts.scores) == 0:
        return []
    correlation = float(spearmanr(lengths, texts.scores).statistic)
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
    verb = "text is" if n_alarms == 1 else "texts are"
    return f"{n_alarms:,} of {n:,} {verb} odd; {first.name} most of all{why}."


def _summary(request: TextRequest, texts: _Texts) -> str:
    against = "each other" if request.reference is None else "the reference"
    unit = "words" if request.unit == "words" else "strings of letters"
    return (
        f"{len(texts.given):,} texts were compared with {against} by the {len(texts.bag.words_) - 1:,} "
        f"{unit} that are common enough, present or absent, by a one-class SVM; rarer ones count "
        f"together. Alarms: {texts.judged.rule}. Relevance of words: One-Class DTD, for absent words too."
    )
