"""Claim: many rows are explained block by block at nearly the speed of the bare explainer, and scale with the cores.

The bare explainer is a detector and an explainer on rows in memory: nothing is read, checked, verified or written. As
many bare explainers at once as there are workers say what the machine itself can do: processors that share a core, or
the way to the memory, are slower together. So do products of small matrices, which stay in a core's own cache: what these
lose at once is the machine's clock or a shared core, and no program gets it back. Each number of workers gets `--blocks`
blocks each, the largest one all rows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import RESULTS
from benchmarks.shared.results import publish

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


def group_of(k: int) -> pa.Table:
    """Rows of group number k."""
    return pa.Table.from_pandas(rows_of(GROUP, k), preserve_index=False)


def write_all(folder: Path, sizes: dict[int, int], processes: int) -> None:
    """Write one file for each number of workers; small ones are the first rows of the largest."""
    writers: dict[int, pq.ParquetWriter] = {}
    n_groups = -(-max(sizes.values()) // GROUP)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for k, table in enumerate(pool.imap(group_of, range(n_groups))):
            for workers, n in sizes.items():
                if n > k * GROUP:
                    if workers not in writers:
                        writers[workers] = pq.ParquetWriter(folder / f"{workers}.parquet", table.schema)
                    writers[workers].write_table(table.slice(0, n - k * GROUP))
    for writer in writers.values():
        writer.close()


class PeakOfChildren:
    """Largest memory of any process below this one, looked at twice a second."""

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
        while not self._stop.wait(0.5):
            found = dict(_statuses())
            for pid in found:
                if _is_below(pid, os.getpid(), found):
                    self.largest = max(self.largest, int(found[pid].get("VmHWM", "0").split()[0]) / 2**20)


def _statuses() -> Iterator[tuple[int, dict[str, str]]]:
    """What /proc says of each process."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:  # it has just ended
            continue
        yield (
            int(status.parent.name),
            dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line),
        )


def _is_below(pid: int, top: int, found: dict[int, dict[str, str]]) -> bool:
    """Whether a process was started by `top`, or by one that was."""
    while pid in found and pid != top:
        pid = int(found[pid]["PPid"])
        if pid == top:
            return True
    return False


def cpu_seconds() -> float:
    """Processor time of this process and of those below it that have ended: it does not see other users."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def bare(model: Any, frame: pd.DataFrame) -> dict[str, Any]:
    """Score rows in memory, and attribute the scores of the alarms."""
    import tellwhy
    from tellwhy.data import as_table
    from tellwhy.kinds.table import change_request, judge

    judged = judge(model, as_table(frame.head(2000)), change_request(model, {}))  # warms up
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


def bare_at_once(model: Path, source: Path, workers: int) -> dict[str, Any]:
    """So many bare explainers at the same time, each with the rows of one group."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        found = pool.map(_bare_group, [(str(model), str(source), k) for k in range(workers)], chunksize=1)
    seconds = float(np.median([line["seconds"] for line in found]))
    return {
        "way": f"{workers} bare explainers at once",
        "rows": workers * GROUP,
        "seconds": seconds,
        "CPU seconds": sum(line["CPU seconds"] for line in found),
        "small products, seconds": float(np.median([line["products"] for line in found])),
    }


def _bare_group(told: tuple[str, str, int]) -> dict[str, Any]:
    import tellwhy

    model, source, group = told
    with threadpool_limits(limits=1), pq.ParquetFile(source) as file:
        products = small_products()
        return bare(tellwhy.load(model), file.read_row_group(group).to_pandas()) | {"products": products}


def small_products(n: int = 100_000) -> float:
    """Seconds for products of 64 × 64 matrices: 96 KB, which a core's own cache holds."""
    A, B, C = np.ones((3, 64, 64))
    started = time.perf_counter()
    for _ in range(n):
        np.matmul(A, B, out=C)
    return time.perf_counter() - started


