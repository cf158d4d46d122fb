"""Linear maps with weights: what a rule needs to know of a layer, of batch norm, of an addition, of a norm.

Batch norm in evaluation mode is a factor and a shift per channel. Normalisation over parts of a row,
y = γ (x − mean)/s + β, is linear once its standard deviation s is taken as a constant: relevance goes through
the centring and the factors, as in Achtibat et al., AttnLRP, ICML (2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Call, batch_norm_arguments

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
    bias = None if bias is None else bias.detach()
    return LinearMap(call.name, given["weight"].detach(), bias, geometry, nonnegative)


def _argument_names(name: str) -> tuple[str, ...]:
    if name == "linear":
        return _LINEAR
    return _TRANSPOSED if "transpose" in name else _CONVOLUTION


class Line(NamedTuple):
    """z = factor · x + shift, with one of each per channel."""

    factor: Tensor
    shift: Tensor


@dataclass(frozen=True)
class BatchNorm:
    """z = γ (x − μ)/s + β with s² = σ² + ε; the running statistics μ and σ² are constants."""

    mean: Tensor
    variance: Tensor
    eps: float
    weight: Tensor | None
    bias: Tensor | None

    def normalising_line(self) -> Line:
        """The first half, (x − μ)/s."""
        inverse = (self.variance + self.eps).rsqrt()
        return Line(inverse, -self.mean * inverse)

    def scaling_line(self) -> Line:
        """The second half, with factors γ and shifts β."""
        factor = torch.ones_like(self.variance) if self.weight is None else self.weight
        shift = torch.zeros_like(self.variance) if self.bias is None else self.bias
        return Line(factor, shift)

    def factor(self) -> Tensor:
        """The factor of both halves."""
        factor = (self.variance + self.eps).rsqrt()
        return factor if self.weight is None else factor * self.weight

    def line(self) -> Line:
        """Both halves in one."""
        # Not put together from the two halves: the shifts would be rounded twice.
        factor = self.factor()
        shift = -self.mean * factor
        return Line(factor, shift if self.bias is None else shift + self.bias)


def read_batch_norm(call: Call) -> BatchNorm:
    """Parameters of a call of `batch_norm`."""
    given = batch_norm_arguments(call)
    weight = given.get("weight")
    bias = given.get("bias")
    return BatchNorm(
        mean=given["running_mean"].detach(),
        variance=given["running_var"].detach(),
        eps=given.get("eps", 1e-5),
        weight=None if weight is None else weight.detach(),
        bias=None if bias is None else bias.detach(),
    )


_ARGUMENTS = {
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
    "rms_norm": ("input", "normalized_shape", "weight", "eps"),
    "group_norm": ("input", "num_groups", "weight", "bias", "eps"),
    "instance_norm": (
        "input",
        "running_mean",
        "running_var",
        "weight",
        "bias",
        "use_input_stats",
        "momentum",
        "eps",
    ),
}


@dataclass(frozen=True)
class Normalisation:
    """Which elements are normalised together, and by what.

    Attributes
    ----------
    n_axes
        The last axes over which each row is normalised, where there are no groups.
    n_groups
        Groups of channels, each normalised over its channels and places; None without groups.
    weight
        The factors γ, as they broadcast against x; None for ones.
    eps
        Added to the variance; None for the smallest step of the number type, as PyTorch's `rms_norm` has it.
    centred
        Whether the mean is subtracted.
    """

    n_axes: int
    n_groups: int | None
    weight: Tensor | None
    eps: float | None
    centred: bool = True

    @property
    def is_layer_norm(self) -> bool:
        """Whether PyTorch has one kernel for it that also tells the standard deviation."""
        return self.centred and self.n_groups is None

    def forward_layer_norm(self, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Output of a layer norm, to the last bit that of PyTorch's own call, and 1/s of each row."""
        shape = x.shape[x.ndim - self.n_axes :]
        found = torch.native_layer_norm(x, shape, self.weight, bias, self.eps or 0.0)
        return found[0], found[2]

    def backward_layer_norm(self, c: Tensor, inverse: Tensor) -> Tensor:
        """Transposed map of a layer norm from 1/s alone, by one kernel of PyTorch's.

        At an input of zeros with mean zero the derivative of the standard deviation vanishes: what is left of
        the kernel's formula is the centring and the factors.
        """
        shape = c.shape[c.ndim - self.n_axes :]
        zeros = torch.zeros_like(c)
        mean = torch.zeros_like(inverse)
        wanted = [True, False, False]
        found = torch.ops.aten.native_layer_norm_backward(
            c, zeros, shape, mean, inverse, self.weight, None, wanted
        )
        return found[0]

    def backward(self, x: Tensor, c: Tensor) -> Tensor:
        """Transposed map applied to c: centre γc over the elements normalised together, divide by s."""
        scaled = c if self.weight is None else c * self.weight
        parts = self.together(scaled)
        values = self.together(x)
        centre = values.mean(dim=-1, keepdim=True) if self.centred else 0
        eps = self.eps if self.eps is not None else torch.finfo(x.dtype).eps
        s = ((values - centre).square().mean(dim=-1, keepdim=True) + eps).sqrt()
        if self.centred:  # centring is its own transpose
            parts = parts - parts.mean(dim=-1, keepdim=True)
        return (parts / s).reshape(x.shape)

    def together(self, x: Tensor) -> Tensor:
        """Elements that are normalised together along the last axis."""
        if self.n_groups is not None:
            return x.reshape(x.shape[0], self.n_groups, -1)
        return x.flatten(x.ndim - self.n_axes)


def _constant(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.detach()


def _per_channel(values: Tensor | None, call: Call) -> Tensor | None:
    """Factors or shifts as they broadcast against x: of groups of channels there is one per channel."""
    has_groups = call.name in ("group_norm", "instance_norm")
    return _channels(values, call.target) if has_groups and values is not None else values


def bias_of(call: Call) -> Tensor | None:
    """The shifts β of a call of a norm, as they broadcast against x."""
    return _per_channel(_constant(call.arguments(_ARGUMENTS[call.name]).get("bias")), call)


def read_normalisation(call: Call) -> Normalisation:
    """Normalisation of a call of `layer_norm`, `rms_norm`, `group_norm` or `instance_norm`."""
    given = call.arguments(_ARGUMENTS[call.name])
    weight = _per_channel(_constant(given.get("weight")), call)
    if call.name in ("layer_norm", "rms_norm"):
        eps = given.get("eps", None if call.name == "rms_norm" else 1e-5)
        n_axes = len(given["normalized_shape"])
        return Normalisation(n_axes, None, weight, eps, centred=call.name == "layer_norm")
    # Instance norm is group norm with one channel in each group.
    n_groups = given["num_groups"] if call.name == "group_norm" else call.target.shape[1]
    return Normalisation(0, n_groups, weight, given.get("eps", 1e-5))
