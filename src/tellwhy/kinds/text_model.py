"""A model of ordinary texts: how odd another text is beside them, and which of its words make it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.stats import spearmanr

from tellwhy.core.arrays import random_sample
from tellwhy.core.params import Fit
from tellwhy.core.running import tracked_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.data.text import BagOfWords, Token
from tellwhy.scoring.distance_scores import points_of
from tellwhy.scoring.surprise import Surprise

MOST_TEXTS = 5_000  # learned from
LIKENESS = ("auto", "cosine", "paper")
DESCRIBES = {
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
        for rows in tracked_batches(len(texts), 16 * len(self.bag.words_), "scoring texts"):
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

    def _fits(self) -> Iterator[Fit]:
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
        "auto": words and letters; "cosine": words; "paper": as published.
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

        chosen = random_sample(len(texts), MOST_TEXTS, np.random.default_rng(random_state))
        places = np.full(len(texts), -1, dtype=np.int64)
        places[chosen] = np.arange(len(chosen))
        learned = [texts[k] for k in chosen]
        settings = {name: value for name, value in bag.items() if value is not None}
        parts: list[TextPart] = []
        parts.append((PaperWords if likeness == "paper" else WordNeighbours).learn(learned, **settings))
        if likeness == "auto":
            parts.append(LetterSurprise.learn(learned))
        own = np.arange(len(learned))
        scores = [part.scores(learned, own) for part in parts]
        laws = [Surprise.learn(each, is_clean=is_clean) for each in scores]
        law = Surprise.learn(_joined(laws, scores), is_clean=is_clean)
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
        """Return the same model for new texts only, which keeps none of those that it learned from.

        What is left of them are their words, which of these each of them has, and how often strings of four
        letters occur.
        """
        return replace(self, learned=[], places=np.full(1, -1, dtype=np.int64))

    def scores_of_learned(self) -> Floats:
        """Scores of the texts that were learned from, each without itself."""
        return self._scored(self.learned, np.arange(len(self.learned)))

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Scores of texts; `own` tells which of the texts given to `learn` each one is, −1 for none."""
        return self._scored(texts, self._learned_as(own))

    def surprises(self, texts: Sequence[str], own: Integers) -> Floats:
        """−log of the probability that an ordinary text is as odd: small for most, large for odd ones."""
        scores = self.scores(texts, own)
        return scores if self.law is None else self.law.value(scores)

    def _scored(self, texts: Sequence[str], own: Integers) -> Floats:
        return _joined(self.laws, [part.scores(texts, own) for part in self.parts])

    def _learned_as(self, own: Integers) -> Integers:
        return np.where(own >= 0, self.places[np.maximum(own, 0)], -1)

    def relevance(self, text: str, own: int) -> TextRelevance:
        """Relevance of each word: each part's −log p, shared among words as the part itself would."""
        learned_as = self._learned_as(np.array([own]))
        along = np.zeros(len(text))
        lacking: dict[str, float] = {}
        for k, part in enumerate(self.parts):
            by_place, absent = part.relevance(text, int(learned_as[0]))
            total = float(by_place.sum()) + sum(absent.values())
            score = part.scores([text], learned_as)
            surprise = float((self.laws[k].value(score) if self.laws else score)[0])
            scale = surprise / total if total > 0 else 0.0
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

    def _fits(self) -> Iterator[Fit]:
        yield "likeness", self.likeness in LIKENESS, True
        yield "parts", all(hasattr(part, "relevance") for part in self.parts), True
        yield "parts", len(self.parts) > 0 and hasattr(self.parts[0], "bag"), True
        laws = [] if self.law is None else [self.law, *self.laws]
        yield "laws", len(laws), 0 if self.law is None else 1 + len(self.parts)
        yield "laws", all(isinstance(law, Surprise) for law in laws), True
        yield "learned", list(self.learned), []
        yield "places", np.array_equal(self.places, [-1]), True


def _joined(laws: Sequence[Surprise], scores: Sequence[Floats]) -> Floats:
    """One score from those of the parts: the only one, or the sum of their surprises."""
    if len(scores) == 1:
        return scores[0]
    joint = np.zeros(len(scores[0]))
    for law, each in zip(laws, scores, strict=True):
        joint += law.value(each)
    return joint
