"""Kinds of columns, and the user's choice of them.

What each column is, and which columns say nothing about what is odd.

Which columns of a table are used: those asked for, less those excluded, and at least one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.score import Floats
from tellwhy.data.columns.dates import find_layout
from tellwhy.data.columns.names import has_id_name, list_names
from tellwhy.data.columns.reading import Role, find_stored_kind, read_labels, read_numbers, read_numeric_text

MOSTLY = 0.9  # share of numbers from which text in a column is taken for a mistake
_PROBE = 500
_SHORTEST_COUNT = 5  # rows from which 1, 2, 3, … is taken for a numbering; 0, 1, 2 may well be values
_DIGIT = re.compile(r"\d")

EMPTY = "it has no values"
CONSTANT = "every row has the same value"
IDENTIFIER = "every row has its own value (an identifier)"
FREE_TEXT = "most rows have a text of their own (free text)"
MIXTURE = "it mixes numbers with text"


@dataclass(frozen=True)
class Verdict:
    """What a column is (`kind`, and how its dates are written), or why it is left out (`reason`)."""

    kind: str = ""
    layout: str = "iso"
    reason: str = ""

    def _require(self) -> Iterator[Fit]:
        yield "kind", are_texts(self.kind, self.layout, self.reason), True


def judge_column(
    frame: pd.DataFrame, column: str, *, max_categories: int, missing_is_label: bool, keep_numbering: bool
) -> Verdict:
    """Decide the kind of a column: 'number', 'boolean', 'date' or 'category', or leave it out with a reason.

    Numbers that are only 0 and 1 are booleans, so that a flag is treated alike however it is stored. Text is
    read as numbers when all cells are numbers, and raises, naming the first other cell, when nine in ten are.
    """
    series = frame[column]
    if series.isna().all():
        return Verdict(reason=EMPTY)
    kind = find_stored_kind(series)
    if kind == "text":
        kind, layout = _choose_kind_of_text(frame, column)
        if kind == "date":
            return _check_constant(series, Verdict("date", layout))
    if kind == "category":
        return judge_labels(frame, column, max_categories, missing_is_label)
    if kind == "number":
        return judge_numbers(column, read_numbers(frame, column), keep_numbering)
    return _check_constant(series, Verdict(kind))


def judge_by_role(series: pd.Series, role: Role) -> Verdict | None:
    """Return what follows from a column's role alone, None where its cells must be looked at."""
    if role.orders:
        return Verdict(reason=f"it only tells {role.orders}")
    reasons = {"text": FREE_TEXT, "identifier": IDENTIFIER}
    if role.kind in reasons:
        return Verdict(reason=reasons[role.kind])
    is_category = role.kind == "category" and series.nunique(dropna=True) > 1
    return Verdict("category") if is_category else None


def _check_constant(series: pd.Series, verdict: Verdict) -> Verdict:
    return Verdict(reason=CONSTANT) if series.nunique(dropna=True) == 1 else verdict


def _choose_kind_of_text(frame: pd.DataFrame, column: str) -> tuple[str, str]:
    series = frame[column]
    filled = series.dropna()
    probe = filled.iloc[spread_evenly(len(filled), _PROBE)]
    if not any(_DIGIT.search(str(cell)) for cell in probe):
        return "category", ""
    if np.isfinite(read_numeric_text(probe)).mean() >= MOSTLY / 2 and _share_of_numbers(filled) >= MOSTLY:
        read_numbers(frame, column)  # raises with the first cell that is no number: a mistake, not a label
        return "number", ""
    if pd.api.types.infer_dtype(probe) == "string" and (layout := find_layout(filled.astype("string"))):
        return "date", layout
    return "category", ""


def _share_of_numbers(filled: pd.Series) -> float:
    return float((~np.isnan(read_numeric_text(filled))).mean())


def judge_numbers(column: str, values: Floats, keep_numbering: bool) -> Verdict:
    """Decide what a column of numbers is: quantities, a flag, or nothing that tells what is odd."""
    # A sum tells in one pass whether there are gaps at all; most columns have none and are not copied.
    with np.errstate(over="ignore", invalid="ignore"):
        has_gaps = bool(np.isnan(values.sum()))
    filled = values[~np.isnan(values)] if has_gaps else values
    low = filled.min()
    high = filled.max()
    if low == high:
        return Verdict(reason=CONSTANT)
    if low == 0 and high == 1 and bool(((filled == 0) | (filled == 1)).all()):
        return Verdict("boolean")
    if not keep_numbering and _is_numbering(column, filled):
        return Verdict(reason=IDENTIFIER)
    return Verdict("number")


