"""Claim: `tellwhy explain` takes a table of 100,000 × 20 in under 60 s and 1.5 GB, 1,000,000 × 20 in 5 min and 4 GB."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish

COLUMNS = 20
TARGETS = {100_000: (60, 1.5), 1_000_000: (300, 4.0)}


def write_table(path: Path, n: int) -> None:
    """Five clusters, and one row in a thousand with one column shifted."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5, COLUMNS)) * 3)[rng.integers(5, size=n)] + rng.normal(size=(n, COLUMNS))
    odd = rng.choice(n, n // 1000, replace=False)
    X[odd, rng.integers(COLUMNS, size=len(odd))] += 12
    csv.write_csv(pa.table({f"c{i}": X[:, i].round(5) for i in range(COLUMNS)}), path)


def timed(*words: str) -> tuple[float, float]:
    """Run the command in a process of its own: wall and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tellwhy", *words, "--quiet"], check=True, capture_output=True)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(n: int, folder: Path) -> dict[str, Any]:
    """Explain a table, and read and check it alone."""
    path = folder / f"rows{n}.csv"
    write_table(path, n)
    seconds, processor = timed("explain", str(path), "--out", str(folder / f"run{n}"))
    # The largest child so far: sizes are measured in growing order.
    gigabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    checking = timed("check", str(path))[1]
    most_seconds, most_gigabytes = TARGETS[n]
    return {
        "rows": n,
        "columns": COLUMNS,
        "file, MB": path.stat().st_size / 2**20,
        "seconds": seconds,
        "target, s": most_seconds,
        "peak memory, GB": gigabytes,
        "target, GB": most_gigabytes,
        "report, MB": (folder / f"run{n}" / "report.html").stat().st_size / 2**20,
        "processor, s": processor,
        "reading and checking, processor s": checking,
        "share of it (target .25)": checking / processor,
    }


if __name__ == "__main__":
    arguments(__doc__)
    with tempfile.TemporaryDirectory() as name:
        table = pd.DataFrame([measure(n, Path(name)) for n in TARGETS])
    publish(
        "large_tables",
        "Large tables",
        [("`tellwhy explain` on a generated CSV file, everything included.", table)],
    )
