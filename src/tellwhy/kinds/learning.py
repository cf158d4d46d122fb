"""`learn`: what is ordinary in a table, from its own rows or from those of a reference."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tellwhy.checks.check import check_table
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


def learn(table: Table, request: Request, other: Table | None = None, *, is_clean: bool = False) -> Learned:
    """Learn what is ordinary in a table, or in another one, and place the rows of the table beside it.

    Parameters
    ----------
    table
        The rows to judge.
    request
        What was asked.
    other
        Rows to learn from; without it (or `normal`), the table's own.
    is_clean
        Whether the user vouches for the table's own rows.
    """
    texts = texts_as_numbers(table, other, request)
    table, request = texts.table, texts.request
    other = texts.other
    selection = select(table, other, request)
    selection = replace(selection, is_clean=selection.is_clean or is_clean)
    read, found = checked_selection(table, selection, request.missing)
    selection, rare = in_segments(read, table, other, request)
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
        reference=selection.reference if selection.own is None else None,
        raw=table.frame[list(selection.frame.columns)],
    )
    found = RowFindings.of(checked.findings, len(selection.frame))
    return selection.with_cells(checked.frame) if missing == "impute" else selection, found


def encoded_selection(selection: Selection, request: Request) -> tuple[Selection, TableEncoder]:
    """Fit the encoding of columns to the reference rows, and drop rows with missing cells where asked to."""
    selection = selection.with_hours()
    frame, reference = selection.compared()
    other_rows = None if reference is frame else frame
    # Columns that the user named are used even if they look like a numbering of the rows.
    named = None if request.columns is None else list(selection.frame.columns)
    encoder = TableEncoder(
        missing=request.missing,
        columns=named,
        exclude=selection.context_columns(),
        roles=selection.roles,
        compress=request.detector != "auto",  # the default detector deals with long tails itself
    )
    encoder.fit(reference, scored=other_rows)
    encoder.notices_ = [*selection.notices, *encoder.notices_]
    if other_rows is not None:
        encoder.notices_ += [f"In the scored rows: {text}" for text in encoder.missing_in(other_rows)]
    if request.missing == "drop":
        selection = selection.without(
            encoder.kept_rows(selection.frame), encoder.kept_rows(selection.reference)
        )
    return selection, encoder
