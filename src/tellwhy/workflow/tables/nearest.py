"""What would make a row of a table look normal, in the user's own columns and units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.score_function import Floats
from tellwhy.counterfactuals.normal_versions import NormalVersions
from tellwhy.workflow.tables.ranking import Ranking
from tellwhy.workflow.tables.reasons import plain_cell


def nearest_normals(versions: NormalVersions, ranking: Ranking, n: int) -> list[dict[str, Any] | None]:
    """Return the cells to change, and values that would do, for the first n ranked rows above the threshold.

    None stands for a row that is below the threshold, beyond the first n, or not made normal by any change
    found. The changes are those of `extras["nearest_normal"]`. Each was scored as it is shown: the row with
    these values, as they are written, and nothing else changed, scores at most the threshold.
    """
    scores = ranking.scores[ranking.positions]
    found: list[dict[str, Any] | None] = [None] * len(scores)
    odd = np.flatnonzero(scores[:n] > ranking.threshold)
    if not len(odd):
        return found
    told = versions.of(odd)
    names = list(versions.explained.score.feature_names)
    for i, row in enumerate(odd):
        changed = np.flatnonzero(told.changed[i])
        if told.as_shown[i] and len(changed):
            found[row] = {names[c]: _cell(told.table, i, int(c)) for c in changed}
    return found


def _cell(table: pd.DataFrame | Floats, row: int, column: int) -> Any:
    """A cell as JSON has it, a whole number without a decimal point."""
    cell = plain_cell(table.iat[row, column] if isinstance(table, pd.DataFrame) else table[row, column])
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
