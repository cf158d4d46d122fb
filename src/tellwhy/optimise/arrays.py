"""Arrays where the work is done: numpy's on the processor, PyTorch's on a graphics card.

Code that serves both calls what the two libraries spell alike through `namespace(x)`, and what they spell
differently through the functions below. PyTorch is imported only where its tensors are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tellwhy.core.score import Floats

Array = Any  # numpy array or tensor
SHARE_OF_FREE_MEMORY = 0.25


@dataclass(frozen=True)
class Space:
    """Where arrays are: numpy's for `device` None, else tensors on that device of PyTorch.

    Examples
    --------
    >>> HOST.array(np.zeros(2)), HOST.room(64)
    (array([0., 0.]), 64)
    """

    device: str | None = None

    @property
    def is_host(self) -> bool:
        """Whether arrays are numpy's."""
        return self.device is None

    def array(self, x: Any) -> Array:
        """Return an array of numpy as one of this space; float64 and bool stay what they are."""
        if self.is_host:
            return np.asarray(x)
        import torch

        return torch.tensor(np.ascontiguousarray(x), device=self.device)

    def room(self, on_host: int) -> int:
        """Bytes that a batch may take: those given for numpy, a share of what is free on a graphics card."""
        if self.is_host or self.device == "cpu":
            return on_host
        import torch

        free, _ = torch.cuda.mem_get_info(self.device)
        # PyTorch keeps memory that it no longer uses; the card counts it as taken.
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return max(on_host, int(SHARE_OF_FREE_MEMORY * (free + unused)))


HOST = Space()


def on_host(x: Array) -> Floats:
    """Return an array as numpy's."""
    return x if isinstance(x, np.ndarray) else np.asarray(x.detach().cpu().numpy())


def find_namespace(x: Array) -> ModuleType:
    """Return the library that an array belongs to."""
    if isinstance(x, np.ndarray):
        return np
    import torch

    return torch


def copy_array(x: Array) -> Array:
    """Return a copy."""
    return x.copy() if isinstance(x, np.ndarray) else x.clone()


def filled(like: Array, shape: tuple[int, ...], value: Any) -> Array:
    """Return an array of one value and of its type (float, bool or int), placed like another array."""
    if isinstance(like, np.ndarray):
        # Zeros cost nothing until they are written to: the system hands out empty pages.
        return np.full(shape, value) if value else np.zeros(shape, dtype=type(value))
    import torch

    kinds = {bool: torch.bool, int: torch.int64, float: torch.float64}
    return torch.full(shape, value, dtype=kinds[type(value)], device=like.device)


def placed(like: Array, x: Any) -> Array:
    """Return numbers as an array that is placed like another one."""
    x = np.asarray(x)
    return x if isinstance(like, np.ndarray) else find_namespace(like).tensor(x, device=like.device)


def counted(like: Array, n: int) -> Array:
    """Return 0, …, n − 1, placed like another array."""
    return (
        np.arange(n) if isinstance(like, np.ndarray) else find_namespace(like).arange(n, device=like.device)
    )


def find_true_rows(mask: Array) -> Array:
    """Return where a mask is true."""
    return np.flatnonzero(mask) if isinstance(mask, np.ndarray) else mask.nonzero()[:, 0]


def joined(a: Array, b: Array) -> Array:
    """Return one array after the other."""
    return np.concatenate([a, b]) if isinstance(a, np.ndarray) else find_namespace(a).cat([a, b])


def at_least(x: Array, bound: float) -> Array:
    """Return x, and the bound where x is lower."""
    return np.maximum(x, bound) if isinstance(x, np.ndarray) else x.clamp(min=bound)


def row_dot(a: Array, b: Array) -> Array:
    """Return the scalar product of each row of a with that of b."""
    return np.einsum("ij,ij->i", a, b) if isinstance(a, np.ndarray) else (a * b).sum(1)


def find_row_largest(x: Array) -> Array:
    """Return the largest magnitude in each row."""
    return np.abs(x).max(axis=1) if isinstance(x, np.ndarray) else x.abs().amax(1)
