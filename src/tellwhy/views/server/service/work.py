"""Threads that work on requests: a bounded number wait, and each has a time by which it stops."""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from tellwhy.core.progress import show_with, stage
from tellwhy.views.server.service.limits import Limits

T = TypeVar("T")
TOO_MANY = 429
TOO_LATE = 504
_WEIGHT = 0.1  # of the latest piece of work in the mean of their lengths


class Stopped(BaseException):
    """Work that nobody waits for any more; no code of ours catches it on the way."""


@dataclass
class _Job:
    """One piece of work, and when it is to stop."""

    until: float
    is_dropped: bool = False

    def look(self, *_: object) -> None:
        """Stop where the work says what it does next, if it is time."""
        if self.is_dropped or time.monotonic() > self.until:
            raise Stopped


class Bench:
    """A few threads, and a short queue before them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.n_working = 0  # or waiting for a thread
        self._mean_seconds = 0.1
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="tellwhy")

    async def do(self, function: Callable[[], T], seconds: float) -> T:
        """Do some work in a thread, and return what it gives.

        Raises
        ------
        HTTPException
            429 where too many wait already; 504 where the time is over, which stops the work.
        """
        if self.n_working >= self.limits.threads + self.limits.most_waiting:
            raise HTTPException(
                TOO_MANY,
                f"{self.n_working} requests are waiting, which is the most. Try again later.",
                {"retry-after": str(self._seconds_to_wait())},
            )
        job = _Job(time.monotonic() + seconds)
        loop = asyncio.get_running_loop()
        self.n_working += 1
        context = contextvars.copy_context()
        future = loop.run_in_executor(self._pool, context.run, self._timed, job, function)
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(future), seconds)
        except (TimeoutError, Stopped):
            raise HTTPException(
                TOO_LATE, f"There was no answer within {seconds:g} s; the work was stopped. Send fewer rows."
            ) from None
        finally:
            job.is_dropped = True

    def close(self) -> None:
        """Finish what is there, and take no more."""
        self._pool.shutdown()

    def _timed(self, job: _Job, function: Callable[[], T]) -> T:
        started = time.monotonic()
        with show_with(job.look):
            stage("beginning")
            made = function()
        self._mean_seconds += _WEIGHT * (time.monotonic() - started - self._mean_seconds)
        return made

    def _done(self, future: asyncio.Future[Any]) -> None:
        self.n_working -= 1
        if not future.cancelled():
            future.exception()  # whoever waited has gone; nobody else asks for it

    def _seconds_to_wait(self) -> int:
        return max(1, math.ceil(self.n_working * self._mean_seconds / self.limits.threads))
