"""Delimited text (CSV, TSV, …) read by Arrow, with errors that name the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.places import mark_lines
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.byte_source import ByteSource
from tellwhy.data.reading.dialect import Dialect, detect_dialect
from tellwhy.data.reading.text_cells import blank_missing, missing_spellings, read_numbers
from tellwhy.data.reading.text_survey import TextSurvey, survey_text

_BLOCK = 4 * 2**20
_LONGEST_LINE = 256 * 2**20
_OPEN_QUOTE = "a quotation mark opened there is probably never closed"


def read_delimited(
    source: ByteSource, *, delimiter: str | None, decimal: str | None, encoding: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a delimited text file, and notices on how they were read."""
    survey = survey_text(source, encoding)
    dialect = detect_dialect(source, survey.encoding, delimiter=delimiter, decimal=decimal)
    table = _parse(source, survey, dialect)
    n_rows = table.num_rows
    if n_rows == 0:
        raise UnreadableFile(
            f"{source.path} has a header ({len(dialect.names)} columns) but no data rows; expected at least "
            "one row."
        )
    table, notices = read_numbers(
        blank_missing(table), decimal=dialect.decimal, is_sure=dialect.decimal_is_sure, keep=dialect.codes
    )
    frame = frame_from_arrow(table)
    # Otherwise some rows span lines, or some lines are blank, and nobody knows the line of a row.
    if survey.n_lines == dialect.n_header_lines + n_rows:
        mark_lines(frame, dialect.n_header_lines + 1)
    return frame, [*survey.notices, *dialect.notices, *notices]


def _parse(source: ByteSource, survey: TextSurvey, dialect: Dialect) -> pa.Table:
    parse = arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=survey.has_quotes)
    convert = arrow_csv.ConvertOptions(
        null_values=missing_spellings(),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        decimal_point=dialect.decimal,
        column_types=dict.fromkeys(dialect.codes, pa.string()),
    )
    for block_size in (_BLOCK, _LONGEST_LINE):  # Arrow refuses a line that is longer than two blocks
        read = arrow_csv.ReadOptions(
            encoding="utf8" if survey.encoding == "utf-8-sig" else survey.encoding,
            column_names=list(dialect.names),
            skip_rows=dialect.n_header_lines,
            block_size=block_size,
        )
        try:
            with _arrow_stream(source) as stream:
                return arrow_csv.read_csv(
                    stream, read_options=read, parse_options=parse, convert_options=convert
                )
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error) or block_size == _LONGEST_LINE:
                raise _explained(source, survey, dialect, error) from error
    raise AssertionError("unreachable")


@contextmanager
def _arrow_stream(source: ByteSource) -> Iterator[pa.NativeFile | BinaryIO]:
    """Give the content to Arrow; a file that is not packed, without a detour through Python."""
    if source.packing == "none":
        with pa.OSFile(str(source.path)) as file:
            yield file
    else:
        with source.open() as stream:
            yield stream


def _explained(source: ByteSource, survey: TextSurvey, dialect: Dialect, error: Exception) -> UnreadableFile:
    """Find the first row with another number of fields than the header, by the standard library's reader.

    It is slower than Arrow's, but knows the line.
    """
    expected = len(dialect.names)
    line = 0  # where the row before ended
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace", newline="")
        rows = csv.reader(text, delimiter=dialect.delimiter)
        try:
            for row in rows:
                if row and len(row) != expected:
                    spans = f" The row spans lines {line + 1} to {rows.line_num}: {_OPEN_QUOTE}."
                    hint = spans if rows.line_num > line + 1 else ""
                    return UnreadableFile(
                        f"{source.path}, line {line + 1}: found {len(row)} fields, expected {expected} as in "
                        f"the header.{hint} Fix that line, or pass another delimiter than "
                        f"{dialect.delimiter!r}."
                    )
                line = rows.line_num
        except csv.Error as problem:
            return UnreadableFile(f"{source.path}, line {line + 1}: {problem}; {_OPEN_QUOTE}. Fix that line.")
    return UnreadableFile(
        f"{source.path} cannot be read as delimited text: {error}. Check the file in an editor."
    )
