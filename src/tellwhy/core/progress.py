"""Progress of long computations, shown only when they take longer than two seconds.

Computing code wraps its loop in `track(...)` and names what it is doing with `stage(...)`. What is shown is
decided elsewhere: by default one line on stderr when that is a terminal; the command line puts its own
display in place with `show_with`. The logger `tellwhy.stages` is told each stage, in words without data.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
Display = Callable[[str, int, int], None]  # label, steps done, steps in all (0: not known)

LOG = logging.getLogger("tellwhy.stages")
QUIET_SECONDS = 2.0
_REFRESH_SECONDS = 0.1


def _write_line_on_stderr(label: str, done: int, total: int) -> None:
    if sys.stderr.isatty() or in_notebook():
        write_line(label, done, total)


def in_notebook() -> bool:
    """Whether this runs in a notebook, which shows stderr below the cell although it is no terminal."""
    return "ipykernel" in sys.modules and hasattr(sys.modules.get("IPython"), "get_ipython")


def write_line(label: str, done: int, total: int) -> None:
    """Write one line to stderr, over the one before."""
    if total == 0:
        return
    filled = int(30 * done / max(total, 1))
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r{label} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}{end}")
    sys.stderr.flush()


_display: ContextVar[Display] = ContextVar("tellwhy_progress_display", default=_write_line_on_stderr)


@contextmanager
def show_with(display: Display) -> Iterator[None]:
    """Show progress through `display(label, done, total)` inside this block."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


@contextmanager
def shown(progress: bool | None) -> Iterator[None]:
    """Show progress inside this block, or do not; None: as it was decided outside."""
    if progress is None:
        yield
        return
    with show_with(write_line if progress else (lambda *_: None)):
        yield


def silently(function: Callable[..., T]) -> Callable[..., T]:
    """Return the function made to show no progress: for threads, whose caller counts the steps."""

    @wraps(function)
    def quiet(*arguments: object) -> T:
        with show_with(lambda *_: None):
            return function(*arguments)

    return quiet


def track(steps: Iterable[T], total: int, label: str | Callable[[], str]) -> Iterator[T]:
    """Yield the steps, telling the display after each one once two seconds have passed.

    A label that changes on the way, such as one with the accuracy so far, is given as a function.
    """
    started = time.monotonic()
    shown_at = 0.0
    display = _display.get()  # once, because a generator may be advanced in another context later
    for done, step in enumerate(steps, start=1):
        yield step
        now = time.monotonic()
        is_last_of_shown = done == total and shown_at > 0
        if is_last_of_shown or (now - started > QUIET_SECONDS and now - shown_at > _REFRESH_SECONDS):
            display(label() if callable(label) else label, done, total)
            shown_at = now


def stage(label: str, about: object = "") -> None:
    """Name what is being done now, for work that has no steps to count.

    What it is about (a file, a method) is shown beside it, and is not in the log of `tellwhy.stages`.
    """
    LOG.info(label)
    _display.get()(f"{label} {about}".rstrip(), 0, 0)
