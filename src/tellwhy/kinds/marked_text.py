"""A text cut into words and what stands between them, with the relevance of the features they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tellwhy.results.labelled_texts import MarkedText, Piece

_WORD = re.compile(r"\w+")


def mark_text(text: str, relevance: Mapping[str, float], *, most: int = 2_000) -> MarkedText:
    """Share the relevance of features out among the words of a text.

    A feature is a word, in lower case, or several words of two letters and more that follow each other, with
    blanks between them. Its relevance is shared equally among its places in the text, and there among its
    words.

    Parameters
    ----------
    text
        The text, as it was given.
    relevance
        Feature -> relevance, for those that the text has.
    most
        Characters to show; the relevance of what follows counts as elsewhere.

    Examples
    --------
    >>> found = mark_text("The Moon, the moon!", {"moon": 2.0, "orbit": 0.5})
    >>> [(piece.text, piece.relevance) for piece in found.pieces if piece.relevance]
    [('Moon', 1.0), ('moon', 1.0)]
    >>> found.elsewhere
    0.5
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    marks = _share_relevance([text[start:end].lower() for start, end in spans], relevance)
    pieces = []
    at = 0
    for (start, end), mark in zip(spans, marks, strict=True):
        if end > most:
            break
        pieces += [Piece(text[at:start])] * (start > at) + [Piece(text[start:end], mark)]
        at = end
    pieces += [Piece(text[at:most])] * (at < min(most, len(text)))
    shown = sum(piece.relevance for piece in pieces)
    return MarkedText(tuple(pieces), sum(relevance.values()) - shown, len(text) > most)


def _share_relevance(words: list[str], relevance: Mapping[str, float]) -> list[float]:
    places = _find_features(words, relevance)
    marks = [0.0] * len(words)
    for feature, found in places.items():
        for run in found:
            for k in run:
                marks[k] += relevance[feature] / (len(found) * len(run))
    return marks


def _find_features(words: list[str], relevance: Mapping[str, float]) -> dict[str, list[list[int]]]:
    """Where each feature stands: for every occurrence, the numbers of its words."""
    longest = max((feature.count(" ") + 1 for feature in relevance), default=1)
    # Vectorizers drop words of one letter before they form pairs: "a moon" and "moon" are the same to them.
    long = [k for k, word in enumerate(words) if len(word) > 1]
    places: dict[str, list[list[int]]] = {}
    for k, word in enumerate(words):
        if word in relevance:
            places.setdefault(word, []).append([k])
    for size in range(2, longest + 1):
        for start in range(len(long) - size + 1):
            run = long[start : start + size]
            feature = " ".join(words[k] for k in run)
            if feature in relevance:
                places.setdefault(feature, []).append(run)
    return places
