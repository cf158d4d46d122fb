"""The two passes: forward once, with every operation recorded; backward once for each method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import CheckpointError

from tellwhy.core.errors import InvalidInput, TellwhyError, UnsupportedModel
from tellwhy.explainers.propagation.engine.calls import Operation, is_traced, tensors_in
from tellwhy.explainers.propagation.engine.capture import Capture, ModulePaths
from tellwhy.explainers.propagation.engine.differences import Compared, NotAlike
from tellwhy.explainers.propagation.engine.kinds import OUT_OF_SIGHT, RECOMPUTES, hint
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.engine.tokens import add_to_tokens
from tellwhy.scoring.network_inputs import Inputs, check_one_a_row
from tellwhy.scoring.network_passes import TrailingSoftmax, tensor_of

# Models that change in place what autograd keeps: only capture, which works on copies, can follow them.
needs_capture: WeakSet[Module] = WeakSet()
DETACHED = (
    "The output does not depend on x through operations with a gradient: something on the way detaches it "
    "(torch.no_grad, .detach(), .data, numpy) or x is not used."
)


@dataclass(frozen=True)
class Forward:
    """What the forward pass left: outputs before a trailing softmax, and the record of the operations."""

    inputs: Inputs
    outputs: Tensor
    capture: Capture
    softmax: str = ""  # name of a trailing softmax that was left out
    compared: tuple[Inputs, Tensor] | None = None  # references, and the outputs for them


class HandedDown(NamedTuple):
    """What a backward pass gave: values like each input, and the explained number of each row."""

    values: list[Tensor]
    scores: Tensor


def run_forward(
    model: Module,
    inputs: Inputs,
    methods: Sequence[Method],
    *,
    ledger: bool = False,
    tolerant: bool = False,
    places: Sequence[str] = (),
) -> Forward:
    """Run the model under capture, so that each of the methods can be carried out backwards.

    Gradients alone need no capture: they are PyTorch's own. Where rows are compared with references, these go
    first.
    """
    if methods[0].references is not None:
        return compared_forward(model, inputs, methods[0])
    if not ledger and not tolerant and not places and all(method.is_gradient for method in methods):
        plain = plain_forward(model, inputs, methods)
        if plain is not None:
            return plain
    capture = Capture(methods, ModulePaths(model), ledger=ledger, tolerant=tolerant, places=places)
    return captured_forward(model, inputs, capture)


def captured_forward(model: Module, inputs: Inputs, capture: Capture) -> Forward:
    """Run the model under a capture."""
    try:
        outputs = _captured(model, inputs, capture)
    except (TellwhyError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        if capture.refusal is not None:
            raise capture.refusal from None
        raise InvalidInput(
            f"{type(model).__name__} cannot be applied to {inputs.words} (rows first): {error}"
            f"{hint(inputs, error)}"
        ) from error
    forward = _without_softmax(inputs, _one_output(model, inputs, capture, outputs), capture)
    # A program is written without values, and compared with what was followed, and verified, here.
    if capture.must_verify and not is_traced.get():
        _verify(model, inputs, tensor_of(model, outputs))
    _check_rectifiers(capture)
    layers = [operation for operation in capture.operations if operation.kind == "layer"]
    if layers:
        layers[-1].last = True
    # Chosen here as well as before each backward pass: `coverage` reads the rules without going back.
    choose_rules(capture, capture.methods[0])
    # From here on only autograd holds the activations: the backward pass frees them one by one.
    capture.origins.clear()
    return forward


def compared_forward(model: Module, inputs: Inputs, method: Method) -> Forward:
    """Run the model on references, and then on the rows that are compared with them."""
    assert method.references is not None
    references = replace(inputs, tensors=method.references(inputs))
    try:
        return _compared(model, inputs, references, method)
    except (NotAlike, InvalidInput) as error:
        if len(references) == len(inputs):
            raise _not_alike(model, error) from None
    # One for all rows does not do where the network drops an axis of length one, or joins rows with another
    # axis: there each row has one of its own.
    of_each = tuple(t.expand(len(inputs), *t.shape[1:]) for t in references.tensors)
    try:
        return _compared(model, inputs, replace(references, tensors=of_each), method)
    except NotAlike as error:
        raise _not_alike(model, error) from None


def _compared(model: Module, inputs: Inputs, references: Inputs, method: Method) -> Forward:
    below = captured_forward(model, references, Capture([method], ModulePaths(model)))
    assert below.capture.compared is not None
    compared = Compared(below.capture.compared.noted)
    forward = captured_forward(model, inputs, Capture([method], ModulePaths(model), compared=compared))
    return replace(forward, compared=(references, below.outputs.detach()))


def _not_alike(model: Module, error: Exception) -> Exception:
    if isinstance(error, TellwhyError):
        return error
    return UnsupportedModel(
        f"{type(model).__name__} does other operations on the reference than on the rows, which DeepLift "
        "compares one by one. Use IntegratedGradients or GradientShap."
    )


def plain_forward(model: Module, inputs: Inputs, methods: Sequence[Method]) -> Forward | None:
    """Run the model as it is, for gradients; None where capture has to find out more.

    That is so for tokens, whose embedding is explained, and where the model fails: capture says why.
    """
    if model in needs_capture or not all(t.is_floating_point() for t in inputs.tensors):
        return None
    capture = Capture(methods, ModulePaths(model))
    copies = [_copy(t).requires_grad_() for t in inputs.tensors]
    watch = TrailingSoftmax()
    try:
        with watch:  # the model may change its inputs in place, which a leaf does not allow
            given = inputs.apply(model, [t.clone() for t in copies])
    except Exception:
        return None
    outputs, softmax = watch.left_out(tensor_of(model, given))
    if outputs.grad_fn is None:
        return None
    for number, copy in enumerate(copies):
        capture.add_leaf(copy, number)
    return Forward(inputs, outputs, capture, softmax)


def _check_rectifiers(capture: Capture) -> None:
    """Refuse activation functions that are no rectifiers where a method replaces those; not a last one."""
    hidden = [operation for operation in capture.not_rectifiers if operation is not capture.operations[-1]]
    if hidden:
        names = ", ".join(sorted({operation.name for operation in hidden}))
        raise UnsupportedModel(
            "Guided backprop and DeconvNet replace the backward pass of rectifiers (ReLU, ReLU6, clamping "
            f"at 0); this network also has {names}, first in {hidden[0].where}, for which they say nothing "
            "and would give the plain gradient. Use Gradient, SmoothGrad or LRP."
        )


def _captured(model: Module, inputs: Inputs, capture: Capture) -> Any:
    """Run the model on copies of its inputs; return what it returned."""
    copies = [_copy(t) for t in inputs.tensors]
    for number, copy in enumerate(copies):
        if copy.is_floating_point():
            nonnegative = number < len(inputs.nonnegative) and inputs.nonnegative[number]
            capture.add_leaf(copy.requires_grad_(), number, nonnegative=nonnegative)
        else:
            capture.tokens[number] = copy
    with capture.paths.followed(), capture:
        return inputs.apply(model, copies)


def _copy(tensor: Tensor) -> Tensor:
    """Copy of an input; images on a GPU channels last, which its convolutions want."""
    images = tensor.is_cuda and tensor.ndim == 4 and tensor.is_floating_point()
    return tensor.detach().clone(memory_format=torch.channels_last if images else torch.preserve_format)


def _one_output(model: Module, inputs: Inputs, capture: Capture, outputs: Any) -> Tensor:
    """The model's output as one tensor that relevance can start from."""
    found = tensor_of(model, outputs)
    outputs = capture.origins.newest(check_one_a_row(model, found, inputs.tensors[0].shape[0]))
    if not capture.is_activation(outputs):
        raise UnsupportedModel(f"{type(model).__name__} cannot be explained. {DETACHED}")
    if capture.origins.of(outputs) is None and outputs.grad_fn is not None and capture.must_see:
        raise UnsupportedModel(f"The output of {type(model).__name__} was computed {OUT_OF_SIGHT}")
    return outputs


