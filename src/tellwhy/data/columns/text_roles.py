"""What a column of text is: numbers, dates or yes and no in people's writing; labels, names, or sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from tellwhy.data.columns.kinds import CONSTANT, FREE_TEXT, IDENTIFIER, MIXTURE, judge_labels
from tellwhy.data.columns.names import names_a_place, names_a_time, names_things
from tellwhy.data.columns.reading import ENOUGH, Outcome, Reading, Role, outcome_of, sample_of, text_of, typed
from tellwhy.data.columns.written.booleans import WrittenBooleans, find_booleans
from tellwhy.data.columns.written.dates import find_dates
from tellwhy.data.columns.written.numbers import find_numbers
from tellwhy.data.columns.written.times import find_times

MAX_CATEGORIES = 50
_ZERO_LED = re.compile(r"^0\d+$")
_WHOLE = re.compile(r"^\d{1,4}$")
_LETTERS = re.compile(r"^[A-Za-z]{1,2}$")
_WORDS = {
    CONSTANT: Role("constant", "one value"),
    IDENTIFIER: Role("identifier", "a name of its own for every row"),
    FREE_TEXT: Role("text", "short text"),
    MIXTURE: Role("text", "numbers mixed with text"),
    "": Role("category", "categories"),
}


def role_of_text(series: pd.Series) -> Outcome:
    """Find out what a column of text is, and read it."""
    cells = text_of(series)
    probe = sample_of(cells)
    name = str(series.name)
    if probe and (outcome := _read(series, cells, probe)) is not None:
        return outcome
    verdict = judge_labels(series.to_frame(name), name, MAX_CATEGORIES, missing_is_label=True)
    role = _WORDS[verdict.reason]
    if role.kind == "category" and _are_codes(probe, name):
        role = Role("category", "postal codes" if names_a_place(name) else "codes")
    if role.kind == "identifier" and np.mean([len(cell.split()) for cell in probe]) >= 3:
        role = _WORDS[FREE_TEXT]
    return Outcome(role)


def _read(series: pd.Series, cells: pa.Array, probe: Sequence[str]) -> Outcome | None:
    """Return the column read in the one way that nine in ten of its cells agree on, or None."""
    reading = find_reading(probe, str(series.name))
    if reading is None:
        return None
    values, is_bad = typed(series, reading, cells)
    n_filled = len(cells) - cells.null_count
    # A third word beside yes and no is a label of its own, not a mistake.
    allowed = 0.01 if isinstance(reading, WrittenBooleans) else 1 - ENOUGH
    if is_bad.sum() > allowed * n_filled:
        return None
    return outcome_of(series, reading, values, is_bad)


def find_reading(probe: Sequence[str], name: str) -> Reading | None:
    """Return the way in which nine in ten of some cells are written, or None for words."""
    if (booleans := find_booleans(probe)) is not None:
        return booleans
    # Most text shows in its first cells that it is neither number nor date.
    if sum(any(sign.isdigit() for sign in cell) for cell in probe) < ENOUGH * len(probe):
        return None
    if _are_codes(probe, name) or _mixes_codes(probe):
        return None
    is_time = names_a_time(name)
    return find_dates(probe, name_is_date=is_time) or find_times(probe) or find_numbers(probe)


def _are_codes(probe: Sequence[str], name: str) -> bool:
    """Tell whether digits name things: some begin with a zero, and all are as long or the name says so."""
    if not sum(_ZERO_LED.match(cell) is not None for cell in probe) > 0.01 * len(probe):
        return False
    n_long = max(pd.Series([len(cell) for cell in probe]).value_counts())
    return n_long >= 0.98 * len(probe) or names_a_place(name) or names_things(name)


def _mixes_codes(probe: Sequence[str]) -> bool:
    """Tell whether small whole numbers stand beside a few labels that recur, as chromosomes 1 … 22, X, Y."""
    others = {cell for cell in probe if _LETTERS.match(cell)}
    numbers = set(probe).difference(others)
    recurs = others and all(probe.count(cell) > 1 for cell in others)
    return bool(recurs) and len(numbers) <= MAX_CATEGORIES and all(_WHOLE.match(cell) for cell in numbers)
