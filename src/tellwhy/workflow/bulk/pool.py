"""Blocks on several processes of this machine; a process that is killed costs its block one more try."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from tellwhy.workflow.bulk.blocks import Block
from tellwhy.workflow.bulk.explain_block import Job, explain_block
from tellwhy.workflow.bulk.parts import Record

MOST_TRIES = 3  # of a block whose process was killed, the last of them alone
_QUEUED = 2  # blocks per process that are handed out at a time

Work = Callable[[Job, Block], Record]


def run_in_pool(job: Job, blocks: Sequence[Block], n_workers: int) -> Iterator[Record]:
    """Explain blocks on some processes; records come as blocks are done.

    Where a process was killed, those that were at work are started anew, and what they had in hand is tried
    again. A block that is in hand whenever a process dies is tried alone at last: if that is killed too, its
    record says so, and the others are delivered.
    """
    tries: Counter[int] = Counter()
    left = {block.number: block for block in blocks}
    while left:
        suspects = [number for number in left if tries[number] >= MOST_TRIES - 1]
        chosen = [left[suspects[0]]] if suspects else list(left.values())
        in_hand: set[int] = set()
        try:
            for record in _one_pool(job, chosen, 1 if suspects else n_workers, in_hand):
                del left[record.number]
                yield record
        except BrokenProcessPool:
            for number in in_hand & set(left):
                tries[number] += 1
                if tries[number] >= MOST_TRIES:
                    yield killed(left.pop(number))


def killed(block: Block) -> Record:
    """The record of a block whose process never came to its end."""
    words = "; ".join(piece.words for piece in block.pieces[:3])
    why = (
        f"the process that explained it was killed {MOST_TRIES} times, the last time alone; it may need more "
        "memory than there is"
    )
    return Record(block.number, failed=[[words, why]])


def _one_pool(job: Job, blocks: Sequence[Block], n_workers: int, in_hand: set[int]) -> Iterator[Record]:
    """Explain blocks until all are done, or until a process is killed."""
    # Processes that are started anew share nothing with this one: no locks, no threads in mid-work.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
    waiting = iter(blocks)
    at_work: dict[Future[Record], int] = {}
    try:
        while True:
            while len(at_work) < _QUEUED * n_workers and (block := next(waiting, None)) is not None:
                at_work[pool.submit(explain_block, job, block)] = block.number
                in_hand.add(block.number)
            if not at_work:
                return
            done, _ = wait(at_work, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda each: at_work[each]):
                record = future.result()
                in_hand.discard(at_work.pop(future))
                yield record
    finally:
        _end(pool)


def _begin(parent: int) -> None:
    """Leave Ctrl-C to the parent; do not outlive it; and keep the memory of one block for the next."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    _keep_memory()


def _keep_memory() -> None:
    """Ask the C library to reuse the memory of large arrays; asked for anew, it is cleared each time.

    A block then takes a third of the page faults; with a worker on every core, clearing pages is what they
    wait for.
    """
    import ctypes

    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 32 * 2**20)  # M_MMAP_THRESHOLD: the largest that is allowed
        libc.mallopt(-1, 256 * 2**20)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):  # not the GNU library: it does as it likes
        return


def _die_with(parent: int) -> None:
    """Ask Linux to end this process with its parent: a killed run must not go on writing."""
    import ctypes

    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):  # another system: the pool's pipe breaks, which ends it a little later
        return
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _end(pool: ProcessPoolExecutor) -> None:
    """Stop the processes at once: what they have not finished is done again by the next run."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    for process in processes:
        process.join(timeout=10)
