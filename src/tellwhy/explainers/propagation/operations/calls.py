"""Recorded calls: a PyTorch function, with the arguments that the model gave it.

The engine sees every call before it is carried out. It may carry it out itself, on other tensors than those
that were given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.operations.histories import Histories
from tellwhy.explainers.propagation.operations.nested import map_tensors


@dataclass(slots=True, eq=False)  # not frozen, which takes three times as long to make: there are many
class Call:
    """One call of a PyTorch function on activations: tensors that depend on the explained input.

    Nobody changes one: `dataclasses.replace` makes another.

    Attributes
    ----------
    function, args, kwargs
        What is called, and with what.
    name
        PyTorch's plain name of the function, as in `Operation.name`.
    in_place
        Whether it changes its first argument.
    activations
        The activations among the arguments, each once.
    times
        How often activations occur among the arguments: twice in x·x.
    only_activations
        Whether no other tensor is among the arguments.
    histories
        How activations depend on the input and on the parameters, where explanations are to be
        differentiated.
    """

    function: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    name: str
    in_place: bool
    activations: list[Tensor]
    times: int = 1
    only_activations: bool = False
    histories: Histories | None = None

    @property
    def target(self) -> Tensor:
        """The first argument: the tensor that an in-place operation changes."""
        first: Tensor = self.args[0] if self.args else self.kwargs["input"]
        return first

    def arguments(self, names: Sequence[str]) -> dict[str, Any]:
        """Arguments by name; `names` are those of the function, in order."""
        return {**dict(zip(names, self.args, strict=False)), **self.kwargs}

    @property
    def in_training_mode(self) -> bool:
        """Whether dropout, batch norm, attention or a randomised ReLU behaves as in training."""
        if self.name == "batch_norm":
            return bool(batch_norm_arguments(self).get("training", False))
        if self.name == "scaled_dot_product_attention":
            return self.kwargs.get("dropout_p", self.args[4] if len(self.args) > 4 else 0.0) > 0
        if "dropout" not in self.name and self.name != "rrelu":
            return False
        if "training" in self.kwargs or "train" in self.kwargs:  # torch.dropout says `train`
            return bool(self.kwargs.get("training", self.kwargs.get("train")))
        # torch.nn.functional passes settings on by name; torch.dropout(x, p, train) has this one last.
        return bool(self.args[-1]) if len(self.args) > 2 else False

    def run(self, activations: list[Tensor]) -> Any:
        """Run with other tensors in place of the activations. Nothing that was given is changed.

        Other tensors are constants: what was computed from the parameters alone has no gradient.
        """
        if self.is_plain and (
            activations is self.activations or all(map(is_, activations, self.activations))
        ):
            return self.function(*self.args, **self.kwargs)
        args, kwargs = self._with(activations)
        if self.name == "view" and not _has_dtype(args, kwargs):
            # The other tensor may have its elements in another order in memory, which `view` does not accept.
            return torch.Tensor.reshape(*args, **kwargs)
        if kwargs.get("inplace"):
            return self.function(*args, **{**kwargs, "inplace": False})
        if not self.in_place:
            return self.function(*args, **kwargs)
        changed = args[0].clone()
        self.function(changed, *args[1:], **kwargs)
        return changed

    def _with(self, activations: list[Tensor]) -> tuple[Any, dict[str, Any]]:
        """Arguments with other tensors in place of the activations, and constants in place of the rest."""
        exchanged = {id(old): new for old, new in zip(self.activations, activations, strict=True)}

        def exchange(tensor: Tensor) -> Tensor:
            return exchanged[id(tensor)] if id(tensor) in exchanged else self.constant(tensor)

        return map_tensors(exchange, self.args), map_tensors(exchange, self.kwargs) if self.kwargs else {}

    @property
    def is_plain(self) -> bool:
        """Whether the call can be carried out as it was given: no parameter in it, and nothing in place."""
        return self.only_activations and not (
            self.in_place or self.name == "view" or "inplace" in self.kwargs
        )

    def run_detached(self) -> Any:
        """Run on constants: the result has no gradient that relevance could take."""
        return self.run([self.constant(t) for t in self.activations])

    def constant(self, tensor: Tensor) -> Tensor:
        """A tensor that relevance does not go to; where there are histories, with its own."""
        return tensor.detach() if self.histories is None else self.histories.of(tensor)


def _has_dtype(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether x.view(dtype) was called, which reads the memory as numbers of another type."""
    return any(isinstance(argument, torch.dtype) for argument in (*args, *kwargs.values()))


def batch_norm_arguments(call: Call) -> dict[str, Any]:
    """Arguments of a call of `batch_norm` by name."""
    # torch.batch_norm and torch.nn.functional.batch_norm have the same arguments in another order.
    if call.function is torch.batch_norm:
        names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
    else:
        names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    return call.arguments(names)
