"""How surprising the characters of a text are after those before them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, is_increasing
from tellwhy.core.score import Floats, Integers

ORDER = 4  # characters of the longest strings that are counted
LONGEST = 1_500  # characters of a text that are read
UNSEEN = 1 / 200  # probability of a character of which nothing is known
MOST_CHARACTERS = 50_000  # different ones: codes of four of them fit into 63 bits
_START = "\x02"
_END = "\x03"
_SOLID = re.compile(r"\S+")


class Beside(NamedTuple):
    """What was counted of the strings of a text: the strings, and their contexts."""

    counts: Floats
    totals: Floats
    kinds: Floats

    def mixed_with(self, p: Floats) -> Floats:
        """Probability of each last character, p being the one by shorter strings."""
        return np.asarray((self.counts + self.kinds * p) / np.maximum(self.totals + self.kinds, 1.0))


@dataclass(frozen=True, eq=False)
class StringCounts:
    """How often strings of one length occurred in the texts that were learned from.

    Attributes
    ----------
    codes, counts
        Of each string, in the order of the codes.
    contexts, totals, kinds
        All but the last character of the strings: how often each was followed by any character, and by how
        many different ones.
    """

    codes: Integers
    counts: Integers
    contexts: Integers
    totals: Integers
    kinds: Integers

    @classmethod
    def of(cls, codes: Integers, base: int) -> StringCounts:
        """Count the strings with these codes."""
        found, counts = np.unique(codes, return_counts=True)
        contexts, place = np.unique(found // base, return_inverse=True)
        kinds = np.bincount(place, minlength=len(contexts))
        totals = np.bincount(place, counts, len(contexts)).astype(np.int64)
        return cls(found, counts, contexts, totals, kinds)

    def beside(self, codes: Integers, base: int, *, is_own: bool) -> Beside:
        """Counts of strings, totals and kinds of contexts; without these very strings where `is_own`."""
        each, where = np.unique(codes, return_inverse=True)
        own = np.bincount(where, minlength=len(each))
        before, place = np.unique(each // base, return_inverse=True)
        counts = _find_values(self.codes, self.counts, each)
        totals = _find_values(self.contexts, self.totals, before)
        kinds = _find_values(self.contexts, self.kinds, before)
        if is_own:
            kinds = kinds - np.bincount(place, counts == own, len(before))
            totals = totals - np.bincount(place, own, len(before))
            counts = counts - own
        return Beside(counts[where], totals[place][where], kinds[place][where])

    def _require(self) -> Iterator[Fit]:
        for name, others in (("codes", ("counts",)), ("contexts", ("totals", "kinds"))):
            keys = getattr(self, name)
            yield name, keys.dtype.kind == "i" and len(keys) > 0 and is_increasing(keys), True
            for other in others:
                yield other, getattr(self, other).shape, keys.shape


def _find_values(keys: Integers, values: Integers, wanted: Integers) -> Floats:
    """The value of each key; 0 for those that there are not."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LetterSurprise:
    """Mean of −log p(character | the three before it) over a text, its end included.

    Probabilities of strings of one to four characters are mixed as by Witten and Bell: with c the count of a
    string, N how often its beginning occurred and T how many different characters followed it,
    p = (c + T p')/(N + T), p' the probability by the string without its first character. Capitals count as
    small letters, and any white space as one blank.

    Attributes
    ----------
    alphabet
        The characters that were seen, in order.
    counts
        Of strings of one to four characters.
    usual
        Mean surprise of a character in the texts that were learned from, each without itself.

    References
    ----------
    Witten and Bell, IEEE Transactions on Information Theory 37 (1991), method C.

    Examples
    --------
    >>> model = LetterSurprise.learn(["the cat sat on the mat", "a cat on a mat"] * 5)
    >>> bool(model.score("the cat on the mat") < model.score("zq xjv"))
    True
    """

    alphabet: str
    counts: Sequence[StringCounts]
    usual: float = 0.0

    @classmethod
    def learn(cls, texts: Sequence[str]) -> LetterSurprise:
        """Count strings of characters."""
        lines = [_normalised(text) for text in texts]
        alphabet = "".join(sorted({_START, _END}.union(*lines)))
        if len(alphabet) > MOST_CHARACTERS:
            raise InvalidInput(
                f"The texts have {len(alphabet):,} different characters; at most {MOST_CHARACTERS:,} "
                "can be counted. Pass texts of fewer scripts."
            )
        codes = [make_codes(line, alphabet) for line in lines]
        base = len(alphabet) + 1
        counts = [StringCounts.of(np.concatenate([each[k] for each in codes]), base) for k in range(ORDER)]
        found = cls(alphabet, counts)
        return replace(found, usual=float(found.scores(texts, np.arange(len(texts))).mean()))

    def surprises(self, text: str, *, is_own: bool = False) -> Floats:
        """Return −log p of each character and of the end; of a learned text (`is_own`), without itself."""
        line = _normalised(text)
        p = np.full(len(line) + 1, UNSEEN)
        goes_on = np.ones(len(p), dtype=bool)
        base = len(self.alphabet) + 1
        for codes, counted in zip(make_codes(line, self.alphabet), self.counts, strict=True):
            counted_here = counted.beside(codes, base, is_own=is_own)
            goes_on &= counted_here.totals > 0
            p = np.where(goes_on, counted_here.mixed_with(p), p)
        return np.asarray(-np.log(p))

    def score(self, text: str, *, is_own: bool = False) -> float:
        """Return the mean surprise of a text's characters."""
        return float(self.surprises(text, is_own=is_own).mean())

    def scores(self, texts: Sequence[str], own: Integers) -> Floats:
        """Return the scores of texts; `own` tells which learned text each one is, −1 for none."""
        each = [self.score(text, is_own=bool(k >= 0)) for text, k in zip(texts, own, strict=True)]
        return np.array(each, dtype=np.float64)

    def along(self, text: str, *, is_own: bool = False) -> Floats:
        """Return the surprise of each character of the text as it was given; blanks have none."""
        values = self.surprises(text, is_own=is_own)
        solid = np.array([letter != " " for letter in _normalised(text)], dtype=bool)
        places = np.flatnonzero([not letter.isspace() for letter in text])
        found = np.zeros(len(text))
        found[places[: solid.sum()]] = values[:-1][solid]
        return found

    def relevance(self, text: str, own: int) -> tuple[Floats, dict[str, float]]:
        """Return what words have beyond the usual surprise, over their characters; no word is lacking."""
        found = self.along(text, is_own=own >= 0) - self.usual
        for word in _SOLID.finditer(text):
            place = slice(*word.span())
            found[place] = max(float(found[place].sum()), 0.0) / (place.stop - place.start)
        return np.clip(found, 0.0, None) * [not letter.isspace() for letter in text], {}

    def _require(self) -> Iterator[Fit]:
        yield "alphabet", sorted(set(self.alphabet)), list(self.alphabet)
        yield "counts", len(self.counts), ORDER
        yield "counts", all(isinstance(each, StringCounts) for each in self.counts), True


def make_codes(line: str, alphabet: str) -> list[Integers]:
    """Return the codes of the strings of one to four characters that end at each character and at the end.

    A character's digit is its place in the alphabet, from 1; 0 is for one that is not in it.
    """
    known = np.frombuffer(alphabet.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    padded = _START * (ORDER - 1) + line + _END
    letters = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    places = np.minimum(np.searchsorted(known, letters), len(known) - 1)
    digits = np.where(known[places] == letters, places + 1, 0).astype(np.int64)
    found: list[Integers] = [np.asarray(digits[ORDER - 1 :], dtype=np.int64)]
    for k in range(1, ORDER):
        found.append(found[-1] + digits[ORDER - 1 - k :][: len(line) + 1] * (len(known) + 1) ** k)
    return found


def _normalised(text: str) -> str:
    """A text as it is read: small letters, single blanks, at most 1,500 characters."""
    small = text.lower()
    if len(small) != len(text):  # a few capitals become two letters: the first stays, as places are kept
        small = "".join(letter.lower()[0] for letter in text)
    return " ".join(_SOLID.findall(small))[:LONGEST]
