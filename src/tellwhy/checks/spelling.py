"""Labels that are another label, written wrongly: 'germany', 'Germny' beside 'Germany'.

A rare label x near a common one v is a slip with odds

    ρ · P(v) · P(x | v) / P(x is a new label of its own),

where a label of its own is spelt as the others are, or is a neighbour of one of them as often as common
labels are neighbours of each other: Payne and Wayne are both counties.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.checks.contest import Claim
from tellwhy.checks.keyboard import Edit, Keyboard, Near, are_of_digits, edits_between
from tellwhy.checks.mistakes import MISSPELLING
from tellwhy.checks.writing import Writing
from tellwhy.core.score import Integers
from tellwhy.data.reading.cells import read_as_utf8
from tellwhy.data.reading.survey import SINGLE_BYTE

RATE = 0.01  # P that a cell is written wrongly, before anything is known of the table
CONFIDENT = 3.0  # log-odds from which a slip teaches which characters come in
_NUMBERS = 0.8  # a column with more numbers is no column of labels
_FEWEST = 4
_COMMON = 0.004
_RARE = 0.01
_MOST_COMMON = 1500
_MOST_RARE = 5000
_RATIO = 5  # a slip is so many times rarer than what is meant
_RECURS = 2.0  # a slip is seldom made twice, a label of its own is: the power of how often it occurs
_SHORT = 4
_PROBED = 200  # common labels on which neighbours are counted
_NEIGHBOURS = 0.3  # neighbours, and labels, that a column is taken to have besides
_LABELS = 10.0
_SHORT_CODE = -2.0
_FIRST_LETTER = -1.5
_MISREAD = 4.0  # bytes that were read in the wrong encoding are no label of their own
_FITTED = (0.6, 1.08)  # log-odds that came true in tables with planted mistakes: a + b·l
_MEANING = frozenset("<>=≤≥+±%#&*")  # signs that tell labels apart: '>50K' is no way to write '<=50K'
_DIGITS = re.compile(r"\d+")
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, eq=False)
class Slip:
    """A label, the one that was meant, the log-odds of it, and the edits between."""

    code: int
    meant: int
    log_odds: float
    edits: list[Edit]


def is_of_labels(column: Writing) -> bool:
    """Whether a column holds labels, of which one may be another, written wrongly."""
    return column.is_text and column.k >= 2 and column.number_share <= _NUMBERS


def misspelt_labels(column: Writing, keyboard: Keyboard) -> list[Slip]:
    """Rare labels near a common one, with their log-odds."""
    if not is_of_labels(column):
        return []
    counts = column.counts
    is_label = ~column.is_mark & (counts > 0)
    common = np.flatnonzero(is_label & (counts >= max(_FEWEST, _COMMON * column.n)))
    rare = np.flatnonzero(is_label & (counts <= max(2, _RARE * column.n)) & ~_of_known_words(column))
    if not 0 < len(common) <= _MOST_COMMON or not 0 < len(rare) <= _MOST_RARE:
        return []
    near = Near.of(column.names[code] for code in common)
    known = _Common(common, near, _neighbour_share(near))
    found = {int(code): _nearest(column, int(code), known, keyboard) for code in rare}
    # Slips are met once, too: what is new by nature is counted on labels that are near no other.
    far = sum(int(counts[code] == 1) for code, near_ones in found.items() if not near_ones)
    new = far / (1 - known.neighbours) / column.n + 1 / column.n
    return [_weigh(column, code, known, keyboard, found[code], new=new) for code in found if found[code]]


def _of_known_words(column: Writing) -> np.ndarray:
    """Which labels are words that all stand in other labels too: Very_Poor beside Poor and Very_Good."""
    words = [set(_WORDS.findall(name.lower())) for name in column.names]
    met = Counter(word for own, n in zip(words, column.counts, strict=True) if n for word in own)
    return np.array([len(own) > 1 and all(met[word] > 1 for word in own) for own in words], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class _Common:
    """The common labels of a column, and how often one is a neighbour of another."""

    codes: Integers
    near: Near
    neighbours: float


def _neighbour_share(near: Near) -> float:
    """How often a common label is one edit away from another."""
    probed = near.names[:_PROBED]
    some = Near.of(probed)
    n_near = sum(any(_is_neighbour(name, probed[at]) for at in some.places(name)) for name in probed)
    return (n_near + _NEIGHBOURS) / (len(probed) + _LABELS)


def _is_neighbour(name: str, other: str) -> bool:
    edits = edits_between(name, other)
    return edits is not None and len(edits) <= 1 and not are_of_digits(edits)


@dataclass(frozen=True, eq=False)
class _Near:
    """A common label that may have been meant: log P of what is written, given it, and the edits between."""

    meant: int
    log_p: float
    edits: list[Edit]


def _nearest(column: Writing, code: int, known: _Common, keyboard: Keyboard) -> list[_Near]:
    """Common labels that may have been meant."""
    name = column.names[code]
    found = []
    for at in known.near.places(name):
        meant = int(known.codes[at])
        if meant == code or column.counts[meant] < _RATIO * column.counts[code]:
            continue
        edits = edits_between(name, known.near.names[at])
        if edits is not None and _may_be_slip(name, known.near.names[at], edits, keyboard):
            found.append(_Near(meant, keyboard.log_p(edits, len(known.near.names[at])), edits))
    return found


def _weigh(
    column: Writing, code: int, known: _Common, keyboard: Keyboard, found: list[_Near], *, new: float
) -> Slip:
    """Log-odds of a slip of any of these labels; the likeliest is the one that was meant."""
    name = column.names[code]
    slips = [each.log_p + math.log(column.counts[each.meant] / column.n) for each in found]
    best = found[int(np.argmax(slips))]
    own = math.log(known.neighbours / len(known.codes)) + float(
        np.logaddexp.reduce([each.log_p for each in found])
    )
    # Where slips bring in one character, the same slip is soon made again.
    recurs = 1.0 if _is_usual(best.edits, keyboard) else _RECURS
    price = math.log(new) + recurs * math.log(int(column.counts[code]))
    price += float(np.logaddexp(column.spelling.log_p(name), own))
    odds = math.log(RATE) + float(np.logaddexp.reduce(slips)) - price
    return Slip(
        code, best.meant, odds + _likeness(name, column.names[best.meant], best.edits, keyboard), best.edits
    )


def _is_usual(edits: list[Edit], keyboard: Keyboard) -> bool:
    """Whether a character came in that comes in with most slips of this table."""
    return any(keyboard.is_usual(edit.came) for edit in edits if edit.came)


def _may_be_slip(name: str, meant: str, edits: list[Edit], keyboard: Keyboard) -> bool:
    if are_of_digits(edits) or edits[0].kind == "case":
        return False
    return _is_usual(edits, keyboard) or not _is_variant(name, meant)


def _likeness(name: str, meant: str, edits: list[Edit], keyboard: Keyboard) -> float:
    """What short codes and first letters take off the odds."""
    if _is_usual(edits, keyboard):
        return 0.0
    # Short codes lie near each other by nature; slips seldom strike the first letter.
    taken = _SHORT_CODE if len(name) <= _SHORT else 0.0
    is_first = len(name) == len(meant) and name[:1] != meant[:1]
    return taken + (_FIRST_LETTER if is_first else 0.0)


def claim_misspelt(name: str, column: Writing, slips: list[Slip]) -> Iterator[Claim]:
    """Claims of slips of a column."""
    for slip in slips:
        if slip.log_odds > -CONFIDENT:
            yield _claim(name, column, slip.code, slip.meant, slip.log_odds)


def _claim(name: str, column: Writing, code: int, meant: int, odds: float) -> Claim:
    rows = column.rows_of(code)
    level = column.names[code]
    other = column.names[meant]
    return Claim(
        MISSPELLING,
        (name,),
        rows,
        np.full(len(rows), _FITTED[0] + _FITTED[1] * odds),
        expected=[other] * len(rows),
        facts={"level": level, "meant": other},
        usual={"n": int(column.counts[meant])},
        # A second way of writing is one habit, however many rows have it.
        is_one=True,
    )


def claim_written_otherwise(name: str, column: Writing) -> Iterator[Claim]:
    """Labels that are another one but for case, blanks, punctuation, or bytes read in the wrong encoding."""
    if not is_of_labels(column) or column.k > _MOST_RARE * 4:
        return
    groups: dict[str, list[int]] = defaultdict(list)
    for code in np.flatnonzero(~column.is_mark & (column.counts > 0)).tolist():
        folded = folded_text(well_encoded(column.names[code]))
        if folded and not folded.isdigit():
            groups[folded].append(code)
    counts = column.counts
    many = sum(counts[codes].sum() > _FEWEST for codes in groups.values())
    # Labels both of whose spellings are well supported say that the column mixes them by its nature.
    mixed = sum(len(codes) > 1 and np.sort(counts[codes])[-2] > 2 for codes in groups.values())
    for folded, codes in groups.items():
        if len(codes) > 1:
            codes.sort(key=lambda code: -counts[code])
            yield from _second_spellings(name, column, folded, codes, mixed / max(many, 1))


def _second_spellings(
    name: str, column: Writing, folded: str, codes: list[int], mixed: float
) -> Iterator[Claim]:
    top = int(column.counts[codes[0]])
    usual = column.names[codes[0]]
    for code in codes[1:]:
        written = column.names[code]
        count = int(column.counts[code])
        if top <= 2 * count or _DIGITS.findall(written) != _DIGITS.findall(usual):
            continue
        odds = 1.0 + min(2.0, math.log(top / count)) - 3.0 * mixed - (2.0 if top < 3 else 0.0)
        if len(folded) < 3 and written.lower() != usual.lower():
            odds -= 3.0  # grades A and A-
        elif len(folded) == 1:
            odds -= 1.5  # s and S: seconds and siemens
        if well_encoded(written) != written:
            odds = _MISREAD
        yield _claim(name, column, code, codes[0], odds)


def well_encoded(text: str) -> str:
    """Undo that a text was written as UTF-8 and read by another codec; other texts as they are.

    Examples
    --------
    >>> well_encoded("ZÃ¼rich"), well_encoded("Zürich"), well_encoded("Ã")
    ('Zürich', 'Zürich', 'Ã')
    """
    if text.isascii():
        return text
    return next((meant for codec in SINGLE_BYTE if (meant := read_as_utf8(text, codec))), text)


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


def _is_variant(one: str, other: str) -> bool:
    """Whether two labels differ in a word of one letter, as 'size a' and 'size b' do: names of two things.

    So does one with a word more: 'domain_u' is no way to write 'domain'.
    """
    words = [re.split(r"\W+|_", name.strip()) for name in (one, other)]
    shorter, longer = sorted(words, key=len)
    if len(shorter) < len(longer) and all(word in longer for word in shorter):
        return True
    return any(a != b and len(a) <= 2 and len(b) <= 2 for a, b in zip(*words, strict=False))
