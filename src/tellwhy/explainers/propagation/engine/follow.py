"""Following an operation: run it so that every method can go back through it.

Where the plain derivative serves all methods, the operation runs as it is and autograd does the rest.
Elsewhere it runs inside a step of its kind (`steps`, `derivative_steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.engine.composed_steps import WrittenStep, attention, biased
from tellwhy.explainers.propagation.engine.derivative_steps import (
    DerivativeStep,
    ElementStep,
    NormalisationStep,
    PoolingStep,
    remembered,
)
from tellwhy.explainers.propagation.engine.steps import (
    AdditionStep,
    LayerStep,
    MergedStep,
    Step,
    carry_out,
)
from tellwhy.explainers.propagation.engine.taps import Relu, portion
from tellwhy.explainers.propagation.operations.batch_norm import read_batch_norm
from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.layers import Addition, ChannelScale, read_layer
from tellwhy.explainers.propagation.operations.normalisation import bias_of, read_normalisation
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.explainers.propagation.rules import four_coefficients

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.lineage import Written
    from tellwhy.explainers.propagation.engine.origins import Origin

    OriginsOfInputs = Sequence[Origin | None]


def follow(
    capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs, written: Written | None
) -> Any:
    """Run an operation of a known kind; return its output."""
    if written is not None:
        return _written(capture, call, operation, written)
    if operation.kind == "attention":
        return attention(capture, call, operation)
    if call.name == "batch_norm" and capture.follows_rules:
        normalised = _batch_norm(capture, call, operation, origins[0])
        if normalised is not None:
            return normalised
    if call.name == "add" and capture.follows_rules:
        shifted = biased(capture, call, operation, origins[0])
        if shifted is not None:
            return shifted
    if operation.constants and not capture.has_gradients:
        # What gets no relevance is left out of the graph: nothing is computed for it on the way down.
        live = [t for t, held in zip(call.activations, operation.constants, strict=True) if not held]
        call = replace(call, activations=live, times=len(live), only_activations=False)
        operation.constants = ()
    return _run(capture, call, operation, origins)


def _run(capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs) -> Any:
    inputs = capture.watch(operation, call.activations)
    remembers = capture.histories is not None
    is_short = not (capture.needs_layer_inputs or capture.carries_relevance or remembers)
    if call.name == "relu" and is_short:
        before = origins[0]
        if before is not None and before.operation.kind == "layer" and not operation.rectifies:
            overwrites = _overwrites(capture, call, before)
            before.operation.owns_cotangent = overwrites
            return Relu.apply(inputs[0], overwrites)
    if not operation.constants and all(method.is_plain(operation) for method in capture.methods):
        return remembered(capture.current, call, operation, inputs) if remembers else call.run(inputs)
    evenly = operation.kind == "product" and not operation.constants and not remembers
    if evenly and not capture.carries_relevance:
        # The derivative gives the whole to each factor: each gets its share of it.
        return portion(call.run(inputs), 1 / call.times, capture.current)
    result = carry_out(_step(capture, call, operation, origins), call.run, *inputs)
    # f(z)/z is taken element by element, which needs one output for each input.
    if operation.kind in ("elementwise", "rectifier") and result.shape != inputs[0].shape:
        capture.refuse(f"{operation.where} broadcasts an activation; expand it to the full shape first.")
    return result


def _overwrites(capture: Capture, call: Call, before: Origin) -> bool:
    """Whether a ReLU may be carried out in place: the model does so, and nothing else has seen its input."""
    alone = before.n_uses == 1 and before.operation.own_rule is None
    return capture.may_overwrite and call.in_place and alone


def _written(capture: Capture, call: Call, operation: Operation, written: Written) -> Tensor:
    """The last operation of a function that the model writes out: relevance goes to what it is of."""
    inputs = capture.watch(operation, [written.z])
    if capture.has_gradients:  # gradients take every operation on the way
        inputs += call.activations
    step = WrittenStep(operation, capture.current, differentiates=capture.has_gradients, axis=written.axis)
    return carry_out(step, lambda xs: call.run(xs[1:]) if xs[1:] else call.run_detached(), *inputs)


def _step(capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs) -> Step:
    current = capture.current
    kind = operation.kind
    if kind == "layer":
        nonnegative = origins[0] is not None and origins[0].nonnegative
        operation.layer = read_layer(call, nonnegative=nonnegative)
        return LayerStep(operation, current, operation.layer, capture.needs_layer_inputs)
    if kind == "addition":
        return AdditionStep(operation, current, _addition(call, origins))
    differentiates = any(method.differentiates(operation) for method in capture.methods)
    if kind == "normalisation":
        read = read_normalisation(call)
        step = NormalisationStep(operation, current, differentiates=differentiates, normalisation=read)
        if read.is_layer_norm and not differentiates and not capture.carries_relevance:
            step.is_short = True
            step.bias = bias_of(call)
        return step
    if kind in ("elementwise", "rectifier"):
        return ElementStep(operation, current, differentiates=differentiates)
    if kind == "pooling" and any(method.pooling is not None for method in capture.methods):
        return PoolingStep(operation, current)
    return DerivativeStep(operation, current, n_factors=call.times)


def _addition(call: Call, origins: OriginsOfInputs) -> Addition:
    """The linear map of x + αy, of x − αy, or of αy − x."""
    alpha = float(call.kwargs.get("alpha", 1))
    weights = [1.0, alpha if call.name == "add" else -alpha]
    if "rsub" in getattr(call.function, "__name__", ""):  # its plain name is 'sub' as well
        weights = [-alpha, 1.0]
    depths = tuple(0 if origin is None else origin.depth for origin in origins)
    nonnegative = all(origin is not None and origin.nonnegative for origin in origins)
    weight = call.activations[0].new_tensor(weights)
    return Addition("addition", weight, None, {"depths": depths}, nonnegative)


def _batch_norm(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> Tensor | None:
    """Batch norm as the methods want it; None where it keeps its derivative, which is LRP-0."""
    # Methods that share a forward pass have the same treatment; gradients go with any.
    treatment = next(method.batch_norm for method in capture.methods if method.carries != "gradient")
    if treatment == "merged":
        return _merged(capture, call, operation, origin)
    operation.kind = "layer"
    if treatment == "two_linear":
        return _two_linear(capture, call, operation)
    if treatment == "four_coefficients":
        operation.own_rule = four_coefficients()
    scale = ChannelScale("batch_norm", *read_batch_norm(call).line(), {})
    step = LayerStep(operation, capture.current, scale)
    return carry_out(step, call.run, *capture.watch(operation, call.activations))


def _two_linear(capture: Capture, call: Call, operation: Operation) -> Tensor:
    """Batch norm as two layers: normalising, then scaling; the first one is recorded here."""
    norm = read_batch_norm(call)
    normalise = ChannelScale("batch_norm", *norm.normalising_line(), {})
    first = Operation(0, "batch_norm", "layer", operation.path, operation.first)
    x = carry_out(
        LayerStep(first, capture.current, normalise),
        lambda xs: normalise.forward(xs[0], normalise.weight, normalise.bias),
        *capture.watch(first, call.activations),
    )
    x = capture.record(first, x)
    operation.first = False
    step = LayerStep(operation, capture.current, ChannelScale("batch_norm", *norm.scaling_line(), {}))
    # The output is that of the model's own call, to the last bit, not one of our two layers.
    return carry_out(step, lambda _: call.run_detached(), *capture.watch(operation, [x]))


def _merged(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> Tensor | None:
    """Batch norm and the layer whose output it normalises as one layer; None where there is no such layer."""
    normalised = call.activations[0]
    layer = None if origin is None else origin.operation.layer
    if origin is None or layer is None or not layer.shows_channels:
        return None
    if layer.name == "linear" and normalised.ndim != 2:
        return None  # batch norm takes axis 1 as channels, a fully connected layer has them last
    before = origin.operation
    before.merged = True
    operation.name = f"{before.name} + batch_norm"
    operation.kind = "layer"
    operation.first = before.first
    inputs = capture.watch(operation, origin.inputs)
    if any(method.carries == "gradient" for method in capture.methods):
        inputs.append(normalised)
    norm = read_batch_norm(call)
    step = MergedStep(operation, capture.current, layer, capture.needs_layer_inputs, norm=norm)
    return carry_out(step, lambda _: call.run_detached(), *inputs)
