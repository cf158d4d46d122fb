"""Claim: the page on 1,000,000 × 20 paints within 1.5 s, its server stays below 600 MB, and no saved mark is lost."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.kinds.decisions import Decisions
from tellwhy.kinds.table import explain_new, settings_of_model
from tellwhy.kinds.table_model import fit_model
from tellwhy.results.result import AlarmRule
from tellwhy.results.store import save_result
from tellwhy.storage.model_file import save
from tellwhy.views.server.app_session import PIECE, TABLE, make_result

TITLE = "The page for analysts on a million rows"
TOKEN = "a-token-of-the-benchmark"
MEBIBYTE = 2**20
SERVER = """
import sys
from tellwhy.views.server.app import make_app
from tellwhy.views.server.app_session import Session
from tellwhy.views.server.http import open_socket, serve

with open_socket("127.0.0.1", 0) as place:
    app = make_app(Session.open(sys.argv[1]), token=sys.argv[2])
    serve(app, place, ready=lambda address: print(address, flush=True))
"""
PAINT = """() => Object.fromEntries(
  performance.getEntriesByType("paint").map(entry => [entry.name, entry.startTime]))"""


def rows_of(n: int, seed: int = 0) -> pd.DataFrame:
    """Seventeen numbers that three factors make, two columns of labels, one of dates; one row in 5,000 is odd."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ np.random.default_rng(1).normal(size=(3, 17)) + rng.normal(size=(n, 17))
    odd = np.flatnonzero(rng.random(n) < 1 / 5000)
    X[odd, rng.integers(17, size=len(odd))] += 25
    frame = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(17)])
    frame["kind"] = rng.choice(list("abcdef"), n)
    frame["city"] = rng.choice([f"city {j}" for j in range(30)], n)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D")
    return frame


def large_folder(place: Path, n: int) -> Path:
    """A result over n rows: a model of 20,000 judges and explains the oddest, the rest has their scores alone.

    What the page shows and reads is what a run over all rows writes; only the scores of the other rows are
    those of the model's first member that a matrix product gives, so that the folder is made in a minute.
    """
    frame = rows_of(n)
    model = fit_model(frame.head(20_000))
    deviations = np.abs(frame.iloc[:, :17].to_numpy()).max(axis=1)
    oddest = np.sort(np.argsort(-deviations, kind="stable")[:200])
    run = explain_new(model, frame.iloc[oddest].reset_index(drop=True), top=200)
    scores = deviations / deviations.max() * model.threshold * 0.99
    scores[oddest[np.asarray(run.rows)]] = run.scores
    moved = [_moved(anomaly, int(oddest[anomaly.row])) for anomaly in run.anomalies]
    findings = [finding for finding in run.findings if not finding.rows]
    n_alarms = int((scores > run.line).sum())
    rule = AlarmRule("a line drawn in fitting", n_alarms, n * float(np.exp(-run.line)))
    save(model, place.with_name(f"{place.name}.tellwhy"))
    told = settings_of_model(place.with_name(f"{place.name}.tellwhy"))
    result = replace(
        run,
        source="a million rows",
        anomalies=moved,
        scores=scores,
        rows=np.arange(n),
        findings=findings,
        groups=[],
        alarms=rule,
        opening=None,
        settings={**run.settings, **told},
    )
    return save_result(
        result, place, add=lambda work: frame.to_parquet(work / TABLE, index=False, row_group_size=PIECE)
    )


def _moved(anomaly: Any, row: int) -> Any:
    return replace(anomaly, part=replace(anomaly.part, row=row, line=None))


class Served:
    """The page's server in a process of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        words = [sys.executable, "-c", SERVER, str(folder), TOKEN]
        begun = time.perf_counter()
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.seconds = time.perf_counter() - begun

    def memory(self, name: str = "VmRSS") -> float:
        """Memory of the process now (VmRSS) or at most (VmHWM), in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024 / 1e6

    def caller(self) -> httpx.Client:
        """One browser that was let in."""
        client = httpx.Client(base_url=self.address, timeout=120)
        client.get(f"/?token={TOKEN}")
        return client


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """A server that is ended afterwards."""
    server = Served(folder)
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(30)


