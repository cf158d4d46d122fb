"""PyTorch on one thread of the processor, without changing any setting of the process.

Layers of a few hundred units gain little from PyTorch's own threads, and wait milliseconds for them on a busy machine.
Rows are shared out among threads of ours instead.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:
    """Context in which this Python thread's PyTorch operations use one thread; other threads keep theirs."""
    import torch

    torch.get_num_threads()  # PyTorch sets the number of a new Python thread at the first question
    return _controller().limit(limits=1, user_api="openmp")  # OpenMP keeps the number per calling thread


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
