"""A motif that one channel of a long series has nowhere else: is it found, and where does the relevance fall?

Three channels, 100,000 steps; 40 samples of one channel are replaced. Three kinds of waves, each with its own motif.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.workflow import explain_series

LENGTH = 40
KINDS = (
    "sine and noise",
    "noise",
    "autoregressive",
    "heavy-tailed noise",
    "bursts of volatility",
    "three channels",
    "random seasons",
    "heavier-tailed noise",
    "skewed noise",
    "shots that fade",
    "sine and heavy-tailed noise",
    "autoregressive, heavy-tailed",
    "noise without a variance",
)
HEAVY = (
    "heavy-tailed noise",
    "three channels",
    "heavier-tailed noise",
    "sine and heavy-tailed noise",
    "autoregressive, heavy-tailed",
    "noise without a variance",
)
MORE = (
    "The same clean series with heavy tails beside a reference, many more of each and other draws: a few dozen leave "
    "much open."
)


def series(seed: int, n: int = 100_000) -> tuple[pd.DataFrame, int, int]:
    """A series with a planted motif, where it begins, and its channel."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) + 1
    waves = [np.sin(t / 7 + rng.uniform(0, 6)), np.sin(t / 11) * np.cos(t / 93), np.sign(np.sin(t / 17))]
    X = np.stack(waves, axis=1) + 0.1 * rng.normal(size=(n, 3))
    at, channel = int(rng.integers(1000, n - 1000)), int(seed % 3)
    motif = 1.2 * np.sin(np.arange(LENGTH) * (0.9, 0.7, 0.33)[channel])
    X[at : at + LENGTH, channel] = motif + 0.1 * rng.normal(size=LENGTH)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(t=t), at, channel


