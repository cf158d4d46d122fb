"""What a column of text is: numbers, dates or yes and no in people's writing; labels, names, or sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tellwhy.data.columns.names import are_zero_led, names_a_place, names_a_time
from tellwhy.data.columns.number_roles import role_of_numbers
from tellwhy.data.columns.reading import ENOUGH, Outcome, Reading, Role, outcome_of, sample_of, text_of, typed
from tellwhy.data.columns.written.booleans import WrittenBooleans, find_booleans
from tellwhy.data.columns.written.dates import find_dates
from tellwhy.data.columns.written.identifiers import keep_digits
from tellwhy.data.columns.written.numbers import WrittenNumbers, find_numbers, mixed_signs
from tellwhy.data.columns.written.times import find_times

MAX_CATEGORIES = 50
_WHOLE = re.compile(r"^\d{1,4}$")
_PLAIN = re.compile(r"^-?\d+(\.\d+)?$")
_LETTERS = re.compile(r"^[A-Za-z]{1,2}$")
_SENTENCE = 3  # words from which a text of its own in every row is one that was written, not a name


def role_of_text(series: pd.Series) -> Outcome:
    """Find out what a column of text is, and read it."""
    cells = text_of(series)
    probe = sample_of(cells)
    if probe and (outcome := _read(series, cells, probe)) is not None:
        return outcome
    role = _role_of_labels(cells, probe, str(series.name))
    if role.kind in ("constant", "identifier") or not (signs := mixed_signs(probe)):
        return Outcome(role)
    words = f"amounts in {', '.join(signs[:3])}{' …' if len(signs) > 3 else ''}"
    notice = (
        f"{words}, which cannot be compared: read as {'categories' if role.kind == 'category' else 'text'}."
    )
    return Outcome(Role(role.kind, words), notice=notice)


def _role_of_labels(cells: pa.Array, probe: Sequence[str], name: str) -> Role:
    """Tell categories, names of rows and sentences apart, by the same counts as an encoder does."""
    n_filled = len(cells) - cells.null_count
    n_distinct = pc.count_distinct(cells).as_py()
    if n_distinct <= 1:
        return (
            Role("constant", "one value") if n_filled == len(cells) else Role("category", "one label or none")
        )
    is_own = n_distinct == n_filled
    if are_zero_led(probe, name) or (_are_digits(probe) and keep_digits(cells, name)):
        words = "postal codes" if names_a_place(name) else "codes"
        return Role("category", words) if 2 * n_distinct <= n_filled else Role("identifier", words)
    if is_own or (n_distinct > MAX_CATEGORIES and 2 * n_distinct > n_filled):
        if np.mean([find_numbers([cell]) is not None for cell in probe]) >= 0.5:
            return Role("text", "numbers mixed with text")
        is_written = np.mean([len(cell.split()) for cell in probe]) >= _SENTENCE
        return Role("text", "short text") if is_written or not is_own else Role("identifier", "names of rows")
    return Role("category", "categories")


def _are_digits(probe: Sequence[str]) -> bool:
    return sum(cell.isdigit() for cell in probe) >= ENOUGH * len(probe)


def _read(series: pd.Series, cells: pa.Array, probe: Sequence[str]) -> Outcome | None:
    """Return the column read in the one way that nine in ten of its cells agree on, or None."""
    reading = find_reading(probe, str(series.name))
    if reading is None:
        return None
    read = typed(series, reading, cells)
    n_filled = len(cells) - cells.null_count
    # A third word beside yes and no is a label of its own, not a mistake.
    allowed = 0.01 if isinstance(reading, WrittenBooleans) else 1 - ENOUGH
    if read.is_bad.sum() > allowed * n_filled:
        return None
    outcome = outcome_of(series, reading, read)
    is_plain = isinstance(reading, WrittenNumbers) and reading.is_plain
    if is_plain and not names_a_time(str(series.name)) and keep_digits(cells, str(series.name)):
        return None  # names of things: as numbers, some would be equal that are not
    return _told_by_numbers(outcome, str(series.name)) if is_plain else outcome


def _told_by_numbers(read: Outcome, name: str) -> Outcome:
    """Ask of plain numbers in text what is asked of numbers: they may be codes, flags or points in time."""
    found = role_of_numbers(read.values.rename(name))
    if found.role.kind == "number":
        return read
    values = read.values if found.values is None else found.values
    return Outcome(found.role, values, found.notice or read.notice)


def find_reading(probe: Sequence[str], name: str) -> Reading | None:
    """Return the way in which nine in ten of some cells are written, or None for words."""
    if (booleans := find_booleans(probe)) is not None:
        return booleans
    # Most text shows in its first cells that it is neither number nor date.
    if sum(any(sign.isdigit() for sign in cell) for cell in probe) < ENOUGH * len(probe):
        return None
    if are_zero_led(probe, name) or _mixes_codes(probe):
        return None
    if sum(_PLAIN.match(cell) is not None for cell in probe) >= ENOUGH * len(probe):
        return find_numbers(probe)  # no date is written so: the question would cost more than the answer
    is_time = names_a_time(name)
    return find_dates(probe, name_is_date=is_time) or find_times(probe) or find_numbers(probe)


def _mixes_codes(probe: Sequence[str]) -> bool:
    """Tell whether small whole numbers stand beside a few labels that recur, as chromosomes 1 … 22, X, Y."""
    others = {cell for cell in probe if _LETTERS.match(cell)}
    numbers = set(probe).difference(others)
    recurs = others and all(probe.count(cell) > 1 for cell in others)
    return bool(recurs) and len(numbers) <= MAX_CATEGORIES and all(_WHOLE.match(cell) for cell in numbers)
