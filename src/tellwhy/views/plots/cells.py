"""What rows hold: cells beside the names of their columns, and columns as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.results.selection import columns_of
from tellwhy.core.score_function import Floats, Integers
from tellwhy.views.plots.style import LABEL_LENGTH, distinct_labels
from tellwhy.views.wording import cell, shortened

_CELL_LENGTH = 18


def cells_of(explanation: Explanation, places: Integers) -> Any:
    """Cells of some columns (rows, columns), as they were given; None where they are not known."""
    if len(explanation.feature_shape) != 1:
        return None
    data = columns_of(explanation.data, explanation.names(), places)
    if data is None:
        return None
    # cell by cell, so that whole numbers beside texts and fractions stay whole
    columns = [
        np.asarray(columns_of(data, _names(explanation, places), np.array([k]))) for k in range(len(places))
    ]
    table = np.empty((len(explanation), len(places)), dtype=object)
    for k, column in enumerate(columns):
        table[:, k] = column.reshape(len(explanation))
    return table


def _names(explanation: Explanation, places: Integers) -> list[str]:
    names = explanation.names()
    return [names[j] for j in places]


def row_labels(row: Explanation, places: Integers) -> list[str]:
    """Names of some columns of one row with its cells: 'TSH = 14.5'; without cells where they are unknown."""
    names = _names(row, places)
    cells = cells_of(row, places)
    if cells is None:
        return distinct_labels(names)
    return distinct_labels([_with_cell(name, found) for name, found in zip(names, cells[0], strict=True)])


def _with_cell(name: str, found: Any) -> str:
    """A name and its cell in one label: the name has the room that the cell leaves."""
    said = shortened(cell(found), _CELL_LENGTH)
    return f"{shortened(name, LABEL_LENGTH - len(said) - 3)} = {said}"


def numbers_of(explanation: Explanation, j: int) -> Floats | None:
    """A column as numbers; None where it is unknown or holds something else."""
    if explanation.data is None:
        return None
    try:
        if len(explanation.feature_shape) == 1:
            cells = cells_of(explanation, np.array([j]))
            return None if cells is None else np.asarray(cells[:, 0], dtype=np.float64)
        rows = np.asarray(explanation.data, dtype=np.float64)
        return rows.reshape(len(rows), -1)[:, j]
    except (TypeError, ValueError):
        return None


def ranks(column: Floats) -> Floats:
    """Rank of each value, 0 to 1: one far value would give all the others the same colour; NaN stays NaN."""
    order = np.unique(column, return_inverse=True)[1].ravel().astype(float)
    order[np.isnan(column)] = np.nan  # an empty cell is neither low nor high
    highest = np.nanmax(order) if not np.isnan(order).all() else 0.0
    return np.asarray(order / max(float(highest), 1.0))


def levels(column: Sequence[Any]) -> tuple[list[str], Integers]:
    """Kinds of cells of a column of texts, in the order of the alphabet, and the kind of each row."""
    kinds, codes = np.unique([cell(found) for found in column], return_inverse=True)
    return [str(kind) for kind in kinds], codes.ravel().astype(np.int64)
