"""A file, several files, a pipe or a query as one table.

`read_table` reads a file as people have it, `read_sources` what was named on a command line, and
`join_tables` puts tables of the same columns below each other.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnreadableFile
from tellwhy.core.progress import stage
from tellwhy.data.columns.labels import EXACT
from tellwhy.data.places import FileLines, find_first_line, mark_files
from tellwhy.data.reading.bytes import ByteSource, file_fingerprint, locate
from tellwhy.data.reading.delimited import read_delimited
from tellwhy.data.table import Table
from tellwhy.results.notice import Notice

_TEXT_NAMES = (".csv", ".tsv", ".tab", ".txt", ".data")
_JSON_NAMES = (".jsonl", ".ndjson", ".json", ".geojson")
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

    CSV, TSV and other delimited text, JSON (lines, lists, GeoJSON) and Parquet are read, each also
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
    ('Columns are separated by semicolons.', 'Numbers have a decimal comma (3,5).')
    """
    source = locate(Path(path))
    fingerprint = file_fingerprint(source.path)
    kind = _format(source)
    if sheet is not None and kind != "excel":
        raise InvalidParameter(f"{source.path} is no Excel workbook and has no sheets; got sheet {sheet!r}.")
    try:  # what reads a format is loaded when there is such a file
        if kind == "excel":
            from tellwhy.data.reading.excel import read_excel

            frame, said = read_excel(source, sheet=sheet)
        elif kind == "parquet":
            from tellwhy.data.reading.parquet import read_parquet

            frame, said = read_parquet(source)
        elif kind == "json":
            from tellwhy.data.reading.json import read_json

            frame, said = read_json(source, encoding=encoding)
        else:
            frame, said = read_delimited(source, delimiter=delimiter, decimal=decimal, encoding=encoding)
    except MemoryError as error:
        raise UnreadableFile(f"{source.path} does not fit into memory. Read it in parts.") from error
    return Table(frame, str(path), tuple(said), fingerprint)


def format_of_file(path: Path) -> str:
    """Tell how a file is read: "text" (delimited), "json", "parquet" or "excel"."""
    return _format(locate(path))


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


NAME = "standard input"


def read_standard_input(*, sheet: str | int | None = None) -> Table:
    """Read a table from standard input, of any format that files have; the content tells which.

    Readers go over a table more than once, so what comes through the pipe is kept in a temporary file.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise UnreadableFile(
            "Standard input is a terminal; expected a table. Pipe one in (`zcat x.csv.gz | tellwhy …`), or "
            "name a file instead of '-'."
        )
    with tempfile.TemporaryDirectory(prefix="tellwhy-") as folder:
        path = Path(folder) / "stdin"
        try:
            with path.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        except OSError as error:  # what never ends fills the disk
            raise UnreadableFile(f"{NAME} cannot be read: {error.strerror or error}.") from error
        try:
            return replace(read_table(path, sheet=sheet), source=NAME)
        except TellwhyError as error:  # the temporary name means nothing to anybody
            raise type(error)(str(error).replace(str(path), NAME)) from error


STANDARD_INPUT = "-"


def read_sources(
    names: Sequence[str | os.PathLike[str]],
    *,
    sheet: str | int | None = None,
    db: str | os.PathLike[str] | None = None,
) -> Table:
    r"""Read one table from a file, several files, standard input ('-'), or a query of a database.

    Parameters
    ----------
    names
        Files of the same columns, whose rows are joined in this order; or, with `db`, one query.
    sheet
        Of workbooks: a name, a number from 1 as text, or a number from 0.
    db
        A DuckDB or SQLite file, or the address of a server, that the query is asked of; it is only read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("city,mm\nOslo,3\nRome,1\n", encoding="utf-8")
    >>> _ = (folder / "b.csv").write_text("mm,city\n7,Bern\n", encoding="utf-8")
    >>> table = read_sources([folder / "a.csv", folder / "b.csv"])
    >>> table.frame["mm"].tolist(), table.source
    ([3, 1, 7], 'a.csv, b.csv')
    """
    words = [os.fspath(name) for name in names]
    if not words:
        raise InvalidParameter("Name at least one file to read; got none.")
    if db is not None:
        if len(words) != 1 or sheet is not None:
            got = "a sheet" if len(words) == 1 else f"{len(words)} arguments"
            raise InvalidParameter(f"With --db, give one query and nothing else to read; got {got}.")
        from tellwhy.data.databases import words_of
        from tellwhy.data.queries import read_query

        stage("asking", words_of(db))
        return read_query(words[0], db)
    _check_no_query(words)
    if words.count(STANDARD_INPUT) > 1:
        raise InvalidParameter("Standard input ('-') can be read once; it was named more than once.")
    tables = [_read(word, sheet) for word in words]
    if len(tables) == 1:
        return tables[0]
    from tellwhy.data.sources import join_tables

    return join_tables(tables)


def _read(name: str, sheet: str | int | None) -> Table:
    stage("reading standard input" if name == STANDARD_INPUT else f"reading {name}")
    return read_standard_input(sheet=sheet) if name == STANDARD_INPUT else read_table(name, sheet=sheet)


def is_query(name: str) -> bool:
    """Whether a name reads like a query rather than like a file.

    Examples
    --------
    >>> is_query("select * from t"), is_query("with.csv")
    (True, False)
    """
    return re.match(r"\s*(select|with)\s", name, re.IGNORECASE) is not None


def _check_no_query(names: Sequence[str]) -> None:
    for name in names:
        if is_query(name) and not os.path.exists(name):
            raise InvalidParameter(
                f"{name[:60]!r} looks like a query; say which database to ask: --db FILE or --db ADDRESS."
            )


MOST_NAMES = 3


def join_tables(tables: Sequence[Table]) -> Table:
    """Put the rows of several tables below each other; each row remembers its file and its line there."""
    first = tables[0]
    for other in tables[1:]:
        _check_same_columns(first, other)
    frame = join_frames([table.frame for table in tables])
    mark_files(
        frame, [FileLines(table.source, find_first_line(table.frame), len(table.frame)) for table in tables]
    )
    digest = hashlib.sha256("".join(table.fingerprint for table in tables).encode())
    parts = [[table.source, len(table.frame)] for table in tables[:MOST_NAMES]]
    joined = Notice("files_joined", {"n_rows": len(frame), "n_files": len(tables), "first": parts})
    return Table(frame, _name_source(tables), (joined, *_collect_notices(tables)), digest.hexdigest())


def join_frames(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put frames of the same columns below each other.

    A column that is numbers in one and text in another is text in all: whoever reads columns later decides.

    Examples
    --------
    >>> a = pd.DataFrame({"code": [7, 8]})
    >>> join_frames([a, pd.DataFrame({"code": ["007"]})])["code"].tolist()
    ['7', '8', '007']
    """
    names = list(frames[0].columns)
    parts = [frame[names].copy(deep=False) for frame in frames]
    for part in parts:
        part.attrs = {}  # marks of lines are those of single files
    for name in names:
        _unify(parts, name)
    return pd.concat(parts, ignore_index=True)


