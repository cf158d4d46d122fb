"""Linear maps with weights: what a rule needs to know of a fully connected or convolutional layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

_LINEAR = ("input", "weight", "bias")
_CONVOLUTION = (*_LINEAR, "stride", "padding", "dilation", "groups")
_TRANSPOSED = (*_LINEAR, "stride", "padding", "output_padding", "groups", "dilation")


@dataclass(frozen=True)
class LinearMap:
    """z = W x + b of a layer named 'linear', 'conv2d', …, with the layer's geometry."""

    name: str
    weight: Tensor
    bias: Tensor | None
    geometry: dict[str, Any]

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """W x + b with other weights or biases."""
        function = torch.nn.functional.linear if self.name == "linear" else getattr(torch, self.name)
        return function(x, weight, bias, **self.geometry)

    def backward(self, x: Tensor, weight: Tensor, s: Tensor) -> Tensor:
        """Wᵀ s with other weights, shaped like x."""
        if self.name == "linear":
            return s @ weight
        if isinstance(self.geometry["padding"], str):  # 'same' may pad the two sides differently
            with torch.enable_grad():
                leaf = torch.zeros_like(x).requires_grad_()
                return torch.autograd.grad(self.forward(leaf, weight), leaf, s)[0]
        return self._convolution_backward(x, weight, s)

    def _convolution_backward(self, x: Tensor, weight: Tensor, s: Tensor) -> Tensor:
        n = weight.ndim - 2

        def each(value: Any) -> list[int]:
            return [value] * n if isinstance(value, int) else [*value] * (n // len(value))

        geometry = self.geometry
        return torch.ops.aten.convolution_backward(
            s,
            x,
            weight,
            None,
            each(geometry["stride"]),
            each(geometry["padding"]),
            each(geometry["dilation"]),
            "transpose" in self.name,
            each(geometry.get("output_padding", 0)),
            geometry["groups"],
            [True, False, False],
        )[0]

    def scaled(self, factor: Tensor, shift: Tensor) -> LinearMap | None:
        """factor · (W x + b) + shift per output channel, or None where the weights do not show the channels."""
        transposed = "transpose" in self.name
        if transposed and self.geometry["groups"] != 1:
            return None
        shape = [1] * self.weight.ndim
        shape[1 if transposed else 0] = -1
        bias = shift if self.bias is None else self.bias * factor + shift
        return replace(self, weight=self.weight * factor.reshape(shape), bias=bias)


def read_layer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, LinearMap]:
    """Input and linear map of a call of `linear` or of a convolution."""
    names = _LINEAR if name == "linear" else _TRANSPOSED if "transpose" in name else _CONVOLUTION
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    defaults = {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1}
    geometry = {key: given.get(key, defaults[key]) for key in names[3:]}
    bias = given.get("bias")
    return given["input"], LinearMap(name, given["weight"].detach(), None if bias is None else bias.detach(), geometry)
