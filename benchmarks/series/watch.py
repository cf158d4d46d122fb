"""Claim: a watch tells each alarm once though it is killed three times, keeps its stated rate, and is soon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import tellwhy
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.data.table import Table
from tellwhy.kinds.table import read_rows, score_rows
from tellwhy.verdicts.online import OnlineRule

TITLE = "Streams that are watched"
KILLED = (
    "A CSV file of events with one odd event in 500, watched with `--rule lord`. Killed three times by SIGKILL while "
    "alarms are written, and started again; beside it the same without a kill. Lines are compared one by one."
)
CLEAN = (
    "Streams without anomalies, 25 of each shape, 4,000 events each, judged by a model fitted to 2,000 others. The rules "
    "state that at most 10 of 100 raise any alarm (level .1). Beside them, events with a p-value of at most .001, of "
    "1,000."
)
SOON = (
    "An odd event is appended to a file that is watched, every 100 ms or so; milliseconds until its line stands in the "
    "file of alarms."
)
EVERY = 500
SHAPES = ("normal", "skewed", "mixed", "heavy tails")


def orders(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = rng.normal(20, 2, n).round(3)
    price = (size / 4 + rng.normal(0, 0.3, n)).round(3)
    return pd.DataFrame(
        {"order": np.arange(n), "size": size, "price": price, "shop": rng.choice(["a", "b"], n)}
    )


def words_of(path: Path, model: Path, folder: Path, *more: str) -> list[str]:
    told = ["--model", str(model), "--state", str(folder / "state"), "--alarms", str(folder / "alarms.jsonl")]
    return [sys.executable, "-m", "tellwhy", "watch", str(path), *told, *more]


def lines_of(folder: Path) -> list[dict]:
    found = [json.loads(line) for line in (folder / "alarms.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "time"} for line in found]


def killed(folder: Path, model: Path, n: int) -> pd.DataFrame:
    """Watch a file with and without kills."""
    path = folder / "events.csv"
    rows = orders(n, 1)
    rows.loc[rows.index % EVERY == EVERY // 2, "size"] = 75.0
    rows.to_csv(path, index=False)
    whole, cut = folder / "whole", folder / "cut"
    for place in (whole, cut):
        place.mkdir()
    began = time.perf_counter()
    subprocess.run(words_of(path, model, whole, "--once"), check=True)
    seconds = time.perf_counter() - began
    for k in range(3):
        process = subprocess.Popen(words_of(path, model, cut, "--once"))
        wanted = (k + 1) * n // EVERY // 4
        while process.poll() is None:
            there = (cut / "alarms.jsonl").read_bytes().count(b"\n") if (cut / "alarms.jsonl").exists() else 0
            if there >= wanted:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(words_of(path, model, cut, "--once"), check=True)
    expected, found = lines_of(whole), lines_of(cut)
    numbers = [line["n"] for line in found]
    line = {
        "events": n,
        "kills": 3,
        "alarms without a kill": len(expected),
        "alarms": len(found),
        "lost": len({e["number"] for e in expected} - {f["number"] for f in found}),
        "doubled": len(numbers) - len(set(numbers)),
        "all lines equal": expected == found,
        "odd events among them": sum(f["number"] % EVERY == EVERY // 2 + 1 for f in found),
        "events/s": round(n / seconds),
    }
    return pd.DataFrame([line])


def clean_rows(shape: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    if shape == "normal":
        return pd.DataFrame(
            rng.normal(size=(n, 6)) @ np.linspace(0.2, 1, 36).reshape(6, 6), columns=list("abcdef")
        )
    if shape == "skewed":
        return pd.DataFrame(rng.lognormal(0, 1, size=(n, 5)), columns=list("abcde"))
    if shape == "heavy tails":
        return pd.DataFrame(rng.standard_t(3, size=(n, 5)), columns=list("abcde"))
    numbers = {"x": rng.normal(size=n), "y": rng.exponential(size=n), "k": rng.poisson(3, n)}
    return pd.DataFrame({**numbers, "c": rng.choice(list("uvw"), n, p=[0.6, 0.3, 0.1])})


def clean(n_streams: int) -> pd.DataFrame:
    """How many clean streams raise any alarm."""
    lines = []
    for number, shape in enumerate(SHAPES):
        any_alarm = {"lord": 0, "elond": 0}
        n_small = 0
        for seed in range(n_streams):
            rng = np.random.default_rng([number, seed])
            model = tellwhy.fit(clean_rows(shape, 2_000, rng), clean=True)
            rows = Table(clean_rows(shape, 4_000, rng), "stream")
            surprises = model.calibration.surprises(score_rows(model, read_rows(model, rows, model.request)))
            p = np.exp(-np.maximum(surprises, 0.0))
            n_small += int((p <= 0.001).sum())
            for kind in any_alarm:
                any_alarm[kind] += bool(OnlineRule(kind, 0.1).decide(p)[0].any())
        rate = round(1000 * n_small / (4_000 * n_streams), 2)
        lines.append({"events": shape, "streams": n_streams, **any_alarm, "p ≤ .001, of 1,000": rate})
        print(lines[-1], flush=True)
    total = {"events": "all", "streams": n_streams * len(SHAPES)}
    for name in ("lord", "elond"):
        total[name] = sum(line[name] for line in lines)
    total["p ≤ .001, of 1,000"] = round(float(np.mean([line["p ≤ .001, of 1,000"] for line in lines])), 2)
    return pd.DataFrame([*lines, total])


def soon(folder: Path, model: Path, n_odd: int) -> pd.DataFrame:
    """How long it takes from an odd event to its line."""
    place = folder / "soon"
    place.mkdir()
    path = folder / "grows.csv"
    orders(100, 3).to_csv(path, index=False)
    process = subprocess.Popen(words_of(path, model, place, "--rule", "rate", "--level", "1e-6", "--quiet"))
    alarms = place / "alarms.jsonl"
    times = []
    try:
        time.sleep(8)
        with path.open("a") as file:
            for k in range(n_odd):
                before = alarms.stat().st_size if alarms.exists() else 0
                began = time.perf_counter()
                file.write(f"{1000 + k},{70 + k / 100},5.0,a\n")
                file.flush()
                while (
                    not alarms.exists() or alarms.stat().st_size == before
                ) and time.perf_counter() < began + 10:
                    time.sleep(0.001)
                times.append(1000 * (time.perf_counter() - began))
                time.sleep(0.1)
    finally:
        process.terminate()
        process.wait(20)
    told = times[1:]  # the first loads what explains
    half, most = np.quantile(told, [0.5, 0.99])
    return pd.DataFrame([{"odd events": len(told), "p50": round(half, 1), "p99": round(most, 1)}])


def main() -> None:
    options = arguments(
        __doc__,
        "note",
        events=option(1_000_000, "of the stream that is killed"),
        streams=option(25, "of each shape"),
        soon=option(False, "only how soon a line stands there, as a section of its own"),
    )
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "orders.tellwhy"
        tellwhy.save(tellwhy.fit(orders(2_000, 0), clean=True), model)
        quick = soon(folder, model, 60)
        if options.soon:
            publish(
                "watch",
                TITLE,
                [(f"{SOON} {options.note}".strip(), quick)],
                section="How soon, measured again",
            )
            return
        kept = killed(folder, model, options.events)
        parts = [(KILLED, kept), (CLEAN, clean(options.streams)), (f"{SOON} {options.note}".strip(), quick)]
    publish("watch", TITLE, parts)


if __name__ == "__main__":
    main()