def motif(seed: int) -> dict:
    """What is found of a planted motif, and where its relevance falls."""
    frame, at, channel = series(seed)
    started = time.process_time()
    found = explain_series(frame, time="t", window=LENGTH, top=3)
    spent = time.process_time() - started
    first = found.anomalies[0]
    relevance = found.array_of("relevance", 0)
    low = first.row - first.reasons[0].part.box[0]  # first row that is shown
    inside = np.zeros(relevance.shape, dtype=bool)
    inside[max(0, at - low) : at + LENGTH - low, channel] = True
    around = slice(max(0, at - low - LENGTH // 2), at + LENGTH + LENGTH // 2 - low)
    share = relevance[inside].sum() / relevance[around].sum()
    return {
        "seed": seed,
        "is the top anomaly": abs(first.row - at) < LENGTH,
        "is an alarm": first.is_alarm,
        "channel named": first.reasons[0].feature == "abc"[channel],
        "share of the named channel": round(first.reasons[0].share, 3),
        "relevance on the right channel and time": round(float(share), 3),
        "core seconds": round(spent, 1),
    }


def wave(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """A series without anomalies, (moments, channels)."""
    if kind == "three channels":
        kinds = ("autoregressive", "sine and noise", "heavy-tailed noise")
        return np.concatenate([wave(each, n, rng) for each in kinds], axis=1)
    return _one_channel(kind, n, rng)[:, None]


def _one_channel(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=n)
    wave_of_31 = np.sin(np.arange(n) / 5 + rng.uniform(0, 6))
    makers = {
        "sine and noise": lambda: wave_of_31 + 0.1 * noise,
        "noise": lambda: noise,
        "autoregressive": lambda: lfilter([1.0], [1.0, -0.9], noise),
        "heavy-tailed noise": lambda: rng.standard_t(3, size=n),
        "random seasons": lambda: _seasons(rng, n) + 0.3 * noise,
        "bursts of volatility": lambda: _bursts(noise),
        "heavier-tailed noise": lambda: rng.standard_t(2.5, size=n),
        "noise without a variance": lambda: rng.standard_t(2, size=n),
        "skewed noise": lambda: rng.lognormal(0.0, 0.8, size=n),
        "shots that fade": lambda: noise + _shots(rng, n),
        "sine and heavy-tailed noise": lambda: 2.0 * wave_of_31 + 0.5 * rng.standard_t(3, size=n),
        "autoregressive, heavy-tailed": lambda: lfilter([1.0], [1.0, -0.9], rng.standard_t(3, size=n)),
    }
    return makers[kind]()


def _seasons(rng: np.random.Generator, n: int) -> np.ndarray:
    """Every period of 48 has its own height."""
    heights = np.repeat(rng.lognormal(0.0, 0.3, size=n // 48 + 1), 48)[:n]
    return heights * np.sin(2 * np.pi * np.arange(n) / 48)


def _shots(rng: np.random.Generator, n: int) -> np.ndarray:
    """Now and then a jump of a random height, which fades."""
    jumps = (rng.random(n) < 0.02) * (rng.pareto(3.0, size=n) + 1.0) * 3.0
    return lfilter([1.0], [1.0, -0.8], jumps)


def _bursts(noise: np.ndarray) -> np.ndarray:
    """GARCH(1, 1): large readings make the next ones large."""
    found = np.empty(len(noise))
    variance = 1.0
    for i, each in enumerate(noise):
        found[i] = np.sqrt(variance) * each
        variance = 0.05 + 0.15 * found[i] ** 2 + 0.8 * variance
    return found


def _frame(X: np.ndarray) -> pd.DataFrame:
    names = [f"x{c}" for c in range(X.shape[1])]
    return pd.DataFrame(X, columns=names).assign(t=np.arange(len(X)))


def clean_and_planted(kind: str, n: int, repeats: int) -> dict:
    """How often a clean series has an alarm, and how often a planted stretch is the first and is an alarm."""
    rng = np.random.default_rng([n, len(kind)])
    counts = dict.fromkeys(("by itself", "beside a reference", "planted: the first", "planted: an alarm"), 0)
    asked = {"time": "t", "window": 20, "top": 1, "n_windows": 500}
    for _ in range(repeats):
        own, other = (_frame(wave(kind, n, rng)) for _ in range(2))
        counts["by itself"] += explain_series(own, **asked).anomalies[0].is_alarm
        counts["beside a reference"] += explain_series(own, reference=other, **asked).anomalies[0].is_alarm
        at = int(rng.integers(50, n - 70))
        spread = own["x0"].std()
        own.loc[at : at + 19, "x0"] += 4 * spread * np.sin(np.arange(20) * 1.3)
        first = explain_series(own, reference=other, **asked).anomalies[0]
        is_there = abs(first.row - at) < 20
        counts["planted: the first"] += is_there
        counts["planted: an alarm"] += is_there and first.is_alarm
    return {"series": kind, "moments": n, "repeats": repeats, **counts}


def clean(kind: str, n: int, repeats: int) -> dict:
    """How often a clean series has an alarm beside a reference, on draws of its own."""
    asked = {"time": "t", "window": 20, "top": 1, "n_windows": 500}
    n_alarms = 0
    for k in range(repeats):
        rng = np.random.default_rng([n, len(kind), k])
        own, other = (_frame(wave(kind, n, rng)) for _ in range(2))
        n_alarms += explain_series(own, reference=other, **asked).anomalies[0].is_alarm
    return {"series": kind, "moments": n, "repeats": repeats, "beside a reference": int(n_alarms)}


def _task(task: tuple) -> tuple[str, dict]:
    """One line of a table."""
    table, what = task[0], task[1:]
    line = {"motifs": motif, "alarms": clean_and_planted, "more": clean}[table](*what)
    return table, line


def measured(asked: argparse.Namespace) -> dict:
    """Planted motifs, and alarms on series of many kinds; kept as soon as each is there.

    The kinds with heavy tails come again, with many more draws.
    """
    sizes = [(kind, 1500) for kind in KINDS] + [(kind, 300) for kind in KINDS[:4]]
    tasks: list[tuple] = [("motifs", seed) for seed in range(asked.seeds)]
    tasks += [("more", kind, 1500, asked.more) for kind in HEAVY if asked.more]
    tasks += [("alarms", kind, n, asked.repeats) for kind, n in sizes if asked.repeats]
    found: dict = {table: [] for table in ("motifs", "alarms", "more")}
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_task, task) for task in tasks]):
            table, line = done.result()
            found[table].append(line)
            print(line, flush=True)
            keep(asked, found)
    return found


def keep(asked: argparse.Namespace, found: dict) -> None:
    """Write down what there is."""
    if asked.save:
        asked.save.write_text(json.dumps(found, default=bool), encoding="utf-8")


def ordered(found: dict) -> dict:
    """Lines in the order of the kinds, whichever came first."""
    order = {kind: k for k, kind in enumerate(KINDS)}
    alarms = sorted(found["alarms"], key=lambda line: (line["moments"], order[line["series"]]))
    more = sorted(found["more"], key=lambda line: order[line["series"]])
    return {"motifs": sorted(found["motifs"], key=lambda line: line["seed"]), "alarms": alarms, "more": more}


def page(found: dict) -> None:
    """Write the tables."""
    found = ordered(found)
    alarms = pd.DataFrame(found["alarms"])
    long = alarms[alarms["moments"] == 1500]
    share = long["beside a reference"].sum() / long["repeats"].sum()
    left = [kind for kind in KINDS if kind not in set(long["series"])]
    not_reached = f" Not reached in the time there was: {', '.join(left)}." if left else ""
    publish(
        "patch_series",
        "Series: a planted motif, and alarms where there is none",
        [
            (
                "A motif of 40 samples planted in one of three channels of a series of 100,000 steps. Shares are of the "
                "relevance beyond what is usual of each channel; the last one is of all of it within 20 samples of the "
                "motif.",
                pd.DataFrame(found["motifs"]),
            ),
            (
                "Number of series without anomalies in which some stretch is called an alarm, windows of 20, expected "
                "share of false alarms 10 %; the reference is another series of the same law and length. Planted: 20 "
                "readings of one channel swing by four standard deviations, beside the same reference. Fewer than ten "
                "ordinary stretches give no alarms, as in all series of 300 moments here. Of all series of 1,500 "
                f"moments without anomalies, {share:.1%} raise an alarm beside a reference. The doubt about tails, and "
                "what single readings count in it, were chosen on 100 other draws each of the first six kinds, of noise "
                "without a variance (Student's t with two degrees of freedom), and of four kinds that are not here (t "
                "noise with four degrees of freedom, Laplacian and uniform noise, an autoregression with such t noise); "
                f"the other kinds had no part in it.{not_reached}",
                alarms,
            ),
            *([] if not found["more"] else [(MORE, pd.DataFrame(found["more"]))]),
        ],
    )


def main() -> None:
    """Measure, or write the tables from what was measured."""
    asked = arguments(
        __doc__,
        "save",
        "workers",
        seeds=6,
        repeats=40,
        kept=option(Path, "figures that were kept: write the page from them"),
        more=option(0, "clean series with heavy tails, so many more of each"),
    )
    if asked.kept:
        page(json.loads(asked.kept.read_text(encoding="utf-8")))
        return
    found = measured(asked)
    if not asked.save:
        page(found)


if __name__ == "__main__":
    main()
