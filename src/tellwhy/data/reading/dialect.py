"""How a delimited text file is written: its delimiter, its decimal sign, its header."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.data.columns.names import are_zero_led, names_identifiers
from tellwhy.data.reading.bytes import ByteSource
from tellwhy.data.reading.cells import MISSING_WORDS
from tellwhy.data.table import check_unique
from tellwhy.results.notice import Notice

DELIMITERS = ("\t", ";", "|", ",")  # on a tie the earlier one wins: commas also occur inside numbers
HEADER_IS_DATA = " If the file has no line of column names, add one."
_SAMPLE_BYTES = 2**20
_SAMPLE_ROWS = 500
_LONGEST_NUMBER = 15  # digits that a float keeps
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.IGNORECASE)
# Names that tables do have: 0, 1, 2, …; 2019, 2020, …
_COUNT_OR_YEAR = re.compile(r"\d{1,3}|(1[89]|20|21)\d\d")
# Three digits after the only sign do not tell: 1,234 may be a thousand or little more than one.
_COMMA_DECIMAL = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+|\d{1,3}(\.\d{3})+,\d+)([eE][+-]?\d+)?")
_POINT_DECIMAL = re.compile(r"[+-]?(\d*\.(\d{1,2}|\d{4,})|0\.\d+|\d{1,3}(,\d{3})+\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Dialect:
    """Everything needed to read the rows of a delimited file."""

    delimiter: str
    decimal: str
    decimal_is_sure: bool
    names: tuple[str, ...]
    n_header_lines: int  # lines before the first data row
    said: tuple[Notice, ...] = ()
    codes: tuple[str, ...] = ()  # columns of digits that a number might lose some of


def detect_dialect(
    source: ByteSource, encoding: str, *, delimiter: str | None = None, decimal: str | None = None
) -> Dialect:
    """Look at the first rows of a file and tell how it is written; what is passed is taken as given."""
    _check_given(delimiter, decimal)
    text = _sample(source, encoding)
    if delimiter is None:
        delimiter = _detect_delimiter(text)
    rows, n_header_lines = _read_first_rows(source, text, delimiter)
    said = []
    if delimiter != ",":
        said.append(Notice("separated_by", {"sign": delimiter}))
    sign = _Decimal(decimal, is_sure=True) if decimal else _detect_decimal(rows[1:] or rows, delimiter)
    if sign.example:
        said.append(Notice("decimal_comma", {"example": sign.example}))
    found = Dialect(delimiter, sign.sign, sign.is_sure, (), n_header_lines, tuple(said))
    named = _read_names(source, found, rows[0])
    data = rows if named.n_header_lines == 0 else rows[1:]
    return replace(named, codes=_find_perhaps_codes(named.names, data))


def _find_perhaps_codes(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the columns of digits that may name things: 01067 is a postal code, and no 1067.

    A sample does not tell for sure: these columns are read as text first, and all their cells are looked at.
    """
    columns = {
        name: [row[i].strip() for row in rows if len(row) == len(names) and row[i].strip()]
        for i, name in enumerate(names)
    }
    return tuple(name for name, cells in columns.items() if _may_be_codes(cells, name))


def _may_be_codes(cells: Sequence[str], name: str) -> bool:
    digits = [cell for cell in cells if cell.isascii() and cell.isdigit()]
    if not digits or len(digits) < 0.9 * len(cells):
        return False
    width, n_wide = Counter(map(len, digits)).most_common(1)[0]
    has_one_width = width >= 3 and n_wide >= 0.98 * len(digits)
    is_long = max(map(len, digits)) > _LONGEST_NUMBER
    return names_identifiers(name) or has_one_width or is_long or are_zero_led(cells, name)


def _check_given(delimiter: str | None, decimal: str | None) -> None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii()):
        raise InvalidParameter(
            f"The delimiter must be one character, such as ',' or ';'. Got {delimiter!r} instead."
        )
    if decimal is not None and decimal not in (".", ","):
        raise InvalidParameter(f"The decimal sign must be '.' or ','. Got {decimal!r} instead.")
    if delimiter is not None and delimiter == decimal:
        raise InvalidParameter(f"The delimiter and the decimal sign cannot both be {delimiter!r}.")