def timed(path: Path, model: Path, out: Path, workers: int) -> dict[str, Any]:
    """Explain a file; what is between the first and the last block of one worker is its pace."""
    from tellwhy.bulk import run as bulk_run

    started = time.perf_counter()
    begun = time.time()
    cpu = cpu_seconds()
    with PeakOfChildren() as peak:
        result = bulk_run.explain_bulk(path, model=model, out=out, workers=workers)
    seconds = time.perf_counter() - started
    ends = sorted(p.stat().st_mtime for p in (out / "blocks").glob("*.json"))
    return {
        "way": f"{workers} worker{'s' if workers > 1 else ''}",
        "rows": result.n_rows,
        "seconds": seconds,
        "CPU seconds": cpu_seconds() - cpu,
        "alarms": result.n_alarms,
        "blocks": result.n_blocks,
        "from first to last block": ends[-1] - ends[0],
        "blocks ended": [round(end - begun, 2) for end in ends],
        "largest worker, GB": peak.largest,
    }


def main() -> None:
    asked = arguments(
        __doc__,
        "save",
        "note",
        rows=6 * GROUP,
        blocks=option(3, "of each worker, but for the largest number"),
        workers=[1, 2],
        fit_on=option(int, "number of workers whose file is fitted to; the largest"),
        bare=option(int, "numbers of bare explainers at once; all of --workers", nargs="*"),
        kept=option(Path, "write the page from such JSONs", nargs="+"),
        keep=option(False, "keep what the page says, below what is new"),
    )
    earlier = _sections() if asked.keep else ""
    tell([measured(asked)] if asked.kept is None else [json.loads(path.read_text()) for path in asked.kept])
    if earlier:
        page = RESULTS / "bulk.md"
        page.write_text(f"{page.read_text()}\n**Measured before, with the code of then.** {earlier}")


