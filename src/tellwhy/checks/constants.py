"""Another value in a column that never varied in the reference."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from tellwhy.checks.chance import most
from tellwhy.checks.facts import Facts
from tellwhy.checks.findings import as_rows
from tellwhy.core.score import Integers
from tellwhy.data.columns.reading import numbers_or_missing
from tellwhy.results.result import Finding

_SURE = 1.5  # a smaller surprise makes no row odd
_ODD_SHARE = 0.5  # values of a larger share of the rows are the new usual ones, and no errors


def find_changed_constants(seen: Facts, learn: Facts) -> list[Finding]:
    """Values that a column has beside the single one of the reference, where there is a reference."""
    if seen is learn:
        return []
    names = [name for name, role in learn.roles.items() if role.kind == "constant"]
    names = [name for name in names if name in learn.frame and name in seen.frame]
    found = [_changed(seen, learn, name, len(names)) for name in names]
    return [finding for finding in found if finding is not None]


def _changed(seen: Facts, learn: Facts, name: str, n_columns: int) -> Finding | None:
    known = learn.frame[name].dropna()
    rows = _others(seen.frame[name], known.iloc[0]) if known.nunique() == 1 else np.zeros(0, dtype=np.int64)
    if not len(rows):
        return None
    values = pd.unique(seen.frame[name].iloc[rows].astype(str))
    # By the rule of succession, one more row is otherwise with this probability.
    surprise = math.log(len(known) + 1) - math.log(n_columns)
    is_odd = surprise >= _SURE and len(rows) <= _ODD_SHARE * seen.n
    return Finding(
        "new_level",
        (name,),
        as_rows(rows),
        {"level": str(values[0]), "n": len(values)},
        cells=seen.cells([name], int(rows[0])),
        surprise=min(surprise, most(seen.n)) if is_odd else 0.0,
    )


def _others(here: pd.Series, constant: object) -> Integers:
    """Rows whose cell is filled with something else, however numbers are stored."""
    filled = here.notna().to_numpy()
    is_flag = isinstance(constant, (bool, np.bool_)) and pd.api.types.is_numeric_dtype(here)
    if is_flag or pd.api.types.is_number(constant):
        known = float(constant)  # type: ignore[arg-type]
        return np.flatnonzero(filled & (numbers_or_missing(here) != known))
    if pd.api.types.is_datetime64_any_dtype(here):
        return np.flatnonzero(filled & (here != constant).to_numpy())
    return np.flatnonzero(filled & (here.astype(str) != str(constant)).to_numpy())
