"""Passes through a PyTorch network that leave no trace on it: values and derivatives of one number per row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnsupportedModel

Pick = Callable[[Tensor], Tensor]  # outputs of some rows -> the explained number of each


def check_model(model: Any) -> None:
    """Refuse what is not a network in evaluation mode."""
    if not isinstance(model, Module):
        raise UnsupportedModel(f"Expected a torch.nn.Module. Got {type(model).__name__} instead.")
    for name, module in model.named_modules():
        if module.training:
            where = f"its module '{name}'" if name else "it"
            raise UnsupportedModel(
                f"{type(model).__name__} cannot be explained: {where} is in training mode, where dropout and batch "
                "norm depend on chance and on the other rows. Call model.eval() first."
            )


def placed(model: Module, device: Any, otherwise: Any = "cpu") -> tuple[Module, torch.device, torch.dtype]:
    """Return the model on a device (a copy where it is elsewhere), that device, and the type of its weights.

    Without a device the model stays where it is; `otherwise` is where a model without weights is. A compiled
    model is taken as the module it was made from, whose operations can be followed.
    """
    model = getattr(model, "_orig_mod", model)
    weights = next((p for p in model.parameters() if p.is_floating_point()), None)
    at = torch.device(otherwise) if weights is None else weights.device
    dtype = torch.get_default_dtype() if weights is None else weights.dtype
    if device is None:
        return model, at, dtype
    try:
        wanted = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise InvalidParameter(
            f"device={device!r} cannot be used here: {str(error).splitlines()[0]}"
        ) from error
    return (model, at, dtype) if wanted == at else (copy.deepcopy(model).to(wanted), wanted, dtype)


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """Keep random numbers that the model draws inside this block from showing outside; no mixed precision inside."""
    cuda = [device] if device.type == "cuda" else []
    before = torch.get_rng_state(), [torch.cuda.get_rng_state(place) for place in cuda]
    try:
        with torch.inference_mode(False), torch.autocast(device.type, enabled=False):
            yield
    finally:
        if not torch.equal(torch.get_rng_state(), before[0]):
            torch.set_rng_state(before[0])
        for place, state in zip(cuda, before[1], strict=True):
            torch.cuda.set_rng_state(state, place)


class TrailingSoftmax(TorchFunctionMode):
    """Remembers the newest softmax of a forward pass: its name, what went in and what came out."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self.newest: tuple[Any, Any] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in ("softmax", "log_softmax"):
            logits = args[0] if args else (kwargs or {}).get("input")
            self.name, self.newest = name, (logits, result)
        return result

    def left_out(self, outputs: Any) -> tuple[Any, str]:
        """Outputs before the softmax, and its name, where it was the last operation; the outputs and '' elsewhere."""
        if self.newest is not None and self.newest[1] is outputs:
            return self.newest[0], self.name
        return outputs, ""


def outputs_of(model: Module, x: Tensor) -> tuple[Tensor, str]:
    """Outputs of the model before a trailing softmax, and the name of that softmax ('' for none)."""
    watch = TrailingSoftmax()
    try:
        with watch:
            outputs, softmax = watch.left_out(model(x))
    except TellwhyError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{type(model).__name__} cannot be applied to rows of shape {tuple(x.shape)} and dtype {x.dtype} (rows "
            f"first): {error}"
        ) from error
    if not isinstance(outputs, Tensor):
        raise UnsupportedModel(
            f"{type(model).__name__} returns a {type(outputs).__name__}; one tensor of outputs (rows first) can be "
            "explained. Wrap the model in a module whose forward returns the tensor you mean."
        )
    return outputs, softmax


def slopes_of(model: Module, x: Tensor, pick: Pick) -> tuple[Tensor, Tensor]:
    """Explained number of each row, and its derivative by each cell of the row."""
    try:
        return _slopes(model, x, pick)
    except RuntimeError as error:
        if "inplace operation" not in str(error):
            raise
    with (
        torch.autograd.graph.allow_mutation_on_saved_tensors()
    ):  # slower: needed where autograd alone gives up
        return _slopes(model, x, pick)


def _slopes(model: Module, x: Tensor, pick: Pick) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        scores = pick(outputs_of(model, leaf.clone())[0])  # the copy may be changed in place, a leaf may not
        if not scores.requires_grad:
            raise UnsupportedModel(
                f"The output of {type(model).__name__} does not depend on its input through operations with a "
                "gradient: something on the way detaches it (torch.no_grad, .detach(), .data, numpy)."
            )
        return scores.detach(), torch.autograd.grad(scores.sum(), leaf)[0]
