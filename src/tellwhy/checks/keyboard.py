"""How people slip on a keyboard: P(x | v), the chance that v was meant where x is written.

A slip is a few edits: a character for another, one too many, one too few, two swapped. Which character comes
in by mistake is learnt from slips beyond doubt: where every slip is an 'x', there is one way to slip.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tellwhy.core.params import Fit, are_finite

_LETTERS = 60  # characters of a keyboard
_PRIOR = 20  # slips that the flat law of the character that comes in is worth
_ONE_EDIT = math.log(0.35)
_OUT = -1.5
_CASE = math.log(0.1)
_SLIP = math.log(0.9)
_MOST = 3  # different edits
_FARTHEST = 2  # difference of lengths


@dataclass(frozen=True)
class Edit:
    """One edit: "replace", "add", "drop", "swap" or "case", the character meant, the one that came in."""

    kind: str
    meant: str = ""
    came: str = ""

    @property
    def is_of_digits(self) -> bool:
        """Whether it changes digits alone: neighbouring codes are different things."""
        letters = self.meant + self.came
        return self.kind in ("replace", "add", "drop") and letters.isdigit()


@dataclass(frozen=True, eq=False)
class Keyboard:
    """The law of the character that comes in: `came[c]` slips of `n` brought in c."""

    came: Mapping[str, float] = field(default_factory=dict)
    n: float = 0.0

    def _require(self) -> Iterator[Fit]:
        yield "came", isinstance(self.came, Mapping), True
        yield "n", are_finite(self.n), True

    @classmethod
    def learned(cls, slips: Iterable[Iterable[Edit]]) -> Keyboard:
        """Count which characters came in, in slips that are beyond doubt."""
        came: Counter[str] = Counter()
        for edits in slips:
            came.update(edit.came for edit in edits if edit.kind in ("replace", "add"))
        return cls(dict(came), float(came.total()))

    def p_came(self, letter: str) -> float:
        """P of a character, where one comes in by mistake."""
        return (self.came.get(letter, 0.0) + _PRIOR / _LETTERS) / (self.n + _PRIOR)

    def is_usual(self, letter: str) -> bool:
        """Whether most slips of this table bring in this character."""
        return self.p_came(letter) > 0.3

    def log_p(self, edits: Iterable[Edit], length: int) -> float:
        """log P of these edits of a text of this length, given that it was written wrongly."""
        total = _SLIP
        for edit in edits:
            if edit.kind == "case":
                return _CASE
            brings = edit.kind in ("replace", "add")
            total += _ONE_EDIT - math.log(max(length, 2))
            total += math.log(self.p_came(edit.came)) if brings else _OUT
        return total


def edits_between(written: str, meant: str) -> list[Edit] | None:
    """The edits that make what is written out of what was meant; None where the two are too far apart.

    A character replaced throughout is one edit.

    Examples
    --------
    >>> edits_between("germny", "germany"), edits_between("gremany", "germany")
    ([Edit(kind='drop', meant='a', came='')], [Edit(kind='swap', meant='', came='')])
    >>> edits_between("caxx", "call"), edits_between("france", "poland")
    ([Edit(kind='replace', meant='l', came='x')], None)
    """
    if written == meant or not written or not meant:
        return None
    if written.lower() == meant.lower():
        return [Edit("case")]
    if len(written) == len(meant):
        return _of_equal_length(written, meant)
    if abs(len(written) - len(meant)) > _FARTHEST:
        return None
    return _of_other_length(written, meant)


def _of_equal_length(written: str, meant: str) -> list[Edit] | None:
    differ = [(m, w) for m, w in zip(meant, written, strict=True) if m != w]
    if len(differ) == 2 and differ[0] == differ[1][::-1]:
        at = next(i for i, letter in enumerate(written) if letter != meant[i])
        if written[at : at + 2] == meant[at : at + 2][::-1]:
            return [Edit("swap")]
    kinds = dict.fromkeys(differ)
    if len(kinds) > _MOST or len(differ) > max(1, 0.5 * len(meant)):
        return None
    return [Edit("replace", m, w) for m, w in kinds]


def _of_other_length(written: str, meant: str) -> list[Edit] | None:
    """Least edits; the ends that are equal are left aside first."""
    allowed = min(_FARTHEST, max(1, len(meant) // 4))
    begin = _n_equal(written, meant)
    written, meant = written[begin:], meant[begin:]
    end = _n_equal(written[::-1], meant[::-1])
    written, meant = written[: len(written) - end], meant[: len(meant) - end]
    if max(len(written), len(meant)) > 3 * allowed + 3:
        return None
    table = _distances(written, meant)
    if table[len(meant)][len(written)] > allowed:
        return None
    return _traced(table, written, meant)


def _n_equal(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _distances(written: str, meant: str) -> list[list[int]]:
    table = [list(range(len(written) + 1))]
    for i, wanted in enumerate(meant, start=1):
        row = [i]
        for j, letter in enumerate(written, start=1):
            row.append(min(table[-1][j] + 1, row[-1] + 1, table[-1][j - 1] + (letter != wanted)))
        table.append(row)
    return table


def _traced(table: list[list[int]], written: str, meant: str) -> list[Edit]:
    i = len(meant)
    j = len(written)
    found = []
    while i or j:
        here = table[i][j]
        if i and j and here == table[i - 1][j - 1] + (meant[i - 1] != written[j - 1]):
            i -= 1
            j -= 1
            if meant[i] != written[j]:
                found.append(Edit("replace", meant[i], written[j]))
        elif j and here == table[i][j - 1] + 1:
            j -= 1
            found.append(Edit("add", "", written[j]))
        else:
            i -= 1
            found.append(Edit("drop", meant[i]))
    return found


def are_of_digits(edits: Iterable[Edit]) -> bool:
    """Whether all edits change digits."""
    return all(edit.is_of_digits for edit in edits)


@dataclass(frozen=True, eq=False)
class Near:
    """Texts among which those near another are found fast: by their length and the characters they have."""

    names: tuple[str, ...]
    lengths: Any
    letters: Any

    @classmethod
    def of(cls, names: Iterable[str]) -> Near:
        """Prepare the texts."""
        kept = tuple(names)
        letters = np.array([_letters(name) for name in kept], dtype=np.uint64)
        return cls(kept, np.array([len(name) for name in kept], dtype=np.int64), letters)

    def places(self, text: str) -> list[int]:
        """Places of the texts that may be a few edits away."""
        differ = np.bitwise_count(self.letters ^ np.uint64(_letters(text)))
        return np.flatnonzero(
            (np.abs(self.lengths - len(text)) <= _FARTHEST) & (differ <= 2 * _MOST)
        ).tolist()


def _letters(text: str) -> int:
    """The characters that a text has, one bit each; beyond 64, characters share bits."""
    bits = 0
    for letter in set(text):
        bits |= 1 << (ord(letter) % 64)
    return bits
