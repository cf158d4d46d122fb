"""Normalisation over parts of a row: linear once its standard deviation is taken as a constant.

y = γ (x − mean)/s + β. Relevance goes through the centring and the factors; the standard deviation gets none,
as in Achtibat et al., AttnLRP, ICML (2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call

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
        parts = self._together(scaled)
        values = self._together(x)
        centre = values.mean(dim=-1, keepdim=True) if self.centred else 0
        eps = self.eps if self.eps is not None else torch.finfo(x.dtype).eps
        s = ((values - centre).square().mean(dim=-1, keepdim=True) + eps).sqrt()
        if self.centred:  # centring is its own transpose
            parts = parts - parts.mean(dim=-1, keepdim=True)
        return (parts / s).reshape(x.shape)

    def _together(self, x: Tensor) -> Tensor:
        """Elements that are normalised together along the last axis."""
        if self.n_groups is not None:
            return x.reshape(len(x), self.n_groups, -1)
        return x.flatten(x.ndim - self.n_axes)


def _constant(call: Call, values: Tensor | None) -> Tensor | None:
    return None if values is None else call.constant(values)


def bias_of(call: Call) -> Tensor | None:
    """The shifts β of a call of `layer_norm`."""
    return _constant(call, call.arguments(_ARGUMENTS["layer_norm"]).get("bias"))


def read_normalisation(call: Call) -> Normalisation:
    """Normalisation of a call of `layer_norm`, `rms_norm`, `group_norm` or `instance_norm`."""
    given = call.arguments(_ARGUMENTS[call.name])
    weight = _constant(call, given.get("weight"))
    if call.name in ("layer_norm", "rms_norm"):
        eps = given.get("eps", None if call.name == "rms_norm" else 1e-5)
        n_axes = len(given["normalized_shape"])
        return Normalisation(n_axes, None, weight, eps, centred=call.name == "layer_norm")
    x = call.activations[0]
    if weight is not None:  # one factor per channel
        weight = weight.reshape(1, -1, *[1] * (x.ndim - 2))
    # Instance norm is group norm with one channel in each group.
    n_groups = given["num_groups"] if call.name == "group_norm" else x.shape[1]
    return Normalisation(0, n_groups, weight, given.get("eps", 1e-5))
