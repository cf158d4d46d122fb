"""Queries of a real PostgreSQL server, and of files by their address: read only, within limits, without secrets."""

import glob
import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.core.errors import CannotWrite, InvalidParameter, TellwhyError, UnreadableFile
from tellwhy.data.databases import ROWS, SECONDS, Server, is_address, write_table
from tellwhy.data.queries import read_query, write_query
from tellwhy.views.cli import app

BIN = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), None)
SECRET = "s3cret-word"
N = 300


def as_postgres(*words):
    """Run a program of PostgreSQL, which refuses to be run by root."""
    if os.geteuid() == 0:
        words = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *words)
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A server of our own, on a free port of this machine, with a table of orders."""
    if BIN is None or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        pytest.skip("no PostgreSQL is installed here, or no way to start it as another user than root")
    psycopg = pytest.importorskip("psycopg")
    from tellwhy.views.server.http import open_socket

    with open_socket("127.0.0.1", 0) as place:
        port = place.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="pg-")
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody", "nogroup")
    password = os.path.join(folder, "password")
    with open(password, "w") as file:
        file.write(SECRET)
    os.chmod(password, 0o644)
    data = os.path.join(folder, "data")
    as_postgres(
        f"{BIN}/initdb", "-D", data, "-U", "owner", "-A", "scram-sha-256", f"--pwfile={password}", "-N"
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    as_postgres(f"{BIN}/pg_ctl", "-D", data, "-o", options, "-l", f"{folder}/log", "-w", "start")
    try:
        told = f"host=127.0.0.1 port={port} user=owner dbname=postgres password={SECRET}"
        with psycopg.connect(told) as connection:
            connection.execute(
                "CREATE TABLE orders (id bigint, size double precision, price numeric(10,2), shop text, "
                "day date, at timestamptz, ok boolean, more jsonb, code numeric(20,0))"
            )
            rng = np.random.default_rng(0)
            rows = [
                (k, float(rng.normal(20, 2)), float(rng.normal(5, 1)), "north" if k % 2 else "south")
                for k in range(N)
            ]
            rows[7] = (7, 90.0, None, "it's; DROP TABLE orders")
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO orders VALUES (%s, %s, %s, %s, '2026-01-02', '2026-01-02 03:00+00', true, "
                    "'{\"a\": 1}', 12345678901234567000 + %s)",
                    [(*row, row[0]) for row in rows],
                )
        yield f"postgresql://owner@127.0.0.1:{port}/postgres"
    finally:
        as_postgres(f"{BIN}/pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)


def count(address, table="orders"):
    return int(read_query(f"SELECT count(*) AS n FROM {table}", address).frame["n"][0])


def test_cells_come_as_what_they_are(address):
    table = read_query("SELECT * FROM orders WHERE shop LIKE '%o%' ORDER BY id;", address)
    frame = table.frame
    assert len(frame) == N
    assert frame["id"].tolist() == list(range(N))
    assert frame["size"][7] == 90.0
    assert np.isnan(frame["price"][7])
    assert frame["shop"][7] == "it's; DROP TABLE orders"
    assert frame["day"][0] == pd.Timestamp("2026-01-02")
    assert str(frame["at"][0]) == "2026-01-02 03:00:00+00:00"
    assert frame["more"][0] == '{"a": 1}'
    assert frame["code"][3] == "12345678901234567003"  # as numbers, two would be one
    assert table.source.startswith("postgresql://127.0.0.1:")


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders",
        "SELECT 1; DELETE FROM orders",
        "SELECT 1; COMMIT; DROP TABLE orders; --",
        "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
        "SELECT * INTO copied FROM orders",
        "SELECT nextval('numbers')",
        "SELECT set_config('transaction_read_only', 'off', false), lo_create(0)",
        "SELECT 1) TO PROGRAM 'touch /tmp/x' --",
        "COPY orders TO '/tmp/x'",
        "SELECT * FROM orders FOR UPDATE",
        "VALUES (1); SET transaction_read_only = off",
        "/* SELECT */ TRUNCATE orders",
    ],
)
def test_nothing_can_be_changed(address, query):
    with pytest.raises(TellwhyError) as refused:
        read_query(query, address)
    assert SECRET not in str(refused.value)
    assert "owner" not in str(refused.value)
    assert count(address) == N
    assert count(address, "pg_tables WHERE tablename IN ('copied')") == 0


def test_time_and_rows_have_limits(address, monkeypatch):
    monkeypatch.setenv(SECONDS, "1")
    with pytest.raises(UnreadableFile, match="timeout"):
        read_query("SELECT pg_sleep(30)", address)
    monkeypatch.setenv(ROWS, "100")
    with pytest.raises(InvalidParameter, match="more than 100 rows"):
        read_query("SELECT * FROM orders", address)
    monkeypatch.setenv(ROWS, "many")
    with pytest.raises(InvalidParameter, match="whole number"):
        read_query("SELECT * FROM orders", address)


def test_passwords_come_from_the_environment_and_are_never_told(address, monkeypatch):
    whole = address.replace("owner@", f"owner:{SECRET}@")
    with pytest.raises(InvalidParameter, match="holds a password") as refused:
        read_query("SELECT 1 AS a", whole)
    assert SECRET not in str(refused.value)
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(UnreadableFile, match="password"):
        read_query("SELECT 1 AS a", address)
    monkeypatch.setenv("SHOP", whole)
    table = read_query("SELECT 1 AS a", "env:SHOP")
    assert SECRET not in repr(table)
    monkeypatch.setenv("SHOP", whole.replace(SECRET, "wrong-word"))
    with pytest.raises(UnreadableFile) as failed:
        read_query("SELECT 1 AS a", "env:SHOP")
    assert "wrong-word" not in str(failed.value)
    with pytest.raises(InvalidParameter, match="not set"):
        read_query("SELECT 1 AS a", "env:NOWHERE")
    with pytest.raises(InvalidParameter, match="read only"):
        read_query("SELECT 1 AS a", "mssql+pyodbc://host/name")


def test_rows_are_streamed_into_a_file(address, tmp_path):
    many = "SELECT k AS id, CASE WHEN k > 70000 THEN k / 2.0 END AS half FROM generate_series(1, 100000) AS k"
    assert write_query(many, address, tmp_path / "rows.parquet") == 100_000
    frame = pd.read_parquet(tmp_path / "rows.parquet")
    assert frame["half"].isna().sum() == 70_000
    assert frame["half"].iloc[-1] == 50_000.0


@pytest.mark.slow
def test_what_was_found_is_written_back_whole_or_not_at_all(address, tmp_path):
    words = ["explain", "SELECT id, size, price, shop FROM orders ORDER BY id", "--db", address, "--id", "id"]
    done = CliRunner().invoke(
        app, [*words, "--to-table", "odd", "--out", str(tmp_path / "run")], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    odd = read_query("SELECT * FROM odd ORDER BY score DESC", address).frame
    assert len(odd) == N
    assert odd["id"][0] == "7"
    assert bool(odd["is_alarm"][0])
    assert "90" in odd["reason_1"][0] or "it's" in odd["reason_1"][0]
    again = CliRunner().invoke(app, [*words, "--to-table", "odd", "--out", str(tmp_path / "again")])
    assert again.exit_code == 1
    assert "already exists" in again.output
    assert len(read_query("SELECT * FROM odd", address).frame) == N
    for name in ('odd"; DROP TABLE orders; --', "a.b.c", "1x"):
        assert CliRunner().invoke(app, [*words, "--to-table", name]).exit_code == 1
    assert count(address) == N
    assert SECRET not in "".join(path.read_text() for path in tmp_path.rglob("*.json"))


def test_a_table_that_breaks_off_is_not_there(address):
    import pyarrow as pa

    schema = pa.schema([("id", pa.string())])

    def batches():
        yield pa.RecordBatch.from_arrays([pa.array(["a"])], schema=schema)
        raise InvalidParameter("stopped")

    with pytest.raises(InvalidParameter, match="stopped"):
        write_table(address, "half", schema, batches())
    assert count(address, "pg_tables WHERE tablename = 'half'") == 0
    rows = pa.RecordBatch.from_arrays([pa.array(["a,b", None, '"', ""])], schema=schema)
    assert write_table(address, "whole", schema, iter([rows])) == 4
    with pytest.raises(CannotWrite, match="already exists"):
        write_table(address, "whole", schema, iter([rows]))
    told = read_query("SELECT id IS NULL AS gone, id FROM whole", address).frame
    assert told["gone"].tolist() == [False, True, False, False]
    assert set(told["id"].dropna()) == {"a,b", '"', ""}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_files_are_read_and_written_by_their_address(kind, tmp_path):
    path = tmp_path / f"shop.{kind}"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(60), "size": rng.normal(20, 2, 60)})
    frame.loc[7, "size"] = 90.0
    if kind == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            frame.to_sql("orders", connection, index=False)
    else:
        duckdb = pytest.importorskip("duckdb")
        with closing(duckdb.connect(str(path))) as connection:
            connection.execute("CREATE TABLE orders AS SELECT * FROM frame")
    address = f"{kind}:///{path}"
    assert is_address(address)
    assert read_query("SELECT * FROM orders", address).frame["size"].tolist() == frame["size"].tolist()
    words = ["explain", "SELECT * FROM orders", "--db", address, "--id", "id", "--to-table", "odd"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    odd = read_query("SELECT * FROM odd ORDER BY score DESC", path).frame
    assert (len(odd), str(odd["id"][0])) == (60, "7")
    again = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "again")])
    assert again.exit_code == 1
    assert "already exists" in again.output


def test_what_is_told_of_a_server_has_no_user_and_no_password(monkeypatch):
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("SHOP", "postgresql://me:pw@host:5433/shop?sslkey=secret")
    assert Server.of("env:SHOP").words == "postgresql://host:5433/shop"