def paints(server: Served, times: int) -> list[float]:
    """Seconds from asking for the page to its first content, in browsers that never saw it."""
    found = []
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(times):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            page.goto(f"{server.address}/?token={TOKEN}")
            page.wait_for_selector("tr.item")
            found.append(page.evaluate(PAINT)["first-contentful-paint"] / 1000)
            context.close()
        browser.close()
    return found


def seconds(do: Callable[[], httpx.Response], times: int = 7) -> float:
    """Median of the time that an answer takes."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        answer = do()
        taken.append(time.perf_counter() - begun)
        assert answer.status_code == 200, answer.text[:200]
    return float(np.median(taken))


def answers(server: Served, n: int) -> list[tuple[str, float]]:
    """How long the server takes to sort, filter, search, page and show a row."""
    one = server.caller()
    row = int(re.findall(r'data-row="(\d+)"', one.get("/list").text)[0])
    asked = {
        "first page of the alarms": {},
        "all rows by score, page 10,000": {"show": "all", "sort": "-score", "page": n // 100},
        "all rows, sorted by a column": {"show": "all", "sort": "-x3"},
        "all rows with a condition": {"show": "all", "where": "x3 > 4"},
        "all rows, searched in every cell": {"show": "all", "search": "city 17"},
        "alarms, one line a cause": {"group": "1"},
    }
    found = [
        (words, seconds(lambda told=told: one.get("/list", params=told))) for words, told in asked.items()
    ]
    found.append(("the panel of a row", seconds(lambda: one.get(f"/row/{row}"))))
    found.append(("a column's distribution", seconds(lambda: one.get(f"/row/{row}/chart?column=x3"))))
    found.append(("segments of a column", seconds(lambda: one.get("/tab/segments?column=city"))))
    one.close()
    return found


def what_if(folder: Path) -> list[tuple[str, float]]:
    """How long it takes to judge a changed row, beside a model of 100,000 × 20."""
    with served(folder) as server:
        one = server.caller()
        row = int(re.findall(r'data-row="(\d+)"', one.get("/list").text)[0])
        values = iter(range(1000))

        def ask(checked: bool) -> httpx.Response:
            told = {"changes": {"x3": str(next(values) / 100)}, "checked": checked}
            return one.post(f"/row/{row}/what-if", json=told)

        ask(False)
        found = [
            ("a cell changed: score, p-value, reasons", seconds(lambda: ask(False), 15)),
            ("the same, looked at as data too", seconds(lambda: ask(True), 5)),
            ("nearest ordinary rows", seconds(lambda: one.get(f"/row/{row}/neighbours"), 5)),
        ]
        one.close()
    return found


def marked_at_once(server: Served, n: int) -> tuple[int, int]:
    """Marks that two browsers made at the same time, and those that stand afterwards."""
    with closing(server.caller()) as one:
        rows = re.findall(r'data-row="(\d+)"', one.get("/list?show=all&size=500").text)[:n]

    def mark(turn: int) -> int:
        with closing(server.caller()) as one:
            told = [{"row": int(row), "verdict": "confirmed", "why": str(turn)} for row in rows[turn::2]]
            return sum(one.post("/marks", json=each).status_code == 200 for each in told)

    with ThreadPoolExecutor(2) as pool:
        saved = sum(pool.map(mark, (0, 1)))
    return saved, len(Decisions(server.folder).standing().rows)


def killed(folder: Path, times: int) -> tuple[int, int]:
    """Marks that were shown as saved before the server was killed, and how many of them are lost."""
    n_saved = n_lost = 0
    draw = random.Random(0)
    for _ in range(times):
        server = Served(folder)
        saved = []
        with closing(server.caller()) as one:
            rows = re.findall(r'data-row="(\d+)"', one.get("/list?show=all&size=500").text)
            threading.Timer(draw.uniform(0.05, 0.4), server.process.kill).start()
            try:
                for row in rows:
                    told = {"row": int(row), "verdict": draw.choice(["benign", "confirmed"])}
                    if one.post("/marks", json=told).status_code == 200:
                        saved.append((int(row), told["verdict"]))
            except httpx.HTTPError:
                pass  # killed in the middle of an answer
        server.process.wait(30)
        standing = Decisions(folder).standing().rows
        n_saved += len(saved)
        n_lost += sum(row not in standing or standing[row].verdict != verdict for row, verdict in saved)
    return n_saved, n_lost


def long_use(server: Served, minutes: float) -> pd.DataFrame:
    """Memory while somebody sorts, searches, opens rows, decides and takes back, without a pause."""
    draw = random.Random(1)
    one = server.caller()
    begun = time.monotonic()
    found = []
    n_done = 0
    following = 0.0
    while (now := (time.monotonic() - begun) / 60) <= minutes:
        if now >= following:
            found.append({"minutes": round(now, 1), "answers": n_done, "MB": round(server.memory())})
            following += minutes / 10
        told = {"show": draw.choice(["alarms", "all"]), "sort": draw.choice(["rank", "-x1", "-x5", "row"])}
        listed = one.get("/list", params=told | {"page": draw.randint(1, 50) if told["show"] == "all" else 1})
        rows = re.findall(r'data-row="(\d+)"', listed.text) or ["0"]
        row = draw.choice(rows)
        one.get(f"/row/{row}")
        one.get(f"/row/{row}/chart", params={"column": f"x{draw.randrange(17)}"})
        one.post(f"/row/{row}/what-if", json={"changes": {"x2": str(draw.random())}})
        made = one.post("/marks", json={"row": int(row), "verdict": "confirmed"}).json()
        one.post("/undo", json={"id": made["id"]})
        one.get(f"/tab/{draw.choice(['findings', 'columns', 'line', 'decisions'])}")
        n_done += 7
    found.append({"minutes": round(minutes, 1), "answers": n_done, "MB": round(server.memory())})
    one.close()
    return pd.DataFrame(found)


def main() -> None:
    told = arguments(
        __doc__,
        rows=option(1_000_000, "rows of the large result"),
        fitted=option(100_000, "rows that the model of changed cells is fitted to"),
        use=option(5.0, "minutes of use without a pause"),
        paints=option(5, "browsers that open the page"),
        kills=option(20, "servers that are killed"),
        marks=option(200, "marks that two browsers make at once"),
    )
    parts = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folder = large_folder(place / "large", told.rows)
        with served(folder) as server:
            painted = paints(server, told.paints)
            figures = [
                ("seconds until the server answers", server.seconds),
                ("first content of the page: median seconds", float(np.median(painted))),
                ("first content of the page: most seconds", max(painted)),
                ("memory after the page was opened, MB", server.memory()),
            ]
            times = answers(server, told.rows)
            figures.append(("memory after sorting and searching all rows, MB", server.memory()))
            figures.append(("most memory so far, MB", server.memory("VmHWM")))
            saved, stand = marked_at_once(server, told.marks)
            figures.append(("marks that two browsers saved at once", saved))
            figures.append(("of them that stand", stand))
            used = long_use(server, told.use)
        lost = killed(folder, told.kills)
        figures.append((f"marks shown as saved before {told.kills} servers were killed", lost[0]))
        figures.append(("of them lost", lost[1]))
        small = place / "fitted.csv"
        rows_of(told.fitted).to_csv(small, index=False)
        times += what_if(make_result(small, place / "fitted", {"top": 20}))
    parts.append((f"A result over {told.rows:,} × 20.", pd.DataFrame(figures, columns=["what", "figure"])))
    answered = pd.DataFrame(
        [(words, round(1000 * t, 1)) for words, t in times], columns=["asked", "median ms"]
    )
    parts.append(
        (
            f"Answers; the last three by a model fitted to {told.fitted:,} × 20, the others on all rows.",
            answered,
        )
    )
    parts.append((f"{told.use:g} minutes of use without a pause, one answer after the other.", used))
    publish("app", TITLE, parts)


if __name__ == "__main__":
    main()