def _without_softmax(inputs: Inputs, outputs: Tensor, capture: Capture) -> Forward:
    """Leave a trailing softmax out: its inputs are the outputs that are explained."""
    origin = capture.origins.of(outputs)
    if origin is None or "softmax" not in origin.operation.name or not origin.inputs:
        return Forward(inputs, outputs, capture)
    capture.operations.remove(origin.operation)
    return Forward(inputs, origin.inputs[0], capture, origin.operation.name)


def _verify(model: Module, inputs: Inputs, outputs: Tensor) -> None:
    """Compare with a plain pass where an in-place change of a view might have been followed wrongly."""
    with torch.no_grad():
        plain = inputs.apply(model, [t.detach().clone() for t in inputs.tensors])
    if not torch.allclose(tensor_of(model, plain), outputs.detach(), rtol=1e-4, atol=1e-6):
        raise UnsupportedModel(
            f"{type(model).__name__} changes a tensor in place that another variable is a view of; that "
            "cannot be followed. Use the operation that returns a new tensor there."
        )


def choose_rules(capture: Capture, method: Method, *, is_last: bool = True) -> None:
    """Make a method the current one: every operation gets its rule."""
    capture.current.method = method
    capture.current.is_last = is_last
    for operation in capture.operations:
        operation.rule = method.rule_of(operation)


