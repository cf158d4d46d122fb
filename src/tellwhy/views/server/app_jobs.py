"""Work that takes longer than an answer: one piece at a time, with its progress, which can be ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter, TellwhyError
from tellwhy.core.progress import show_with
from tellwhy.views.server.http import LOG


class Cancelled(BaseException):
    """Somebody ended the work; no handler of errors takes it for one."""


@dataclass
class Job:
    """A piece of work.

    Attributes
    ----------
    words
        What it is.
    stage
        What it is doing.
    done, total
        Steps; 0 in all where their number is not known.
    state
        "running", "done", "failed" or "cancelled".
    error
        Why it failed.
    folder
        What it made.
    """

    words: str
    stage: str = "starting"
    done: int = 0
    total: int = 0
    state: str = "running"
    error: str = ""
    folder: Path | None = None
    is_unwanted: bool = False

    def told(self) -> dict[str, Any]:
        """What the page shows."""
        named = ("words", "stage", "done", "total", "state", "error")
        return {name: getattr(self, name) for name in named}

    def show(self, label: str, done: int, total: int) -> None:
        """Take note of progress; end here where somebody wanted it."""
        if self.is_unwanted:
            raise Cancelled
        self.stage = label
        self.done = done
        self.total = total


class Jobs:
    """The work of one server: one piece at a time."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self.job: Job | None = None

    def start(self, words: str, make: Callable[[], Path], finish: Callable[[Path], None]) -> Job:
        """Begin a piece of work in a thread; `finish` takes what it made."""
        with self._alone:
            if self.job is not None and self.job.state == "running":
                raise InvalidParameter(f"Something is being done already: {self.job.words}. Wait, or end it.")
            self.job = job = Job(words)
        threading.Thread(target=_run, args=(job, make, finish), daemon=True).start()
        return job

    def cancel(self) -> None:
        """End the work that is being done, at its next step."""
        if self.job is not None:
            self.job.is_unwanted = True


def _run(job: Job, make: Callable[[], Path], finish: Callable[[Path], None]) -> None:
    try:
        with show_with(job.show):
            folder = make()
            job.show("opening", 0, 0)
            finish(folder)
        job.folder = folder
        job.state = "done"
    except Cancelled:
        job.state = "cancelled"
    except TellwhyError as error:
        job.error = str(error)
        job.state = "failed"
    except Exception:
        LOG.exception("Failed: %s", job.words)
        job.error = "Something went wrong; the server's log says what."
        job.state = "failed"
