"""Batches that a GPU repeats as it did an earlier one, without Python in between: CUDA graphs.

Following a network's operations costs Python time, which a GPU may have to wait for: networks of many small
operations, such as ResNet50. It is the same for every batch of the same shape, so one batch is recorded and
later ones only exchange its input. Where the GPU has enough to do (VGG16, ViT) nothing would be gained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn import Module

from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs

Work = Callable[[Inputs, Sequence[Any]], list[Result]]  # rows of a batch and their targets -> results
N_PLAIN = 3  # batches that run as ever, and tell how long they take
# Recording one takes about 100 ms, which repeating wins back at 8 ms a batch (ResNet50 on an H200).
LEAST_BATCHES = 24
SLOW = 0.85  # of the GPU's time


class Recording:
    """One run of `work` on a GPU that can be repeated on other rows of the same shape."""

    def __init__(self, work: Work, rows: Inputs, targets: Sequence[Any]):
        self.rows = replace(rows, tensors=tuple(t.clone() for t in rows.tensors))
        device = rows.tensors[0].device
        # What a recorded run needs is kept apart from the free memory of earlier ones.
        if torch.cuda.mem_get_info(device)[0] < torch.cuda.memory_reserved(device):
            torch.cuda.empty_cache()
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            # Other threads may go on copying results: only this one is watched for what cannot be recorded.
            self.graph.capture_begin(capture_error_mode="thread_local")
            try:
                self.results = work(self.rows, targets)
            finally:
                self.graph.capture_end()
        torch.cuda.current_stream(device).wait_stream(stream)

    def again(self, rows: Inputs) -> list[Result]:
        """Results of other rows, in the memory of the first ones: they are to be copied before the next."""
        for room, given in zip(self.rows.tensors, rows.tensors, strict=True):
            room.copy_(given)
        self.graph.replay()
        return self.results


class Repeated:
    """`work`, which is recorded and repeated where the GPU has to wait for Python.

    Three full batches run as ever. Where Python then turns out to need as long as the GPU, the fourth is
    recorded, and this one and all later ones are repeated. The recording must give for the third batch what
    the plain run gave: a model that looks at values on the way, or changes from call to call, is run as ever.

    Parameters
    ----------
    work
        Explains a batch.
    batch_size
        Rows of a full batch.
    record
        Makes a recording.
    clock
        Tells how long batches take.
    """

    def __init__(
        self, work: Work, batch_size: int, record: Callable[..., Any] = Recording, clock: Any = None
    ):
        self._work = work
        self._size = batch_size
        self._record = record
        self._clock = clock or Clock()
        self._n_full = 0
        self._newest: tuple[Inputs, list[Result]] | None = None
        self.recording: Any = None

    def __call__(self, rows: Inputs, targets: Sequence[Any]) -> list[Result]:
        """Results of a batch."""
        if len(rows) != self._size:
            return self._work(rows, targets)
        self._n_full += 1
        if self._n_full == N_PLAIN + 1 and self._clock.python_is_slow():
            self.recording = self._recorded(rows, targets)
        if self.recording is not None:
            self._newest = None  # it has served
            again: list[Result] = self.recording.again(rows)
            return again
        if self._n_full > N_PLAIN:
            self._newest = None
            return self._work(rows, targets)
        with self._clock:
            found = self._work(rows, targets)
        self._newest = (rows, found)
        return found

    def _recorded(self, rows: Inputs, targets: Sequence[Any]) -> Any:
        """A recording that gives what the plain run gave; None where there is none."""
        assert self._newest is not None
        before, wanted = self._newest
        try:
            made = self._record(self._work, rows, targets)
            repeated = made.again(before)
        except Exception:  # whatever it is, the plain way works, or tells what is wrong
            return None
        return made if all(_alike(a, b) for a, b in zip(repeated, wanted, strict=True)) else None


class Clock:
    """How long Python, and how long a GPU, takes for each batch; nobody waits for the GPU to know."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._ends: list[Any] = []
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds.append(time.perf_counter() - self._started)
        end = torch.cuda.Event(enable_timing=True)
        end.record()
        self._ends.append(end)

    def python_is_slow(self) -> bool:
        """Whether Python took as long for the second batch as the GPU; False where the GPU lags behind."""
        if len(self._ends) < 2 or not self._ends[1].query():
            return False
        between = self._ends[0].elapsed_time(self._ends[1]) / 1000
        return self._seconds[1] > SLOW * between


def _alike(found: Result, wanted: Result) -> bool:
    """Whether two runs gave the same, but for the order of sums."""
    pairs = zip(found.tensors, wanted.tensors, strict=True)
    return all(
        bool(torch.linalg.vector_norm((a - b).double(), ord=torch.inf) <= 1e-3 * b.abs().max())
        for a, b in pairs
    )


def may_repeat(model: Module, rows: Inputs, targets: Sequence[Any], batch_size: int) -> bool:
    """Whether batches are alike: on a GPU, many, with the same target, and nobody watches the modules."""
    is_many = len(rows) // batch_size >= LEAST_BATCHES
    if not is_many or not rows.tensors[0].is_cuda or not all(isinstance(t, (str, int)) for t in targets):
        return False
    return not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
