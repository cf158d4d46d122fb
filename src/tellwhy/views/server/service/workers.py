"""Processes of a service: one that watches, and those that answer; one that dies is replaced.

The watching process holds the socket, which all share, and loads nothing of what the others do. Requests that
a process had accepted when it was killed end with a closed connection; the rest answer all others.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from threadpoolctl import threadpool_limits

from tellwhy.core.errors import TellwhyError
from tellwhy.views.server.http import SECONDS_TO_END, serve
from tellwhy.views.server.service.limits import Limits

SHARED = "PROMETHEUS_MULTIPROC_DIR"
SHORT_LIFE = 5.0  # seconds; a process that dies sooner is started again only a few times
MOST_SHORT_LIVES = 5
_LOOK = 0.1  # seconds between two looks at the processes
_GIL_SECONDS = 0.0005  # a thread that computes lets the one that answers in after so long


@dataclass(frozen=True)
class Setup:
    """What a process of the service is told."""

    models: Mapping[str, str]
    host: str
    key_file: str | None = None
    limits: Limits = field(default_factory=Limits)
    quiet: bool = False

    def words(self) -> str:
        """The same as JSON, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_words(cls, words: str) -> Setup:
        """What `words` wrote."""
        told = json.loads(words)
        return cls(**{**told, "limits": Limits(**told["limits"])})


def answer(setup: Setup, place: socket.socket, ready: Callable[[str], None] | None = None) -> None:
    """Answer requests in this process, until it is told to stop."""
    from tellwhy.views.server.service.app import make_service
    from tellwhy.views.server.service.counts import log_as_json
    from tellwhy.views.server.service.keys import read_keys
    from tellwhy.views.server.service.shelf import Shelf

    sys.setswitchinterval(_GIL_SECONDS)
    threadpool_limits(1, user_api="blas")  # for good: requests in threads share the cores
    log_as_json(quiet=setup.quiet)
    keys = None if setup.key_file is None else read_keys(Path(setup.key_file))
    shelf = Shelf({name: Path(path) for name, path in setup.models.items()})
    app = make_service(shelf, setup.limits, keys, host=setup.host)
    serve(app, place, ready=ready, most_at_once=1_000)  # connections; work has a queue of its own


def main() -> None:
    """Be one of the processes: what to do and the numbers of the socket and a pipe stand in the arguments."""
    setup = Setup.of_words(sys.argv[1])
    place = socket.socket(fileno=int(sys.argv[2]))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        answer(setup, place, lambda _: _tell_ready(int(sys.argv[3])))
    except TellwhyError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


def _tell_ready(pipe: int) -> None:
    os.write(pipe, b".")
    os.close(pipe)


def _end_with_parent(parent: int) -> None:
    """Stop in good order where the watching process is gone: nobody would stop this one."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    pipe: int  # it writes here once it answers
    started: float


class Watch:
    """The watching process: as many others as were asked for, whatever happens to them."""

    def __init__(self, setup: Setup, place: socket.socket, n: int) -> None:
        self.setup = setup
        self.place = place
        self.n = n
        self.is_ending = False
        self.children: list[_Child] = []
        self._short_lives = 0
        self._folder = tempfile.mkdtemp(prefix="tellwhy-counts-")

    def run(self, ready: Callable[[], None]) -> int:
        """Watch until SIGINT or SIGTERM; return the exit status."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        signal.signal(signal.SIGHUP, self._pass_on)
        try:
            self.children = [self._start() for _ in range(self.n)]
            if self._wait_until_ready():
                ready()
            while not self.is_ending and self._short_lives < MOST_SHORT_LIVES:
                time.sleep(_LOOK)
                self._replace()
            return 0 if self.is_ending else 1
        finally:
            self._stop_all()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> _Child:
        reader, writer = os.pipe()
        words = [sys.executable, "-m", __name__, self.setup.words(), str(self.place.fileno()), str(writer)]
        process = subprocess.Popen(
            words, pass_fds=(self.place.fileno(), writer), env={**os.environ, SHARED: self._folder}
        )
        os.close(writer)
        return _Child(process, reader, time.monotonic())

    def _wait_until_ready(self) -> bool:
        """Whether all answer; False where one ended instead."""
        waiting = {child.pipe for child in self.children}
        while waiting and not self.is_ending:
            readable = select.select(list(waiting), [], [], _LOOK)[0]
            if any(not os.read(pipe, 1) for pipe in readable):
                return False  # the pipe was closed: its process has ended
            waiting -= set(readable)
        return not waiting

    def _replace(self) -> None:
        """Start another process for each that has ended."""
        for at, child in enumerate(self.children):
            status = child.process.poll()
            if status is None or self.is_ending:
                continue
            if time.monotonic() - child.started < SHORT_LIFE:
                self._short_lives += 1
            print(json.dumps({"event": "worker_ended", "status": status}), file=sys.stderr, flush=True)
            self._forget(child)
            self.children[at] = self._start()

    def _forget(self, child: _Child) -> None:
        """Close what was kept for a process, and what it counted as being in work."""
        os.close(child.pipe)
        for path in Path(self._folder).glob(f"gauge_live*_{child.process.pid}.db"):
            path.unlink(missing_ok=True)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.is_ending = True

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        for child in self.children:
            child.process.send_signal(number)

    def _stop_all(self) -> None:
        """Let all finish what they accepted."""
        for child in self.children:
            child.process.terminate()
        until = time.monotonic() + SECONDS_TO_END + 5
        for child in self.children:
            try:
                child.process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()


if __name__ == "__main__":
    main()
