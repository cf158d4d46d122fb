"""Where PyTorch computes: on the device asked for, and on one thread of the processor.

Layers of a few hundred units gain little from PyTorch's own threads, and wait milliseconds for them on a busy
machine. Rows are shared out among threads of ours instead.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.optional import require


def one_thread() -> Any:
    """Return a context in which PyTorch uses one thread for what this Python thread asks it to do.

    No setting of the whole process changes.
    """
    import torch

    torch.get_num_threads()  # PyTorch sets the number of a new Python thread at the first question
    return _controller().limit(limits=1, user_api="openmp")  # OpenMP keeps the number per calling thread


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def actual_device(device: str, purpose: str = "a network") -> str:
    """Return 'cpu' or 'cuda' for 'auto'; say so where 'cuda' is asked for and there is none."""
    torch = require("torch", purpose)
    has_cuda = bool(torch.cuda.is_available())
    if device == "cuda" and not has_cuda:
        raise InvalidParameter(
            "device='cuda' was asked for, but PyTorch sees no CUDA device here. Use device='auto'."
        )
    return "cuda" if has_cuda and device != "cpu" else "cpu"
