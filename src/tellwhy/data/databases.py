"""Database servers: one query in a transaction that can only read, and rows written into a new table.

Passwords come from the environment: of the server's own client (PGPASSWORD), or the whole address, as
`env:NAME`. No message holds an address as it was given.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tellwhy.core.errors import CannotWrite, InvalidParameter, UnreadableFile
from tellwhy.core.optional import require

BLOCK = 65_536
FROM_ENVIRONMENT = "env:"
SECONDS = "TELLWHY_DB_SECONDS"  # that a query may take
ROWS = "TELLWHY_DB_ROWS"  # that it may give
_USUAL = {SECONDS: 600, ROWS: 100_000_000}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
# What makes a transaction one that only reads; servers that are not here have no such thing, or nobody tried.
_READ_ONLY = {
    "postgresql": ("SET TRANSACTION READ ONLY", "SET LOCAL statement_timeout = {ms}"),
    "mysql": ("SET SESSION max_execution_time = {ms}", "START TRANSACTION READ ONLY"),
    "mariadb": ("SET SESSION max_statement_time = {s}", "START TRANSACTION READ ONLY"),
    "oracle": ("SET TRANSACTION READ ONLY",),
}
_DRIVERS = {"postgresql": "postgresql+psycopg"}  # where the address names none
_POSTGRES = {
    16: pa.bool_(),
    20: pa.int64(),
    21: pa.int64(),
    23: pa.int64(),
    26: pa.int64(),
    700: pa.float64(),
    701: pa.float64(),
    1082: pa.timestamp("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
_NUMERIC = 1700
_OF_PYTHON: tuple[tuple[tuple[type, ...], Any], ...] = (
    ((bool,), pa.bool_()),
    ((int,), pa.int64()),
    ((float, decimal.Decimal), pa.float64()),
    ((datetime.date,), pa.timestamp("us")),
)


def is_address(db: str | os.PathLike[str]) -> bool:
    """Whether a database is named by an address, not by a file.

    Examples
    --------
    >>> is_address("postgresql://host/shop"), is_address("env:SHOP"), is_address("shop.duckdb")
    (True, True, False)
    """
    return "://" in os.fspath(db) or os.fspath(db).startswith(FROM_ENVIRONMENT)


def file_of_address(db: str | os.PathLike[str]) -> str:
    """The file that an address such as 'sqlite:///shop.db' or 'duckdb:///shop.duckdb' names; else itself."""
    told = os.fspath(db)
    if told.startswith(FROM_ENVIRONMENT):
        told = _from_environment(told)
    found = re.match(r"(?:sqlite|duckdb)(?:\+\w+)?:///(?P<path>[^?]+)$", told)
    return found["path"] if found else os.fspath(db)


def words_of(db: str | os.PathLike[str]) -> str:
    """What may be told of a database: its file, or its address without user and password."""
    place = file_of_address(db)
    return Server.of(db).words if is_address(place) else place


@dataclass(frozen=True)
class Server:
    """A database server: its address as SQLAlchemy has it, and what may be told of it."""

    url: Any
    words: str

    @classmethod
    def of(cls, db: str | os.PathLike[str]) -> Server:
        """Read an address; a password may stand only in one that the environment holds."""
        sqlalchemy = require("sqlalchemy", "Reading a database server")
        told = os.fspath(db)
        is_held = told.startswith(FROM_ENVIRONMENT)
        try:
            url = sqlalchemy.make_url(_from_environment(told) if is_held else told)
        except sqlalchemy.exc.ArgumentError:
            raise InvalidParameter(
                "--db is no address of a database; expected one such as postgresql://host/database."
            ) from None
        if url.password is not None and not is_held:
            raise InvalidParameter(
                "The address of --db holds a password, which others see. Put the password into the "
                "environment (PGPASSWORD), or the whole address, and say --db env:NAME."
            )
        kind = url.get_backend_name()
        if kind not in _READ_ONLY:
            known = ", ".join(sorted([*_READ_ONLY, "sqlite", "duckdb"]))
            raise InvalidParameter(
                f"Nothing is known that would make {kind} read only; expected one of {known}."
            )
        port = f":{url.port}" if url.port else ""
        return cls(url, f"{kind}://{url.host or ''}{port}/{url.database or ''}")

    @property
    def kind(self) -> str:
        """The kind of server: 'postgresql'."""
        return str(self.url.get_backend_name())

    @contextmanager
    def connected(self, **settings: Any) -> Iterator[Any]:
        """Give a connection of SQLAlchemy, and close it."""
        sqlalchemy = require("sqlalchemy", "Reading a database server")
        url = self.url
        if url.drivername in _DRIVERS:
            require("psycopg", "Reading PostgreSQL")
            url = url.set(drivername=_DRIVERS[url.drivername])
        try:
            engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool, **settings)
            with engine.connect() as connection:
                yield connection
        except (ModuleNotFoundError, sqlalchemy.exc.NoSuchModuleError) as error:
            raise InvalidParameter(
                f"Python has no driver for {url.drivername}; install one that SQLAlchemy names."
            ) from error
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise UnreadableFile(f"{self.words} refused: {self.without_secrets(error)}") from None

    def without_secrets(self, error: Exception) -> str:
        """The first line of an error of the driver, without the password."""
        told = str(getattr(error, "orig", None) or error).strip().splitlines()
        line = told[0] if told else type(error).__name__
        secrets = [str(self.url.password)] if self.url.password else []
        secrets += [os.environ["PGPASSWORD"]] if os.environ.get("PGPASSWORD") else []
        for secret in secrets:
            line = line.replace(secret, "***")
        return f"{line.rstrip('.')}."

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Ask one query in a transaction that can only read; yield its rows, some at a time."""
        limit = _limit(ROWS)
        settings: dict[str, Any] = {}
        if self.kind == "postgresql":  # of the whole session, whatever the query does to its transaction
            settings["connect_args"] = {
                "options": "-c default_transaction_read_only=on",
                "application_name": "tellwhy",
                "connect_timeout": 10,
            }
        with self.connected(**settings) as connection:
            for statement in _READ_ONLY[self.kind]:
                connection.exec_driver_sql(statement.format(ms=1000 * _limit(SECONDS), s=_limit(SECONDS)))
            asked = connection.execution_options(stream_results=True, max_row_buffer=BLOCK)
            words = query.strip().rstrip(";")
            if "format" in connection.dialect.paramstyle:  # the driver takes % for the mark of a parameter
                words = words.replace("%", "%%")
            with closing(asked.exec_driver_sql(words)) as result:
                yield from self._blocks(result, limit)
            connection.rollback()

    def _blocks(self, result: Any, limit: int) -> Iterator[pa.RecordBatch]:
        """The rows of a result, some at a time."""
        names = [str(name) for name in result.keys()]  # noqa: SIM118  a result is no mapping
        kinds: list[pa.DataType | None] = [_kind_of_column(each) for each in result.cursor.description]
        n_rows = 0
        while rows := result.fetchmany(BLOCK):
            n_rows += len(rows)
            if n_rows > limit:
                raise InvalidParameter(
                    f"The query of {self.words} gives more than {limit:,} rows. Ask for fewer, or set {ROWS} "
                    "to the number you mean."
                )
            columns = list(zip(*rows, strict=True))
            kinds = [kind or _kind_of_cells(cells) for kind, cells in zip(kinds, columns, strict=True)]
            arrays = [_array(cells, kind) for cells, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def _from_environment(told: str) -> str:
    name = told.removeprefix(FROM_ENVIRONMENT)
    if not os.environ.get(name):
        raise InvalidParameter(f"--db names the variable {name} of the environment, which is not set.")
    return os.environ[name]


def _limit(name: str) -> int:
    told = os.environ.get(name, str(_USUAL[name]))
    if not told.isdigit() or not int(told):
        raise InvalidParameter(f"{name} must be a whole number above 0. Got {told[:40]!r}.")
    return int(told)


def _kind_of_column(described: Any) -> pa.DataType | None:
    """The type of a column of PostgreSQL; None where the first cells must tell."""
    code = getattr(described, "type_code", described[1])
    if code == _NUMERIC:
        is_whole = getattr(described, "scale", None) == 0
        return pa.decimal128(38, 0) if is_whole else pa.float64()
    return _POSTGRES.get(code) if isinstance(code, int) else None


def _kind_of_cells(cells: Sequence[Any]) -> pa.DataType | None:
    """The type of the first cell that holds anything; None where none does."""
    first = next((cell for cell in cells if cell is not None), None)
    if first is None:
        return None
    return next((kind for types, kind in _OF_PYTHON if isinstance(first, types)), pa.string())


def _array(cells: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    """Cells of one type; those of a type that tables do not have become text."""
    if kind is None or pa.types.is_string(kind):
        return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())
    if pa.types.is_floating(kind):
        return pa.array([None if cell is None else float(cell) for cell in cells], kind)
    if pa.types.is_timestamp(kind):
        return pa.array(list(map(_time, cells)), kind)
    return pa.array(cells, kind)


def _time(cell: Any) -> Any:
    is_day = isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime)
    return datetime.datetime(cell.year, cell.month, cell.day) if is_day else cell


