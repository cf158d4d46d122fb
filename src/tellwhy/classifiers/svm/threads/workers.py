"""Threads that run compiled tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

CALLS_A_THREAD = 8
CERTIFY_ROWS = 128  # examples per task of a certificate: few enough that threads end together

Task = TypeVar("Task")
Found = TypeVar("Found")


def ranges(n: int, size: int = CERTIFY_ROWS) -> list[tuple[int, int]]:
    """Consecutive ranges of at most `size`; one that is empty where n is 0."""
    return [(first, min(first + size, n)) for first in range(0, n, size)] or [(0, 0)]


class Workers:
    """Threads that run compiled tasks; with one thread, the caller does the work."""

    def __init__(self, n_threads: int):
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        if self._pool is not None:
            self._start(self._pool)

    def _start(self, pool: ThreadPoolExecutor) -> None:
        """Have all threads there from now on.

        Tasks may wait for each other, and the pool would not start a thread for each if it took one for idle.
        """
        ready = Event()  # holds each thread until the last has been started
        try:
            for _ in range(self.n_threads):
                pool.submit(ready.wait)
        finally:
            ready.set()

    def map(self, function: Callable[[Task], Found], tasks: Iterable[Task]) -> list[Found]:
        """Results of all tasks, in order.

        As many tasks as there are threads may wait for each other; of more than that, a thread does several.
        """
        if self._pool is None:
            return [function(task) for task in tasks]
        every = list(tasks)
        # To hand over a small task takes longer than to do it.
        size = max(len(every) // (CALLS_A_THREAD * self.n_threads), 1)
        calls = [every[first:last] for first, last in ranges(len(every), size)]
        found = self._pool.map(lambda some: [function(task) for task in some], calls)
        return [result for results in found for result in results]

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
