"""What would make a row of a table look normal, in the user's own columns and units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tellwhy.core.score_function import Integers
from tellwhy.workflow.verdicts.ranking import Ranking
from tellwhy.workflow.verdicts.verified import Cause
from tellwhy.workflow.verdicts.words import plain_cell


class KnowsRows(Protocol):
    """What gives rows as the user has them, told by their numbers."""

    def known_rows(self, numbers: Integers) -> pd.DataFrame:
        """Return some rows, without missing cells."""
        ...


def nearest_normals(
    known: KnowsRows, ranking: Ranking, causes: Sequence[Cause]
) -> list[dict[str, Any] | None]:
    """Return the cells to change in each ranked row above the threshold, and values that would do.

    The values are those of an ordinary row that is like this one elsewhere: they occur, and the row with them
    was scored and found ordinary. None stands for a row that is below the threshold, or that no change makes
    ordinary.
    """
    odd = ranking.scores[ranking.positions] > ranking.threshold
    changed = [i for i, cause in enumerate(causes) if odd[i] and cause.donor >= 0]
    usual = known.known_rows(np.array([causes[i].donor for i in changed], dtype=np.int64))
    found: list[dict[str, Any] | None] = [None] * len(causes)
    for place, i in enumerate(changed):
        names = [str(usual.columns[c]) for c in causes[i].changed]
        found[i] = {name: _cell(usual[name].iloc[place]) for name in names}
    return found


def _cell(value: Any) -> Any:
    """A cell as JSON has it, a whole number without a decimal point."""
    cell = plain_cell(value)
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
