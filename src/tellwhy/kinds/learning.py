"""`learn`: what is ordinary in a table, and its own rows beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tellwhy.checks import check_table
from tellwhy.core.params import generator
from tellwhy.core.progress import stage
from tellwhy.data import Table, TableEncoder
from tellwhy.kinds.batch import Batch
from tellwhy.kinds.fitted import fit_table
from tellwhy.kinds.read_segments import in_segments
from tellwhy.kinds.request import Request
from tellwhy.kinds.table_rows import Selection, select
from tellwhy.kinds.text_columns import texts_as_numbers
from tellwhy.verdicts.findings import RowFindings


@dataclass(frozen=True, eq=False)
class Learned:
    """What is ordinary, and the rows of the table beside it.

    Attributes
    ----------
    batch
        The rows of the table.
    read
        All rows as they were read and checked, before any was dropped and hours took the place of dates.
    """

    batch: Batch
    read: Selection


def learn(table: Table, request: Request, *, is_clean: bool = False) -> Learned:
    """Learn what is ordinary in the rows of a table, and place them beside it.

    Parameters
    ----------
    table
        The rows to judge.
    request
        What was asked; only the rows that `normal` names are learned from.
    is_clean
        Whether the user vouches for all rows.
    """
    texts = texts_as_numbers(table, request)
    table, request = texts.table, texts.request
    selection = select(table, request)
    selection = replace(selection, is_clean=selection.is_clean or is_clean)
    read, found = checked_selection(table, selection, request.missing)
    selection, rare = in_segments(read, table, request)
    found = found.with_more(rare)
    stage("encoding columns")
    selection, encoder = encoded_selection(selection, request)
    found = found.without(np.flatnonzero(np.isin(read.rows, selection.rows)))
    stage("fitting the detector")
    fitted = fit_table(selection, encoder, request.detector, generator(request.random_state))
    return Learned(Batch(table, request, fitted, found, read.frame, texts.columns), read)


def checked_selection(table: Table, selection: Selection, missing: str) -> tuple[Selection, RowFindings]:
    """Look for what is wrong with the data; cells that a finding explains are missing from then on.

    They stay where missing cells are not filled in: whoever drops rows with gaps means the table's own gaps.
    """
    checked = check_table(
        selection.frame,
        selection.roles,
        raw=table.frame[list(selection.frame.columns)],
    )
    found = RowFindings.of(checked.findings, len(selection.frame))
    return selection.with_cells(checked.frame) if missing == "impute" else selection, found


def encoded_selection(selection: Selection, request: Request) -> tuple[Selection, TableEncoder]:
    """Fit the encoding of columns to the reference rows, and drop rows with missing cells where asked to."""
    selection = selection.with_hours()
    # Columns that the user named are used even if they look like a numbering of the rows.
    named = None if request.columns is None else list(selection.frame.columns)
    encoder = TableEncoder(
        missing=request.missing,
        columns=named,
        exclude=selection.context_columns(),
        roles=selection.roles,
        compress=request.detector != "auto",  # the default detector deals with long tails itself
    )
    encoder.fit(selection.compared()[1])
    encoder.notices_ = [*selection.notices, *encoder.notices_]
    if request.missing == "drop":
        selection = selection.without(
            encoder.kept_rows(selection.frame), encoder.kept_rows(selection.reference)
        )
    return selection, encoder
