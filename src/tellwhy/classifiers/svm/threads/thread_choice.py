"""How many threads to visit batches with: all, or fewer where the others would only be waited for."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tellwhy.core.score_function import Integers

# One of so many batches is visited by all threads, one by half of them …, to see which is fastest: enough
# that it does not matter how long threads take to start.
TRIAL = 16
TRIAL_EVERY = 8  # sweeps: while few threads are tried, all others stand still
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
        if self.sweeps == 0:
            visit(order[:1], 1)  # which may have to compile: those that are timed find it compiled
            first = 1
        if self.sweeps % TRIAL_EVERY == 0:
            first = self._try(order, first, trial, visit)
        self.sweeps += 1
        visit(order[first:], min(self.seconds, key=lambda n: min(self.seconds[n], default=math.inf)))

    def _try(self, order: Integers, first: int, trial: int, visit: Callable[[Integers, int], Any]) -> int:
        """Time all threads, half of them and so on while that is faster; returns the first batch left."""
        least = math.inf
        is_slower = False
        for n in sorted(self.seconds, reverse=True):
            if is_slower:  # with fewer still it would take longer still
                self.seconds[n].clear()
                continue
            started = time.perf_counter()
            visit(order[first : first + trial], n)
            taken = (time.perf_counter() - started) / trial
            self.seconds[n].append(taken)
            is_slower = taken > least
            least = min(taken, least)
            first += trial
        return first
