"""The engine: one forward pass under capture, one backward pass through the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, TellwhyError, UnsupportedModel
from tellwhy.explainers.propagation.calls import tensors_in
from tellwhy.explainers.propagation.capture import Capture, Method
from tellwhy.explainers.propagation.module_paths import ModulePaths
from tellwhy.explainers.propagation.operations import Operation
from tellwhy.explainers.propagation.passes import Tap, to_relevance


@dataclass(frozen=True)
class Forward:
    """What the forward pass left: outputs before a trailing softmax, and the record of the operations."""

    x: Tensor
    outputs: Tensor
    capture: Capture
    softmax: str = ""  # name of a trailing softmax that was left out


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


@contextmanager
def untouched(x: Tensor) -> Iterator[None]:
    """Turn gradients on inside this block; random numbers drawn inside do not show outside."""
    cuda = [x.device.index] if x.device.type == "cuda" else []
    before = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in cuda]
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        if not torch.equal(torch.get_rng_state(), before[0]):
            torch.set_rng_state(before[0])
        for device, state in zip(cuda, before[1], strict=True):
            torch.cuda.set_rng_state(state, device)


def run_forward(model: Module, x: Tensor, method: Method, *, ledger: bool = False, tolerant: bool = False) -> Forward:
    """Run the model under capture and choose the rule of every layer."""
    capture = Capture(method, ModulePaths(model), ledger=ledger, tolerant=tolerant)
    try:
        leaf, outputs = _captured(model, x, capture)
    except TellwhyError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        if capture.refusal is not None:
            raise capture.refusal from None
        raise InvalidInput(
            f"{type(model).__name__} cannot be applied to x of shape {tuple(x.shape)} and dtype {x.dtype} "
            f"(rows first): {error}"
        ) from error
    forward = _without_softmax(leaf, _one_output(model, capture, outputs), capture)
    if capture.must_verify:
        _verify(model, leaf, outputs)
    _choose_rules(capture)
    return forward


def _captured(model: Module, x: Tensor, capture: Capture) -> tuple[Tensor, Any]:
    """Run the model on a copy of x; return the copy and what the model returned."""
    leaf = x.detach().clone()
    if x.is_floating_point():
        capture.leaves.append(leaf.requires_grad_())
    else:
        capture.tokens = leaf
    with capture.paths.followed(), capture:
        return leaf, model(leaf)


def _one_output(model: Module, capture: Capture, outputs: Any) -> Tensor:
    if not isinstance(outputs, Tensor):
        raise UnsupportedModel(
            f"{type(model).__name__} returns a {type(outputs).__name__}; one tensor of outputs (rows first) can be "
            "explained. Wrap the model in a module whose forward returns the tensor you mean."
        )
    outputs = capture._newest(outputs)
    if not capture._is_activation(outputs):
        raise UnsupportedModel(
            f"The output of {type(model).__name__} does not depend on x through operations with a gradient: something "
            "on the way detaches it (torch.no_grad, .detach(), .data, numpy) or x is not used."
        )
    if capture.origin(outputs) is None and outputs.grad_fn is not None and capture.method.carries != "gradient":
        raise UnsupportedModel(
            f"The output of {type(model).__name__} was computed where it cannot be seen: in a scripted or compiled "
            "module, or in an autograd.Function. Use the plain module there."
        )
    return outputs


def _without_softmax(x: Tensor, outputs: Tensor, capture: Capture) -> Forward:
    origin = capture.origin(outputs)
    if origin is None or "softmax" not in origin.operation.name:
        return Forward(x, outputs, capture)
    capture.operations.remove(origin.operation)
    return Forward(x, origin.inputs[0], capture, origin.operation.name)


def _verify(model: Module, x: Tensor, outputs: Tensor) -> None:
    """Compare with a plain pass where an in-place change of a view might have been followed wrongly."""
    with torch.no_grad():
        plain = model(x.detach().clone())
    if not torch.allclose(plain, outputs.detach(), rtol=1e-4, atol=1e-6):
        raise UnsupportedModel(
            f"{type(model).__name__} changes a tensor in place that another variable is a view of; that cannot be "
            "followed. Use the operation that returns a new tensor there."
        )


def _choose_rules(capture: Capture) -> None:
    layers = [operation for operation in capture.operations if operation.kind == "layer"]
    if layers:
        layers[-1].last = True
    if capture.method.composite is not None:
        for layer in layers:
            layer.rule = capture.method.composite.choose(layer)


def run_backward(
    forward: Forward, pick: Callable[[Tensor], Tensor], seed: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Hand `seed(score)` of each row's picked score down to the input; return values and scores."""
    method = forward.capture.method
    outputs = forward.outputs
    if method.carries == "relevance":
        outputs = Tap.apply(outputs, to_relevance)
    scores = pick(outputs)
    leaves = forward.capture.leaves
    found = torch.autograd.grad(scores, leaves, seed(scores.detach()), allow_unused=True)
    values = [torch.zeros_like(leaf) if c is None else c for leaf, c in zip(leaves, found, strict=True)]
    if method.multiply:
        values = [c * leaf.detach() for leaf, c in zip(leaves, values, strict=True)]
    if forward.capture.tokens is not None:
        values = [value.sum(dim=-1) for value in values]
    return torch.stack(values).sum(dim=0), scores.detach()


def first_not_finite(model: Module, x: Tensor, method: Method) -> Operation | None:
    """Find the first operation whose output is not finite."""
    found: list[Operation] = []

    class Watch(Capture):
        def _keep(self, call: Any, operation: Operation, result: Any, after: bool) -> None:
            super()._keep(call, operation, result, after)
            if not found and not all(bool(torch.isfinite(t).all()) for t in tensors_in(result)):
                found.append(operation)

    _captured(model, x, Watch(method, ModulePaths(model)))
    return found[0] if found else None
