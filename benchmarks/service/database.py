"""Claim: rows of PostgreSQL are judged and written back in bounded memory, however many they are."""

from __future__ import annotations

import glob
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish

TITLE = "PostgreSQL in, PostgreSQL out"
HEAD = (
    "A server on the same machine, a table of orders made by `generate_series` with one odd order in 10,000. A model is "
    "fitted to a query of 20,000 rows; all rows are then asked for through a cursor of the server, judged block by block, "
    "and written into a new table in one transaction. Memory is the most that a process of tellwhy held."
)
MAKE = """
CREATE TABLE orders AS SELECT k AS id, 20 + 2 * noise AS size, (20 + 2 * noise) / 4 + .3 * other AS price,
       CASE WHEN k % 3 = 0 THEN 'north' ELSE 'south' END AS shop
FROM (SELECT k, sqrt(-2 * ln(1 - random())) * cos(6.283185307 * random()) AS noise,
             sqrt(-2 * ln(1 - random())) * cos(6.283185307 * random()) AS other
      FROM generate_series(1, {n}) AS k) AS drawn;
UPDATE orders SET size = 90 WHERE id % 10000 = 5000;
"""


def run_as_postgres(*words: str) -> None:
    """Run a program of PostgreSQL, which refuses to be run by root."""
    first = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups") if os.geteuid() == 0 else ()
    subprocess.run([*first, *words], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def server() -> Iterator[str]:
    """A server of our own in a temporary folder; yields its address."""
    programs = max(glob.glob("/usr/lib/postgresql/*/bin"))
    folder = tempfile.mkdtemp(prefix="pg-")
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody", "nogroup")
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    run_as_postgres(f"{programs}/initdb", "-D", f"{folder}/data", "-U", "owner", "-A", "trust", "-N")
    settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    control = (f"{programs}/pg_ctl", "-D", f"{folder}/data")
    run_as_postgres(*control, "-o", settings, "-l", f"{folder}/log", "-w", "start")
    try:
        yield f"postgresql://owner@127.0.0.1:{port}/postgres"
    finally:
        run_as_postgres(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def call(*words: str) -> tuple[float, float]:
    """Seconds of a command, and the most memory that one of its processes held, in MiB."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tellwhy", *words], check=True, stdout=subprocess.DEVNULL)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return time.perf_counter() - began, most


def measured(n: int, workers: int) -> pd.DataFrame:
    """Make the table, fit, judge and write back."""
    import psycopg

    with server() as address, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with psycopg.connect(address) as connection:
            connection.execute(MAKE.format(n=n))
        model = str(folder / "orders.tellwhy")
        few = "SELECT * FROM orders ORDER BY id LIMIT 20000"
        fitting, _ = call("fit", few, "--db", address, "--save", model, "--exclude", "id", "-q")
        asked = ["--db", address, "--model", model, "--id", "id", "--to-table", "odd"]
        told = ["--out", str(folder / "run"), "--workers", str(workers), "-q"]
        judging, most = call("explain", "SELECT * FROM orders", *asked, *told)
        with psycopg.connect(address) as connection:
            rows = connection.execute("SELECT count(*), sum(is_alarm::int) FROM odd").fetchone()
            found = connection.execute(
                "SELECT count(*) FROM odd WHERE is_alarm AND id::bigint % 10000 = 5000"
            ).fetchone()
    if rows is None or found is None:
        raise SystemExit("nothing was written back")
    line = {
        "rows": n,
        "processes": workers,
        "fitted in s": round(fitting, 1),
        "judged and written in s": round(judging, 1),
        "rows/s": round(n / judging),
        "MiB": round(most),
        "rows written": rows[0],
        "alarms": rows[1],
        "odd orders among them": f"{found[0]} of {n // 10_000}",
    }
    return pd.DataFrame([line])


def main() -> None:
    options = arguments(__doc__, "note", "workers", rows=option(10_000_000, "of the table"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    table = measured(options.rows, options.workers)
    publish("database", TITLE, [(f"{HEAD} {options.note}".strip(), table)], peers=("sqlalchemy", "psycopg"))


if __name__ == "__main__":
    main()
