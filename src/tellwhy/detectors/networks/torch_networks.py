"""Small networks trained side by side: one tensor holds the same layer of several networks.

Networks of different sizes share a stack padded to the largest; masks keep the padding silent, so that each
network learns exactly what it would have learned alone. PyTorch is imported when a function runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.score_function import Floats, Integers

Tensor = Any
Layout = Mapping[str, tuple[str, str]]  # layer -> names of its input and output axes
Sizes = Mapping[str, int]  # axis -> number of units


@dataclass
class Stack:
    """E networks of the same layout, perhaps of different sizes, in the same tensors."""

    layout: Layout
    sizes: list[Sizes]  # of each network
    weights: dict[str, Tensor]  # "<layer>.weight": (E, inputs, outputs); "<layer>.bias": (E, 1, outputs)
    masks: dict[str, Tensor]  # by axis, (E, 1, units): 1 for units in use, 0 for padding

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def device(self) -> str:
        """'cpu' or 'cuda'."""
        return str(next(iter(self.weights.values())).device.type)

    @property
    def n_weights(self) -> int:
        """Weights of all networks, padding included: the multiply-adds of one row."""
        return sum(tensor.numel() for tensor in self.weights.values())

    @property
    def widths(self) -> dict[str, int]:
        """Units on each axis, padding included."""
        return {axis: mask.shape[2] for axis, mask in self.masks.items()}

    def linear(self, layer: str, x: Tensor) -> Tensor:
        """X W + b, for x of shape (E, rows, inputs)."""
        return self.weights[f"{layer}.bias"].baddbmm(x, self.weights[f"{layer}.weight"])

    def hidden(self, layer: str, x: Tensor) -> Tensor:
        """softplus(x W + b), silent in the padding."""
        from torch.nn.functional import softplus

        return softplus(self.linear(layer, x)) * self.masks[self.layout[layer][1]]

    def bypass(self, layer: str, x: Tensor) -> Tensor:
        """X W + b of a layer that not every layout has; nothing without it."""
        return self.linear(layer, x) if layer in self.layout else 0.0

    def member(self, index: int) -> dict[str, Floats]:
        """Weights and biases of one network, without padding."""
        arrays = {}
        for layer, (inputs, outputs) in self.layout.items():
            n_in = self.sizes[index][inputs]
            n_out = self.sizes[index][outputs]
            weight = self.weights[f"{layer}.weight"][index]
            bias = self.weights[f"{layer}.bias"][index]
            arrays[f"{layer}.weight"] = weight[:n_in, :n_out].detach().cpu().double().numpy().copy()
            arrays[f"{layer}.bias"] = bias[0, :n_out].detach().cpu().double().numpy().copy()
        return arrays

    def kept(self, index: Sequence[int]) -> Stack:
        """Return some of the networks, with no more padding than they need."""
        sizes = [self.sizes[i] for i in index]
        widths = _widths(sizes)
        weights = {name: self.cut(name, tensor, index, widths) for name, tensor in self.weights.items()}
        masks = {axis: mask[list(index), :, : widths[axis]].contiguous() for axis, mask in self.masks.items()}
        return Stack(self.layout, sizes, weights, masks)

    def cut(self, name: str, tensor: Tensor, index: Sequence[int], widths: Sizes) -> Tensor:
        """Return the part of a tensor shaped like the weights `name` that belongs to some networks."""
        inputs, outputs = self.layout[name.partition(".")[0]]
        rows = widths[inputs] if name.endswith("weight") else 1
        return tensor.detach()[list(index), :rows, : widths[outputs]].clone()


def _widths(sizes: Sequence[Sizes]) -> dict[str, int]:
    return {axis: max(size[axis] for size in sizes) for axis in sizes[0]}


def new_stack(
    layout: Layout, sizes: Sequence[Sizes], rng: np.random.Generator, device: str, dtype: Any
) -> Stack:
    """Networks with weights and biases uniform in ±1/√inputs, each drawn from a stream of its own."""
    import torch

    # A stream of its own for each network: what it starts from does not depend on the other candidates.
    drawn = [
        {layer: _drawn(size[a], size[b], own) for layer, (a, b) in layout.items()}
        for size, own in zip(sizes, rng.spawn(len(sizes)), strict=True)
    ]
    widths = _widths(sizes)
    weights = {}
    for layer, (a, b) in layout.items():
        weight = np.zeros((len(sizes), widths[a], widths[b]))
        bias = np.zeros((len(sizes), 1, widths[b]))
        for e, arrays in enumerate(drawn):
            w, own_bias = arrays[layer]
            weight[e, : w.shape[0], : w.shape[1]] = w
            bias[e, 0, : w.shape[1]] = own_bias
        weights[f"{layer}.weight"] = torch.tensor(weight, dtype=dtype, device=device)
        weights[f"{layer}.bias"] = torch.tensor(bias, dtype=dtype, device=device)
    return Stack(layout, list(sizes), weights, _masks(sizes, widths, device, dtype))


def _drawn(inputs: int, outputs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    reach = 1.0 / math.sqrt(inputs)  # as PyTorch's own linear layers start
    return rng.uniform(-reach, reach, (inputs, outputs)), rng.uniform(-reach, reach, outputs)


def _masks(sizes: Sequence[Sizes], widths: Sizes, device: str, dtype: Any) -> dict[str, Tensor]:
    import torch

    used = {
        axis: [[[i < size[axis] for i in range(width)]] for size in sizes] for axis, width in widths.items()
    }
    return {axis: torch.tensor(rows, dtype=dtype, device=device) for axis, rows in used.items()}


def one_network(layout: Layout, arrays: Mapping[str, Floats], device: str, dtype: Any) -> Stack:
    """Return a stack that holds the single network of these weights and biases."""
    import torch

    weights = {}
    size = {}
    for layer, (inputs, outputs) in layout.items():
        weight = arrays[f"{layer}.weight"]
        bias = arrays[f"{layer}.bias"]
        size[inputs], size[outputs] = weight.shape
        weights[f"{layer}.weight"] = torch.tensor(weight[None], dtype=dtype, device=device)
        weights[f"{layer}.bias"] = torch.tensor(bias[None, None], dtype=dtype, device=device)
    return Stack(layout, [size], weights, _masks([size], size, device, dtype))


def with_columns_ordered(layout: Layout, arrays: Mapping[str, Floats], order: Integers) -> dict[str, Floats]:
    """Return a network that was trained on X[:, order] as one for X: its columns are put back in place."""
    back = np.argsort(order)  # the inverse of a permutation
    changed = dict(arrays)
    for layer, (inputs, outputs) in layout.items():
        if inputs == "column":
            changed[f"{layer}.weight"] = changed[f"{layer}.weight"][back]
        if outputs == "column":
            changed[f"{layer}.weight"] = changed[f"{layer}.weight"][:, back]
            changed[f"{layer}.bias"] = arrays[f"{layer}.bias"][back]
    return changed
