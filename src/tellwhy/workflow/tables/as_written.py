"""Rows and findings as they can be looked up in the user's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from pandas.api.types import is_object_dtype

from tellwhy.data.places import file_of, is_marked, line_of
from tellwhy.workflow.run import Finding

MOST_LINES = 1_000  # of a finding; nobody looks more of them up by hand


def as_written(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the cells that the table has, in columns that any file can hold."""
    kept = rows.reset_index(drop=True)
    kept.attrs = {}
    for name in kept.columns:
        cells = kept[name]
        if is_object_dtype(cells.dtype):  # cells of several kinds, such as numbers among words
            kept[name] = cells.map(_text, na_action="ignore")
    return kept


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else str(cell)


def with_lines(findings: Sequence[Finding], frame: pd.DataFrame) -> list[Finding]:
    """Add the lines of the file to findings, where they are known."""
    if not is_marked(frame):
        return list(findings)
    made = []
    for finding in findings:
        found = [(line_of(frame, row), file_of(frame, row)) for row in finding.rows[:MOST_LINES]]
        lines = [line for line, _ in found if line is not None]
        files = [file for line, file in found if line is not None and file is not None]
        made.append(replace(finding, lines=lines, files=files))
    return made
