"""How many threads to visit batches with: all, or fewer where the others would only be waited for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tellwhy.core.score_function import Integers

TRIAL = (
    128  # one of so many batches is visited by one thread, one by two … one by all, to see which is fastest
)
TRIAL_EVERY = 8  # sweeps: while one thread is tried, all others stand still
FEWEST = 8  # trials that a sweep must be worth, or one thread does it all
TRIALS_KEPT = 2
TRIAL_ROWS = 64  # at least
TRIAL_BATCHES = 2  # at least


class ThreadChoice:
    """Whether all threads, half of them, a quarter … or one visit the batches, by what was fastest.

    Threads that have to wait for a core cost more than none. The best of the latest trials counts, as
    whatever else runs on the machine only ever makes a trial slower. Results do not depend on it.
    """

    def __init__(self, n_threads: int, rows_a_batch: int = 1):
        # Seconds per batch of the latest trials, by number of threads.
        self.seconds: dict[int, deque[float]] = {}
        while n_threads > 1:
            self.seconds[n_threads] = deque(maxlen=TRIALS_KEPT)
            n_threads //= 2
        self.seconds[1] = deque(maxlen=TRIALS_KEPT)
        self.least = max(TRIAL_ROWS // rows_a_batch, TRIAL_BATCHES)
        self.sweeps = 0

    def share(self, order: Integers, visit: Callable[[Integers, int], Any]) -> None:
        """Call `visit(batches, number of threads)` for consecutive parts of the batches."""
        if len(order) < FEWEST * self.least:
            visit(order, 1)
            return
        trial = max(len(order) // TRIAL, self.least)
        first = 0
        if self.sweeps % TRIAL_EVERY == 0:
            # One thread first, as a first call may have to compile; then the others find it compiled.
            for n in sorted(self.seconds):
                self._time(order[first : first + trial], n, visit)
                first += trial
        self.sweeps += 1
        visit(order[first:], min(self.seconds, key=lambda n: min(self.seconds[n])))

    def _time(self, part: Integers, n: int, visit: Callable[[Integers, int], Any]) -> None:
        started = time.perf_counter()
        visit(part, n)
        self.seconds[n].append((time.perf_counter() - started) / len(part))