def _unify(parts: Sequence[pd.DataFrame], name: str) -> None:
    """Give a column one kind in all parts; a part without any value has no say."""
    filled = [part for part in parts if part[name].notna().any()]
    kinds = {_find_kind(part[name]) for part in filled}
    if len(kinds) == 1:
        for part in parts:
            if not part[name].notna().any() and filled:
                part[name] = _make_empty(part.index, filled[0][name])
        if kinds != {"text"}:
            return
    for part in parts:
        if kinds and (len(kinds) > 1 or isinstance(part[name].dtype, pd.CategoricalDtype)):
            part[name] = _convert_to_text(part[name])


def _make_empty(index: pd.Index, like: pd.Series) -> pd.Series:
    """Missing cells that leave the kind of a column below or above them as it is."""
    if is_bool_dtype(like.dtype):
        return pd.Series(pd.NA, index=index, dtype="boolean")
    if is_datetime64_any_dtype(like.dtype):
        return pd.Series(pd.NaT, index=index, dtype=like.dtype)
    return pd.Series(float("nan") if is_numeric_dtype(like.dtype) else None, index=index)


def _find_kind(column: pd.Series) -> str:
    if is_bool_dtype(column.dtype):
        return "boolean"
    if is_datetime64_any_dtype(column.dtype):
        return "date"
    return "number" if is_numeric_dtype(column.dtype) else "text"


def _convert_to_text(column: pd.Series) -> pd.Series:
    filled = column.dropna()
    is_number = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    is_whole = is_number and bool(((filled % 1 == 0) & (filled.abs() <= EXACT)).all())
    # Gaps make floats of whole numbers: 7.0 was written 7.
    written = column.astype("Int64") if is_whole else column
    return written.map(str, na_action="ignore").astype(object)


def _check_same_columns(first: Table, other: Table) -> None:
    names = set(first.frame.columns)
    lacks = [name for name in first.frame.columns if name not in other.frame.columns]
    adds = [name for name in other.frame.columns if name not in names]
    if not lacks and not adds:
        return
    said = []
    if lacks:
        said.append(f"lacks {', '.join(map(repr, lacks[:5]))}")
    if adds:
        said.append(f"has {', '.join(map(repr, adds[:5]))} besides")
    raise InvalidInput(
        f"{other.source} {' and '.join(said)}, compared with {first.source}; files that are read together "
        "need the same columns. Rename or remove columns, or read the files one by one."
    )


def _name_source(tables: Sequence[Table]) -> str:
    names = [Path(table.source).name for table in tables]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _collect_notices(tables: Sequence[Table]) -> list[Notice]:
    """What is said of every file is said once; what is said of some names them."""
    told: dict[Notice, list[str]] = {}
    for table in tables:
        for notice in table.said:
            told.setdefault(notice, []).append(Path(table.source).name)
    return [
        notice if len(names) == len(tables) else notice.beside(files=names) for notice, names in told.items()
    ]
