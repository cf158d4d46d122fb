"""Errors that people and machines make in numbers, planted in one column of a real table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

FEWEST_VALUES = 15
PER_TABLE = 0.01  # of the rows are wrong


@dataclass(frozen=True, eq=False)
class Planted:
    """A table with wrong cells in a column, and the kinds of finding that name the cause."""

    frame: pd.DataFrame
    column: str
    rows: np.ndarray
    causes: frozenset[str]


Values = np.ndarray
Plant = Callable[[Values, np.ndarray, np.random.Generator], Values]


def _decimals(values: Values) -> int:
    return next((k for k in range(6) if np.allclose(np.round(values, k), values, atol=1e-9)), 6)


def _outside(values: Values, rows: np.ndarray, rng: np.random.Generator) -> Values:
    """8 standard deviations out, and outside the range."""
    side = rng.choice([-1, 1], len(rows))
    beyond = np.maximum(8 * np.std(values), 1.2 * np.ptp(values))
    return np.round(np.median(values) + side * beyond * rng.uniform(1, 1.3, len(rows)), _decimals(values))


def _rounded(values: Values, rows: np.ndarray, _rng: np.random.Generator) -> Values:
    size = 10.0 ** np.floor(np.log10(np.maximum(np.abs(values[rows]), 1e-12)))
    return np.round(values[rows] / size) * size


def _stuck(values: Values, rows: np.ndarray, _rng: np.random.Generator) -> Values:
    return np.full(len(rows), values[rows[0] - 1])


def _of_others(values: Values, rows: np.ndarray, rng: np.random.Generator) -> Values:
    return values[rng.permutation(len(values))[: len(rows)]]


KINDS: dict[str, tuple[Plant, str]] = {
    "× 10": (lambda v, r, _g: v[r] * 10, "decimal_slip"),
    "× 100": (lambda v, r, _g: v[r] * 100, "decimal_slip"),
    "× 1000": (lambda v, r, _g: v[r] * 1000, "decimal_slip"),
    "÷ 10": (lambda v, r, _g: v[r] / 10, "decimal_slip"),
    "÷ 100": (lambda v, r, _g: v[r] / 100, "decimal_slip"),
    "sign": (lambda v, r, _g: -v[r], "sign_flip"),
    "−999": (lambda _v, r, _g: np.full(len(r), -999.0), "placeholder"),
    "9999": (lambda _v, r, _g: np.full(len(r), 9999.0), "placeholder"),
    "inches": (lambda v, r, _g: np.round(v[r] / 2.54, _decimals(v) + 1), "mixed_units"),
    "8 σ, outside": (_outside, "odd_cell"),
    "rounded": (_rounded, "odd_cell"),
    "stuck": (_stuck, "stuck"),
    "row before": (lambda v, r, _g: v[np.maximum(r - 1, 0)], "stuck"),
    "another row's": (_of_others, "odd_cell"),
}


def planted(frame: pd.DataFrame, kind: str, rng: np.random.Generator) -> Planted | None:
    """Plant errors of a kind in about one row of a hundred of one column; None where no column takes them."""
    columns = [c for c in frame if _takes(frame[c])]
    if not columns:
        return None
    column = columns[rng.integers(len(columns))]
    values = frame[column].to_numpy(float)
    filled = np.flatnonzero(np.isfinite(values) & (values != 0))
    k = max(3, round(PER_TABLE * len(frame)))
    rows = np.sort(rng.choice(filled[1:], min(k, len(filled) - 1), replace=False))
    if kind == "stuck":
        start = int(rng.integers(1, len(frame) - k))
        rows = np.arange(start, start + k)
    plant, cause = KINDS[kind]
    safe = np.where(np.isfinite(values), values, np.nanmedian(values))
    new = values.copy()
    new[rows] = plant(safe, rows, rng)
    changed = rows[new[rows] != values[rows]]
    if len(changed) < 2:
        return None
    return Planted(frame.assign(**{column: new}), column, changed, frozenset([cause]))


def planted_swap(frame: pd.DataFrame, rng: np.random.Generator) -> Planted | None:
    """Exchange the cells of two columns in about one row of a hundred."""
    columns = [c for c in frame if _takes(frame[c])]
    if len(columns) < 2:
        return None
    one, other = rng.permutation(columns)[:2]
    k = max(3, round(PER_TABLE * len(frame)))
    rows = np.sort(rng.choice(len(frame), k, replace=False))
    first, second = (frame[c].to_numpy(float).copy() for c in (one, other))
    first[rows], second[rows] = second[rows], first[rows]
    return Planted(frame.assign(**{one: first, other: second}), str(one), rows, frozenset(["swapped"]))


def _takes(column: pd.Series) -> bool:
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    values = column.to_numpy(float)
    filled = values[np.isfinite(values)]
    if len(filled) < 0.8 * len(values) or len(np.unique(filled)) < FEWEST_VALUES:
        return False
    return float(np.mean(np.diff(filled) == 1)) < 0.5  # no numbering of the rows