def _sample(source: ByteSource, encoding: str) -> str:
    """Return the first lines of a file, whole ones, and more of it where lines are very long."""
    size = _SAMPLE_BYTES
    while True:
        head = source.head(size)
        is_whole = len(head) < size
        text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head, final=is_whole)
        if is_whole:
            return text
        whole_lines = text[: text.rfind("\n") + 1] or text[: text.rfind("\r") + 1]
        if whole_lines.count("\n") + whole_lines.count("\r") >= 3 or size > 2**27:
            return whole_lines or text
        size *= 8


def _split_rows(text: str, delimiter: str, limit: int = _SAMPLE_ROWS) -> list[list[str]]:
    rows = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) >= limit:
                break
    except csv.Error:  # a cell longer than the module's limit: the rows so far must do
        pass
    return rows


def _detect_delimiter(text: str) -> str:
    """Choose the delimiter that gives the most rows as many fields as the first row has."""
    best = ""
    best_share = 0.0
    for delimiter in DELIMITERS:
        rows = _split_rows(text, delimiter)
        width = len(rows[0]) if rows else 0
        share = sum(len(row) == width for row in rows) / max(len(rows), 1)
        if width > 1 and share > best_share + 1e-9:  # on a tie the earlier delimiter stays
            best = delimiter
            best_share = share
    if best:
        return best
    return "," if "," not in text else ";"  # one column; its commas are decimal signs


def _read_first_rows(source: ByteSource, text: str, delimiter: str) -> tuple[list[list[str]], int]:
    """Return rows of a sample, and how many lines there are up to the end of the first one."""
    rows = _split_rows(text, delimiter)
    if not rows:
        raise UnreadableFile(f"{source.path} holds no row; expected a header and data rows.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    for row in reader:
        if row:
            break
    return rows, reader.line_num


@dataclass(frozen=True)
class _Decimal:
    """The decimal sign of a file, whether a cell proves it, and the cell that shows a decimal comma."""

    sign: str
    is_sure: bool
    example: str = ""


def _detect_decimal(rows: Sequence[Sequence[str]], delimiter: str) -> _Decimal:
    if delimiter == ",":  # it would cut every number with a decimal comma in two
        return _Decimal(".", is_sure=False)
    cells = [cell.strip() for row in rows for cell in row]
    with_comma = [cell for cell in cells if _COMMA_DECIMAL.fullmatch(cell)]
    with_point = any(_POINT_DECIMAL.fullmatch(cell) for cell in cells)
    if with_comma and not with_point:
        return _Decimal(",", is_sure=True, example=with_comma[0])
    return _Decimal(".", is_sure=with_point and not with_comma)


def _read_names(source: ByteSource, dialect: Dialect, first: Sequence[str]) -> Dialect:
    fields = [field.strip() for field in first]
    if _is_data(fields):
        names = tuple(f"column_{i}" for i in range(1, len(fields) + 1))
        return replace(dialect, names=names, n_header_lines=0, said=(*dialect.said, Notice("no_header")))
    unnamed = [i for i, field in enumerate(fields, start=1) if not field]
    for i in unnamed:
        fields[i - 1] = f"column_{i}"
    numbers = [field for field in fields if _NUMBER.fullmatch(field) and not _COUNT_OR_YEAR.fullmatch(field)]
    check_unique(fields, where=str(source.path), hint=HEADER_IS_DATA if numbers else "")
    said = list(dialect.said)
    if numbers:
        said.append(Notice("names_are_numbers", {"names": numbers[:3]}))
    if unnamed:
        said.append(Notice("unnamed_columns", {"n": len(unnamed), "places": unnamed[:5]}))
    return replace(dialect, names=tuple(fields), said=tuple(said))


def _is_data(fields: Sequence[str]) -> bool:
    is_number = [_NUMBER.fullmatch(field) is not None for field in fields]
    is_missing = [field.lower() in MISSING_WORDS for field in fields]
    if not any(is_number) or not all(n or m for n, m in zip(is_number, is_missing, strict=True)):
        return False
    # Pandas writes a frame without names as 0, 1, 2, …, with its index under an empty name before them.
    numbers = fields if fields[0] else fields[1:]
    return len(numbers) < 3 or list(numbers) != [str(i) for i in range(len(numbers))]
