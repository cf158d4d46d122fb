"""Claim: many rows are explained block by block at nearly the speed of the bare explainer, and scale with the cores.

`--rows` are explained by several workers, `--base-rows` by one worker and by the bare explainer: a detector and an
explainer on rows in memory, without reading, the quality pass, verified reasons and writing. Throughputs are compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from _results import publish

import tellwhy
from tellwhy.data import as_table
from tellwhy.workflow.bulk.blocks import BLOCK_ROWS
from tellwhy.workflow.bulk.bulk_run import explain_bulk
from tellwhy.workflow.bulk.fit_blocks import fit_bulk
from tellwhy.workflow.models.explain_new import changed_request, judge

COLUMNS = 40
GROUP = 65_536


def rows_of(n: int, seed: int) -> pd.DataFrame:
    """Numbers that six factors make, a product, two columns of labels; one row in 5,000 has an absurd number."""
    rng = np.random.default_rng([7, seed])
    weights = np.random.default_rng(1).normal(size=(6, COLUMNS - 6))
    X = rng.normal(size=(n, 6)) @ weights + rng.normal(size=(n, COLUMNS - 6))
    odd = np.flatnonzero(rng.random(n) < 1 / 5000)
    X[odd, rng.integers(COLUMNS - 6, size=len(odd))] += 40
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(COLUMNS - 6)])
    frame["kind"] = rng.choice(list("abcdef"), n)
    frame["city"] = rng.choice([f"c{i}" for i in range(30)], n)
    frame["quantity"] = rng.integers(1, 20, n)
    frame["price"] = np.round(rng.gamma(3, 10, n), 2)
    frame["total"] = np.round(frame["quantity"] * frame["price"], 2)
    frame["is_new"] = rng.random(n) < 0.2
    return frame


def write_rows(path: Path, n: int) -> None:
    writer = None
    for k, start in enumerate(range(0, n, GROUP)):
        table = pa.Table.from_pandas(rows_of(min(GROUP, n - start), k), preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


class PeakOfChildren:
    """Largest memory of any process below this one, looked at five times a second."""

    def __init__(self) -> None:
        self.largest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> PeakOfChildren:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        import os

        own = str(os.getpid())
        while not self._stop.wait(0.2):
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    lines = dict(
                        line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line
                    )
                except (OSError, ValueError):
                    continue
                if lines.get("PPid") == own and "VmHWM" in lines:
                    self.largest = max(self.largest, int(lines["VmHWM"].split()[0]) / 2**20)


def cpu_seconds() -> float:
    """Processor time of this process and of those below it that have ended: it does not see other users."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def bare(model: Any, frame: pd.DataFrame) -> dict[str, Any]:
    """Score rows in memory, and attribute the scores of the alarms."""
    judged = judge(model, as_table(frame.head(2000)), changed_request(model, {}))  # warms up
    encoded = model.encoder.transform(frame)
    started = time.perf_counter()
    cpu = cpu_seconds()
    scores = np.concatenate(
        [judged.fitted.score.inner.value(encoded[i : i + GROUP]) for i in range(0, len(frame), GROUP)]
    )
    alarms = np.flatnonzero(scores > model.threshold)
    tellwhy.explain(judged.fitted.score.inner, encoded[alarms])
    return {
        "way": "bare explainer, in memory",
        "rows": len(frame),
        "seconds": time.perf_counter() - started,
        "CPU seconds": cpu_seconds() - cpu,
    }


def timed(path: Path, model: Path, out: Path, workers: int) -> dict[str, Any]:
    started = time.perf_counter()
    cpu = cpu_seconds()
    with PeakOfChildren() as peak:
        result = explain_bulk(path, model=model, out=out, workers=workers)
    seconds = time.perf_counter() - started
    return {
        "way": f"{workers} worker{'s' if workers > 1 else ''}",
        "rows": result.n_rows,
        "seconds": seconds,
        "CPU seconds": cpu_seconds() - cpu,
        "alarms": result.n_alarms,
        "largest worker, GB": peak.largest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6 * GROUP)
    parser.add_argument("--base-rows", type=int, default=2 * GROUP)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, n in (("many", asked.rows), ("base", asked.base_rows)):
            write_rows(folder / f"{name}.parquet", n)
        started = time.perf_counter()
        cpu = cpu_seconds()
        model = fit_bulk([folder / "many.parquet"])
        line = {"way": "fitting (two passes)", "rows": asked.rows, "seconds": time.perf_counter() - started}
        lines.append(line | {"CPU seconds": cpu_seconds() - cpu})
        path = tellwhy.save(model, folder / "m.tellwhy")
        frame = pd.read_parquet(folder / "base.parquet")
        lines.append(bare(model, frame))
        for workers in asked.workers:
            source = folder / ("base.parquet" if workers == 1 else "many.parquet")
            lines.append(timed(source, path, folder / f"out{workers}", workers))
            print(json.dumps(lines[-1]), flush=True)
    tell(lines, asked)


def tell(lines: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    for line in lines:
        line["rows a second"] = line["rows"] / line["seconds"]
        line["CPU seconds a million rows"] = 1e6 * line["CPU seconds"] / line["rows"]
    one = next(line["rows a second"] for line in lines if line["way"] == "1 worker")
    bare_cpu = lines[1]["CPU seconds a million rows"]
    for line in lines[1:]:
        line["times one worker"] = line["rows a second"] / one
        line["CPU time, times the bare explainer's"] = line["CPU seconds a million rows"] / bare_cpu
    if asked.json is not None:
        asked.json.write_text(json.dumps(lines, indent=1))
    table = pd.DataFrame(lines).astype(object)
    table = table.where(table.notna(), "")
    text = (
        f"{COLUMNS} columns, Parquet in row groups of {GROUP:,} rows, blocks of {BLOCK_ROWS:,} rows. One worker and the "
        "bare explainer take fewer rows than several workers; throughputs are compared. Seconds of workers hold the "
        "start of the processes and the folder of the run at the end."
    )
    publish("bulk", "Many rows, block by block", [(text, table)], peers=("pyarrow",))


if __name__ == "__main__":
    main()
