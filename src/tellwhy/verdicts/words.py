"""Cells as plain values, and what is usual of one cell beside another."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.results.result import Reason
from tellwhy.words.numbers import is_number

FEW = 20  # rows from which "usually" may be said of a part of the table
NEAR_SHARE = 0.05  # of the rows: those whose number is called near


def make_plain_cell(cell: Any) -> Any:
    """A cell as JSON has it: number, text, bool, or None where it is missing."""
    if pd.isna(cell):
        return None
    if isinstance(cell, (bool, np.bool_)):
        return bool(cell)
    if isinstance(cell, (int, np.integer)):
        return int(cell)
    if isinstance(cell, (float, np.floating)):
        return float(cell)
    if isinstance(cell, (datetime.date, datetime.time, pd.Timedelta)):
        return str(cell.isoformat()).removesuffix("T00:00:00")
    return str(cell)


def measure_pair(one: Reason, other: Reason, usual: pd.DataFrame) -> dict[str, Any]:
    """Tell how odd two cells are together, each of which is usual by itself.

    Parameters
    ----------
    one, other
        The cells.
    usual
        Rows to count in.

    Examples
    --------
    >>> rows = pd.DataFrame({"land": ["US"] * 50 + ["DE"] * 50, "paid": ["card"] * 50 + ["invoice"] * 50})
    >>> measure_pair(Reason("paid", "invoice", [], 0.5), Reason("land", "US", [], 0.4), rows)
    {'other': 'land', 'other_value': 'US', 'n_together': 0, 'n': 100}
    """
    both = {"other": other.feature, "other_value": other.value}
    if one.value is None or other.value is None or _is_date(usual[one.feature]):
        return both
    beside = _count_rows_like(usual[other.feature], other.value)
    column = usual[one.feature]
    if not _is_measured(column, one.value):
        together = int((beside.is_equal & _is_equal(column, one.value)).sum())
        return {**both, "n_together": together, "n": len(usual)}
    numbers = pd.to_numeric(column[beside.is_near], errors="coerce").dropna()
    if len(numbers) < FEW:
        return both
    low, high = np.quantile(numbers, [0.05, 0.95]).tolist()
    return {**both, "low": low, "high": high}


class _Beside(NamedTuple):
    """Rows whose cell is like another one: the same, and (for a number) as near as the nearest few."""

    is_equal: NDArray[np.bool_]
    is_near: NDArray[np.bool_]


def _count_rows_like(column: pd.Series, value: Any) -> _Beside:
    is_equal = _is_equal(column, value)
    if not _is_measured(column, value):
        return _Beside(is_equal, is_equal)
    distance = np.abs(pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64) - float(value))
    distance = np.where(np.isnan(distance), np.inf, distance)
    n_near = min(max(FEW, int(NEAR_SHARE * len(distance))), len(distance))
    return _Beside(is_equal, distance <= np.partition(distance, n_near - 1)[n_near - 1])


def _is_date(column: pd.Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(column))


def _is_equal(column: pd.Series, value: Any) -> NDArray[np.bool_]:
    return np.asarray(column.map(make_plain_cell) == value)


def _is_measured(column: pd.Series, value: Any) -> bool:
    """Whether nearness means something in a column: codes are whole numbers too, but labels."""
    return is_number(value) and pd.api.types.is_numeric_dtype(column)
