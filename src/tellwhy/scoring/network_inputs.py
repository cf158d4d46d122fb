"""What a network is applied to: one array, several by place or by name, tokens among them.

Gradients are taken by numbers. Tokens are not numbers but places in a table of vectors: what can be moved is
the vector that the network's embedding puts in the place of each token.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding, Module

from tellwhy.core.errors import InvalidInput


def check_one_a_row(model: Module, outputs: Any, n_rows: int) -> Any:
    """Return what a network gave for some rows; refuse a tensor that is not one output for each of them."""
    if isinstance(outputs, Tensor) and (outputs.ndim == 0 or outputs.shape[0] != n_rows):
        raise InvalidInput(
            f"{type(model).__name__} returns a tensor of shape {tuple(outputs.shape)} for "
            f"{n_rows} row{'' if n_rows == 1 else 's'}; expected one output for each row, rows first. Leave "
            "out what sums or averages over rows, or wrap the network in a module that puts rows first."
        )
    return outputs


@dataclass(frozen=True, eq=False)
class Place:
    """Where an input enters as numbers: itself, the vectors of an embedding, or nowhere (None)."""

    shape: tuple[int, ...] | None
    embedding: Embedding | None = None

    @property
    def size(self) -> int:
        """Numbers per row."""
        return 0 if self.shape is None else int(np.prod(self.shape))


def places(model: Module, rows: Inputs) -> list[Place]:
    """Return for each input where it enters as numbers; whole numbers are looked for among embeddings."""
    met: list[tuple[Embedding, Tensor]] = []
    handles = [
        module.register_forward_pre_hook(lambda m, inputs: met.append((m, inputs[0].detach())))
        for module in model.modules()
        if isinstance(module, Embedding)
    ]
    try:
        with torch.no_grad():
            rows.rows(slice(2)).apply(model)
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


@dataclass(frozen=True)
class Inputs:
    """Arguments of a model's forward, rows first in each.

    Attributes
    ----------
    tensors
        The arguments.
    names
        Their keywords, where they were given by name.
    alone
        Whether there is one argument, given as it is and not in a tuple.
    nonnegative
        Which of them are known to have no negative element.
    """

    tensors: tuple[Tensor, ...]
    names: tuple[str, ...] = ()
    alone: bool = True
    nonnegative: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.tensors[0])

    def apply(self, model: Module, tensors: Sequence[Tensor] | None = None) -> Any:
        """Apply the model to tensors in place of these; to copies of these, as it may work in place."""
        if tensors is None:
            tensors = [t.clone() for t in self.tensors]
        outputs = model(**dict(zip(self.names, tensors, strict=True))) if self.names else model(*tensors)
        return check_one_a_row(model, outputs, tensors[0].shape[0])

    def rows(self, part: slice | Tensor) -> Inputs:
        """Some of the rows."""
        return replace(self, tensors=tuple(t[part] for t in self.tensors))

    def take(self, numbers: Any) -> Inputs:
        """Rows by their numbers."""
        index = torch.as_tensor(np.asarray(numbers), dtype=torch.long, device=self.tensors[0].device)
        return self.rows(index)

    def to(self, device: torch.device) -> Inputs:
        """The same on a device."""
        return replace(self, tensors=tuple(t.to(device) for t in self.tensors))

    def like_given(self, parts: list[Any]) -> Any:
        """One part per input, in the form the inputs came in: alone, in a tuple, or by name."""
        if self.alone:
            return parts[0]
        return dict(zip(self.names, parts, strict=True)) if self.names else tuple(parts)

    def given(self, x: Any) -> list[Any]:
        """Each input as it was given."""
        if self.alone:
            return [x]
        return [x[name] for name in x] if self.names else list(x)

    @property
    def words(self) -> str:
        """Shapes and types, for messages."""
        listed = [f"shape {tuple(t.shape)} and dtype {t.dtype}" for t in self.tensors]
        return f"x of {listed[0]}" if self.alone else "inputs of " + "; ".join(listed)


def read_inputs(x: Any, dtype: torch.dtype | None, *, converts: bool = False) -> Inputs:
    """Read x: an array, a tuple of arrays, or a mapping from names of arguments to arrays.

    `dtype` is the type of the model's weights. Arrays of floats take it, as numpy makes doubles of
    everything; tensors, whose type somebody chose, take it where the caller `converts`.
    """
    inputs = _read(x, dtype, converts)
    # Asked once here, for all rows: rules that part signs then need not look at every batch.
    return replace(inputs, nonnegative=tuple(bool((t >= 0).all()) for t in inputs.tensors))


def _read(x: Any, dtype: torch.dtype | None, converts: bool) -> Inputs:
    def rows(value: Any, what: str) -> Tensor:
        return _as_rows(value, dtype, what, converts)

    if isinstance(x, Mapping):
        names = tuple(str(name) for name in x)
        return _several([rows(value, repr(name)) for name, value in x.items()], names)
    if isinstance(x, tuple) and x and all(isinstance(value, (Tensor, np.ndarray)) for value in x):
        return _several([rows(value, f"input {k}") for k, value in enumerate(x)], ())
    if isinstance(x, list) and x and all(isinstance(value, Tensor) for value in x):
        raise InvalidInput(
            "x is a list of tensors: give several inputs of a model as a tuple, and rows as one tensor "
            "(torch.stack)."
        )
    return Inputs((rows(x, "x"),))


def _several(tensors: list[Tensor], names: tuple[str, ...]) -> Inputs:
    if not tensors:
        raise InvalidInput("There is no input: x is an empty mapping.")
    lengths = [len(t) for t in tensors]
    if len(set(lengths)) > 1:
        raise InvalidInput(f"The inputs have different numbers of rows: {lengths}.")
    return Inputs(tuple(tensors), names, alone=False)


def _as_rows(x: Any, dtype: torch.dtype | None, what: str, converts: bool) -> Tensor:
    """Input as a tensor (n, *shape); arrays of floats take the model's type."""
    rows = x.detach() if isinstance(x, Tensor) else _make_tensor(x, what)
    if rows.ndim < 2 or 0 in rows.shape:
        raise InvalidInput(
            f"{what} must have rows first, then the shape of one input, none of them empty. Got shape "
            f"{tuple(rows.shape)}; add the rows' axis of a single input with x[None]."
        )
    if rows.is_complex():
        raise InvalidInput(f"{what} holds complex numbers: give real and imaginary parts as two channels.")
    if not rows.is_floating_point():
        return rows
    if dtype is not None and rows.dtype != dtype:
        if isinstance(x, Tensor) and not converts:
            raise InvalidInput(
                f"{what} has dtype {rows.dtype}, the model's weights have {dtype}: use x.to({dtype})."
            )
        rows = rows.to(dtype)
    if not bool(torch.isfinite(rows).all()):
        row = int((~torch.isfinite(rows)).flatten(1).any(dim=1).nonzero()[0])
        raise InvalidInput(f"{what} is not finite in row {row}. Fill in missing values first.")
    return rows


def _make_tensor(x: Any, what: str) -> Tensor:
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{what} holds values of dtype {array.dtype}; expected real numbers.")
    return torch.as_tensor(np.require(array, requirements=["C", "W"]))  # torch shares no other memory


def readable(x: Any) -> Any:
    """What was explained, as numpy can read it: the same object where it can already."""
    if not isinstance(x, Tensor):
        return x
    if x.device.type != "cpu":
        return OnDevice(x.detach())
    if not x.requires_grad and x.dtype != torch.bfloat16:
        return x
    data = x.detach()
    return data.float() if data.dtype == torch.bfloat16 else data


@dataclass(frozen=True, eq=False)
class OnDevice:
    """Rows that stay on their device, and come to the main memory when somebody reads them."""

    tensor: Tensor

    def __len__(self) -> int:
        return len(self.tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        return tuple(self.tensor.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        here = self.tensor.cpu()
        here = here.float() if here.dtype == torch.bfloat16 else here
        return here.numpy() if dtype is None else here.numpy().astype(dtype)

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(self)[index]
