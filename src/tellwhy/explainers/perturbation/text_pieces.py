"""Texts as rows of words that are there or left out: what lets methods for tables explain texts.

`text_pieces` cuts a text into words, sentences or pieces of one's own; `PiecesScore` is the score of one
text by which of its pieces are kept, so that any method that replaces cells can explain it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.score import Floats, Integers, KeepsOutput
from tellwhy.scoring.function_scores import check_one_per_row

# Letters of scripts without spaces between words stand alone; all others make words, with what joins them.
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+(?:['’\-][^\W{_ALONE}]+)*|[^\w\s]")
_SENTENCE = re.compile(r"\S(?:.*?[.!?…。！？]+(?=\s|$)|.*$)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"[^\n]*\S[^\n]*")
UNITS = {"words": _WORD, "sentences": _SENTENCE, "lines": _LINE}

Cut = str | Callable[[str], Sequence[str]]
"""How texts are cut: "words", "sentences", "lines", or a function that gives the pieces in their order."""


@dataclass(frozen=True)
class TextPieces:
    """A text, and where its pieces stand in it.

    Attributes
    ----------
    text
        The text.
    places
        Beginning and end of each piece, in the order of the text.

    Examples
    --------
    >>> pieces = text_pieces("Not bad, not bad at all.", "words")
    >>> pieces.written
    ['Not', 'bad', ',', 'not', 'bad', 'at', 'all', '.']
    >>> pieces.kept(np.array([1, 1, 0, 0, 1, 1, 1, 1], dtype=bool))
    'Not bad bad at all.'
    """

    text: str
    places: tuple[tuple[int, int], ...]

    @property
    def written(self) -> list[str]:
        """The pieces as they are written."""
        return [self.text[start:end] for start, end in self.places]

    def kept(self, keep: Any, instead: str = "") -> str:
        """Return the text of some pieces; each of the others is replaced, or left out with its space."""
        parts: list[str] = []
        at = 0
        for (start, end), is_kept in zip(self.places, keep, strict=True):
            between = self.text[at:start]
            if is_kept or instead:
                parts += [between, self.text[start:end] if is_kept else instead]
            else:  # the space before it goes with it; line ends and punctuation stay
                parts.append(between.rstrip(" \t"))
            at = end
        return "".join(parts).lstrip(" ") + self.text[at:]


def text_pieces(text: str, cut: Cut = "words") -> TextPieces:
    """Cut a text into pieces.

    Parameters
    ----------
    text
        The text.
    cut
        "words" (punctuation marks are words of their own), "sentences", "lines", or a function that gives
        the pieces, in the order in which they stand in the text: the tokens of a tokenizer, say.

    Returns
    -------
    TextPieces
        The text, and where its pieces stand.

    Examples
    --------
    >>> text_pieces("It rains. I stay in!", "sentences").written
    ['It rains.', 'I stay in!']
    >>> text_pieces("a-b c", lambda text: text.split("-")).written
    ['a', 'b c']
    """
    if isinstance(cut, str):
        return TextPieces(text, tuple(match.span() for match in UNITS[cut].finditer(text)))
    places: list[tuple[int, int]] = []
    at = 0
    for piece in cut(text):
        start = text.find(piece, at)
        if not piece or start < 0:
            raise InvalidParameter(
                f"pieces= gave {piece!r}, which does not stand in the text {text[:60]!r} after place {at}. "
                "Give the pieces as they are written there, in their order."
            )
        at = start + len(piece)
        places.append((start, at))
    return TextPieces(text, tuple(places))


class PiecesScore:
    """The score of one text, as a function of which of its pieces are kept.

    Rows hold one cell for each piece, 1 where it is kept and 0 where not. Of a model of several outputs, the
    one that the whole text has is kept.

    Parameters
    ----------
    score
        A score of lists of texts.
    pieces
        The text, cut.
    baseline
        What replaces a piece that is not kept; an empty text: it is left out.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> length = FunctionScore(lambda texts: np.array([len(text) for text in texts]))
    >>> PiecesScore(length, text_pieces("ten words")).value(np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([9., 3.])
    """

    is_prediction = True  # of masks nobody asks which would be normal
    names: Any = None
    threshold: float | None = None
    feature_names: Sequence[str] | None = None

    def __init__(self, score: Any, pieces: TextPieces, baseline: str = ""):
        self.score = score
        self.pieces = pieces
        self.baseline = baseline
        self.feature_shape = (len(pieces.places),)
        self.describes = score.describes
        self.own = score.fixed([pieces.text])[0] if isinstance(score, KeepsOutput) else None

    def texts(self, masks: Any) -> list[str]:
        """Write the texts that some masks stand for."""
        return [self.pieces.kept(mask, self.baseline) for mask in np.asarray(masks) > 0.5]

    def value(self, masks: Any) -> Floats:
        """Return one number for each mask."""
        return self.of_texts(self.texts(masks))

    def of_texts(self, texts: list[str]) -> Floats:
        """Return the number of each text; those that are written alike are asked for once."""
        different = list(dict.fromkeys(texts))
        place = {text: number for number, text in enumerate(different)}
        own = () if self.own is None else (np.repeat(self.own, len(different)),)
        found = check_one_per_row(self.score.value(different, *own), len(different), self.describes)
        return np.asarray(found[[place[text] for text in texts]])

    def output_names(self, _numbers: Integers) -> Any:
        """Names of outputs: none, for one output is explained."""
        return None


def check_texts(X: Any) -> list[str]:
    """Return texts as a list, or say what is wrong with them.

    Examples
    --------
    >>> check_texts(np.array(["one", "two"]))
    ['one', 'two']
    """
    texts = [str(text) for text in X if isinstance(text, str)]
    if len(texts) != len(X):
        odd = next(item for item in X if not isinstance(item, str))
        raise InvalidInput(f"X holds {odd!r} among its texts; expected texts only. Leave it out.")
    empty = next((number for number, text in enumerate(texts) if not text.strip()), None)
    if empty is not None:
        raise InvalidInput(f"Text {empty} of X is empty: there is nothing to leave out. Drop it.")
    return texts
