"""Cells that are written otherwise than the rest of their column: codes of another form, units, letters.

A column's cells are generalised in up to 12 ways: digits with or without their number, words with or without
their case, words that occur often as themselves. The way of least description length says what the column's
formats are. A rare format is suspect unless the column has many rare ones.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.checks.contest import Claim
from tellwhy.checks.keyboard import Keyboard
from tellwhy.checks.mistakes import DAMAGED_TEXT, RARE_LEVEL, SECOND_CONVENTION, Mistake
from tellwhy.checks.spelling import RATE
from tellwhy.checks.writing import Writing
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Integers

_TOKEN = re.compile(r"\d+|[^\W\d_]+|\s|.", re.DOTALL)
_UNIT = re.compile(r"(\d+\.?\d*)(\D*)")
_MONTH = re.compile(
    r"(?:\d{1,2}-)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:-\d{1,4})?", re.IGNORECASE
)
_DAMAGE = re.compile("[\ufffd\x80-\x9f]|[\xc2\xc3][\x80-\xbf]|\xe2\u20ac")
_WORDS = ("w", "A", "Aa", "a")
_PRIOR = math.log(RATE / (1 - RATE))
_FEWEST = 20
_MOST_TEXTS = 3_000  # different cells from which words are no longer told apart
_PROBED = 1_500
_MOST_WORDS = 60
_DIVERSITY = 1.5  # what each doubling of the number of rare formats that recur takes off the odds
_RECURS = 2.0
_OF_WORDS = frozenset([*_WORDS, *" ,.'’&()-"])
_FREE = 4.0  # log-odds less where all usual cells are words
_HEXADECIMAL = re.compile(r"#?[0-9A-Fa-f]{6,}")
_NUMBERS = 0.9
_FITTED = (0.15, 1.3)  # log-odds that came true in tables with planted mistakes: a + b·l
Pattern = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Level:
    """How far cells are generalised: whether digits keep their number, words their case, which words stay."""

    has_lengths: bool
    has_cases: bool
    words: frozenset[str] = frozenset()

    def pattern(self, tokens: Sequence[str]) -> Pattern:
        """The pattern of a cell."""
        found: list[str] = []
        for token in tokens:
            mark = self._mark(token)
            # How many words there are is content, not format: 'w w w' is 'w'.
            if mark in _WORDS and len(found) >= 2 and found[-1] == " " and found[-2] == mark:
                found.pop()
                continue
            found.append(mark)
        return tuple(_without_lists(found))

    def _mark(self, token: str) -> str:
        if token.isdigit() or token == "Inf":
            return "9" * len(token) if self.has_lengths else "9+"
        if not token.isalpha():
            return token
        if token in self.words:
            return f'"{token}"'
        if not self.has_cases:
            return "w"
        if token.isupper() and len(token) > 1:
            return "A"
        return "Aa" if token[0].isupper() else "a"

    def open_bits(self, token: str) -> float:
        """What is needed to say which token a mark stands for."""
        if token.isdigit():
            return 3.32 * len(token) + (0.0 if self.has_lengths else 1 + 0.5 * len(token))
        if token.isalpha() and token not in self.words:
            return 4.7 * len(token) + 2 + (0.0 if self.has_cases else 1.0)
        return 0.0


def _without_lists(marks: list[str]) -> list[str]:
    """A group of marks with a word in it that is repeated, once: the items of a list."""
    for size in (6, 5, 4, 3, 2):
        at = 0
        while at + 2 * size <= len(marks):
            group = marks[at : at + size]
            if group == marks[at + size : at + 2 * size] and any(mark[0].isalpha() for mark in group):
                del marks[at + size : at + 2 * size]
            else:
                at += 1
    return marks


@dataclass(frozen=True, eq=False)
class Formats:
    """The formats of a column: the pattern of each text, and how many rows have each."""

    of_text: dict[str, Pattern]
    counts: Counter[Pattern]

    @classmethod
    def of(cls, column: Writing) -> Formats:
        """Choose the level of least description length."""
        texts = _texts(column)
        tokens = {text: _TOKEN.findall(text) for text in texts}
        names = list(texts)
        probe = [names[i] for i in spread_evenly(len(names), _PROBED)]
        levels = _levels(texts, tokens)
        level = min(levels, key=lambda each: _bits(each, {text: texts[text] for text in probe}, tokens))
        of_text = {text: level.pattern(tokens[text]) for text in names}
        counts: Counter[Pattern] = Counter()
        for text, count in texts.items():
            counts[of_text[text]] += count
        return cls(of_text, counts)

    @cached_property
    def n(self) -> int:
        """How many rows there are."""
        return self.counts.total()

    @cached_property
    def usual(self) -> list[Pattern]:
        """The common patterns, the most common first."""
        least = max(5, 0.04 * self.n)
        return [pattern for pattern, count in self.counts.most_common() if count >= least]

    @cached_property
    def rare(self) -> dict[Pattern, int]:
        """The other patterns, and how many rows have each."""
        return {pattern: count for pattern, count in self.counts.items() if pattern not in self.usual}

    @cached_property
    def covered(self) -> float:
        """Share of the rows with a common pattern."""
        return sum(self.counts[pattern] for pattern in self.usual) / max(self.n, 1)


def signature(text: str) -> str:
    """Each digit as 9, each letter as A or a.

    Examples
    --------
    >>> signature("DE-1234 x")
    'AA-9999 a'
    """
    return "".join("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)


def _texts(column: Writing) -> dict[str, int]:
    """Different cells and their counts; where there are many, by signature."""
    texts: dict[str, int] = {}
    is_many = column.k > _MOST_TEXTS
    for code in np.flatnonzero(~column.is_mark & (column.counts > 0)).tolist():
        text = signature(column.names[code]) if is_many else column.names[code]
        texts[text] = texts.get(text, 0) + int(column.counts[code])
    return texts


def _levels(texts: dict[str, int], tokens: dict[str, list[str]]) -> list[Level]:
    words: Counter[str] = Counter()
    for text, count in texts.items():
        for token in set(tokens[text]):
            if token.isalpha():
                words[token] += count
    n = sum(texts.values())
    chosen = [frozenset[str]()]
    for share in (0.2, 0.02):
        often = frozenset(word for word, count in words.items() if count >= share * n)
        if often and len(often) <= _MOST_WORDS and len(texts) <= _MOST_TEXTS:
            chosen.append(often)
    return [
        Level(lengths, cases, often)
        for often in chosen
        for lengths in (False, True)
        for cases in (False, True)
    ]


def _bits(level: Level, texts: dict[str, int], tokens: dict[str, list[str]]) -> float:
    """Description length: words kept, patterns, which one each row has, and what patterns leave open."""
    counts: Counter[Pattern] = Counter()
    bits = sum(4.7 * len(word) + 2 for word in level.words)
    for text, count in texts.items():
        counts[level.pattern(tokens[text])] += count
        # A cell that is repeated is bought nearly once.
        bits += sum(map(level.open_bits, tokens[text])) * math.sqrt(count)
    n = sum(texts.values())
    return bits + sum(5 * len(p) + 8 - k * math.log2(k / n) for p, k in counts.items())


def claim_formats(name: str, column: Writing, keyboard: Keyboard, *, is_read: bool) -> Iterator[Claim]:
    """Claims on cells of a rare format, on a second convention, and on damaged letters.

    `is_read` says that the cells were read as numbers or dates: those that were not are told elsewhere.
    """
    if not column.is_text or column.n < _FEWEST or column.k < 3:
        return
    yield from _damaged(name, column)
    if column.number_share >= _NUMBERS:
        if not is_read:
            yield from _no_numbers(name, column, keyboard)
        return
    if _are_hexadecimal(column):
        return  # colours and digests: digits and letters stand in any order
    formats = Formats.of(column)
    if formats.usual and formats.covered >= 0.7:
        yield from _rare_formats(name, column, formats, keyboard)
    yield from _second_units(name, column)


def _are_hexadecimal(column: Writing) -> bool:
    codes = np.flatnonzero(~column.is_mark & (column.counts > 0))[:_PROBED].tolist()
    n_hexadecimal = sum(_HEXADECIMAL.fullmatch(column.names[code]) is not None for code in codes)
    n_letters = sum(any(map(str.isalpha, column.names[code])) for code in codes)
    return bool(codes) and n_hexadecimal >= _NUMBERS * len(codes) and 2 * n_letters > len(codes)


def _no_numbers(name: str, column: Writing, keyboard: Keyboard) -> Iterator[Claim]:
    """Cells that are no number where nearly all are."""
    codes = np.flatnonzero(~column.is_number & ~column.is_mark & (column.counts > 0))
    if not len(codes):
        return
    n = int(column.counts[codes].sum())
    level = Level(has_lengths=False, has_cases=False)
    skeletons = Counter(_skeleton(level.pattern(_TOKEN.findall(column.names[code]))) for code in codes)
    recurring = sum(count >= 3 for count in skeletons.values())
    usual = column.names[int(np.argmax(column.counts * column.is_number))]
    for code in codes.tolist():
        odds = _PRIOR + math.log(column.n / n) + 3 - 0.5 * math.log(len(skeletons))
        odds -= math.log(1 + recurring)
        yield _odd(name, column, code, odds + _gain(keyboard, column.names[code]), usual)


def _gain(keyboard: Keyboard, text: str) -> float:
    """Log-odds for characters that come in by mistake in this table."""
    letters = {c for c in text if not c.isdigit()}
    return sum(max(0.0, math.log(60 * keyboard.p_came(c))) for c in letters if keyboard.is_usual(c))


def _skeleton(pattern: Pattern) -> Pattern:
    """A pattern without lengths and cases."""
    return tuple("9+" if m[0] == "9" else "w" if m in _WORDS or m[0] == '"' else m for m in pattern)


def _rare_formats(name: str, column: Writing, formats: Formats, keyboard: Keyboard) -> Iterator[Claim]:
    is_many = column.k > _MOST_TEXTS
    base = _base_odds(formats)
    skeletons = {_skeleton(pattern) for pattern in formats.usual}
    usual = _example(column, formats, is_many)
    likeness: dict[Pattern, float] = {}
    for code in np.flatnonzero(~column.is_mark & (column.counts > 0)).tolist():
        text = column.names[code]
        pattern = formats.of_text[signature(text) if is_many else text]
        if pattern not in formats.rare:
            continue
        if pattern not in likeness:
            likeness[pattern] = (
                base - math.log(formats.rare[pattern]) + _likeness(pattern, formats.usual, skeletons)
            )
        odds = likeness[pattern]
        letters = [c for c in set(text) if c.isalpha() and keyboard.is_usual(c)]
        odds += sum(max(0.0, math.log(keyboard.p_came(c) / 0.05)) for c in letters)
        if _is_month_by_mistake(text, formats.usual):
            odds = max(odds + 2.5, 2.0)
        yield _odd(name, column, code, odds, usual)


def _base_odds(formats: Formats) -> float:
    """Log-odds of any rare format of one row: less where rare ones recur, or usual ones are words."""
    recurring = sum(count >= 3 for count in formats.rare.values())
    # Names and titles come in many forms: O'Shea, "Campbell, Ben N.", "Would I Lie to You?".
    free = sum(all(m in _OF_WORDS for m in p) for p in formats.usual) / len(formats.usual)
    cover = 0.5 * math.log(formats.covered / (1 - formats.covered + 1 / formats.n))
    most = formats.counts[formats.usual[0]]
    return _PRIOR + math.log(most) - _DIVERSITY * math.log(1 + recurring) - _FREE * free + cover


def _likeness(pattern: Pattern, usual: list[Pattern], skeletons: set[Pattern]) -> float:
    """What a pattern's nearness to the usual ones adds to its odds, or takes off."""
    skeleton = _skeleton(pattern)
    odds = -2.0 if skeleton in skeletons else 0.0
    marks = {mark for each in usual for mark in each}
    if all(mark in marks for mark in pattern) and len(pattern) != min(map(len, usual)):
        odds -= 0.7
    near = max(
        sum(a == b for a, b in zip(pattern, each, strict=False)) / max(len(pattern), len(each))
        for each in usual
    )
    return odds + (1.0 if near >= 0.5 and skeleton not in skeletons else 0.0)


