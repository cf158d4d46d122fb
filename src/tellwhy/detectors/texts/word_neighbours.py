"""How far a text is from the texts most like it, by their weighted words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tellwhy.core.params import Fit
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.data.text import BagOfWords

NEIGHBOURS = 5
MOST_WORDS = 1_000_000
SHARED = 0.5  # share of the neighbours that have a word which a text is said to lack


@dataclass(frozen=True, eq=False)
class WordNeighbours:
    """1 − the mean cosine of a text's weighted words with those of the texts most like it.

    Word w of a text, which stands there m times, counts (1 + log m)(1 + log(n/n_w)), where n_w of the n texts
    that were learned from have it, or lack it, if those are fewer. A word that a single text has, or none,
    has no column, but its part in the length of a text, which all are divided by. Texts that were learned
    from are compared with the others.

    Attributes
    ----------
    bag
        Which words there are.
    weights
        1 + log(n/n_w) of each, and last of a new word.
    data, indices, indptr
        The texts that were learned from, as rows of a sparse matrix.

    Examples
    --------
    >>> words = WordNeighbours.learn(["the cat sat", "the cat ran", "a cat sat", "the dog sat", "a dog ran"])
    >>> found = words.scores(["the cat sat", "the quark sat"], np.array([-1, -1]))
    >>> bool(found[0] < found[1])
    True
    """

    bag: BagOfWords
    weights: Floats
    data: Floats
    indices: Integers
    indptr: Integers

    @classmethod
    def learn(cls, texts: Sequence[str], **bag: Any) -> WordNeighbours:
        """Learn which words there are, and which texts have them; `bag`: settings of `BagOfWords`."""
        words = BagOfWords(**{"min_documents": 2, "max_features": MOST_WORDS, **bag}).fit(texts)
        documents = Counter(word for text in texts for word in _counts(words, text))
        n_with = np.array([*(documents[word] for word in words.columns_), 1.0])
        # to lack what nearly all texts have says as much as to have what few of them have
        rarer = np.where(words.is_common_, len(texts) - n_with, n_with)
        weights = np.log(len(texts) / np.maximum(rarer, 1.0)) + 1.0
        rows = _rows(words, weights, texts)
        return cls(words, weights, rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64))

    @property
    def n_learned(self) -> int:
        """How many texts were learned from."""
        return len(self.indptr) - 1

    @property
    def _learned(self) -> csr_array:
        shape = (len(self.indptr) - 1, len(self.weights) - 1)
        return csr_array((self.data, self.indices, self.indptr), shape=shape)

    def _nearest(self, rows: csr_array, own: Integers) -> tuple[Integers, Floats]:
        """The learned texts most like each row, but for itself, and their cosines."""
        learned = self._learned
        n = learned.shape[0]
        # one of few texts must not be compared with all others: then every text would be as odd
        k = min(NEIGHBOURS, max(1, n // 4))
        cosines = (rows @ learned.T).toarray()
        here = np.flatnonzero(own >= 0)
        if n > 1:
            cosines[here, own[here]] = -1.0
        places = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        return places, np.take_along_axis(cosines, places, axis=1)

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Return 1 − the mean cosine; `own` tells which learned text each one is, −1 for none."""
        found = np.empty(len(texts))
        n = len(self.indptr) - 1
        for rows in track_batches(len(texts), 32 * n, "comparing texts"):
            found[rows] = 1.0 - self._nearest(_rows(self.bag, self.weights, texts[rows]), own[rows])[1].mean(
                axis=1
            )
        return found

    def relevance(self, text: str, own: int) -> tuple[Floats, dict[str, float]]:
        """Return what makes a text unlike: by the characters of its words, and by words that it lacks.

        With x the text and ū the mean of its neighbours, word w has ½(x_w − ū_w)². These add up to the
        score but for what the neighbours differ among themselves, and for words that less than half of
        them have.
        """
        x = _rows(self.bag, self.weights, [text])
        places = self._nearest(x, np.array([own]))[0][0]
        neighbours = self._learned[places]
        row = x.toarray()[0]
        values = 0.5 * (row - np.asarray(neighbours.sum(axis=0)).ravel() / len(places)) ** 2
        having = np.asarray((neighbours > 0).sum(axis=0)).ravel()
        lacking = np.flatnonzero((row == 0) & (having > SHARED * len(places)))
        new = max(1.0 - float(row @ row), 0.0)  # of the squared length, what new words have
        along = self.bag.spread_columns(text, np.append(values, 0.5 * new))
        return along, {str(self.bag.words_[k]): float(values[k]) for k in lacking}

    def _require(self) -> Iterator[Fit]:
        yield "bag", isinstance(self.bag, BagOfWords), True
        yield "weights", self.weights.shape, (len(self.bag.words_),)
        yield "data", self.data.shape, self.indices.shape
        ends = self.indptr
        is_sparse = (
            len(ends) > 1 and ends[0] == 0 and ends[-1] == len(self.data) and (np.diff(ends) >= 0).all()
        )
        yield "indptr", bool(is_sparse), True
        columns = self.indices
        is_known = not len(columns) or 0 <= columns.min() <= columns.max() < len(self.weights) - 1
        yield "indices", bool(is_known), True


def _counts(bag: BagOfWords, text: str) -> Counter[str]:
    return Counter(token.feature for token in bag.tokens(text))


def _rows(bag: BagOfWords, weights: Floats, texts: Sequence[str]) -> csr_array:
    """Weighted words of length 1; a new word has no column, but its part in the length."""
    values: list[Floats] = []
    columns: list[Integers] = []
    for text in texts:
        counts = _counts(bag, text)
        places = np.array([bag.column_of(word) for word in counts], dtype=np.int64)
        weighted = (1.0 + np.log(np.array([*counts.values()], dtype=np.float64))) * weights[places]
        length = float(np.linalg.norm(weighted)) or 1.0
        is_known = places < len(weights) - 1
        values.append(weighted[is_known] / length)
        columns.append(places[is_known])
    ends = np.cumsum([0, *(len(each) for each in values)])
    shape = (len(texts), len(weights) - 1)
    found = csr_array((np.concatenate(values), np.concatenate(columns), ends), shape=shape)
    found.sort_indices()
    return found
