"""Following an operation: the way to run it so that every method can go back through it.

Where the plain derivative serves all methods, the operation runs as it is and autograd does the rest.
Elsewhere it runs inside a step of its kind (`steps`, `derivative_steps`). A way is chosen once, and may be
taken again with the next batch (`inside.course`): it knows the operation, and none of the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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
from tellwhy.explainers.propagation.inside.course import plain_way
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

Way = Callable[["Capture", Call], Any]


def way_of(
    capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs, written: Written | None
) -> Way:
    """The way to run an operation of a known kind."""
    if written is not None:
        capture.is_repeatable = False  # this way knows a tensor of this batch
        return lambda capture, call: _written(capture, call, operation, written)
    if operation.kind == "attention":
        return partial(_attention, operation)
    if call.name == "batch_norm" and capture.follows_rules:
        merged = _batch_norm(capture, call, operation, origins[0])
        if merged is not None:
            return merged
    if call.name == "add" and capture.follows_rules:
        step = biased(capture, call, operation, origins[0])
        if step is not None:
            return partial(_past_layer, step)
    if operation.constants and not capture.has_gradients:
        # What gets no relevance is left out of the graph: nothing is computed for it on the way down.
        held = operation.constants
        operation.constants = ()
        inner = _way(capture, _only_live(held, call), operation, origins)
        return lambda capture, call: inner(capture, _only_live(held, call))
    return _way(capture, call, operation, origins)


def _only_live(held: Sequence[bool], call: Call) -> Call:
    """A call in which some activations are constants."""
    live = [t for t, constant in zip(call.activations, held, strict=True) if not constant]
    return replace(call, activations=live, times=len(live), only_activations=False)


def _way(capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs) -> Way:
    remembers = capture.histories is not None
    is_short = not (capture.needs_layer_inputs or capture.carries_relevance or remembers)
    if call.name == "relu" and is_short:
        before = origins[0]
        if before is not None and before.operation.kind == "layer" and not operation.rectifies:
            overwrites = _overwrites(capture, call, before)
            before.operation.owns_cotangent = overwrites
            return partial(_relu, operation, overwrites)
    if not operation.constants and all(method.is_plain(operation) for method in capture.methods):
        return partial(_remembered if remembers else plain_way, operation)
    evenly = operation.kind == "product" and not operation.constants and not remembers
    if evenly and not capture.carries_relevance:
        return partial(_in_portions, operation)
    return partial(_stepped, _step(capture, call, operation, origins))


def _remembered(operation: Operation, capture: Capture, call: Call) -> Any:
    return remembered(capture.current, call, operation, capture.watch(operation, call.activations))


def _relu(operation: Operation, overwrites: bool, capture: Capture, call: Call) -> Tensor:
    made: Tensor = Relu.apply(capture.watch(operation, call.activations)[0], overwrites)
    return made


def _in_portions(operation: Operation, capture: Capture, call: Call) -> Tensor:
    """A product: the derivative gives the whole to each factor, of which each gets its share."""
    out = call.run(capture.watch(operation, call.activations))
    return portion(out, 1 / call.times, capture.current)


def _attention(operation: Operation, capture: Capture, call: Call) -> Tensor:
    return attention(capture, call, operation)


def _stepped(step: Step, capture: Capture, call: Call) -> Tensor:
    operation = step.operation
    inputs = capture.watch(operation, call.activations)
    result = carry_out(step, call.run, *inputs)
    # f(z)/z is taken element by element, which needs one output for each input.
    if operation.kind in ("elementwise", "rectifier") and result.shape != inputs[0].shape:
        capture.refuse(f"{operation.where} broadcasts an activation; expand it to the full shape first.")
    return result


def _past_layer(step: LayerStep, capture: Capture, call: Call) -> Tensor:
    """Run what is one with the layer before it: relevance goes to the inputs of that layer."""
    inputs = capture.watch(step.operation, capture.inputs_of_layer(call.activations[0]))
    if capture.has_gradients:
        inputs.append(call.activations[0])
    return carry_out(step, lambda _: call.run_detached(), *inputs)


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


def _batch_norm(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> Way | None:
    """Batch norm as the methods want it; None where it keeps its derivative, which is LRP-0."""
    # Methods that share a forward pass have the same treatment; gradients go with any.
    treatment = next(method.batch_norm for method in capture.methods if method.carries != "gradient")
    if treatment == "merged":
        return _merged(capture, call, operation, origin)
    operation.kind = "layer"
    if treatment == "two_linear":
        capture.is_repeatable = False  # two operations are recorded
        return lambda capture, call: _two_linear(capture, call, operation)
    if treatment == "four_coefficients":
        operation.own_rule = four_coefficients()
    scale = ChannelScale("batch_norm", *read_batch_norm(call).line(), {})
    return partial(_stepped, LayerStep(operation, capture.current, scale))


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


def _merged(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> Way | None:
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
    norm = read_batch_norm(call)
    step = MergedStep(operation, capture.current, layer, capture.needs_layer_inputs, norm=norm)
    return partial(_past_layer, step)
