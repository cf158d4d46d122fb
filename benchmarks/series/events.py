"""Events of series: are they found, placed and named, and how many are false?

Clean series of sixteen families and three lengths: events against those that are stated. Fourteen kinds of
events planted in eight generated plants. The 34 open series of the Numenta Anomaly Benchmark (NAB), with its
own score: the method was made with a view on them, so that only the 24 others can tell how it does on new ones.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import median_filter
from sklearn.neighbors import NearestNeighbors

from benchmarks.series._clean import FAMILIES
from benchmarks.series._nab import Labelled, Outcome, judge_alarms, read_series
from benchmarks.series._planted import KINDS, PLANTS, Planted, plant
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.core.score import Floats
from tellwhy.detectors.series.events import (
    MOST_EXPECTED,
    TOLD,
    Event,
    Found,
    find_events,
)

PARTS = ("nab", "planted", "clean", "speed")
LENGTHS = (1_500, 4_000, 12_000)
LEVELS = (TOLD, 1.0, MOST_EXPECTED)
N_PLANTED = 3_000
LEAST_SHARED = 0.5  # of both spans together
LEAST_OVERLAP = 0.1  # of both spans together, of an event that is seen
NEAR = 20  # readings
KNN_WINDOW = 20


def count_false(family: str, length: int, repeats: int) -> list[float]:
    """Mean number of events at each level in clean series."""
    counts = np.zeros(len(LEVELS))
    for seed in range(repeats):
        rng = np.random.default_rng([7, seed, length])
        events = find_events(FAMILIES[family](rng, length)[:, None]).events
        counts += [sum(event.expected_false <= level for event in events) for level in LEVELS]
    return list(counts / repeats)


def judge_planted(kind: str, name: str, repeats: int) -> Counter[str]:
    """Count what was seen, told, and rightly placed and named."""
    found: Counter[str] = Counter()
    for repeat in range(repeats):
        rng = np.random.default_rng([11, list(PLANTS).index(name), repeat, KINDS.index(kind)])
        planted = plant(PLANTS[name](rng, N_PLANTED), kind, rng)
        _judge(planted, find_events(planted.X), found)
    return found


def _judge(planted: Planted, found: Found, counts: Counter[str]) -> None:
    counts["n"] += 1
    mine = sorted(
        (event for event in found.events if _is_of(event, planted)),
        key=lambda event: -_shared(event, planted),
    )
    counts["false told"] += sum(event.is_told for event in found.events if event not in mine)
    if mine:
        event = mine[0]
        counts["seen"] += 1
        counts["told"] += any(each.is_told for each in mine)
        counts["channel"] += event.channel in planted.channels
        counts["span"] += _shared(event, planted) >= LEAST_SHARED
        counts["kind"] += event.named.kind in planted.names


def _is_of(event: Event, planted: Planted) -> bool:
    """Whether an event is that which was planted: it shares a tenth of both, or begins within 20 readings."""
    return _shared(event, planted) >= LEAST_OVERLAP or abs(event.start - planted.start) <= NEAR


def _shared(event: Event, planted: Planted) -> float:
    both = min(event.end, planted.end) - max(event.start, planted.start) + 1
    either = max(event.end, planted.end) - min(event.start, planted.start) + 1
    return max(both, 0) / either


Alarms = list[int]


def ours(series: Labelled, *, told: bool) -> Alarms:
    """When events were noticed: all, or those that are told."""
    seconds = series.times.astype("datetime64[ns]").asi8 / 1e9
    events = find_events(series.values[:, None], step=float(np.median(np.diff(seconds)))).events
    return [event.noticed for event in events if event.is_told or not told]


def _highest(score: Floats, series: Labelled, count: int) -> Alarms:
    """The highest readings, a fiftieth of the series apart."""
    free = score.copy()
    free[: series.taught] = -np.inf
    apart = max(len(score) // 50, 10)
    found = []
    for _ in range(count):
        at = int(free.argmax())
        found.append(at)
        free[max(at - apart, 0) : at + apart + 1] = -np.inf
    return found


def blind(series: Labelled, *, count: int) -> Alarms:
    """Alarms at equal steps, whatever the readings are."""
    return [int(at) for at in np.linspace(series.taught, len(series.values), count, endpoint=False)]


def neighbours(series: Labelled, *, count: int) -> Alarms:
    """Distance of each window of 20 readings to the fifth nearest of the part that teaches."""
    x = (series.values - series.values.mean()) / (series.values.std() + 1e-12)
    windows = np.lib.stride_tricks.sliding_window_view(x, KNN_WINDOW)
    taught = windows[: max(series.taught - KNN_WINDOW, 30)]
    away = NearestNeighbors(n_neighbors=5).fit(taught).kneighbors(windows)[0][:, -1]
    return _highest(np.append(np.zeros(KNN_WINDOW - 1), away), series, count)


def decomposed(series: Labelled, *, count: int) -> Alarms:
    """What a running median and the medians of the time of day leave, over its median size (STL and MAD)."""
    minutes = (series.times.hour * 60 + series.times.minute).to_numpy()
    rest = series.values - median_filter(series.values, 289)
    for minute in np.unique(minutes):
        rest[minutes == minute] -= np.median(rest[minutes == minute])
    return _highest(np.abs(rest) / (np.median(np.abs(rest)) + 1e-12), series, count)


METHODS: dict[str, Callable[[Labelled], Alarms]] = {
    "tellwhy, told": partial(ours, told=True),
    "tellwhy, told and to watch": partial(ours, told=False),
    **{f"kNN of windows, {k} highest a series": partial(neighbours, count=k) for k in (1, 3, 5)},
    **{f"decomposition and MAD, {k} highest": partial(decomposed, count=k) for k in (1, 3, 5)},
    **{f"blind, {k} at equal steps": partial(blind, count=k) for k in (1, 5, 15, 30)},
}


def judge_nab(method: str) -> list[list[float]]:
    """Outcomes on all series, on the first half (every second by name), and on the others."""
    series = list(read_series(Path(os.environ["TELLWHY_DATA"]) / "nab"))
    alarms = [METHODS[method](each) for each in series]
    parts = (slice(None), slice(None, None, 2), slice(1, None, 2))
    return [list(astuple(judge_alarms(alarms[part], series[part]))) for part in parts]


def time_a_million() -> dict[str, object]:
    """A million readings of two channels in one process."""
    rng = np.random.default_rng(0)
    at = np.arange(1_000_000)
    slow = np.cumsum(rng.normal(size=len(at))) * 0.01 + rng.normal(size=len(at))
    X = np.column_stack([np.sin(at / 45.8) + 0.3 * rng.normal(size=len(at)), slow])
    find_events(X[:5_000])
    start = time.perf_counter()
    used = time.process_time()
    find_events(X)
    return {
        "readings": "1,000,000 × 2",
        "seconds": round(time.perf_counter() - start, 1),
        "CPU seconds": round(time.process_time() - used, 1),
        "GB at most": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def clean_table(counts: dict[tuple[str, int], list[float]]) -> pd.DataFrame:
    """False events by family and length, at each level."""
    lines = [{"series": name, **{f"{n:,}": _levels(counts[name, n]) for n in LENGTHS}} for name in FAMILIES]
    means = {f"{n:,}": _levels(np.mean([counts[name, n] for name in FAMILIES], axis=0)) for n in LENGTHS}
    return pd.DataFrame([*lines, {"series": "**mean**", **means}])


def _levels(values: Sequence[float] | Floats) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def planted_table(counts: dict[str, Counter[str]]) -> pd.DataFrame:
    """Shares seen, told, and of those seen rightly placed and named."""
    total = sum(counts.values(), Counter[str]())
    lines = []
    for kind, each in [*counts.items(), ("**all**", total)]:
        line: dict[str, object] = {"planted": kind, "n": each["n"]}
        line |= {name: f"{each[name] / each['n']:.2f}" for name in ("seen", "told")}
        line |= {name: f"{each[name] / max(each['seen'], 1):.2f}" for name in ("channel", "span", "kind")}
        lines.append({**line, "false told": f"{each['false told'] / each['n']:.2f}"})
    return pd.DataFrame(lines)


def nab_table(outcomes: dict[str, list[Outcome]]) -> pd.DataFrame:
    """Scores and shares by method."""
    lines = []
    for name, (of_all, first, others) in outcomes.items():
        line: dict[str, object] = {"method": name, "score": f"{of_all.score:.1f}"}
        line |= {"first half": f"{first.score:.1f}", "other half": f"{others.score:.1f}"}
        line |= {"windows found": f"{of_all.recall:.2f}", "outside": f"{of_all.outside:.0%}"}
        lines.append({**line, "alarms": of_all.n_told})
    return pd.DataFrame(lines)


def measured(parts: Sequence[str], clean: int, planted: int, workers: int) -> dict[str, Any]:
    """Figures of the parts that are asked for, as JSON holds them."""
    repeats = {"clean": clean, "planted": planted}
    found: dict[str, Any] = {f"{part} series": n for part, n in repeats.items() if part in parts}
    if "speed" in parts:
        found["speed"] = time_a_million()
    with ProcessPoolExecutor(workers) as pool:
        waiting: dict[str, dict[tuple[str, ...], Future[Any]]] = {part: {} for part in PARTS}
        if "nab" in parts:
            waiting["nab"] = {(name,): pool.submit(judge_nab, name) for name in METHODS}
        if "planted" in parts:
            pairs = [(kind, name) for kind in KINDS for name in PLANTS]
            waiting["planted"] = {pair: pool.submit(judge_planted, *pair, planted) for pair in pairs}
        if "clean" in parts:
            series = [(name, n) for n in LENGTHS for name in FAMILIES]
            waiting["clean"] = {
                (name, str(n)): pool.submit(count_false, name, n, clean) for name, n in series
            }
        for part, each in waiting.items():
            if each:
                found[part] = [[*key, future.result()] for key, future in each.items()]
    return found


def page(found: dict[str, Any]) -> None:
    """Write the tables of what was measured."""
    parts = []
    if "clean" in found:
        counts = {(name, int(n)): values for name, n, values in found["clean"]}
        parts.append((CLEAN.format(n=found["clean series"]), clean_table(counts)))
    if "planted" in found:
        by_kind: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        for kind, _, counted in found["planted"]:
            by_kind[kind].update(counted)
        parts.append((PLANTED.format(n=found["planted series"]), planted_table(by_kind)))
    if "nab" in found:
        outcomes = {name: [Outcome(*each) for each in values] for name, values in found["nab"]}
        parts.append((NAB, nab_table(outcomes)))
    if "speed" in found:
        parts.append((SPEED, pd.DataFrame([found["speed"]])))
    publish("events", "Events of series", parts, peers=("scipy",))


def main() -> None:
    """Measure, or write the page from what was measured."""
    asked = arguments(
        __doc__,
        "save",
        "workers",
        clean=option(10, "clean series of each family and length"),
        planted=option(5, "series of each kind and plant"),
        parts=option(list(PARTS), "what is measured"),
        kept=option([Path()], "figures that were kept: write the page from them"),
    )
    if asked.kept != [Path()]:
        found = {}
        for path in asked.kept:
            found |= json.loads(path.read_text(encoding="utf-8"))
    else:
        found = measured(asked.parts, asked.clean, asked.planted, asked.workers)
    if asked.save:
        asked.save.write_text(json.dumps(found, indent=1), encoding="utf-8")
    else:
        page(found)


CLEAN = (
    "Events in clean series, {n} of each family and length; where a quiet series is said to have 1/3 / 1 / 2.5 "
    "of them. Of a working week, 1,500 readings hold two: its second weekend is told."
)
PLANTED = (
    "Events planted in generated plants of three or four channels and 3,000 readings, {n} of each kind in each "
    "of eight plants. Seen: an event shares a tenth of both spans, or begins within 20 readings; told: as an "
    "alarm. Of those seen: the channel, the span (intersection over union at least .5) and the kind are right. "
    "False told: events told beside the planted one, in a series. A relation is changed by going on with one "
    "channel as it went some cycles ago; either channel of the pair counts as right."
)
NAB = (
    "34 open series of NAB, 50 windows, by NAB’s own score (standard profile); share of the windows found, and "
    "of the alarms that lie outside. An alarm of ours is at the reading where half of the evidence was there; "
    "the others tell a fixed number of their highest readings in each series. The method was made with a view "
    "on these series: where the list to watch ends (2.5 false events) was chosen on the first half (every second "
    "series by name), but totals over all of them were looked at. The 24 series that are not open here tell "
    "how it does on new ones."
)
SPEED = (
    "A million readings of two channels in one process and one thread. Elapsed seconds are those of a machine that "
    "may be busy with other work; CPU seconds are not touched by it."
)

if __name__ == "__main__":
    main()