def run_backward(
    forward: Forward,
    method: Method,
    pick: Callable[[Tensor], Tensor],
    seed: Callable[[Tensor], Tensor],
    *,
    is_last: bool = True,
) -> HandedDown:
    """Go down for one method.

    Parameters
    ----------
    forward
        What the forward pass left.
    method
        One of the methods that the forward pass was run for.
    pick
        Explained number (score) of each row of the outputs.
    seed
        What each row starts with, from its score.
    is_last
        Whether no other method goes down after this one, so that memory can be given back.
    """
    capture = forward.capture
    choose_rules(capture, method, is_last=is_last)
    outputs = forward.outputs.detach().requires_grad_()
    scores = pick(outputs)
    # The derivative of the scores spreads the seeds over the outputs they were picked from.
    (cotangent,) = torch.autograd.grad(scores, outputs, seed(scores.detach()))
    if method.carries == "relevance":
        cotangent = cotangent * outputs.detach()
    leaves = [leaf for leaf, _ in capture.leaves]
    try:
        found = torch.autograd.grad(
            forward.outputs, leaves, cotangent, retain_graph=not is_last, allow_unused=True
        )
    except CheckpointError as error:
        raise UnsupportedModel(RECOMPUTES) from error
    if all(part is None for part in found):
        raise UnsupportedModel(DETACHED)
    return HandedDown(values_of(forward, method, found), scores.detach())


def values_of(forward: Forward, method: Method, found: Sequence[Tensor | None]) -> list[Tensor]:
    """Return values like each input, from what came down to each leaf."""
    like = forward.outputs
    values = [torch.zeros(t.shape, dtype=like.dtype, device=like.device) for t in forward.inputs.tensors]
    for k, ((leaf, number), c) in enumerate(zip(forward.capture.leaves, found, strict=True)):
        if c is None:  # the output does not depend on this leaf
            continue
        value = c * leaf.detach() if method.multiply else c
        if forward.compared is not None:
            value = c * (leaf.detach() - forward.compared[0].tensors[number])
        lookup = forward.capture.lookups.get(k)
        if lookup is None:
            values[number] = values[number] + value
        else:
            add_to_tokens(values, number, lookup, value, forward.capture.tokens)
    return values


def _is_sound(values: Tensor) -> bool:
    """Whether no value is wrong; −∞ is what masks put in, and softmax takes out again."""
    return not bool((values.isnan() | (values == float("inf"))).any())


def first_not_finite(model: Module, inputs: Inputs, methods: Sequence[Method]) -> Operation | None:
    """Find the first operation whose output is not finite."""
    found: list[Operation] = []

    class Watch(Capture):
        def record(self, operation: Operation, result: Any) -> Any:
            if not found and not all(_is_sound(t) for t in tensors_in(result)):
                found.append(operation)
            return super().record(operation, result)

    _captured(model, inputs, Watch(methods, ModulePaths(model)))
    return found[0] if found else None
