"""Queries of databases: rows in, nothing changed, and nothing else reached."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.data import queries
from tellwhy.data.sources import read_sources

ROWS = [(1, 2.5, "x"), (2, None, "y"), (3, 4.5, None)]
SCHEMA = "CREATE TABLE t (a INTEGER, b DOUBLE, c VARCHAR)"


@pytest.fixture(params=["sqlite", "duckdb"])
def db(request, tmp_path):
    path = tmp_path / f"shop.{request.param}"
    module = sqlite3 if request.param == "sqlite" else pytest.importorskip("duckdb")
    with closing(module.connect(str(path))) as connection:
        connection.execute(SCHEMA)
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
        connection.commit()
    return path


def ask(query, db):
    return read_sources([query], db=db)


@pytest.mark.parametrize(
    "query", ["SELECT * FROM t ORDER BY a", "with q as (select * from t) select * from q;"]
)
def test_rows_of_a_query(query, db):
    table = ask(query, db)
    assert table.frame["a"].tolist() == [1, 2, 3]
    assert table.frame["a"].dtype.kind == "i"
    np.testing.assert_array_equal(table.frame["b"], [2.5, np.nan, 4.5])
    assert table.frame["c"].isna().tolist() == [False, False, True]
    assert table.source == str(db)
    assert table.notices == (f"Rows of the query: {query}",)
    assert table.fingerprint == ask(query, db).fingerprint


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE t",
        "DELETE FROM t",
        "INSERT INTO t VALUES (9, 9, 'z')",
        "UPDATE t SET a = 0 RETURNING a",
        "WITH q AS (SELECT 1) DELETE FROM t RETURNING a",
        "ATTACH '{folder}/other.db' AS other",
        "CREATE TEMP TABLE z AS SELECT 1",
        "SELECT 1 AS a; SELECT 2 AS a",
        "SELECT 1 AS a; DROP TABLE t",
        "VACUUM INTO '{folder}/copy.db'",
        "PRAGMA journal_mode=DELETE",
        "COPY t TO '{folder}/t.csv'",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT load_extension('{folder}/x.so')",
        "EXPLAIN SELECT 1",
        "",
        "-- nothing",
    ],
)
def test_nothing_but_one_select(query, db, tmp_path):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidParameter, match=r"The query of .*shop\.\w+ was refused: "):
        ask(query.format(folder=tmp_path), db)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_mistakes_are_told(db):
    with pytest.raises(InvalidParameter, match=r"nope.*Its tables are: 't'\."):
        ask("SELECT * FROM nope", db)
    with pytest.raises(UnreadableFile, match="gave no rows"):
        ask("SELECT * FROM t WHERE a > 9", db)
    with pytest.raises(InvalidInput, match=r"duplicate column names: 'a' .*AS a_id"):
        ask("SELECT a, a FROM t", db)
    with pytest.raises(InvalidParameter, match="give one query and nothing else to read; got 2 arguments"):
        read_sources(["SELECT 1", "SELECT 2"], db=db)


def test_what_is_no_database(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(UnreadableFile, match="neither a DuckDB nor a SQLite database"):
        ask("SELECT 1", tmp_path / "t.csv")
    with pytest.raises(UnreadableFile, match="There is no file"):
        ask("SELECT 1", tmp_path / "none.db")
    (tmp_path / "cut.sqlite").write_bytes(b"SQLite format 3\0" + b"\1" * 100)
    with pytest.raises(UnreadableFile, match="cannot be read as a SQLite database"):
        ask("SELECT 1", tmp_path / "cut.sqlite")


def test_batches_of_different_kinds_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "_BATCH", 2)
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("CREATE TABLE t (a, b)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, 1), (None, 2), ("x", 3.5), (b"y", 4)])
        connection.commit()
    frame = ask("SELECT * FROM t", tmp_path / "s.db").frame
    assert frame["a"].fillna("-").tolist() == ["1", "-", "x", "y"]
    assert frame["b"].tolist() == [1.0, 2.0, 3.5, 4.0]


def test_kinds_that_only_duckdb_has(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with closing(duckdb.connect(str(tmp_path / "d.duckdb"))):
        pass
    query = (
        "SELECT 1.5::DECIMAL(9,2) AS money, DATE '2024-05-01' AS day, INTERVAL '1 day' AS gap, [1, 2] AS list, "
        "TIME '10:30' AS at, 7::HUGEINT AS large"
    )
    frame = ask(query, tmp_path / "d.duckdb").frame
    assert frame["money"].tolist() == [1.5]
    assert frame["large"].tolist() == [7.0]
    assert frame["day"].dtype.kind == "M"
    assert "days=1" in frame["gap"][0]
    assert frame["list"].tolist() == ["[1, 2]"]


WRITES = "WITH q AS (SELECT 1) DELETE FROM t RETURNING a"  # it begins like a query


@pytest.fixture
def sqlite_file(tmp_path):
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute(SCHEMA)
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
        connection.commit()
    return tmp_path / "s.db"


def test_the_file_is_opened_for_reading_only(sqlite_file, monkeypatch):
    monkeypatch.setattr(queries, "_allow_reading", lambda *_: sqlite3.SQLITE_OK)  # the other guard is off
    with pytest.raises(InvalidParameter, match="readonly"):
        ask(WRITES, sqlite_file)


def test_statements_that_write_are_refused_before_they_run(sqlite_file, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(
        queries.sqlite3, "connect", lambda *_, **__: connect(sqlite_file)
    )  # a file to write to
    with pytest.raises(InvalidParameter, match="not authorized"):
        ask(WRITES, sqlite_file)
