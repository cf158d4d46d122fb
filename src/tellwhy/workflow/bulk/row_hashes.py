"""One number for each row, by which equal rows of different blocks are found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.workflow.models.table_model import TableModel

Hashes = NDArray[np.uint64]
HASH = "hash"
_NOT_COMPARED = ("identifier", "constant", "empty")
_MOST_COLUMNS = 200
_ODD = np.uint64(0x9E3779B97F4A7C15)


def compared_columns(model: TableModel) -> list[str]:
    """Columns in which copies of a row agree: names of rows may differ."""
    names = [name for name, role in model.roles.items() if role.kind not in _NOT_COMPARED]
    return names[:_MOST_COLUMNS]


def row_hashes(frame: pd.DataFrame, columns: Sequence[str]) -> Hashes:
    """A number for each row, equal for rows that are equal in all of these columns."""
    whole = np.zeros(len(frame), dtype=np.uint64)
    for name in columns:
        series = frame[name] if name in frame else pd.Series(np.zeros(len(frame)))
        try:
            found = pd.util.hash_pandas_object(series, index=False)
        except TypeError:  # lists, dicts
            found = pd.util.hash_pandas_object(series.map(str), index=False)
        # Times an odd number that depends on the column: two columns that are swapped make another row.
        whole = whole * _ODD + found.to_numpy(dtype=np.uint64)
    return whole
