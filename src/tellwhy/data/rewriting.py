"""A delimited file once more, with other cells in a few places; everything else stays as it was written."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.reading.bytes import ByteSource, locate
from tellwhy.data.reading.dialect import detect_dialect
from tellwhy.data.reading.survey import long_cells, survey_text
from tellwhy.storage.csv_cells import quoted

_NUMBER = re.compile(r"([^\d]*?)([-−+]?\d[\d.,'\u00a0\u202f ]*)([^\d]*)")
_EXACT = 1e-9  # two numbers this near are one, but for the last digits of floating point

Cells = Mapping[int, Mapping[str, Any]]  # row (from 0) -> column -> value


def rewrite_delimited(path: Path, target: Path, cells: Cells, n_rows: int) -> None:
    """Write a delimited file again, with other values in some cells.

    Lines in which nothing changes are copied as they are: their quotes, blanks, signs and line ends stay, and
    so does the encoding. A packed file is written unpacked.

    Parameters
    ----------
    path
        The file as it was read.
    target
        Where to write.
    cells
        Of each row to change, counted from 0, the new value of each column; None empties a cell.
    n_rows
        How many rows were read, so that a file that has changed since is noticed.
    """
    source = locate(path)
    encoding = _encoding(source)
    dialect = detect_dialect(source, survey_text(source).encoding)
    place = {name: i for i, name in enumerate(dialect.names)}
    row = -1 if dialect.n_header_lines else 0
    with (
        source.open() as stream,
        long_cells(),
        io.TextIOWrapper(stream, encoding=encoding, errors=_errors(encoding), newline="") as text,
        target.open("w", encoding=encoding, errors=_errors(encoding), newline="") as file,
    ):
        for record, written in _records(text, dialect.delimiter):
            if record and row in cells:
                new = {
                    place[n]: write_like(record[place[n]], v, dialect.decimal) for n, v in cells[row].items()
                }
                file.write(_with_cells(written, record, new, dialect.delimiter))
            else:
                file.write(written)
            row += bool(record)
    if row != n_rows:
        raise UnreadableFile(
            f"{path} has {row:,} rows now, and had {n_rows:,} when it was checked: it was changed meanwhile. "
            "Repair it again."
        )


def _encoding(source: ByteSource) -> str:
    """The codec that gives back the bytes it read: UTF-8 with a mark only where there is one."""
    found = survey_text(source).encoding
    return "utf-8" if found == "utf-8-sig" and not source.head(3).startswith(codecs.BOM_UTF8) else found


def _errors(encoding: str) -> str:
    # Bytes that the codec lacks come back as they were; UTF-16 has no such way, and no such bytes.
    return "strict" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"


def _records(text: TextIO, delimiter: str) -> Iterator[tuple[list[str], str]]:
    """Each row as its cells, and as it was written; a blank line has no cells."""
    lines: list[str] = []

    def kept() -> Iterator[str]:
        for line in text:
            lines.append(line)
            yield line

    for record in csv.reader(kept(), delimiter=delimiter):
        yield record, "".join(lines)
        lines.clear()


def _with_cells(written: str, record: list[str], new: Mapping[int, str], delimiter: str) -> str:
    """A row as text with other cells in some places; the others and the line end as they were."""
    body = written.rstrip("\r\n")
    fields = _fields(body, delimiter)
    if len(fields) != len(
        record
    ):  # stray quotation marks: only the cells are kept, not how they were written
        fields = [quoted(cell, delimiter) for cell in record]
    for place, cell in new.items():
        fields[place] = quoted(cell, delimiter)
    return (delimiter.join(fields) or '""') + written[len(body) :]


def _fields(body: str, delimiter: str) -> list[str]:
    """The cells of a row with their quotation marks: a delimiter between two marks separates nothing."""
    fields = [""]
    is_quoted = False
    for sign in body:
        is_quoted ^= sign == '"'
        if sign == delimiter and not is_quoted:
            fields.append("")
        else:
            fields[-1] += sign
    return fields


def write_like(old: str, value: Any, decimal: str = ".") -> str:
    """Write a value as the cell that it replaces was written: its currency or unit, sign and decimals stay.

    Examples
    --------
    >>> write_like("$1299.00", 12.99), write_like("1250 g", 125), write_like("12,5", 1.25, ",")
    ('$12.99', '125 g', '1,25')
    """
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return ""
    found = _NUMBER.fullmatch(old)
    if found is None:
        return _digits(float(value), 0).replace(".", decimal)
    number = found[2]
    decimals = len(number.strip().rpartition(decimal)[2]) if decimal in number else 0
    blank = number[len(number.rstrip()) :]
    return f"{found[1]}{_digits(float(value), decimals).replace('.', decimal)}{blank}{found[3]}"


def _digits(value: float, decimals: int) -> str:
    if abs(round(value, decimals) - value) <= _EXACT * abs(value):
        return f"{value:.{decimals}f}"
    return np.format_float_positional(float(f"{value:.12g}"), trim="-")
