"""A process that runs others: when it ends, they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_GRACE = 10.0  # seconds that children have to end by themselves


def run_to_the_end(command: Sequence[str]) -> int:
    """Run a command, with its lines on stderr, and return its status; it ends when this process is ended."""
    with (
        _raised_when_terminated(),
        subprocess.Popen(command, stdout=sys.stderr, env=safe_environment()) as process,
    ):
        try:
            return process.wait()
        except BaseException:  # Ctrl-C, SIGTERM
            _end(process)
            raise


def safe_environment() -> dict[str, str]:
    """Return this process's environment, but nothing in it makes Python import from the working folder."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    named = [place for place in given if os.path.isabs(place)]  # an empty one means the working folder
    environment.pop("PYTHONPATH", None)
    return environment | ({"PYTHONPATH": os.pathsep.join(named)} if named else {})


def _end(process: subprocess.Popen[Any]) -> None:
    """End a process: by the signal that lets it end its own children, and by force if it does not."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def _raised_when_terminated() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit`: as it is, it would end this process and leave its children running."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield  # signals reach the main thread only, or somebody else has decided what this one does
        return
    signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise(number: int, frame: object) -> None:  # noqa: ARG001
    raise SystemExit(128 + number)
