"""Process pool, Ray.

Blocks on several processes of this machine; a process that is killed costs its block one more try.

Blocks as tasks of a Ray cluster: the same function as on one machine, and the same bytes.

Every machine of the cluster must see the files, the model and the folder of the run under the same names (a
network disk). A worker or a machine that dies costs its blocks one more try.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import Any

from tellwhy.bulk.blocks import Block
from tellwhy.bulk.parts import Record
from tellwhy.bulk.plan import Job
from tellwhy.core.optional import require

MOST_TRIES = 3  # of a block whose process was killed, the last of them alone
_QUEUED = 2  # blocks per process that are handed out at a time
_LONGEST_END = 10.0  # seconds in which killed processes must be gone
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from tellwhy.bulk.workers import start_workers; start_workers(int(sys.argv[1]))"
)

_Pipe = Connection  # of blocks one way, and records or errors the other
Work = Callable[[Job, Block], Record]


def run_in_pool(
    job: Job, blocks: Sequence[Block], n_workers: int, early: Starter | None = None
) -> Iterator[Record]:
    """Explain blocks on some processes; records come as blocks are done. `early` is the first to start them.

    Where a process was killed, those that were at work are started anew, and what they had in hand is tried
    again. A block that is in hand whenever a process dies is tried alone at last: if that is killed too, its
    record says so, and the others are delivered.
    """
    from tellwhy.bulk.block import explain_block

    tries: Counter[int] = Counter()
    left = {block.number: block for block in blocks}
    while left:
        suspects = [number for number in left if tries[number] >= MOST_TRIES - 1]
        chosen = [left[suspects[0]]] if suspects else list(left.values())
        in_hand: set[int] = set()
        task = _Task(job, explain_block, 1 if suspects else n_workers, os.getpid())
        first, early = early or start_starter(), None
        try:
            for record in _run_pool(first, task, chosen, in_hand):
                del left[record.number]
                yield record
        except BrokenProcessPool:
            for number in in_hand & set(left):
                tries[number] += 1
                if tries[number] >= MOST_TRIES:
                    yield record_killed(left.pop(number))
        finally:
            first.end()


def record_killed(block: Block) -> Record:
    """The record of a block whose process never came to its end."""
    words = "; ".join(piece.words for piece in block.pieces[:3])
    why = (
        f"the process that explained it was killed {MOST_TRIES} times, the last time alone; it may need more "
        "memory than there is"
    )
    return Record(block.number, failed=[[words, why]])


def _run_pool(first: Starter, task: _Task, blocks: Sequence[Block], in_hand: set[int]) -> Iterator[Record]:
    """Explain blocks until all are done, or until a process is killed."""
    waiting = iter(blocks)
    try:
        first.pipe.send(task)
        while True:
            while len(in_hand) < _QUEUED * task.n_workers and (block := next(waiting, None)) is not None:
                in_hand.add(block.number)
                first.pipe.send(block)
            if not in_hand:
                break
            found = first.pipe.recv()
            if isinstance(found, BaseException):
                raise found
            in_hand.discard(found.number)
            yield found
    except (EOFError, ConnectionError) as error:
        raise BrokenProcessPool("the process that starts the others was killed") from error
    _send_away(first)


@dataclass(frozen=True)
class Starter:
    """The process that makes the workers; what is sent to it are blocks, what comes back records."""

    process: subprocess.Popen[bytes]
    pipe: _Pipe

    def end(self) -> None:
        """End it and its workers, if it has not ended."""
        self.process.kill()
        self.process.wait()
        if not self.pipe.closed:
            _wait_for_workers(self.pipe)
            self.pipe.close()


def start_starter() -> Starter:
    """Start the process that makes the workers; until it is told its task, it loads the libraries.

    It is a program of its own and shares nothing with this process: no locks, no threads in mid-work. It does
    not run the user's script again either, as processes of `multiprocessing` do.
    """
    ours, theirs = Pipe()
    with theirs:
        return Starter(_start_process([str(theirs.fileno()), json.dumps(sys.path)], theirs.fileno()), ours)


def _send_away(first: Starter) -> None:
    """Let it end its workers itself, so that their time counts as that of this run."""
    with suppress(OSError, subprocess.TimeoutExpired):
        first.pipe.send(None)
        first.process.wait(_LONGEST_END)


def _start_process(arguments: list[str], fd: int) -> subprocess.Popen[bytes]:
    """Start it with Ctrl-C held back: this process alone is to answer it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[fd])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for_workers(pipe: _Pipe) -> None:
    """Wait until nobody holds the other end: what workers have not finished is done again by the next run."""
    until = time.monotonic() + _LONGEST_END
    try:
        while pipe.poll(max(0.0, until - time.monotonic())):
            pipe.recv_bytes()
    except (EOFError, OSError):
        return


@dataclass(frozen=True)
class _Task:
    """What the starter is told first."""

    job: Job
    work: Work
    n_workers: int
    parent: int


