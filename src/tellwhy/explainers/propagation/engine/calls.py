"""Calls of PyTorch functions, and the tensors among their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Call:
    """One call of a PyTorch function on activations."""

    function: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    name: str
    in_place: bool
    activations: list[Tensor]
    times: int = 1  # how often activations occur among the arguments: twice in x·x
    only_activations: bool = False  # whether no other tensor is among the arguments

    @property
    def target(self) -> Tensor:
        """Tensor that an in-place operation changes."""
        found: Tensor = self.args[0] if self.args else self.kwargs["input"]
        return found

    @property
    def in_training_mode(self) -> bool:
        """Whether dropout, batch norm or a randomised ReLU behaves as in training."""
        if self.name == "batch_norm":
            return bool(_batch_norm_arguments(self).get("training", False))
        if "dropout" not in self.name and self.name != "rrelu":
            return False
        if "training" in self.kwargs or "train" in self.kwargs:
            return bool(self.kwargs.get("training", self.kwargs.get("train")))
        return bool(self.args[-1]) if len(self.args) > 2 else False

    def run(self, activations: list[Tensor]) -> Any:
        """Run with other tensors in place of the activations; parameters are constants; nothing is changed in place."""
        exchanged = {id(old): new for old, new in zip(self.activations, activations, strict=True)}

        def exchange(tensor: Tensor) -> Tensor:
            return exchanged[id(tensor)] if id(tensor) in exchanged else tensor.detach()

        args, kwargs = map_tensors(exchange, self.args), map_tensors(exchange, self.kwargs)
        if self.name == "view" and not any(
            isinstance(part, torch.dtype) for part in (*args, *kwargs.values())
        ):
            return torch.Tensor.reshape(*args, **kwargs)  # whatever the order of the elements in memory
        if kwargs.get("inplace"):
            return self.function(*args, **{**kwargs, "inplace": False})
        if not self.in_place:
            return self.function(*args, **kwargs)
        changed = args[0].clone()
        self.function(changed, *args[1:], **kwargs)
        return changed

    def run_detached(self) -> Any:
        """Run on constants."""
        return self.run([t.detach() for t in self.activations])


def all_tensors(tree: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dictionaries, in order, as often as they occur."""
    if isinstance(tree, Tensor):
        return [tree]
    found: list[Tensor] = []
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ():
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, (tuple, list, dict)):
            found += all_tensors(part)
    return found


def tensors_in(tree: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dictionaries, each once, in order."""
    return list({id(t): t for t in all_tensors(tree)}.values())


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Apply a function to the tensors in nested tuples, lists and dictionaries."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tensors(function, value) for key, value in tree.items()} if tree else tree
    if not isinstance(tree, (tuple, list)):
        return tree
    parts = [
        function(part)
        if isinstance(part, Tensor)
        else map_tensors(function, part)
        if isinstance(part, (tuple, list, dict))
        else part
        for part in tree
    ]
    if type(tree) in (tuple, list, torch.Size) or hasattr(tree, "n_fields"):
        return type(tree)(parts)
    return type(tree)(*parts)


@dataclass(frozen=True)
class BatchNorm:
    """An evaluation-mode batch norm: z = γ (x − μ)/s + β with s² = σ² + ε."""

    mean: Tensor
    variance: Tensor
    eps: float
    weight: Tensor | None
    bias: Tensor | None

    def lines(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Factors and shifts (1/s, −μ/s) and (γ, β)."""
        inverse = (self.variance + self.eps).rsqrt()
        factor = torch.ones_like(inverse) if self.weight is None else self.weight
        return (inverse, -self.mean * inverse), (
            factor,
            torch.zeros_like(inverse) if self.bias is None else self.bias,
        )

    def line(self) -> tuple[Tensor, Tensor]:
        """w and b of z = w x + b."""
        factor = (self.variance + self.eps).rsqrt()
        if self.weight is not None:
            factor = factor * self.weight
        shift = -self.mean * factor
        return factor, shift if self.bias is None else shift + self.bias


def read_batch_norm(call: Call) -> BatchNorm:
    """Parameters of a call of `batch_norm`."""
    given = _batch_norm_arguments(call)
    weight, bias = (None if given.get(k) is None else given[k].detach() for k in ("weight", "bias"))
    mean, variance = given["running_mean"].detach(), given["running_var"].detach()
    return BatchNorm(mean, variance, given.get("eps", 1e-5), weight, bias)


def _batch_norm_arguments(call: Call) -> dict[str, Any]:
    names = ["input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"]
    if call.function is torch.batch_norm:
        names = ["input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"]
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}
