"""Which rows are scored, and which ordinary rows they are compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.progress import stage
from tellwhy.core.score_function import Integers
from tellwhy.data import Table, as_table, read_table
from tellwhy.data.table import TableLike
from tellwhy.workflow.tables.request import Request, rows_equal_to, split_marker


def as_source(data: str | Path | TableLike) -> Table:
    """Return a table from a file name, or from what is in memory."""
    if isinstance(data, Table):
        return data
    if isinstance(data, (str, Path)):
        stage(f"reading {data}")
        return read_table(data)
    return as_table(data)


@dataclass(frozen=True)
class Selection:
    """Rows to score and rows to learn from, features only.

    `rows[i]` is the 0-based data row of frame position i. `own` holds the frame positions of the reference
    rows where these are rows of the table itself, and is None for a separate reference.
    """

    frame: pd.DataFrame
    rows: Integers
    reference: pd.DataFrame
    own: Integers | None
    words: str
    is_clean: bool  # whether the user vouches for the reference rows

    def learning_from(self, reference_rows: Integers) -> Selection:
        """Keep only some of the reference rows to learn from."""
        own = None if self.own is None else self.own[reference_rows]
        return replace(self, reference=self.reference.iloc[reference_rows], own=own)

    def without(self, frame_rows: Integers, reference_rows: Integers) -> Selection:
        """Keep only some frame positions and, of a separate reference, some of its own."""
        kept = replace(self, frame=self.frame.iloc[frame_rows], rows=self.rows[frame_rows])
        if self.own is None:
            return replace(kept, reference=self.reference.iloc[reference_rows])
        own = np.flatnonzero(np.isin(frame_rows, self.own))  # counted among the rows that are kept
        return replace(kept, reference=kept.frame.iloc[own], own=own)


def select(table: Table, reference: Table | None, request: Request) -> Selection:
    """Work out the scored rows, the reference rows and the feature columns of a request."""
    if reference is not None and request.normal is not None:
        raise InvalidParameter("Give either a reference table or normal='COLUMN=VALUE', not both.")
    dropped = request.not_features(table)
    frame = table.frame.drop(columns=dropped)
    if request.columns is not None:
        frame = frame[[name for name in request.columns if name not in dropped]]
    frame = frame.drop(columns=[name for name in request.exclude if name in frame.columns])
    if frame.shape[1] == 0:
        raise InvalidInput(
            f"No column of {table.source} is left to use as a feature; check columns and exclude."
        )
    everyone = np.arange(len(frame))
    if reference is not None:
        return Selection(
            frame, everyone, _same_columns(reference, frame, table), None, str(reference.source), True
        )
    if request.normal is None:
        return Selection(frame, everyone, frame, everyone, "all rows of the table", False)
    column, value = split_marker(table, request.normal)
    if value is None:
        raise InvalidParameter(
            f"normal must be 'COLUMN=VALUE'. Got {request.normal!r}, which names a column alone."
        )
    own = rows_equal_to(table, column, value)
    return Selection(frame, everyone, frame.iloc[own], own, f"the rows with {column} = {value}", True)


def _same_columns(reference: Table, frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    missing = [name for name in frame.columns if name not in reference.frame.columns]
    if missing:
        raise InvalidInput(
            f"The reference {reference.source} lacks the column(s) {', '.join(map(repr, missing[:5]))} of "
            f"{table.source}. Leave them out with exclude, or give a reference with the same columns."
        )
    return reference.frame[list(frame.columns)]
