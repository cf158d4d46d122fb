"""Options of every command: a log of what it did, and a limit on how long it may take.

A log is lines of JSON: when, which run, what, seconds since the start, memory. It holds no data: the names
of stages and of kinds of errors, no name of a file or column and no cell, unless `--log-data` asks for them.
"""

from __future__ import annotations

import _thread
import functools
import inspect
import json
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec, get_type_hints

import typer

import tellwhy
from tellwhy.core.errors import CannotWrite, TellwhyError

P = ParamSpec("P")
PANEL = "Options of every command"
LOG = logging.getLogger("tellwhy.command")

LogJson = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Append what was done to a log of JSON lines.", rich_help_panel=PANEL),
]
LogData = Annotated[
    bool,
    typer.Option("--log-data", help="Write arguments and messages to the log, too.", rich_help_panel=PANEL),
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0.001, metavar="SECONDS", help="Stop after this many seconds.", rich_help_panel=PANEL),
]


class TookTooLong(TellwhyError):
    """A command that was stopped because it took longer than it may."""


def observed(command: Callable[P, None]) -> Callable[..., None]:
    """Give a command the options `--log-json`, `--log-data` and `--timeout`."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        log_json, log_data = kwargs.pop("log_json", None), kwargs.pop("log_data", False)
        timeout = kwargs.pop("timeout", None)
        with _logged(command.__name__.removesuffix("_command"), log_json, log_data), limited(timeout):
            command(*args, **kwargs)

    own = inspect.signature(command)
    extra = {"log_json": (LogJson, None), "log_data": (LogData, False), "timeout": (Timeout, None)}
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in extra.items()
    ]
    hints = get_type_hints(command, include_extras=True)
    known = [each.replace(annotation=hints[name]) for name, each in own.parameters.items()]
    run.__signature__ = own.replace(parameters=[*known, *more])  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, **{name: kind for name, (kind, _) in extra.items()}}
    return run


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Stop what is done in this block after so many seconds."""
    if seconds is None:
        yield
        return
    is_over = threading.Event()

    def stop() -> None:
        is_over.set()
        _thread.interrupt_main()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if is_over.is_set():
            raise TookTooLong(
                f"Stopped: it took longer than the {seconds:g} s of --timeout; nothing was written."
            ) from None
        raise
    finally:
        timer.cancel()


@contextmanager
def _logged(command: str, path: Path | None, with_data: bool) -> Iterator[None]:
    if path is None:
        yield
        return
    handler = JsonLines(path, command, with_data=with_data)
    root = logging.getLogger("tellwhy")
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        LOG.info("started", extra={"data": {"arguments": sys.argv[1:]}})
        yield
        LOG.info("done")
    except BaseException as error:
        LOG.error("failed", extra={"error": type(error).__name__, "data": {"message": str(error)}})
        raise
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()


class JsonLines(logging.Handler):
    """Appends records to a file, one JSON object a line.

    Parameters
    ----------
    path
        The file; a log that is there is added to.
    command
        Name of the command.
    with_data
        Whether lines may hold arguments and messages.
    """

    def __init__(self, path: Path, command: str, *, with_data: bool = False):
        super().__init__()
        self.command = command
        self.with_data = with_data
        self.run = secrets.token_hex(8)
        self.started = time.monotonic()
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self.file = os.open(path, flags, 0o666)
        except OSError as error:
            raise CannotWrite(f"Cannot write the log {path}: {error.strerror or error}.") from error

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, at once and in one piece."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "run": self.run,
            "level": record.levelname.lower(),
            "logger": record.name,
            "command": self.command,
            "event": record.getMessage(),
            "seconds": round(time.monotonic() - self.started, 3),
            "memory_mb": memory_in_mb(),
            "version": tellwhy.__version__,
        }
        if hasattr(record, "error"):
            line["error"] = record.error
        if self.with_data and hasattr(record, "data"):
            line |= record.data
        try:
            os.write(self.file, (json.dumps(line) + "\n").encode())
        except OSError:  # a full disk must not end the work that the log is about
            self.handleError(record)

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)
        super().close()


def memory_in_mb() -> float | None:
    """Return the memory that this process holds now; None where the system does not say.

    Examples
    --------
    >>> (memory_in_mb() or 1) > 0
    True
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
    except (OSError, ValueError, IndexError, AttributeError):
        return None