def _is_month_by_mistake(text: str, usual: list[Pattern]) -> bool:
    """Whether a range or a code was read as a date by a spreadsheet: 'Jun-70' among numbers of seats."""
    has_words = any(m[0] == '"' or m in ("w", "Aa") for p in usual for m in p if len(p) < 6)
    return len(text) > 3 and not has_words and _MONTH.fullmatch(text) is not None


def _example(column: Writing, formats: Formats, is_many: bool) -> str:
    """The commonest cell of the commonest format."""
    order = np.argsort(-column.counts, kind="stable").tolist()
    names = (column.names[code] for code in order if not column.is_mark[code] and column.counts[code])
    return next(x for x in names if formats.of_text[signature(x) if is_many else x] == formats.usual[0])


def _odd(name: str, column: Writing, code: int, odds: float, usual: str) -> Claim:
    rows = column.rows_of(code)
    # What is written again and again is a label of its own.
    odds -= _RECURS * math.log(max(int(column.counts[code]), 1))
    fitted = _FITTED[0] + _FITTED[1] * odds
    claim = _claim(RARE_LEVEL, name, rows, fitted, {}, usual={"like": usual}, form="odd_pattern")
    return replace(claim, own=[{"value": column.names[code]}] * len(rows))


def _claim(
    mistake: Mistake,
    name: str,
    rows: Integers,
    odds: float,
    facts: Mapping[str, str],
    *,
    usual: Mapping[str, Any] | None = None,
    form: str = "",
) -> Claim:
    log_odds = np.full(len(rows), odds)
    return Claim(mistake, (name,), rows, log_odds, facts=facts, usual=usual or {}, form=form, is_one=True)


