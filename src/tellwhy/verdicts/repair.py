"""What would make a row of a table look normal, in the user's own columns and units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tellwhy import checks as quality
from tellwhy.checks.mistakes import MISTAKES
from tellwhy.core.score import Integers
from tellwhy.verdicts.alarms import Ranking
from tellwhy.verdicts.causes import Cause, Trials
from tellwhy.verdicts.words import plain_cell


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


def repaired(
    causes: Sequence[Cause],
    trials: Trials,
    level: float,
    by_row: Sequence[Sequence[quality.Finding]],
    names: Sequence[str],
) -> list[Cause]:
    """Change the cells that findings explain as well; where they explain all, change nothing else.

    Parameters
    ----------
    causes
        Of each row, without its explained cells.
    trials
        What can be tried on the rows.
    level
        Score up to which a row counts as ordinary.
    by_row
        Findings of each row.
    names
        Of the columns.
    """
    place = {name: c for c, name in enumerate(names)}
    replaced = np.zeros((len(causes), len(names)), dtype=bool)
    for i, found in enumerate(by_row):
        cells = [f.columns[0] for f in found if _can_be_mended(f)]
        replaced[i, [place[name] for name in cells if name in place]] = True
    told = np.array([i for i, found in enumerate(by_row) if found], dtype=np.int64)
    # An explained cell is missing for the detector: a row that it finds ordinary has nothing else to change.
    own = trials.lowest(told, np.zeros((len(told), len(names)), dtype=bool))
    for i, score in zip(told.tolist(), own.tolist(), strict=True):
        if score > level:
            replaced[i, list(causes[i].changed)] = True
    donors = trials.nearest_donor(told, replaced[told], np.full(len(told), level))
    mended = list(causes)
    for i, donor in zip(told.tolist(), donors.tolist(), strict=True):
        columns = tuple(int(c) for c in np.flatnonzero(replaced[i]))
        # A broken relation or a repeated row is not mended by another row's cells.
        is_mended = bool(columns) and all(_can_be_mended(each) for each in by_row[i])
        mended[i] = replace(causes[i], changed=columns, donor=donor if is_mended else -1)
    return mended


def _can_be_mended(finding: quality.Finding) -> bool:
    """Whether a finding is about one cell, so that a usual value in it mends the row."""
    return MISTAKES[finding.kind].is_repairable and len(finding.columns) == 1


def _cell(value: Any) -> Any:
    """A cell as JSON has it, a whole number without a decimal point."""
    cell = plain_cell(value)
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