def _text(cell: Any) -> str:
    if isinstance(cell, (bytes, memoryview)):
        return bytes(cell).decode("utf-8", errors="replace")
    return json.dumps(cell, default=str, ensure_ascii=False) if isinstance(cell, (dict, list)) else str(cell)


def check_table_name(name: str) -> str:
    """Return the name of a table as SQL writes it; it may have a schema before a dot."""
    if not _NAME.fullmatch(name):
        raise InvalidParameter(
            "--to-table must be a name of letters, digits and _, such as alarms or public.alarms. Got "
            f"{name!r}."
        )
    return ".".join(f'"{part}"' for part in name.split("."))


_SQL = {"int64": "BIGINT", "double": "DOUBLE PRECISION", "bool": "BOOLEAN", "string": "TEXT"}


def create_statement(name: str, schema: pa.Schema) -> str:
    """The statement that makes a table; it fails where one of this name is there."""
    columns = ", ".join(f'"{field.name}" {_SQL[str(field.type)]}' for field in schema)
    return f"CREATE TABLE {check_table_name(name)} ({columns})"


def write_table(
    db: str | os.PathLike[str], name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> int:
    """Write rows into a new table in one transaction, whole or not at all; return how many."""
    check_table_name(name)
    place = file_of_address(db)
    if is_address(place):
        return _write_to_server(Server.of(db), name, schema, batches)
    with Path(place).open("rb") as file:
        is_sqlite = file.read(16).startswith(b"SQLite format 3\0")
    return (_write_to_sqlite if is_sqlite else _write_to_duckdb)(place, name, schema, batches)


def _write_to_server(server: Server, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    if server.kind != "postgresql":
        raise InvalidParameter(
            f"{server.words}: tables are written to PostgreSQL, DuckDB and SQLite, which make a table and "
            "fill it in one transaction."
        )
    import pyarrow.csv as pc

    n_rows = 0
    options = pc.WriteOptions(include_header=False)
    try:
        with server.connected() as connection:
            connection.exec_driver_sql(create_statement(name, schema))
            driver = connection.connection.driver_connection
            statement = f"COPY {check_table_name(name)} FROM STDIN (FORMAT csv)"
            with driver.cursor() as cursor, cursor.copy(statement) as copy:
                for batch in batches:
                    sink = pa.BufferOutputStream()
                    pc.write_csv(batch, sink, options)
                    copy.write(sink.getvalue().to_pybytes())
                    n_rows += batch.num_rows
            connection.commit()
    except UnreadableFile as error:
        raise CannotWrite(f"Nothing was written: {error}") from None
    except require("psycopg", "Writing to PostgreSQL").Error as error:
        raise CannotWrite(f"Nothing was written: {server.without_secrets(error)}") from None
    return n_rows


def _write_to_sqlite(place: str, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    import sqlite3

    n_rows = 0
    marks = ", ".join("?" * len(schema))
    try:
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(create_statement(name, schema))
            for batch in batches:
                rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
                connection.executemany(f"INSERT INTO {check_table_name(name)} VALUES ({marks})", rows)
                n_rows += batch.num_rows
            connection.execute("COMMIT")  # without it, closing takes everything back
    except sqlite3.Error as error:
        raise CannotWrite(f"Nothing was written to {place}: {error}.") from error
    return n_rows


def _write_to_duckdb(place: str, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    duckdb = require("duckdb", "Writing to DuckDB")
    n_rows = 0
    try:
        with closing(duckdb.connect(place)) as connection:
            connection.execute("BEGIN")
            connection.execute(create_statement(name, schema))
            for batch in batches:
                connection.register("tellwhy_batch", pa.Table.from_batches([batch]))
                connection.execute(f"INSERT INTO {check_table_name(name)} SELECT * FROM tellwhy_batch")
                n_rows += batch.num_rows
            connection.execute("COMMIT")
    except duckdb.Error as error:
        raise CannotWrite(f"Nothing was written to {place}: {str(error).splitlines()[0]}") from error
    return n_rows
