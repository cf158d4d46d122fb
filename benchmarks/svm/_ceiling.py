"""What threads of this machine gain where they share nothing and never wait: no solver can gain more."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.compiled import njit

FEATURES, CLASSES = 20_000, 1_000  # weights of the generated documents
ROWS_READ = 200_000
ROUNDS = 1_000_000
REPEATS = 3


@njit(nogil=True)
def _read(rows, weights, sums):
    for f in rows:
        w = weights[f]
        for c in range(len(sums)):
            sums[c] += 0.5 * w[c]


@njit(nogil=True)
def _compute(rounds, sums):
    for k in range(rounds):
        for c in range(len(sums)):
            sums[c] = 0.5 * sums[c] + k


def _seconds(n: int, work: Any) -> float:
    """The best time of n threads that each call work(t)."""
    taken = []
    with ThreadPoolExecutor(n) as pool:
        for _ in range(REPEATS + 1):  # the first one compiles
            started = time.perf_counter()
            list(pool.map(work, range(n)))
            taken.append(time.perf_counter() - started)
    return min(taken)


def ceiling(counts: list[int]) -> pd.DataFrame:
    """Times faster of arithmetic inside a core's cache, and of reading rows of weights in no order."""
    weights = np.zeros((FEATURES, CLASSES))
    weights[:] = 1.0
    order = np.random.default_rng(0).integers(0, FEATURES, ROWS_READ)
    found: list[dict[str, float]] = []
    for n in counts:
        parts = np.array_split(order, n)
        sums = np.zeros((n, 2 * CLASSES))[:, :CLASSES]  # no two threads write to the same cache line
        reading = _seconds(n, lambda t, parts=parts, sums=sums: _read(parts[t], weights, sums[t]))
        computing = _seconds(n, lambda t, n=n, sums=sums: _compute(ROUNDS // n, sums[t]))
        found.append({"threads": n, "s of arithmetic": computing, "s of reading": reading})
    table = pd.DataFrame(found)
    table["times faster, arithmetic"] = table["s of arithmetic"].iloc[0] / table["s of arithmetic"]
    table["times faster, reading"] = table["s of reading"].iloc[0] / table["s of reading"]
    return table
