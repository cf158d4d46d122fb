"""Delimited text (CSV, TSV, …) read by Arrow, with errors that name the line."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.columns.labels import EXACT, are_beyond, would_be_equal
from tellwhy.data.places import mark_lines
from tellwhy.data.reading import bytes as byte_source
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.bytes import ByteSource, refuse_too_large
from tellwhy.data.reading.cells import blank_missing, list_missing_spellings, read_numbers, separate_encodings
from tellwhy.data.reading.dialect import Dialect, detect_dialect
from tellwhy.data.reading.survey import (
    OPEN_QUOTE,
    SINGLE_BYTE,
    TextSurvey,
    allow_long_cells,
    check_rows,
    survey_text,
)
from tellwhy.results.notice import Notice

_BLOCK = 4 * 2**20
_LONGEST_LINE = 256 * 2**20


def read_delimited(
    source: ByteSource, *, delimiter: str | None, decimal: str | None, encoding: str | None
) -> tuple[pd.DataFrame, list[Notice]]:
    """Return the rows of a delimited text file, and notices on how they were read."""
    survey = survey_text(source, encoding)
    dialect = detect_dialect(source, survey.encoding, delimiter=delimiter, decimal=decimal)
    _check_size(source, survey, dialect)
    table = _parse(source, survey, dialect)
    n_rows = table.num_rows
    n_lines = dialect.n_header_lines + n_rows
    if survey.has_quotes and survey.n_lines != n_lines:  # rows over several lines, or blank lines
        check_rows(source, survey, dialect.delimiter, n_rows + (dialect.n_header_lines > 0))
    if n_rows == 0:
        raise UnreadableFile(
            f"{source.path} has a header ({len(dialect.names)} columns) but no data rows; expected at least "
            "one row."
        )
    table = _keep_every_digit(source, survey, dialect, table)
    table, said = _read_cells(table, dialect, survey if encoding is None else None)
    frame = frame_from_arrow(table)
    # Otherwise some rows span lines, or some lines are blank, and nobody knows the line of a row.
    if survey.n_lines == n_lines:
        mark_lines(frame, dialect.n_header_lines + 1)
    elif len(dialect.names) == 1 and not survey.has_quotes:
        said.append(Notice("blank_lines"))
    return frame, [*survey.said, *dialect.said, *said]


def read_as_text(source: ByteSource, column: str) -> pd.Series:
    """Return the cells of a column as they are written, trimmed; None where they are missing."""
    survey = survey_text(source, None)
    dialect = detect_dialect(source, survey.encoding)
    table = _parse(source, survey, dialect, as_text=[column])
    return pd.Series(pc.utf8_trim_whitespace(table.column(column)).to_pylist(), dtype=object)


def _read_cells(
    table: pa.Table, dialect: Dialect, guessed: TextSurvey | None
) -> tuple[pa.Table, list[Notice]]:
    """Read text cells as what they are; `guessed` holds the encoding where nobody told it."""
    table = _settle_numbers(table, dialect)
    mixed: list[Notice] = []
    if guessed is not None and guessed.encoding in SINGLE_BYTE:
        # Before blanks are trimmed: one may be half of a letter.
        table, mixed = separate_encodings(table, guessed.encoding)
    table, said = read_numbers(blank_missing(table), decimal=dialect.decimal, is_sure=dialect.decimal_is_sure)
    return table, [*mixed, *said]


def _check_size(source: ByteSource, survey: TextSurvey, dialect: Dialect) -> None:
    """Refuse packed text whose cells take more memory than is accepted: '1,' is two bytes, a number eight."""
    size = 8 * survey.n_lines * len(dialect.names)
    if source.packing != "none" and size > byte_source.LARGEST_UNPACKED:
        raise refuse_too_large(source.path)


def _settle_numbers(table: pa.Table, dialect: Dialect) -> pa.Table:
    """Make numbers of the columns that might have been codes and are plain whole numbers."""
    for name in dialect.codes:
        place = table.column_names.index(name)
        column = table.column(place)
        if pa.types.is_string(column.type) and not pc.any(pc.starts_with(column, "0")).as_py():
            with suppress(pa.ArrowInvalid):  # what is no whole number is looked at more closely below
                table = table.set_column(place, name, column.cast(pa.int64()))
    return table


def _keep_every_digit(source: ByteSource, survey: TextSurvey, dialect: Dialect, table: pa.Table) -> pa.Table:
    """Return the table with text where whole numbers of many digits became floats, and some of them equal."""
    long = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if pa.types.is_floating(column.type) and are_beyond(column, EXACT)
    ]
    if not long:
        return table
    again = _parse(source, survey, dialect, as_text=long)
    for name in long:
        if would_be_equal(pc.utf8_trim_whitespace(again.column(name))):
            table = table.set_column(table.column_names.index(name), name, again.column(name))
    return table


def _parse(
    source: ByteSource, survey: TextSurvey, dialect: Dialect, *, as_text: Sequence[str] | None = None
) -> pa.Table:
    """Read all columns, or as text some of them."""
    parse = arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=survey.has_quotes)
    convert = arrow_csv.ConvertOptions(
        null_values=list_missing_spellings(),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        decimal_point=dialect.decimal,
        column_types=dict.fromkeys(dialect.codes if as_text is None else as_text, pa.string()),
        include_columns=as_text,
    )
    for block_size in (_BLOCK, _LONGEST_LINE):  # Arrow refuses a line that is longer than two blocks
        read = arrow_csv.ReadOptions(
            encoding="utf8" if survey.encoding == "utf-8-sig" else survey.encoding,
            column_names=list(dialect.names),
            skip_rows=dialect.n_header_lines,
            block_size=block_size,
        )
        try:
            with _open_stream(source) as stream:
                return arrow_csv.read_csv(
                    stream, read_options=read, parse_options=parse, convert_options=convert
                )
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error) or block_size == _LONGEST_LINE:
                raise _explain_error(source, survey, dialect, error) from error
    raise AssertionError("unreachable")


@contextmanager
def _open_stream(source: ByteSource) -> Iterator[pa.NativeFile | BinaryIO]:
    """Give the content to Arrow; a file that is not packed, without a detour through Python."""
    if source.packing == "none":
        with pa.OSFile(os.fsencode(source.path)) as file:
            yield file
    else:
        with source.open() as stream:
            yield stream


def _explain_error(
    source: ByteSource, survey: TextSurvey, dialect: Dialect, error: Exception
) -> UnreadableFile:
    """Find the first row with another number of fields than the header, by the standard library's reader.

    It is slower than Arrow's, but knows the line.
    """
    expected = len(dialect.names)
    line = 0  # where the row before ended
    with source.open() as stream, allow_long_cells():
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace", newline="")
        rows = csv.reader(text, delimiter=dialect.delimiter)
        try:
            for row in rows:
                if row and len(row) != expected:
                    spans = f" The row spans lines {line + 1} to {rows.line_num}: {OPEN_QUOTE}."
                    hint = spans if rows.line_num > line + 1 else ""
                    return UnreadableFile(
                        f"{source.path}, line {line + 1}: found {len(row)} fields, expected {expected} as in "
                        f"the header.{hint} Fix that line, or pass another delimiter than "
                        f"{dialect.delimiter!r}."
                    )
                line = rows.line_num
        except csv.Error as problem:
            return UnreadableFile(f"{source.path}, line {line + 1}: {problem}; {OPEN_QUOTE}. Fix that line.")
    return UnreadableFile(
        f"{source.path} cannot be read as delimited text: {error}. Check the file in an editor."
    )
