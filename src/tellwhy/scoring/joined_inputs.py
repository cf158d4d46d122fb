"""A network of several inputs as one of flat rows, for methods that change cells and ask again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.network_inputs import Inputs, read_inputs, readable


class JoinedInputs(Module):
    """The same network, of rows that hold all its inputs side by side.

    Examples
    --------
    >>> class Product(Module):
    ...     def forward(self, a, b):
    ...         return (a * b).sum(dim=1, keepdim=True)
    >>> joined = Joined.of(Product().eval(), (np.ones((1, 2)), np.array([[3.0, 4.0]])))
    >>> joined.flat, joined.network(torch.from_numpy(joined.flat)).item()
    (array([[1., 1., 3., 4.]]), 7.0)
    """

    def __init__(self, network: Module, inputs: Inputs):
        super().__init__()
        self.network = network
        self.inputs = inputs.rows(slice(1))
        self.training = network.training

    def forward(self, flat: Tensor) -> Any:
        """Return what the network gives for flat rows."""
        parts = []
        start = 0
        for like in self.inputs.tensors:
            size = like[0].numel()
            part = flat[:, start : start + size].reshape(len(flat), *like.shape[1:])
            parts.append(part.to(like.dtype) if like.is_floating_point() else part.round().to(like.dtype))
            start += size
        return self.inputs.apply(self.network, parts)


@dataclass(frozen=True, eq=False)
class Joined:
    """A network of flat rows, the rows, and the inputs that they were made from."""

    network: JoinedInputs
    flat: Floats
    inputs: Inputs

    @classmethod
    def of(cls, network: Module, X: Any) -> Joined:
        """Put the inputs of a network side by side."""
        weights = next((p for p in network.parameters() if p.is_floating_point()), None)
        inputs = read_inputs(X, None if weights is None else weights.dtype)
        return cls(JoinedInputs(network, inputs), flatten(inputs), inputs)

    def flatten_like(self, X: Any, name: str) -> Floats:
        """Flat rows of other inputs of the same network."""
        inputs = read_inputs(X, None)
        if [t.shape[1:] for t in inputs.tensors] != [t.shape[1:] for t in self.inputs.tensors]:
            raise InvalidInput(
                f"{name} holds {inputs.words}, and X {self.inputs.words}. Give both the same inputs."
            )
        return flatten(inputs)

    def join_groups(self, groups: Any) -> Any:
        """Groups of flat columns: of each input an array of group numbers, shaped like one row of it."""
        if isinstance(groups, dict):
            groups = tuple(groups[name] for name in self.inputs.names)
        if not isinstance(groups, tuple):
            return groups
        if len(groups) != len(self.inputs.tensors):
            raise InvalidParameter(
                f"groups holds {len(groups)} arrays, and the network takes {len(self.inputs.tensors)} inputs."
            )
        pairs = zip(groups, self.inputs.tensors, strict=True)
        return np.concatenate([self._spread(given, like) for given, like in pairs])

    def _spread(self, given: Any, like: Tensor) -> Integers:
        shape = tuple(like.shape[1:])
        array = np.asarray(given)
        array = array[0] if array.ndim == len(shape) + 1 and len(array) == 1 else array
        try:
            return np.broadcast_to(array, shape).astype(np.int64).ravel()
        except ValueError as error:
            raise InvalidParameter(
                f"groups has an array of shape {array.shape} for an input whose rows have shape {shape}."
            ) from error

    def split(self, found: Explanation) -> Any:
        """One explanation for each input; its base values are what the others got beside the common ones."""
        made = []
        start = 0
        whole = found.values.sum(axis=1)
        for tensor in self.inputs.tensors:
            shape = tuple(tensor.shape)
            columns = slice(start, start + int(np.prod(shape[1:])))
            start = columns.stop
            values = found.values[:, columns]
            others = whole - values.sum(axis=1) if found.kind == "attribution" else np.zeros(len(whole))
            stderr = None if found.stderr is None else found.stderr[:, columns].reshape(shape)
            made.append(
                replace(
                    found,
                    values=values.reshape(shape),
                    base_values=found.base_values + others,
                    stderr=stderr,
                    data=readable(tensor),
                    feature_names=None,
                )
            )
        return self.inputs.like_given(made)


def flatten(inputs: Inputs) -> Floats:
    """All inputs side by side, as numbers."""
    parts: Sequence[Tensor] = [t.detach().reshape(len(inputs), -1).double().cpu() for t in inputs.tensors]
    return np.asarray(torch.cat(list(parts), dim=1).numpy())
