"""Texts as rows: which words, or which strings of letters, each of them has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, Rules, are_texts, boolean, integer, one_of, validate_parameters
from tellwhy.core.score import Floats

OTHERS = "(other words)"
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_VOWEL = re.compile(r"[aeiouy]")
_DOUBLE = re.compile(r"([^aeioulsz])\1$")


class Token(NamedTuple):
    """Where a feature stands in a text."""

    start: int
    end: int
    feature: str


class BagOfWords(BaseEstimator):
    """Binary bag of words: x_i = 1 where a text has word i, else 0; or the same with every text of length 1.

    Words that occur in too few texts have no column of their own: the last column holds the square root of
    how many different ones a text has, so that each of them counts as much as a word that no other text has.
    Compare texts with `points(texts)` of the others, where that column is 0: two texts are not alike because
    both have words that nobody else has.

    Parameters
    ----------
    unit
        "words", or "letters": strings of `n_letters` letters, which do not mind misspellings.
    min_documents
        Texts that a word must occur in to have a column.
    max_features
        The most columns; those of the words in most texts.
    stem
        Cut English endings (-s, -ed, -ing), so that "walks" and "walked" are one word.
    n_letters
        Length of the strings of letters.
    likeness
        "binary", as published: a long text differs from others in more words than a short one. "cosine": a
        word counts log(n/n_i) + 1, where n_i of the n texts have it (or lack it, if those are fewer), and
        rows are divided by their lengths, so that long and short texts of the same words are alike.

    Attributes
    ----------
    words_
        The word of each column, in alphabetical order; the last is "(other words)".
    weights_, is_common_
        What each column counts, and whether most texts have its word.

    Examples
    --------
    >>> bag = BagOfWords(min_documents=2, stem=True).fit(["The cat walks", "the cats walked", "a dog"])
    >>> list(bag.words_)
    ['cat', 'the', 'walk', '(other words)']
    >>> bag.transform(["Walking the dog and a fish"]).round(2)
    array([[0., 1., 1., 2.]])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "unit": one_of("words", "letters"),
        "min_documents": integer(1),
        "max_features": integer(1),
        "stem": boolean,
        "n_letters": integer(1, 20),
        "likeness": one_of("binary", "cosine"),
    }

    def __init__(
        self,
        unit: str = "words",
        *,
        min_documents: int = 5,
        max_features: int = 3_000,
        stem: bool = False,
        n_letters: int = 3,
        likeness: str = "binary",
    ):
        self.unit = unit
        self.min_documents = min_documents
        self.max_features = max_features
        self.stem = stem
        self.n_letters = n_letters
        self.likeness = likeness

    def fit(self, texts: Iterable[Any], y: object = None) -> Self:  # noqa: ARG002
        """Learn which words there are."""
        validate_parameters(self)
        counts: Counter[str] = Counter()
        given = check_texts(texts)
        for text in given:
            counts.update({token.feature for token in self.tokens(text)})
        usual = [(-n, word) for word, n in counts.items() if n >= self.min_documents]
        if not usual:
            raise InvalidInput(
                f"No word occurs in {self.min_documents} texts or more, of {len(counts):,} different "
                "ones. Pass more texts, a smaller min_documents, or unit='letters'."
            )
        chosen = sorted(word for _, word in sorted(usual)[: self.max_features])
        self.words_ = np.array([*chosen, OTHERS], dtype=object)
        self.columns_ = {word: k for k, word in enumerate(chosen)}
        # a word without a column is one that a single text has, as far as is known
        n_with = np.array([*(counts[word] for word in chosen), 1.0])
        # to lack what nearly all texts have says as much as to have what few of them have
        self.is_common_ = n_with > len(given) / 2
        rarer = np.maximum(np.where(self.is_common_, len(given) - n_with, n_with), 1.0)
        is_cosine = self.likeness == "cosine"
        self.weights_ = np.log(len(given) / rarer) + 1.0 if is_cosine else np.ones(len(n_with))
        return self

    def transform(self, texts: Iterable[Any]) -> Floats:
        """Return one row per text, one column per word."""
        rows = self.counts(texts)
        if self.likeness == "binary":
            return rows
        rows *= self.weights_
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1.0)  # an empty text may have no length

    def counts(self, texts: Iterable[Any]) -> Floats:
        """Return 1 for each word that a text has, and last the root of how many others it has."""
        check_is_fitted(self)
        given = check_texts(texts)
        rows = np.zeros((len(given), len(self.words_)))
        for row, text in zip(rows, given, strict=True):
            found = {token.feature for token in self.tokens(text)}
            known = [self.columns_[word] for word in found if word in self.columns_]
            row[known] = 1.0
            row[-1] = np.sqrt(len(found) - len(known))
        return rows

    def points(self, texts: Iterable[Any]) -> Floats:
        """Return rows that others are compared with: words that only one text has are shared with none."""
        rows = self.transform(texts)
        rows[:, -1] = 0.0
        return rows

    def tokens(self, text: str) -> list[Token]:
        """Return the words of a text, or its strings of letters, with their places."""
        if self.unit == "letters":
            lower = text.lower()
            n = int(self.n_letters)
            found = (Token(k, k + n, lower[k : k + n]) for k in range(len(text) - n + 1))
            return [token for token in found if not token.feature.isspace()]
        words = (Token(m.start(), m.end(), m.group().lower()) for m in _WORD.finditer(text))
        return [word._replace(feature=stem(word.feature)) for word in words] if self.stem else list(words)

    def column_of(self, feature: str) -> int:
        """Return the column of a word; the last one for words without their own."""
        return self.columns_.get(feature, len(self.words_) - 1)

    def spread_columns(self, text: str, values: Floats) -> Floats:
        """Return the value of each column, spread over the characters of its words in a text."""
        tokens = self.tokens(text)
        columns = np.array([self.column_of(token.feature) for token in tokens], dtype=np.int64)
        n_of = np.bincount(columns, minlength=len(values))
        found = np.zeros(len(text))
        for token, column in zip(tokens, columns, strict=True):
            found[token.start : token.end] += values[column] / (n_of[column] * (token.end - token.start))
        return found

    def _require(self) -> Iterator[Fit]:
        words = list(self.words_)
        yield "words_", len(words) > 1 and are_texts(*words), True
        yield "columns_", dict(self.columns_), {word: k for k, word in enumerate(words[:-1])}
        for part in ("weights_", "is_common_"):
            yield part, getattr(self, part).shape, (len(words),)
        yield "weights_", self.weights_.dtype.kind, "f"
        yield "is_common_", self.is_common_.dtype.kind, "b"


