"""A one-class model of texts: which words they have, beside those of ordinary texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import random_sample
from tellwhy.data.text import BagOfWords
from tellwhy.detectors import NearestNeighbours, OneClassSVM
from tellwhy.explainers import OneClassDTD
from tellwhy.scoring.training_rows import points_of

MOST_TEXTS = 5_000  # learned from
NEIGHBOURS = 5
TRIED = 1_000  # ordinary texts that tell which likeness follows the length less
LIKENESS = ("cosine", "paper")
DESCRIBES = {
    "cosine": "the mean distance to the nearest texts, whatever their lengths",
    "paper": "a one-class SVM of binary words (σ = 10, ν = 0.3)",
}


@dataclass(frozen=True, eq=False)
class TextModel:
    """How texts are told apart.

    Attributes
    ----------
    likeness
        "cosine" or "paper".
    bag
        From texts to rows.
    detector
        The fitted detector of rows.
    learned
        The texts that were learned from, and in `places` where each of the given ones is among them, −1 for
        those that were not drawn.
    """

    likeness: str
    bag: BagOfWords
    detector: Any
    learned: list[str]
    places: Integers

    @classmethod
    def learn(
        cls, texts: Sequence[str], *, likeness: str = "auto", random_state: int = 0, **bag: Any
    ) -> TextModel:
        """Learn from ordinary texts; "auto" takes the likeness whose scores of them follow lengths less."""
        chosen = random_sample(len(texts), MOST_TEXTS, np.random.default_rng(random_state))
        places = np.full(len(texts), -1, dtype=np.int64)
        places[chosen] = np.arange(len(chosen))
        learned = [texts[k] for k in chosen]
        if likeness != "auto":
            return cls._fitted(likeness, learned, places, bag)
        tried = [cls._fitted(name, learned, places, bag) for name in LIKENESS]
        return min(tried, key=lambda model: abs(model.follows_length()))

    @classmethod
    def _fitted(
        cls, likeness: str, learned: list[str], places: Integers, settings: dict[str, Any]
    ) -> TextModel:
        least = settings.get("min_documents") or max(1, min(5, len(learned) // 20))
        kind = "cosine" if likeness == "cosine" else "binary"
        bag = BagOfWords(**{**settings, "min_documents": least, "likeness": kind}).fit(learned)
        # one of few texts must not be compared with all others: then every text would be as odd
        nearest = NearestNeighbours(max(1, min(NEIGHBOURS, len(learned) // 4)))
        detector = nearest if likeness == "cosine" else OneClassSVM(bandwidth=10.0, nu=0.3)
        return cls(likeness, bag, detector.fit(bag.points(learned)), learned, places)

    @property
    def describes(self) -> str:
        """What the score is, in words."""
        return DESCRIBES[self.likeness]

    def follows_length(self) -> float:
        """Rank correlation of the scores of ordinary texts with the number of their words, 0 for none."""
        some = random_sample(len(self.learned), TRIED, np.random.default_rng(0))
        texts = [self.learned[k] for k in some]
        lengths = [len({token.feature for token in self.bag.tokens(text)}) for text in texts]
        scores = self._scored(texts, some)
        if np.ptp(lengths) == 0 or np.ptp(scores) == 0:
            return 0.0
        return float(spearmanr(lengths, scores).statistic)

    def without_texts(self) -> TextModel:
        """Return the same model for new texts only, which keeps none of those that it learned from.

        What is left of them are the words that recur, and which of these each of them has.
        """
        return replace(self, learned=[], places=np.full(1, -1, dtype=np.int64))

    def scores_of_learned(self) -> Floats:
        """Scores of the texts that were learned from, each without itself."""
        return self._scored(self.learned, np.arange(len(self.learned)))

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Scores of texts; `own` tells which of the texts given to `learn` each one is, −1 for none."""
        return self._scored(texts, self._learned_as(own))

    def _learned_as(self, own: Integers) -> Integers:
        return np.where(own >= 0, self.places[np.maximum(own, 0)], -1)

    def relevance(self, texts: Sequence[str], own: Integers) -> Floats:
        """Relevance of each word, but for common words that a text has."""
        rows = self._learned_as(own)
        values = OneClassDTD(self.detector, training_rows=rows).explain(self.bag.transform(texts)).values
        # A word that most texts have counts less beside many others: to have it is nothing to be told.
        return np.where(self.bag.is_common_ & (self.bag.counts(texts) > 0), 0.0, values)

    def _scored(self, texts: Sequence[str], own: Integers) -> Floats:
        """Score texts in batches, each without the learned text that it is."""
        score = self.detector.to_score()
        found = np.empty(len(texts))
        left_out = score.leave_some(points_of(own, score.expansion))
        for rows in tracked_batches(len(texts), 16 * len(self.bag.words_), "scoring texts"):
            found[rows] = score.value(self.bag.transform(texts[rows]), left_out[rows])
        return found
