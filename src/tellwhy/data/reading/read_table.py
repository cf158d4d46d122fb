"""`read_table`: a file as people have it, in; a table, out."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.data.reading.byte_source import ByteSource, file_fingerprint, locate
from tellwhy.data.reading.delimited import read_delimited
from tellwhy.data.reading.excel import read_excel
from tellwhy.data.reading.json_lines import read_json
from tellwhy.data.reading.parquet import read_parquet
from tellwhy.data.table import Table

_TEXT_NAMES = (".csv", ".tsv", ".tab", ".txt", ".data")
_JSON_NAMES = (".jsonl", ".ndjson", ".json")
_PARQUET_NAMES = (".parquet", ".pq")


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
) -> Table:
    r"""Read a table from a file, whatever its format, and say how it was read.

    CSV, TSV and other delimited text, JSON lines, JSON lists of objects and Parquet are read, each also
    inside .gz or .zip (one file), and Excel workbooks (needs the extra `tellwhy[excel]`). The delimiter
    (comma, semicolon, tab, vertical bar), the decimal sign, quoting and the encoding are detected. The cells
    `MISSING_WORDS` (nothing, NA, N/A, NaN, null, none, "-", "?", in any letter case) are missing. A first row
    of numbers only is data, not a header.

    Parameters
    ----------
    path
        The file.
    delimiter
        One character between columns of delimited text; detected by default.
    decimal
        '.' or ',' in delimited text; detected by default.
    encoding
        Name of the text's encoding; detected by default.
    sheet
        Sheet of a workbook: its name, its number from 0, or its number from 1 as text ('2' is the second);
        the first by default.

    Returns
    -------
    Table
        The frame, the path as given, notices for the user, and the SHA-256 of the file.

    Raises
    ------
    UnreadableFile, InvalidInput
        With the file, the line and the column, what was expected, and what to do.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weather.csv"
    >>> _ = path.write_text("city;mm\nOslo;3,5\nRome;?\n", encoding="utf-8")
    >>> table = read_table(path)
    >>> table.frame["mm"].tolist()
    [3.5, nan]
    >>> table.notices
    ('Columns are separated by semicolon.', 'Numbers have a decimal comma (3,5).')
    """
    source = locate(Path(path))
    fingerprint = file_fingerprint(source.path)
    kind = _format(source)
    if sheet is not None and kind != "excel":
        raise InvalidParameter(f"{source.path} is no Excel workbook and has no sheets; got sheet {sheet!r}.")
    try:
        if kind == "excel":
            frame, notices = read_excel(source, sheet=sheet)
        elif kind == "parquet":
            frame, notices = read_parquet(source)
        elif kind == "json":
            frame, notices = read_json(source, encoding=encoding)
        else:
            frame, notices = read_delimited(source, delimiter=delimiter, decimal=decimal, encoding=encoding)
    except MemoryError as error:
        raise UnreadableFile(f"{source.path} does not fit into memory. Read it in parts.") from error
    return Table(frame, str(path), tuple(notices), fingerprint)


def _format(source: ByteSource) -> str:
    """Tell the format from the content where that is certain, else from the name."""
    name = source.name.lower()
    if name.endswith((".xlsx", ".xlsm")):
        if source.packing != "none":
            raise UnreadableFile(
                f"{source.path} holds a packed Excel workbook. Unpack it and pass the workbook."
            )
        return "excel"
    head = source.head(4096)
    if not head:
        raise UnreadableFile(f"{source.path} is empty; expected a table with a header and data rows.")
    if head.startswith(b"PAR1"):
        return "parquet"
    if name.endswith(_PARQUET_NAMES):
        raise UnreadableFile(
            f"{source.path} is not a Parquet file, although its name says so (it does not begin with PAR1). "
            "Write or fetch it again."
        )
    if name.endswith(_JSON_NAMES):
        return "json"
    # A name such as .csv is believed: a cell may begin with a brace.
    is_json = re.match(rb'[\xef\xbb\xbf\s]*(\[\s*)?\{\s*"', head) is not None
    return "json" if is_json and not name.endswith(_TEXT_NAMES) else "text"
