"""Positive and negative parts of what a layer adds up, for the rules that treat them differently."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from tellwhy.explainers.propagation.operations.layers import LinearMap

_BLOCK = 2**22  # weights of a fully connected layer that are copied at a time


def sign(values: Tensor, *, positive: bool) -> Tensor:
    """Positive (or negative) parts."""
    return values.clamp(min=0) if positive else values.clamp(max=0)


def signed_bias(layer: LinearMap, *, positive: bool) -> Tensor | None:
    """Positive (or negative) parts of a layer's biases."""
    return None if layer.bias is None else sign(layer.bias, positive=positive)


class _Weights(NamedTuple):
    """Signed weights: for inputs that are not negative, and for those that are (None: there are none)."""

    above: Tensor
    below: Tensor | None


@dataclass(frozen=True)
class Part:
    """The positive (or negative) part of each product x_i w_ij.

    A product is positive where both factors have the same sign. So inputs x_i ≥ 0 take the weights of the
    wanted sign, inputs below zero (where there are `some_below`) the others. Signed weights are kept from the
    way up (`total`) to the way down (`hand_down`), unless they are so many that they are made block by block.
    """

    layer: LinearMap
    x: Tensor
    positive: bool
    some_below: bool
    kept: dict[str, _Weights] = field(default_factory=dict)

    def total(self, bias: Tensor | None = None) -> Tensor:
        """P_j = Σ(x_i w_ij)⁺ + b_j, or N_j = Σ(x_i w_ij)⁻ + b_j."""
        parts = [self._total(rows, None if bias is None else bias[rows]) for rows in self._blocks()]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def hand_down(self, s: Tensor) -> Tensor:
        """Σ_j s_j w_ij over the weights that make x_i w_ij positive (or negative)."""
        blocks = self._blocks()
        handed = self._hand_down(blocks[0], s if len(blocks) == 1 else s[..., blocks[0]])
        for rows in blocks[1:]:
            handed += self._hand_down(rows, s[..., rows])
        return handed

    def _blocks(self) -> list[slice]:
        """Outputs that are taken at a time."""
        # Signed copies of a large fully connected layer would take twice its memory at once. Weights of
        # convolutions are small.
        weight = self.layer.weight
        if self.layer.name != "linear" or weight.numel() <= _BLOCK:
            return [slice(None)]
        size = max(1, _BLOCK // weight.shape[1])
        return [slice(start, start + size) for start in range(0, len(weight), size)]

    def _weights(self, rows: slice) -> _Weights:
        """Signed weights of some outputs."""
        if "all" in self.kept:
            return self.kept["all"]
        weight = self.layer.weight[rows]
        above = sign(weight, positive=self.positive)
        signed = _Weights(above, sign(weight, positive=not self.positive) if self.some_below else None)
        if rows == slice(None):
            self.kept["all"] = signed
        return signed

    def _total(self, rows: slice, bias: Tensor | None) -> Tensor:
        weights = self._weights(rows)
        if weights.below is None:
            return self.layer.forward(self.x, weights.above, bias)
        z = self.layer.forward(self.x.clamp(min=0), weights.above, bias)
        return z + self.layer.forward(self.x.clamp(max=0), weights.below)

    def _hand_down(self, rows: slice, s: Tensor) -> Tensor:
        weights = self._weights(rows)
        c = self.layer.backward(self.x, weights.above, s)
        if weights.below is None:
            return c
        return torch.where(self.x < 0, self.layer.backward(self.x, weights.below, s), c)


def part(layer: LinearMap, x: Tensor, *, positive: bool) -> Part:
    """Positive (or negative) part of the products of a layer's inputs and weights."""
    # Looking at the signs of x would make the processor wait for a GPU: there they are taken to differ.
    some_below = not layer.nonnegative and (x.is_cuda or bool((x < 0).any()))
    return Part(layer, x, positive, some_below)
