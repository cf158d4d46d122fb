"""Claim: the service scores one row in 5 ms, keeps answering 32 callers at once, and its memory stays flat."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import tellwhy
from benchmarks.service._rows import ordinary_rows
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish

TITLE = "The service under load"
HEAD = (
    "Over loopback, callers and service on the same machine; each caller keeps one connection and sends JSON. "
    "`tellwhy serve` serves a committee of six detectors fitted to 2,000 rows of 8 numbers; the bare service is "
    "FastAPI with scikit-learn's isolation forest and shap's TreeExplainer on the same rows. Times in ms, from "
    "the first byte sent to the last byte received. `judge` checks the rows as data, draws the line and says "
    "why; no peer has it."
)
MEMORY = "Memory of the process that answers, in MiB, while 32 callers ask for scores of 1 and of 1,000 rows in turn."


@dataclass(frozen=True)
class Case:
    """What is asked, by how many, of how many rows."""

    endpoint: str
    n_rows: int
    n_callers: int


CASES = (
    Case("score", 1, 1),
    Case("score", 1, 32),
    Case("score", 1_000, 32),
    Case("explain", 1, 1),
    Case("explain", 1, 32),
    Case("explain", 1_000, 32),
    Case("judge", 1, 1),
    Case("judge", 1_000, 4),
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        return int(place.getsockname()[1])


@contextmanager
def started(words: list[str], port: int, path: str) -> Iterator[subprocess.Popen[bytes]]:
    """A service in a process of its own, once it answers."""
    process = subprocess.Popen([sys.executable, *words])
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def request_of(endpoint: str, n_rows: int, seed: int) -> bytes:
    body = json.dumps({"rows": ordinary_rows(n_rows, seed).to_dict("records")}).encode()
    head = f"POST /v1/{endpoint} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def call_again_and_again(
    port: int, content: bytes, until: float, times: list[float], wrong: list[int]
) -> None:
    """One caller: ask, wait for the whole answer, ask again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        times.append(time.perf_counter() - began)
        status = int(head.split(b" ", 2)[1])
        if status != 200:
            wrong.append(status)
    writer.close()


async def measure(port: int, case: Case, seconds: float) -> dict[str, float]:
    times: list[float] = []
    wrong: list[int] = []
    contents = [request_of(case.endpoint, case.n_rows, seed) for seed in range(case.n_callers)]
    for content in contents[:2]:
        await call_again_and_again(port, content, time.perf_counter() + 0.5, [], [])
    until = time.perf_counter() + seconds
    began = time.perf_counter()
    await asyncio.gather(*(call_again_and_again(port, each, until, times, wrong) for each in contents))
    n_seconds = time.perf_counter() - began
    return {
        "per_second": len(times) / n_seconds,
        "p50": 1e3 * float(np.quantile(times, 0.5)),
        "p99": 1e3 * float(np.quantile(times, 0.99)),
        "errors": len(wrong),
    }


def resident(pid: int) -> float:
    """MiB that a process holds in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def compared(ours: int, bare: int, seconds: float) -> pd.DataFrame:
    lines = []
    for case in CASES:
        line: dict[str, object] = {"asked": case.endpoint, "rows": case.n_rows, "callers": case.n_callers}
        for name, port in (("tellwhy", ours), ("bare", bare)):
            if name == "bare" and case.endpoint == "judge":
                line |= {f"{name} {what}": "–" for what in ("requests/s", "p50", "p99", "errors")}
                continue
            found = asyncio.run(measure(port, case, seconds))
            line |= {
                f"{name} requests/s": round(found["per_second"], 1),
                f"{name} p50": round(found["p50"], 1),
                f"{name} p99": round(found["p99"], 1),
                f"{name} errors": int(found["errors"]),
            }
        lines.append(line)
        print(line, flush=True)
    return pd.DataFrame(lines)


def watched(process: subprocess.Popen[bytes], port: int, minutes: float) -> pd.DataFrame:
    """Memory over some minutes of load."""
    lines = []
    n_pieces = 6
    for piece in range(n_pieces):
        seconds = 60 * minutes / n_pieces / 2
        found = [asyncio.run(measure(port, Case("score", n, 32), seconds)) for n in (1, 1_000)]
        n_errors = sum(int(each["errors"]) for each in found)
        after = round((piece + 1) * minutes / n_pieces, 1)
        lines.append({"minutes": after, "MiB": round(resident(process.pid)), "errors": n_errors})
        print(lines[-1], flush=True)
    return pd.DataFrame(lines)


def main() -> None:
    options = arguments(
        __doc__, "note", seconds=option(8.0, "of each case"), minutes=option(3.0, "of watching memory")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.tellwhy"
        tellwhy.save(tellwhy.fit(ordinary_rows(2_000)), path)
        ours = free_port()
        bare = free_port()
        serve = ["-m", "tellwhy", "serve", str(path), "--port", str(ours), "--quiet"]
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        with started(serve, ours, "/readyz") as process:
            with started(["-m", "benchmarks.service._bare", str(bare)], bare, "/openapi.json"):
                table = compared(ours, bare, options.seconds)
            memory = watched(process, ours, options.minutes)
    publish(
        "load",
        TITLE,
        [(f"{HEAD} {options.note}".strip(), table), (MEMORY, memory)],
        peers=("fastapi", "shap"),
    )


if __name__ == "__main__":
    main()