def _second_units(name: str, column: Writing) -> Iterator[Claim]:
    """Numbers with a unit in several spellings: '12 oz' and '12 ounce'. Each spelling is one mistake."""
    units: dict[str, list[int]] = {}
    for code in np.flatnonzero(~column.is_mark & (column.counts > 0)).tolist():
        match = _UNIT.fullmatch(column.names[code])
        if match:
            units.setdefault(match[2], []).append(code)
    n = {unit: int(column.counts[codes].sum()) for unit, codes in units.items()}
    if not 2 <= len(n) <= 12 or sum(n.values()) < 0.9 * column.n:
        return
    top = max(n, key=lambda unit: n[unit])
    if n[top] < 0.3 * column.n:
        return
    known = {_number(column.names[code]) for code in units[top]}
    for unit, codes in units.items():
        if unit == top:
            continue
        shared = sum(column.counts[code] for code in codes if _number(column.names[code]) in known) / n[unit]
        if shared <= 0.6 and min(len(codes), len(units[top])) < 3:
            continue  # '1. none', '2. some': the number says which word follows
        odds = 1.5 * (shared > 0.6) + 1.5 * (_stem(unit) == _stem(top)) - 2.0
        odds += min(1.5, 0.5 * math.log(n[top] / n[unit]))
        rows = np.concatenate([column.rows_of(code) for code in codes])
        facts = {"written": unit.strip(), "usual": top.strip()}
        yield _claim(SECOND_CONVENTION, name, rows, odds, facts, usual={"n": n[top]})


