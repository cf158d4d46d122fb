"""One query of a database: a DuckDB or SQLite file, or a server; it can only read."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.core.optional import require
from tellwhy.data.databases import Server, file_of_address, is_address
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.bytes import ByteSource, locate
from tellwhy.data.reading.cells import make_frame
from tellwhy.data.sources import join_frames
from tellwhy.data.table import Table, check_unique, frame_fingerprint
from tellwhy.results.notice import Notice
from tellwhy.storage.folders import new_file

_GROUP = 65_536
_BATCH = 50_000  # rows of SQLite that are held as Python's values at a time
_ONE_SELECT = "expected a single SELECT (or WITH … SELECT) that ends there"
_SELECT = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/|\()*(SELECT|WITH|VALUES)\b", re.IGNORECASE | re.DOTALL)
# A query can neither reach files besides the database, nor change it or any setting.
_DUCKDB_SETTINGS = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",  # otherwise a name can mean a variable of this program
    "lock_configuration": "true",
}
_SQLITE_ALLOWED = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)


def read_query(query: str, db: str | os.PathLike[str]) -> Table:
    """Return the rows that one SELECT gives.

    Parameters
    ----------
    query
        A single SELECT or WITH … SELECT.
    db
        The file, whose content tells whether it is DuckDB (needs the extra `tellwhy[sql]`) or SQLite; or the
        address of a server, such as 'postgresql://host/shop' (`tellwhy[db]`), or 'env:NAME', the variable of
        the environment that holds it.

    Raises
    ------
    UnreadableFile, InvalidParameter
        For a file that is no database, and for a query that is refused or fails.
    """
    place = file_of_address(db)
    words = str(place)
    if is_address(place):
        server = Server.of(db)
        words = server.words
        frame = frame_from_arrow(pa.Table.from_batches(_make_joinable(_ask_server(query, server))))
    else:
        path = Path(place)
        kind = _find_kind(locate(path))
        frame = _ask_sqlite(query, path) if kind == "sqlite" else _ask_duckdb(query, path)
    if len(frame) == 0:
        raise UnreadableFile(
            f"The query of {words} gave no rows; expected at least one. Check its conditions."
        )
    asked = Notice("rows_of_query", {"query": " ".join(query.split())})
    return Table(frame, words, (asked,), frame_fingerprint(frame))


def _ask_server(query: str, server: Server) -> Iterator[pa.RecordBatch]:
    """The rows that one SELECT of a server gives, some at a time."""
    if not _SELECT.match(query):
        raise _refuse_query(server.words, _ONE_SELECT, ())
    for number, batch in enumerate(server.batches(query)):
        if not number:
            _check_names(batch.schema.names, server.words)
        yield batch


def _make_joinable(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches of one type: a column whose first cells are missing gets its type when there is one."""
    found = list(batches)
    if not found:
        raise UnreadableFile("The query gave no rows; expected at least one. Check its conditions.")
    return [batch if batch.schema == found[-1].schema else batch.cast(found[-1].schema) for batch in found]


def write_query(query: str, db: str | os.PathLike[str], target: Path) -> int:
    """Write the rows that one SELECT gives to a Parquet file; return how many.

    They are held some at a time, but for those of SQLite, whose columns have no types. Row groups have 65,536
    rows. A file that is there already is replaced.
    """
    place = file_of_address(db)
    if is_address(place):
        return _write_batches(_ask_server(query, Server.of(db)), target)
    path = Path(place)
    if _find_kind(locate(path)) != "duckdb":
        table = pa.Table.from_pandas(_ask_sqlite(query, path), preserve_index=False)
        return _write_batches(iter(table.to_batches(_GROUP)), target)
    n_rows = 0
    with _open_duckdb(path) as (connection, refused), refused():
        relation = _open_relation(connection, query, path)
        reader = relation.to_arrow_reader(_GROUP)
        with new_file(target) as work, pq.ParquetWriter(work, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
                n_rows += batch.num_rows
    return n_rows


def _write_batches(batches: Iterator[pa.RecordBatch], target: Path) -> int:
    first = next(batches, None)
    if first is None:
        return 0
    n_rows = 0
    with new_file(target) as work, pq.ParquetWriter(work, first.schema) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch if batch.schema == first.schema else batch.cast(first.schema))
            n_rows += batch.num_rows
    return n_rows