def _sections() -> str:
    """What the page says below its head."""
    return (RESULTS / "bulk.md").read_text(encoding="utf-8").split("\n\n", 2)[2]


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; what is known so far is kept in the JSON after each step."""
    from tellwhy.bulk.fit import fit_bulk
    from tellwhy.workflow import save

    most = max(asked.workers)
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sizes = {
            w: asked.rows if w == most else min(asked.rows, w * asked.blocks * GROUP) for w in asked.workers
        }
        write_all(folder, sizes, most)
        started = time.perf_counter()
        cpu = cpu_seconds()
        fitted = asked.fit_on or most
        model = fit_bulk([folder / f"{fitted}.parquet"])
        line = {
            "way": "fitting (two passes)",
            "rows": sizes[fitted],
            "seconds": time.perf_counter() - started,
        }
        lines.append(line | {"CPU seconds": cpu_seconds() - cpu})
        path = save(model, folder / "m.tellwhy")
        for workers in asked.workers:
            if asked.bare is None or workers in asked.bare:
                lines.append(
                    bare_at_once(path, folder / f"{most}.parquet", min(workers, asked.rows // GROUP))
                )
            lines.append(timed(folder / f"{workers}.parquet", path, folder / f"out{workers}", workers))
            print(json.dumps(lines[-1]), flush=True)
            machine = f"{_machine()}, {os.cpu_count()} processors"
            found = {"note": asked.note, "lines": lines, "machine": machine}
            if asked.save is not None:
                asked.save.write_text(json.dumps(found, indent=1))
    return found


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    siblings = {line.partition(":")[2].strip() for line in lines if line.startswith("siblings")}
    cores = {line.partition(":")[2].strip() for line in lines if line.startswith("cpu cores")}
    return (
        f"{names[0] if names else '?'}, cores {'/'.join(cores) or '?'}, siblings {'/'.join(siblings) or '?'}"
    )


def tell(measurements: list[dict[str, Any]]) -> None:
    """Compare the lines of each measurement, and publish them, the newest first."""
    publish("bulk", "Many rows, block by block", [_told(found) for found in measurements], peers=("pyarrow",))


def _told(found: dict[str, Any]) -> tuple[str, pd.DataFrame]:
    lines = sorted(found["lines"], key=lambda line: (_number(line["way"]), "bare" not in line["way"]))
    for line in lines:
        line["rows a second"] = line["rows"] / line["seconds"]
        if "CPU seconds" in line:
            line["CPU seconds a million rows"] = 1e6 * line["CPU seconds"] / line["rows"]
    compare(lines)
    table = pd.DataFrame(lines).drop(
        columns=["blocks", "alarms", "from first to last block", "blocks ended", "small products, seconds"],
        errors="ignore",
    )
    table = table.astype(object)
    table = table.where(table.notna(), "")
    text = (
        f"{found.get('note', '')} Measured on {found['machine']}: {COLUMNS} columns, Parquet in row groups of {GROUP:,} "
        f"rows. {_warm(lines)} {_course(lines)}{_machine_limit(lines)}"
        "Seconds of workers hold the start of the processes and the folder of the run at the end. One worker would take "
        "for all rows what it took to start and to end, and its pace between the first and the last block; 'times one "
        "worker' compares with that, or with one bare explainer. 'CPU, times bare' divides the processor time for a "
        "million rows by that of as many bare explainers at once."
    )
    return text.strip(), table


def _course(lines: list[dict[str, Any]]) -> str:
    """Where the seconds of the largest number of workers went."""
    most = max(lines, key=lambda line: _number(line["way"]) if "worker" in line["way"] else 0)
    if "blocks ended" not in most:
        return ""
    ends = most["blocks ended"]
    n = _number(most["way"])
    pace = _pace(most)
    return (
        f"Of the {most['seconds']:.1f} s of {most['way']}, {ends[0]:.1f} s passed until the first block was done and "
        f"{ends[n - 1]:.1f} s until {n} were; {most['seconds'] - ends[-1]:.1f} s were left after the last one. In "
        f"between they did {pace:,.0f} rows a second: {1e6 * n / pace:.0f} s of a processor for a million. "
    )


def _machine_limit(lines: list[dict[str, Any]]) -> str:
    """What the cores lose to each other without any memory, and what that leaves of the workers."""
    found = {_number(line["way"]): line for line in lines if "small products, seconds" in line}
    n = max(found, default=1)
    workers = next((line for line in lines if line["way"] == f"{n} workers"), None)
    if n < 2 or 1 not in found or workers is None:
        return ""
    slower = found[n]["small products, seconds"] / found[1]["small products, seconds"]
    explainers = found[n]["seconds"] / found[1]["seconds"]
    pace = _pace(workers) / _pace(next(line for line in lines if line["way"] == "1 worker"))
    return (
        f"Products of 64 × 64 matrices, which stay in a core's own cache, take {slower:.2f} times as long in {n} processes "
        f"at once as in one, bare explainers {explainers:.2f} times: {n / slower:.1f} and {n / explainers:.1f} times one "
        f"are what the machine can do. Between the first and the last blocks {n} workers are {pace:.1f} times as fast as "
        "one. "
    )


def _pace(line: dict[str, Any]) -> float:
    """Rows a second, once every worker has done its first block."""
    ends = line["blocks ended"]
    n = _number(line["way"])
    return float((line["rows"] - n * GROUP) / (ends[-1] - ends[n - 1]))


def _warm(lines: list[dict[str, Any]]) -> str:
    """What a block costs one worker that has done one before, beside the bare explainer."""
    one = next(line for line in lines if line["way"] == "1 worker")
    block = one["from first to last block"] / (one["blocks"] - 1)
    bare_block = min((line["seconds"] for line in lines if "bare" in line["way"]), default=None)
    if bare_block is None:
        return f"After its first block one worker takes {block:.2f} s for a block."
    return (
        f"After its first block one worker takes {block:.2f} s for a block, the bare explainer {bare_block:.2f} s at "
        f"best: {block / bare_block:.2f} times as long."
    )


def _number(way: str) -> int:
    """Of processes in a line; 0 for the fitting."""
    first = way.partition(" ")[0]
    return int(first) if first.isdigit() else 0


def compare(lines: list[dict[str, Any]]) -> None:
    one = next(line for line in lines if line["way"] == "1 worker")
    bare_one = next((line for line in lines if line["way"] == "1 bare explainers at once"), None)
    between = one["rows"] * (one["blocks"] - 1) / one["blocks"]
    seconds_a_row = one["from first to last block"] / between
    around = one["seconds"] - one["from first to last block"] - seconds_a_row * one["rows"] / one["blocks"]
    bare_cpu = 0.0
    for line in lines:
        if "bare" in line["way"] and bare_one is not None:
            bare_cpu = line["CPU seconds a million rows"]
            line["times one worker"] = line["rows a second"] / bare_one["rows a second"]
        if "worker" not in line["way"]:
            continue
        line["times one worker"] = (around + seconds_a_row * line["rows"]) / line["seconds"]
        if "CPU seconds" in line and bare_cpu:
            line["CPU, times bare"] = line["CPU seconds a million rows"] / bare_cpu


if __name__ == "__main__":
    main()