def check_texts(texts: Iterable[Any]) -> list[str]:
    """Return texts as a list; missing ones are empty."""
    if isinstance(texts, str):
        raise InvalidInput(f"texts is one text, {texts[:40]!r}; expected a list of texts. Pass [text].")
    given = list(texts)
    for k, text in enumerate(given):
        if not isinstance(text, (str, list, tuple, dict)) and pd.isna(text):
            given[k] = ""
        elif not isinstance(text, str):
            raise InvalidInput(f"Text {k} is {text!r}, a {type(text).__name__}; expected text.")
    return given


def stem(word: str) -> str:
    """Cut the English endings -s, -es, -ies, -ed and -ing (step 1 of Porter, 1980).

    Examples
    --------
    >>> [stem(word) for word in ("ponies", "caresses", "walked", "hopping", "sing", "agreed", "this")]
    ['poni', 'caress', 'walk', 'hop', 'sing', 'agree', 'thi']
    """
    if len(word) <= 2:
        return word
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _VOWEL.search(word[:-3]) else word
    for ending in ("ed", "ing"):
        body = word.removesuffix(ending)
        if body != word and _VOWEL.search(body):
            word = _tidy(body)
            break
    return word[:-1] + "i" if word.endswith("y") and _VOWEL.search(word[:-1]) else word


def _tidy(body: str) -> str:
    """hopp → hop, fil → file: what is left after -ed or -ing, as it is written without."""
    if body.endswith(("at", "bl", "iz")):
        return body + "e"
    return body[:-1] if _DOUBLE.search(body) else body


def cut_pieces(text: str, along: Floats) -> list[tuple[str, float]]:
    """Return words and what stands between them, each with the sum of its characters' values.

    Examples
    --------
    >>> cut_pieces("So it is.", np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    [('So', 0.0), (' ', 0.0), ('it', 2.0), (' ', 0.0), ('is', 0.0), ('.', 0.0)]
    """
    found = []
    at = 0
    for start, end in [match.span() for match in _WORD.finditer(text)] + [(len(text), len(text))]:
        if start > at:
            found.append((text[at:start], float(along[at:start].sum())))
        if end > start:
            found.append((text[start:end], float(along[start:end].sum())))
        at = end
    return found
