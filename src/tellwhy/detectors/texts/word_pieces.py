"""Texts as word pieces: the longest known beginnings of words, as a network of sentences reads them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_WORD = 100  # letters; a longer word is unknown
MOST_PIECES = 126  # of a text, without the two marks at its ends
UNKNOWN = "[UNK]"
FIRST = "[CLS]"
LAST = "[SEP]"
_BLANKS = " \t\n\r"
# marks of ASCII that Unicode calls symbols count as punctuation, too
_ASCII_MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True, eq=False)
class WordPieces:
    """The pieces that are known, and their numbers.

    Examples
    --------
    >>> known = ["[UNK]", "[CLS]", "[SEP]", "un", "##happy", "day", "."]
    >>> WordPieces({piece: k for k, piece in enumerate(known)}).numbers("Unhappy day.")
    [1, 3, 4, 5, 6, 2]
    """

    known: Mapping[str, int]

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of the pieces of a text, between the two marks at its ends."""
        found: list[int] = []
        for word in words_of(text):
            found += [self.known[piece] for piece in self.pieces(word)]
            if len(found) >= MOST_PIECES:
                break
        return [self.known[FIRST], *found[:MOST_PIECES], self.known[LAST]]

    def pieces(self, word: str) -> list[str]:
        """Return the pieces of a word: from its beginning, the longest that is known, again and again."""
        found: list[str] = []
        start = 0
        while start < len(word) <= LONGEST_WORD:
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.known), None)
            if end is None:
                return [UNKNOWN]
            found.append(mark + word[start:end])
            start = end
        return found or [UNKNOWN]


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters without accents; marks and Chinese letters stand alone.

    Examples
    --------
    >>> words_of("Où est-il, 東京?")
    ['ou', 'est', '-', 'il', ',', '東', '京', '?']
    """
    found: list[str] = []
    is_open = False
    for letter in text:
        kind = unicodedata.category(letter)
        if letter in _BLANKS or kind == "Zs":
            is_open = False
        elif letter in _ASCII_MARKS or kind.startswith("P") or _is_chinese(letter):
            found.append(letter)
            is_open = False
        elif not kind.startswith("C"):
            small = unicodedata.normalize("NFD", letter.lower())
            plain = "".join(each for each in small if unicodedata.category(each) != "Mn")
            if not plain:
                continue
            if is_open:
                found[-1] += plain
            else:
                found.append(plain)
            is_open = True
    return found


def _is_chinese(letter: str) -> bool:
    return "\u4e00" <= letter <= "\u9fff" or "\u3400" <= letter <= "\u4dbf"
