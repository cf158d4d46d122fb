"""A motif that one channel of a long series has nowhere else: is it found, and where does the relevance fall?

Three channels, 100,000 steps; 40 samples of one channel are replaced. Three kinds of waves, each with its own motif.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from _results import publish
from scipy.signal import lfilter

from tellwhy.workflow import explain_series

LENGTH = 40


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
    first = explain_series(frame, time="t", window=LENGTH, top=3).items[0]
    spent = time.process_time() - started
    low = first.start - first.places[0].box[0]  # first row that is shown
    inside = np.zeros(first.relevance.shape, dtype=bool)
    inside[max(0, at - low) : at + LENGTH - low, channel] = True
    around = slice(max(0, at - low - LENGTH // 2), at + LENGTH + LENGTH // 2 - low)
    share = first.relevance[inside].sum() / first.relevance[around].sum()
    return {
        "seed": seed,
        "is the top anomaly": abs(first.start - at) < LENGTH,
        "is an alarm": first.is_alarm,
        "channel named": first.places[0].text == "abc"[channel],
        "share of the named channel": round(first.places[0].share, 3),
        "relevance on the right channel and time": round(float(share), 3),
        "core seconds": round(spent, 1),
    }


def wave(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """A series without anomalies."""
    noise = rng.normal(size=n)
    if kind == "sine and noise":
        return np.sin(np.arange(n) / 5) + 0.1 * noise
    if kind == "autoregressive":
        return lfilter([1.0], [1.0, -0.9], noise)
    return rng.standard_t(3, size=n) if kind == "heavy-tailed noise" else noise


def false_alarms(kind: str, n: int, repeats: int) -> dict:
    """How often a series without anomalies has an alarm, by itself and beside a reference of the same law."""
    rng = np.random.default_rng(0)
    counts = {"by itself": 0, "beside a reference": 0}
    for _ in range(repeats):
        own, other = (pd.DataFrame({"t": np.arange(n), "x": wave(kind, n, rng)}) for _ in range(2))
        for name, reference in (("by itself", None), ("beside a reference", other)):
            run = explain_series(own, time="t", window=20, top=1, n_windows=500, reference=reference)
            counts[name] += run.items[0].is_alarm
    return {"series": kind, "moments": n, "repeats": repeats, **counts}


def main() -> None:
    """Write the tables."""
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=6)
    options.add_argument("--repeats", type=int, default=20)
    asked = options.parse_args()
    motifs = [motif(seed) for seed in range(asked.seeds)]
    print(motifs, flush=True)
    kinds = ("sine and noise", "noise", "autoregressive", "heavy-tailed noise")
    alarms = [false_alarms(kind, n, asked.repeats) for n in (300, 1500) for kind in kinds]
    publish(
        "patch_series",
        "Series: a planted motif, and alarms where there is none",
        [
            (
                "A motif of 40 samples planted in one of three channels of a series of 100,000 steps. Shares are of the "
                "relevance beyond what is usual of each channel; the last one is of all of it within 20 samples of the "
                "motif.",
                pd.DataFrame(motifs),
            ),
            (
                "Series without anomalies in which some stretch is called an alarm, windows of 20, expected share of false "
                "alarms 10 %. Fewer than ten ordinary stretches give no alarms; beside a reference, heavy tails and slow "
                "wanderings give more than they should.",
                pd.DataFrame(alarms),
            ),
        ],
    )


if __name__ == "__main__":
    main()