def start_workers(fd: int) -> None:
    """Read and learn once what every block needs; then explain blocks in copies of this process.

    Copies begin at once, where as many processes would import, read the model and learn, each for itself. And
    they share the memory of it: to get new pages is slow on many virtual machines, the more so for many
    processors at a time.
    """
    from tellwhy.bulk.block import warm_up

    pipe: _Pipe = Connection(fd)
    try:
        task: _Task = pipe.recv()
    except EOFError:  # whoever started it has ended
        return
    _prepare_worker(task.parent)
    warm_up(task.job)
    gc.freeze()  # a collection in a copy would touch, and so copy, every page
    # A copy is safe here: there are no threads yet, and libraries with their own are kept to one.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(
        task.n_workers, mp_context=context, initializer=_prepare_worker, initargs=(os.getpid(),)
    )
    answer = _Answers(pipe)
    while (block := pipe.recv()) is not None:
        try:
            pool.submit(task.work, task.job, block).add_done_callback(answer)
        except BrokenProcessPool as error:
            answer.send(error)
    _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers, which have nothing to do, and this process."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    for process in processes:
        process.kill()
    for process in processes:
        process.join(_LONGEST_END)
    os._exit(0)  # nothing is left to be tidied up, which takes Python a while


@dataclass(frozen=True, eq=False)
class _Answers:
    """Sends what became of blocks; several threads may have something to send."""

    pipe: _Pipe
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, future: Future[Record]) -> None:
        self.send(future.exception() or future.result())

    def send(self, found: Record | BaseException) -> None:
        with self.lock:
            self.pipe.send(found)


def _prepare_worker(parent: int) -> None:
    """Leave Ctrl-C to the first process; do not outlive the parent; keep one block's memory for the next."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent(parent)
    _keep_memory()


def _keep_memory() -> None:
    """Ask the C library to reuse the memory of large arrays; asked for anew, it is cleared each time.

    A block then takes a tenth of the page faults; with a worker on every core, clearing pages is what they
    wait for.
    """
    import ctypes

    import pyarrow as pa

    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(-4, 0)  # M_MMAP_MAX: no array gets pages of its own, which go back when it is freed
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: nor do those at the end of the heap
        libc.mallopt(-2, 64 * 2**20)  # M_TOP_PAD: and the heap grows in large steps
    except (OSError, AttributeError):  # not the GNU library: it does as it likes
        return
    pa.set_memory_pool(pa.system_memory_pool())


def _end_with_parent(parent: int) -> None:
    """Ask Linux to end this process with its parent: a killed run must not go on writing."""
    import ctypes

    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):  # another system: the pool's pipe breaks, which ends it a little later
        return
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


LOCAL = "local"


def run_on_ray(job: Job, blocks: Sequence[Block], address: str, n_workers: int) -> Iterator[Record]:
    """Explain blocks as Ray tasks; records come as blocks are done.

    Parameters
    ----------
    job, blocks
        What is to be done.
    address
        Of a cluster ('ray://head:10001', '10.0.0.1:6379', 'auto'), or 'local' for one on this machine.
    n_workers
        Processes of a local cluster; one elsewhere is used whole.
    """
    ray: Any = require("ray", "--ray")
    with redirect_stdout(sys.stderr):  # Ray tells of dead workers where results are printed
        _connect(ray, address, n_workers)
        try:
            yield from _collect_records(ray, job, blocks)
        finally:
            ray.shutdown()


def _connect(ray: Any, address: str, n_workers: int) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    settings: dict[str, Any] = {
        "include_dashboard": False,
        "log_to_driver": False,
        "configure_logging": False,
    }
    if address == LOCAL:
        settings["num_cpus"] = n_workers
    else:
        settings = {"address": address, "log_to_driver": False, "configure_logging": False}
    ray.init(ignore_reinit_error=True, **settings)


def _collect_records(ray: Any, job: Job, blocks: Sequence[Block]) -> Iterator[Record]:
    from tellwhy.bulk.block import explain_block

    # Tries are counted here, so that a block that kills every worker is named in the end.
    task = ray.remote(num_cpus=1, max_retries=0)(explain_block)
    waiting = list(reversed(blocks))
    tries: Counter[int] = Counter()
    at_work: dict[Any, Block] = {}
    while waiting or at_work:
        most = _QUEUED * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while waiting and len(at_work) < most:
            block = waiting.pop()
            at_work[task.remote(job, block)] = block
        done, _ = ray.wait(list(at_work), num_returns=1)
        for reference in done:
            block = at_work.pop(reference)
            try:
                yield ray.get(reference)
            except _list_deaths(ray):
                tries[block.number] += 1
                if tries[block.number] >= MOST_TRIES:
                    yield record_killed(block)
                else:
                    waiting.append(block)
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from error


def _list_deaths(ray: Any) -> tuple[type[Exception], ...]:
    """What a task raises whose worker was killed, or whose machine went, with or without its result."""
    names = (
        "WorkerCrashedError",
        "NodeDiedError",
        "LocalRayletDiedError",
        "ObjectLostError",
        "OutOfMemoryError",
    )
    return tuple(getattr(ray.exceptions, name) for name in names if hasattr(ray.exceptions, name))
