"""How far a text is from the texts that mean most nearly the same, by vectors of a small network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tellwhy.core.params import Fit
from tellwhy.core.score import Floats, Integers

NEIGHBOURS = 20
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, eq=False)
class SentenceNeighbours:
    """1 − the mean cosine of a text's vector with those of the twenty texts that mean most nearly the same.

    Attributes
    ----------
    vectors
        Of the texts that were learned from, each of length 1.
    """

    vectors: Floats

    @classmethod
    def learn(cls, texts: Sequence[str]) -> SentenceNeighbours:
        """Learn the vectors of texts."""
        return cls(compute_vectors_of(texts))

    @property
    def n_learned(self) -> int:
        """How many texts were learned from."""
        return len(self.vectors)

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Return 1 − the mean cosine; `own` tells which learned text each one is, −1 for none."""
        held = self.vectors[own] if (own >= 0).all() else compute_vectors_of(texts)
        return self._scored(held, own)

    def _scored(self, vectors: Floats, own: Integers) -> Floats:
        cosines = vectors @ self.vectors.T
        here = np.flatnonzero(own >= 0)
        n = len(self.vectors)
        if n > 1:
            cosines[here, own[here]] = -1.0
        # one of few texts must not be compared with all others: then every text would be as odd
        k = min(NEIGHBOURS, max(1, n // 4))
        return np.asarray(1.0 - np.sort(cosines, axis=1)[:, n - k :].mean(axis=1))

    def relevance(self, text: str, own: int) -> tuple[Floats, dict[str, float]]:
        """Return by how much the text is nearer without each of its words, over the characters of the word.

        A network of attention has no exact sum over words: to leave a word out is its own answer.
        """
        words = [match.span() for match in _WORD.finditer(text)]
        without = [text[:start] + text[stop:] for start, stop in words]
        scores = self._scored(compute_vectors_of([text, *without]), np.full(1 + len(words), own))
        along = np.zeros(len(text))
        for (start, stop), score in zip(words, scores[1:], strict=True):
            along[start:stop] = max(scores[0] - score, 0.0) / (stop - start)
        return along, {}

    def _require(self) -> Iterator[Fit]:
        yield "vectors", self.vectors.ndim == 2 and len(self.vectors) > 0, True


def compute_vectors_of(texts: Sequence[str]) -> Floats:
    """Return the vector of each text."""
    from tellwhy.detectors.texts.sentence_network import load_sentence_network

    return load_sentence_network().vectors(texts)