def _number(text: str) -> float:
    return float(text.removesuffix(_unit_of(text)))


def _unit_of(text: str) -> str:
    match = _UNIT.fullmatch(text)
    return match[2] if match else ""


def _stem(unit: str) -> str:
    return re.sub(r"[^a-z]", "", unit.lower())[:2]


def _damaged(name: str, column: Writing) -> Iterator[Claim]:
    """Characters that stand for bytes read in the wrong encoding, where few cells have them."""
    codes = [c for c in np.flatnonzero(column.counts > 0).tolist() if _is_damaged(column.names[c])]
    if column.counts[codes].sum() <= 0.3 * column.n:
        for code in codes:
            yield _claim(DAMAGED_TEXT, name, column.rows_of(code), 3.0, {})


def _is_damaged(text: str) -> bool:
    if text.isascii():
        return False
    return _DAMAGE.search(text) is not None or _has_stray_mark(text)


def _has_stray_mark(text: str) -> bool:
    """Whether an accent stands on no letter that takes it."""
    plain = unicodedata.normalize("NFC", text)
    pairs = zip(" " + plain, plain, strict=False)
    return any(
        unicodedata.category(mark) == "Mn" and (letter.isspace() or "LATIN" in unicodedata.name(letter, ""))
        for letter, mark in pairs
    )
