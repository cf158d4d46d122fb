"""Batches of rows in threads, torch devices.

Row batches under a memory limit, and a thin layer over joblib's threads.

Where PyTorch computes: on the device asked for, and on one thread of the processor.

Layers of a few hundred units gain little from PyTorch's own threads, and wait milliseconds for them on a busy
machine. Rows are shared out among threads of ours instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController, threadpool_limits

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.optional import require
from tellwhy.core.progress import silently, track

NETWORK_BATCH = 32  # rows that go through a network at once, where nobody says how many
BATCH_BYTES = 16 * 2**20
# What a core's own cache holds: cores that share the memory then seldom wait for it.
CACHED_BYTES = 2**20


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let matrix products use one thread: for work made of many small ones.

    Threads of a product that takes less than a millisecond wait for each other longer than they compute, and
    they wait by spinning: on two busy cores, explaining 569 rows took three times the processor's time.
    """
    with threadpool_limits(1, user_api="blas"):
        yield


def one_thread_for_products() -> Any:
    """Return the same context for what numpy multiplies; it takes microseconds to enter."""
    return _make_controller().limit(limits=1, user_api="blas")


@cache
def _make_controller() -> ThreadpoolController:
    return ThreadpoolController()


def cut_batches(n_rows: int, bytes_per_row: int, limit: int = BATCH_BYTES) -> list[slice]:
    """Cut rows into slices whose working memory stays under the limit.

    Examples
    --------
    >>> cut_batches(5, bytes_per_row=10, limit=20)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, limit // max(bytes_per_row, 1))  # one row at least, however wide it is
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def track_batches(n_rows: int, bytes_per_row: int, label: str, limit: int = BATCH_BYTES) -> Iterator[slice]:
    """Row batches that report their progress."""
    batches = cut_batches(n_rows, bytes_per_row, limit)
    return track(batches, len(batches), label)


def n_threads(n_jobs: int | None) -> int:
    """Return how many threads a loop of our own takes; None: one per core, as -1 says."""
    return int(joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs))


def map_in_threads(
    function: Callable[..., Any], arguments: list[Any], n_jobs: int | None = None
) -> list[Any]:
    """Apply a function that releases the interpreter's lock to each argument, in threads, in order."""
    workers = min(n_threads(n_jobs), len(arguments)) if len(arguments) > 1 else 1
    if workers == 1:
        return [function(argument) for argument in arguments]
    with ThreadPoolExecutor(workers) as pool:  # joblib's own threads look for results every 10 ms only
        return list(pool.map(function, arguments))


def map_batches(function: Callable[[slice], Any], batches: list[slice], label: str) -> list[Any]:
    """Apply a function to batches of rows, in threads, showing progress.

    Batches do not depend on the number of threads, so neither do results.
    """
    return list(in_threads(function, batches, label))


def in_threads(function: Callable[[Any], Any], tasks: list[Any], label: str) -> Iterator[Any]:
    """Yield what a function gives for each task, in order, showing progress.

    Only a few results are there at any time: who adds them up needs no memory for all of them.
    """
    if len(tasks) <= 1:
        yield from map(function, tasks)
        return
    workers = joblib.effective_n_jobs(-1)
    groups = [tasks[i : i + workers] for i in range(0, len(tasks), workers)]
    quiet = silently(function)  # one display for all tasks, not one for each
    # Matrix products with threads of their own would fight ours for the cores.
    with threadpool_limits(1, user_api="blas"):
        for group in track(groups, len(groups), label):
            yield from map_in_threads(quiet, group)


def one_thread() -> Any:
    """Return a context in which PyTorch uses one thread for what this Python thread asks it to do.

    No setting of the whole process changes.
    """
    import torch

    torch.get_num_threads()  # PyTorch sets the number of a new Python thread at the first question
    return _make_torch_controller().limit(
        limits=1, user_api="openmp"
    )  # OpenMP keeps the number per calling thread


@cache
def _make_torch_controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def choose_device(device: str, purpose: str = "a network") -> str:
    """Return 'cpu' or 'cuda' for 'auto'; say so where 'cuda' is asked for and there is none."""
    torch = require("torch", purpose)
    has_cuda = bool(torch.cuda.is_available())
    if device == "cuda" and not has_cuda:
        raise InvalidParameter(
            "device='cuda' was asked for, but PyTorch sees no CUDA device here. Use device='auto'."
        )
    return "cuda" if has_cuda and device != "cpu" else "cpu"
