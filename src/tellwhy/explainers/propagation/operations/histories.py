"""Tensors with a history: what activations are computed from, for explanations that can be differentiated.

PyTorch's autograd remembers one way down for each tensor. That of an activation is the method's, by which
relevance travels. How the activation itself depends on the input and on the parameters is therefore kept with
a second tensor of the same values: its history.
"""

from __future__ import annotations

from torch import Tensor


class Histories:
    """The tensor with a history that each activation stands for, and the constants made from parameters."""

    def __init__(self) -> None:
        # Activations are kept as well: an id must not be given to another tensor meanwhile.
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}
        self._constants: dict[int, Tensor] = {}

    def keep(self, activation: Tensor, remembered: Tensor) -> Tensor:
        """Let an activation stand for a tensor with a history; return the activation."""
        self._kept[id(activation)] = (activation, remembered)
        return activation

    def keep_constant(self, tensor: Tensor) -> Tensor:
        """Remember that a tensor was made from parameters alone; return it."""
        self._constants[id(tensor)] = tensor
        return tensor

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether a tensor is known to be made from parameters alone."""
        return id(tensor) in self._constants

    def of(self, tensor: Tensor) -> Tensor:
        """Return the tensor with a history; a parameter or another constant has its own."""
        kept = self._kept.get(id(tensor))
        return tensor if kept is None else kept[1]

    def clear(self) -> None:
        """Let go of everything: activations hold their way down, which holds this."""
        self._kept.clear()
        self._constants.clear()
