"""What would make a row of a table look normal, in the user's own columns and units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.explanation import Explanation
from tellwhy.core.score_function import Integers
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.workflow.tables.fitted import FittedTable
from tellwhy.workflow.tables.ranking import Ranking
from tellwhy.workflow.tables.reasons import plain_cell

PROTOTYPES = 1_000


def nearest_normals(
    fitted: FittedTable, ranking: Ranking, explanation: Explanation, n: int
) -> list[dict[str, Any] | None]:
    """Return, for the first n ranked rows above the threshold, the cells to change and the values that would do.

    None stands for a row that is below the threshold, beyond the first n, or not made normal by any change
    found. Each suggestion was checked: the row with these values, and nothing else changed, scores at most
    the threshold.
    """
    rows = explanation.data
    odd = np.flatnonzero(explanation.scores[:n] > ranking.threshold)
    found: list[dict[str, Any] | None] = [None] * len(explanation)
    if not len(odd):
        return found
    encoder, inner = fitted.encoder, fitted.score.inner
    Z = encoder.transform(rows.iloc[odd])
    nearest = nearest_normal(
        inner,
        Z,
        prototypes=encoder.transform(fitted.background().iloc[:PROTOTYPES]),
        threshold=ranking.threshold,
        integers=np.zeros(Z.shape[1], dtype=bool),
        owner=encoder.owner_,
        ranking=explanation.values[odd],
    )
    decoded = encoder.inverse_transform(np.where(nearest.found[:, None], nearest.points, Z))
    changed = _by_column(nearest.changed, encoder.owner_, len(encoder.columns_))
    for i in np.flatnonzero(nearest.found):
        names = [name for name, is_changed in zip(encoder.columns_, changed[i], strict=True) if is_changed]
        values = _new_cells(fitted, rows.iloc[[odd[i]]], decoded.iloc[i][names])
        version = _changed(rows.iloc[[odd[i]]], values)
        if fitted.score_version(version, int(ranking.positions[odd[i]])) <= ranking.threshold:
            found[odd[i]] = {name: plain_cell(value) for name, value in values.items()}
    return found


def _by_column(changed: Any, owner: Integers, n_columns: int) -> Any:
    """Which of the user's columns changed, from which encoded ones did."""
    return np.stack([changed[:, owner == i].any(axis=1) for i in range(n_columns)], axis=1)


def _new_cells(fitted: FittedTable, row: pd.DataFrame, normal: pd.Series) -> dict[str, Any]:
    """Values of the cells to change, whole numbers kept whole."""
    values: dict[str, Any] = {}
    for name, value in normal.items():
        is_whole = pd.api.types.is_integer_dtype(row[name].dtype) or _is_whole(
            fitted.selection.reference[name]
        )
        values[str(name)] = _rounded(float(value), float(row[name].iloc[0])) if is_whole else value
    return values


def _changed(row: pd.DataFrame, values: dict[str, Any]) -> pd.DataFrame:
    """A copy of the row with some cells replaced."""
    version = row.copy()
    for name, value in values.items():
        version[name] = pd.Series([value], index=row.index, dtype=object if isinstance(value, str) else None)
    return version


def _is_whole(column: pd.Series) -> bool:
    if not pd.api.types.is_float_dtype(column.dtype):
        return False
    filled = column.dropna().to_numpy()
    return bool(len(filled)) and bool((filled == np.round(filled)).all())


def _rounded(value: float, was: float) -> int:
    """Round away from what the row had, towards what is normal."""
    return int(np.floor(value) if value < was else np.ceil(value))