def _find_kind(source: ByteSource) -> str:
    head = source.head(16)
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if head[8:12] == b"DUCK":
        return "duckdb"
    raise UnreadableFile(
        f"{source.path} is neither a DuckDB nor a SQLite database. Give the database's own file, or name a "
        "table's file without --db."
    )


def _ask_sqlite(query: str, path: Path) -> pd.DataFrame:
    uri = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()]
            connection.set_authorizer(_allow_reading)
            if not _SELECT.match(query):
                raise _refuse_query(path, _ONE_SELECT, tables)
            try:
                cursor = connection.execute(query)
            except sqlite3.Error as error:
                raise _refuse_query(path, str(error), tables) from error
            if cursor.description is None:
                raise _refuse_query(path, f"it gives no rows; {_ONE_SELECT}", tables)
            names = [str(column[0]) for column in cursor.description]
            _check_names(names, path)
            parts = list(_read_batches(cursor, names))
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise UnreadableFile(f"{path} cannot be read as a SQLite database: {error}.") from error
    return join_frames(parts) if parts else pd.DataFrame(columns=names)


def _allow_reading(action: int, _first: str | None, second: str | None, *_: str | None) -> int:
    is_loading = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    return sqlite3.SQLITE_OK if action in _SQLITE_ALLOWED and not is_loading else sqlite3.SQLITE_DENY


def _read_batches(cursor: sqlite3.Cursor, names: list[str]) -> Iterator[pd.DataFrame]:
    while rows := cursor.fetchmany(_BATCH):
        records = (dict(zip(names, map(_make_plain, row), strict=True)) for row in rows)
        yield make_frame(records)


def _make_plain(cell: Any) -> Any:
    return cell.decode("utf-8", errors="replace") if isinstance(cell, bytes) else cell


def _ask_duckdb(query: str, path: Path) -> pd.DataFrame:
    with _open_duckdb(path) as (connection, refused), refused():
        found = _open_relation(connection, query, path).to_arrow_table()
    return frame_from_arrow(found)


@contextmanager
def _open_duckdb(path: Path) -> Iterator[tuple[Any, Callable[[], AbstractContextManager[None]]]]:
    """Give a connection for reading, and a context in which errors are those of the query."""
    duckdb = require("duckdb", "Reading DuckDB databases")
    try:
        with closing(duckdb.connect(str(path), read_only=True, config=dict(_DUCKDB_SETTINGS))) as connection:
            tables = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]

            @contextmanager
            def refused() -> Iterator[None]:
                try:
                    yield
                except duckdb.Error as error:
                    raise _refuse_query(path, str(error).splitlines()[0], tables) from error

            yield connection, refused
    except duckdb.Error as error:
        raise UnreadableFile(
            f"{path} cannot be opened: {str(error).splitlines()[0]} Close other programs that write to it, "
            "or open it with the version of DuckDB that wrote it."
        ) from error


def _open_relation(connection: Any, query: str, path: Path) -> Any:
    statements = connection.extract_statements(query)
    kinds = [str(statement.type).rpartition(".")[2] for statement in statements]
    if kinds != ["SELECT"]:
        got = " and ".join(kinds) or "nothing"
        raise _refuse_query(path, f"{_ONE_SELECT}, got {got}", ())
    relation = connection.sql(query)
    _check_names([str(name) for name in relation.columns], path)
    return relation


def _check_names(names: list[str], path: Path | str) -> None:
    check_unique(names, where=f"The query of {path}", hint=" In a query: SELECT a.id AS a_id.")


def _refuse_query(path: Path | str, why: str, tables: Any) -> InvalidParameter:
    listed = ", ".join(map(repr, list(tables)[:10]))
    hint = f" Its tables are: {listed}." if listed else ""
    return InvalidParameter(f"The query of {path} was refused: {why.rstrip('.')}.{hint}")