def _is_numbering(column: str, filled: Floats) -> bool:
    """Tell whether whole numbers count the rows, or differ in every row under a name such as id.

    Numbers that count rows do so in any order: a table that was sorted by another column is the same table.
    """
    if not (filled[:100] == np.round(filled[:100])).all():  # most measurements are told apart by a glance
        return False
    if len(filled) >= _SHORTEST_COUNT and _are_evenly_spaced(filled):
        return True
    if not has_id_name(column):
        return False
    return bool((filled == np.round(filled)).all()) and len(np.unique(filled)) == len(filled)


def _are_evenly_spaced(filled: Floats) -> bool:
    """Tell whether numbers, once sorted, go up by one and the same step, or are in steps as they stand."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(filled)
        if bool((steps == steps[0]).all()):
            return True
        step = (filled.max() - filled.min()) / (len(filled) - 1)
    if not (step >= 1 and step == np.round(step)):  # most columns need no sorting
        return False
    return bool((np.diff(np.sort(filled)) == step).all())


def judge_labels(frame: pd.DataFrame, column: str, max_categories: int, missing_is_label: bool) -> Verdict:
    """Decide whether labels are categories, or nothing that tells what is odd."""
    labels = read_labels(frame, column)
    n_filled = int((labels.codes >= 0).sum())
    n_distinct = len(labels.counts())
    if n_distinct == 1:
        varies = missing_is_label and n_filled < len(labels)  # one label, or none
        return Verdict("category") if varies else Verdict(reason=CONSTANT)
    # A column that its owner stored as a category is one, even if every row has its own label.
    is_given = find_stored_kind(frame[column]) == "category" and n_distinct <= max_categories
    reason = ""
    if n_distinct == n_filled and not is_given:
        reason = IDENTIFIER
    elif n_distinct > max_categories and n_distinct > n_filled / 2:
        reason = FREE_TEXT
    if reason and _share_of_numbers(frame[column].dropna()) >= 0.5:
        reason = MIXTURE
    return Verdict(reason=reason) if reason else Verdict("category")


def choose_columns(frame: pd.DataFrame, columns: Sequence[str] | None, exclude: Sequence[str]) -> list[str]:
    """Return the names in the order asked for, each once; a name that is not there raises.

    Examples
    --------
    >>> choose_columns(pd.DataFrame({"a": [1], "b": [2], "c": [3]}), ["c", "a"], ["a"])
    ['c']
    """
    present = list(frame.columns)
    asked = present if columns is None else [str(name) for name in columns]
    excluded = {str(name) for name in exclude}
    for name in [*asked, *sorted(excluded)]:
        if name not in frame.columns:
            raise refuse_unknown_column(name, present)
    return [name for name in dict.fromkeys(asked) if name not in excluded]


def refuse_unknown_column(name: str, present: Sequence[str]) -> InvalidParameter:
    """Return the error for a name that no column has, with the nearest ones."""
    close = " or ".join(map(repr, difflib.get_close_matches(name, present, n=3)))
    hint = f"Did you mean {close}?" if close else f"There are: {list_names(present)}."
    return InvalidParameter(f"There is no column {name!r}. {hint}")


def refuse_no_column(n_rows: int, left_out: Mapping[str, str], *, were_named: bool) -> InvalidInput:
    """Return the error for a table of which no column can be used, with the reasons of the first five."""
    if n_rows == 1:
        return InvalidInput(
            "The table has one row, which says nothing about what is usual; expected at least two."
        )
    why = "; ".join(f"{name!r}: {reason}" for name, reason in list(left_out.items())[:5])
    more = f"; and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    # Naming a column overrules the guess that it counts the rows; no other reason can be overruled.
    helps = IDENTIFIER in left_out.values() and not were_named
    advice = " Name whole-number columns in `columns` to use them all the same." if helps else ""
    return InvalidInput(f"No column of the table can be used ({why or 'all are excluded'}{more}).{advice}")
