"""What a network is applied to: one array, several by place or by name, tokens among them.

Gradients are taken by numbers. Tokens are not numbers but places in a table of vectors: what can be moved is
the vector that the network's embedding puts in the place of each token.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding, Module

from tellwhy.core.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class NetworkRows:
    """Arguments of a network's forward, rows first in each; `names` where they were given by name."""

    tensors: tuple[Tensor, ...]
    names: tuple[str, ...] = ()
    alone: bool = True

    @classmethod
    def of(cls, X: Any, dtype: torch.dtype) -> NetworkRows:
        """Read X: an array, a tuple of arrays, or a mapping from names of arguments to arrays."""
        if isinstance(X, Mapping):
            if not X:
                raise InvalidInput("X is an empty dict; expected the network's inputs by their names.")
            tensors = tuple(_tensor(value, dtype, repr(name)) for name, value in X.items())
            rows = cls(tensors, tuple(str(name) for name in X), alone=False)
        elif isinstance(X, tuple):
            rows = cls(tuple(_tensor(x, dtype, f"input {k}") for k, x in enumerate(X)), alone=False)
        else:
            rows = cls((_tensor(X, dtype, "X"),))
        lengths = [len(tensor) for tensor in rows.tensors]
        if len(set(lengths)) > 1:
            raise InvalidInput(f"The inputs have different numbers of rows: {lengths}.")
        return rows

    def __len__(self) -> int:
        return len(self.tensors[0])

    def first(self, n: int) -> NetworkRows:
        """The first rows."""
        return replace(self, tensors=tuple(t[:n] for t in self.tensors))

    def take(self, rows: Any) -> NetworkRows:
        """Rows by their numbers."""
        index = torch.as_tensor(np.asarray(rows), dtype=torch.long, device=self.tensors[0].device)
        return replace(self, tensors=tuple(t[index] for t in self.tensors))

    def to(self, device: torch.device) -> NetworkRows:
        """The same on a device."""
        return replace(self, tensors=tuple(t.to(device) for t in self.tensors))

    def apply(self, model: Module) -> Any:
        """Apply a network to copies of the rows: it may work in place."""
        copies = [t.clone() for t in self.tensors]
        return model(**dict(zip(self.names, copies, strict=True))) if self.names else model(*copies)

    @property
    def words(self) -> str:
        """Shapes and types, for messages."""
        listed = "; ".join(f"{tuple(t.shape)} of {t.dtype}" for t in self.tensors)
        return f"rows of shape {listed}"

    def like_given(self, parts: list[Any]) -> Any:
        """One part per input, in the form the inputs came in: alone, in a tuple, or by name."""
        if self.alone:
            return parts[0]
        return dict(zip(self.names, parts, strict=True)) if self.names else tuple(parts)


def given_parts(X: Any) -> list[Any]:
    """Each input as it was given."""
    if isinstance(X, Mapping):
        return list(X.values())
    return list(X) if isinstance(X, tuple) else [X]


def _tensor(x: Any, dtype: torch.dtype, what: str) -> Tensor:
    if isinstance(x, Tensor):
        tensor = x.detach()
    else:
        array = np.asarray(x)
        if array.dtype.kind not in "biuf":
            raise InvalidInput(f"{what} holds values of dtype {array.dtype}; expected numbers.")
        tensor = torch.as_tensor(np.array(array))
    if tensor.ndim < 2 or 0 in tensor.shape:
        raise InvalidInput(
            f"{what} must have rows first, then the shape of one input, none of them empty. Got shape "
            f"{tuple(tensor.shape)}; add the rows' axis of a single input with x[None]."
        )
    if not tensor.is_floating_point():
        return tensor
    if not bool(torch.isfinite(tensor).all()):
        row = int((~torch.isfinite(tensor)).flatten(1).any(dim=1).nonzero()[0])
        raise InvalidInput(f"{what} is not finite in row {row}. Fill in missing values first.")
    return tensor.to(dtype)


@dataclass(frozen=True, eq=False)
class Place:
    """Where an input enters as numbers: itself, the vectors of an embedding, or nowhere (None)."""

    shape: tuple[int, ...] | None
    embedding: Embedding | None = None

    @property
    def size(self) -> int:
        """Numbers per row."""
        return 0 if self.shape is None else int(np.prod(self.shape))


def places(model: Module, rows: NetworkRows) -> list[Place]:
    """Return for each input where it enters as numbers; whole numbers are looked for among embeddings."""
    met: list[tuple[Embedding, Tensor]] = []
    handles = [
        module.register_forward_pre_hook(lambda m, inputs: met.append((m, inputs[0].detach())))
        for module in model.modules()
        if isinstance(module, Embedding)
    ]
    try:
        with torch.no_grad():
            rows.first(2).apply(model)
    finally:
        for handle in handles:
            handle.remove()
    return [_place(tensor, met) for tensor in rows.tensors]


def _place(tensor: Tensor, met: list[tuple[Embedding, Tensor]]) -> Place:
    if tensor.is_floating_point():
        return Place(tuple(tensor.shape[1:]))
    for embedding, given in met:
        if given.shape == tensor[:2].shape and torch.equal(given.long(), tensor[:2].long()):
            return Place((*tensor.shape[1:], embedding.embedding_dim), embedding)
    return Place(None)


@contextmanager
def replaced(embedding: Embedding, tokens: Tensor, vectors: Tensor) -> Iterator[None]:
    """A block in which an embedding gives other vectors for these tokens; for others what it always gives.

    Only in this thread: others may ask the same network about the same tokens.
    """
    here = threading.get_ident()

    def hook(_module: Module, inputs: tuple[Any, ...], found: Tensor) -> Tensor:
        if threading.get_ident() != here:
            return found
        same = inputs[0].shape == tokens.shape and torch.equal(inputs[0].long(), tokens.long())
        return vectors if same else found

    handle = embedding.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
