"""Linear maps with weights: what a rule needs to know of a layer, of batch norm and of an addition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call

_LINEAR = ("input", "weight", "bias")
_CONVOLUTION = (*_LINEAR, "stride", "padding", "dilation", "groups")
_TRANSPOSED = (*_LINEAR, "stride", "padding", "output_padding", "groups", "dilation")
_DEFAULTS = {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1}


@dataclass(frozen=True)
class LinearMap:
    """z = W x + b of a fully connected or convolutional layer.

    Attributes
    ----------
    name
        PyTorch's name of the function: 'linear', 'conv2d', ….
    weight, bias
        As the layer has them.
    geometry
        The other settings of the function, such as stride and padding.
    nonnegative
        Whether it is known that no input is negative (after ReLU, say), so that rules which part signs need
        not look.
    owns_cotangent
        Whether what comes down to the layer goes nowhere else, so that a rule may write into it.
    """

    name: str
    weight: Tensor
    bias: Tensor | None
    geometry: dict[str, Any]
    nonnegative: bool = False
    owns_cotangent: bool = False

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """W x + b with other weights or biases."""
        function = torch.nn.functional.linear if self.name == "linear" else getattr(torch, self.name)
        return function(x, weight, bias, **self.geometry)

    def backward(self, x: Tensor, weight: Tensor, s: Tensor) -> Tensor:
        """Wᵀ s with other weights, shaped like x."""
        if self.name == "linear":
            return s @ weight
        if isinstance(self.geometry["padding"], str):
            # 'same' may pad the two sides differently, which PyTorch's backward function cannot be told.
            is_differentiated = torch.is_grad_enabled()  # not so on an ordinary way down
            with torch.enable_grad():
                leaf = torch.zeros_like(x).requires_grad_()
                z = self.forward(leaf, weight)
                return torch.autograd.grad(z, leaf, s, create_graph=is_differentiated)[0]
        return self._convolution_backward(x, weight, s)

    def _convolution_backward(self, x: Tensor, weight: Tensor, s: Tensor) -> Tensor:
        n = weight.ndim - 2  # axes of space

        def each(value: Any) -> list[int]:
            return [value] * n if isinstance(value, int) else [*value] * (n // len(value))

        # Called directly: autograd would need a forward pass first, only to go back through a linear map.
        return torch.ops.aten.convolution_backward(
            s,
            x,
            weight,
            None,
            each(self.geometry["stride"]),
            each(self.geometry["padding"]),
            each(self.geometry["dilation"]),
            "transpose" in self.name,
            each(self.geometry.get("output_padding", 0)),
            self.geometry["groups"],
            [True, False, False],  # the gradient of x only, not those of weight and bias
        )[0]

    @property
    def shows_channels(self) -> bool:
        """Whether one axis of the weights is that of the output channels."""
        # Weights (in, out/groups, …) of a grouped transposed convolution have no axis of all output channels.
        return "transpose" not in self.name or self.geometry["groups"] == 1

    def scaled(self, factor: Tensor, shift: Tensor | None) -> LinearMap:
        """factor · (W x + b) + shift per output channel; without a shift the layer has no bias at all."""
        shape = [1] * self.weight.ndim
        shape[1 if "transpose" in self.name else 0] = -1
        bias = shift if self.bias is None or shift is None else self.bias * factor + shift
        return replace(self, weight=self.weight * factor.reshape(shape), bias=bias)


class ChannelScale(LinearMap):
    """z = w x + b per channel: batch norm as a layer of its own."""

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """W x + b with other weights or biases."""
        z = x * _channels(weight, x)
        return z if bias is None else z + _channels(bias, x)

    def backward(self, x: Tensor, weight: Tensor, s: Tensor) -> Tensor:
        """Wᵀ s with other weights, shaped like x."""
        return s * _channels(weight, x)


class Addition(LinearMap):
    """z = Σ_k w_k x_k of several activations, stacked along a first axis: a residual addition.

    `geometry["depths"]` holds the number of layers that each of them came through.
    """

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Σ_k w_k x_k with other weights."""
        z = (x * _first_axis(weight, x)).sum(dim=0)
        return z if bias is None else z + bias

    def backward(self, x: Tensor, weight: Tensor, s: Tensor) -> Tensor:
        """w_k s for every k."""
        return s * _first_axis(weight, x)


def _channels(values: Tensor, x: Tensor) -> Tensor:
    """Values per channel, as they broadcast against x (rows, channels, …)."""
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


def _first_axis(values: Tensor, x: Tensor) -> Tensor:
    """Values per entry of the first axis, as they broadcast against x."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def read_layer(call: Call, *, nonnegative: bool = False) -> LinearMap:
    """Linear map of a call of `linear` or of a convolution."""
    names = _argument_names(call.name)
    given = call.arguments(names)
    geometry = {key: given.get(key, _DEFAULTS[key]) for key in names[3:]}
    bias = given.get("bias")
    bias = None if bias is None else call.constant(bias)
    return LinearMap(call.name, call.constant(given["weight"]), bias, geometry, nonnegative)


def _argument_names(name: str) -> tuple[str, ...]:
    if name == "linear":
        return _LINEAR
    return _TRANSPOSED if "transpose" in name else _CONVOLUTION
