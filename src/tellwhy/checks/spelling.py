"""Labels that are another label, written wrongly: 'germany', 'Germny' beside 'Germany'."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator

import numpy as np

from tellwhy.checks.facts import Coded, Facts, coded_labels
from tellwhy.checks.mistakes import MISSPELLING
from tellwhy.core.score import Integers
from tellwhy.data.reading.cells import as_utf8
from tellwhy.data.reading.survey import SINGLE_BYTE
from tellwhy.results.result import Finding

_RATIO = 20  # a misspelling is so many times rarer than what is meant
_COMMON = 20
_MOST_LEVELS = 5000
_ODD = 0.02  # a spelling of more rows than this is a second way of writing, told but not odd
_SHORTEST = 5
_LONG = 9
_FARTHEST = 4  # two changed letters: two more of some, two fewer of others
_DIGIT = re.compile(r"\d")
_MEANING = frozenset("<>=≤≥+±%#&*")  # signs that tell labels apart: '>50K' is no way to write '<=50K'


def find_misspellings(seen: Facts, known: Facts) -> list[Finding]:
    """Rare labels that differ from a common one in letter case, blanks or a letter or two."""
    findings: list[Finding] = []
    for column in seen.labels:
        coded = coded_labels(seen, known, column)
        if 2 <= len(coded.names) <= _MOST_LEVELS and seen.roles[column].kind != "boolean":
            findings += _of_column(seen, column, coded)
    return findings


def _of_column(seen: Facts, column: str, coded: Coded) -> Iterator[Finding]:
    here = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    counts = np.maximum(here, coded.counts())
    common = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i] >= _COMMON]
    for code, meant in _pairs(coded.names, counts, common):
        if not here[code]:
            continue
        rows = np.flatnonzero(coded.seen == code)
        is_odd = len(rows) <= _ODD * seen.n
        yield MISSPELLING.report(
            seen,
            column,
            rows,
            {"level": coded.names[code], "meant": coded.names[meant]},
            {"n": int(counts[meant])},
            surprise=math.log(seen.n / len(rows)) if is_odd else 0.0,
            # What many rows have is not taken from them: they would lose a column to a guess about spelling.
            is_told_only=not is_odd,
        )


def _pairs(names: tuple[str, ...], counts: Integers, common: list[int]) -> Iterator[tuple[int, int]]:
    """(misspelled, meant): codes of labels."""
    folded = [folded_text(well_encoded(name)) for name in names]
    letters = np.array([letter_counts(folded[code]) for code in common]).reshape(len(common), 32)
    first: dict[str, int] = {}
    for code in common:
        first.setdefault(folded[code], code)
    for code in map(int, np.flatnonzero(counts)):
        same = first.get(folded[code])
        if same is not None and same != code and counts[same] > 2 * counts[code]:
            yield code, same
        if same is None and len(common):
            # Texts that differ in so many letters are not compared one by one, which is slow.
            apart = np.abs(letters - letter_counts(folded[code])).sum(axis=1)
            near = [common[i] for i in np.flatnonzero(apart <= _FARTHEST)]
            if (meant := _near(code, names, folded, counts, near)) is not None:
                yield code, meant


def well_encoded(text: str) -> str:
    """Undo that a text was written as UTF-8 and read by another codec; other texts as they are.

    Examples
    --------
    >>> well_encoded("ZÃ¼rich"), well_encoded("Zürich"), well_encoded("Ã")
    ('Zürich', 'Zürich', 'Ã')
    """
    return next((meant for codec in SINGLE_BYTE if (meant := as_utf8(text, codec))), text)


def letter_counts(text: str) -> Integers:
    """How often each letter occurs; letters beyond a to z share their places.

    Examples
    --------
    >>> letter_counts("abba")[:3].tolist()
    [2, 2, 0]
    """
    places = np.array([(ord(letter) - ord("a")) % 32 for letter in text], dtype=np.int64)
    return np.bincount(places, minlength=32)


def folded_text(text: str) -> str:
    """A label without what is easily written otherwise: case, accents, blanks, most punctuation.

    Examples
    --------
    >>> folded_text(" São-Paulo "), folded_text("SAO PAULO"), folded_text(">50K")
    ('saopaulo', 'saopaulo', '>50k')
    """
    plain = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(c for c in plain if c.isalnum() or c in _MEANING)
    return letters or text


def _near(
    code: int, names: tuple[str, ...], folded: list[str], counts: Integers, common: list[int]
) -> int | None:
    """The common label that is one letter away (two in long words), where none of them are digits."""
    text = folded[code]
    if len(text) < _SHORTEST - 1 or _DIGIT.search(text):
        return None
    for meant in common:
        other = folded[meant]
        if counts[meant] < _RATIO * counts[code] or len(other) < _SHORTEST or _DIGIT.search(other):
            continue
        allowed = 2 if min(len(text), len(other)) >= _LONG else 1
        if abs(len(text) - len(other)) <= allowed and edits(text, other) <= allowed:
            return None if _is_variant(names[code], names[meant]) else meant
    return None


def _is_variant(one: str, other: str) -> bool:
    """Whether two labels differ in a word of one letter, as 'size a' and 'size b' do: names of two things.

    So does one with a word more: 'domain_u' is no way to write 'domain'.
    """
    words = [re.split(r"\W+|_", name.strip()) for name in (one, other)]
    shorter, longer = sorted(words, key=len)
    if len(shorter) < len(longer) and all(word in longer for word in shorter):
        return True
    return any(a != b and len(a) <= 2 and len(b) <= 2 for a, b in zip(*words, strict=False))


def edits(one: str, other: str) -> int:
    """Least number of letters to add, drop, change or swap with their neighbour.

    Examples
    --------
    >>> edits("germny", "germany"), edits("gremany", "germany"), edits("france", "franke")
    (1, 1, 1)
    """
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, start=1):
        row = [i]
        for j, wanted in enumerate(other, start=1):
            least = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]
