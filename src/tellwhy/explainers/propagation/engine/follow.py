"""The step of each operation: which one it takes under the methods of a run, and with what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Call, read_batch_norm
from tellwhy.explainers.propagation.engine.layers import Addition, ChannelScale, read_layer
from tellwhy.explainers.propagation.engine.normalisation import read_normalisation
from tellwhy.explainers.propagation.engine.operations import Operation
from tellwhy.explainers.propagation.engine.steps import (
    AdditionStep,
    DerivativeStep,
    ElementStep,
    Followed,
    LayerStep,
    MergedStep,
    NormalisationStep,
    PoolingStep,
    Step,
)
from tellwhy.explainers.propagation.rules import four_coefficients

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture, Origin

    Origins = Sequence[Origin | None]


def follow(capture: Capture, call: Call, operation: Operation, origins: Origins) -> Any:
    """Run a known operation: as it is where its derivative serves all methods, else in a step of its kind."""
    if call.name == "batch_norm" and capture.follows_rules:
        found = _batch_norm(capture, call, operation, origins[0])
        if found is not None:
            return found
    inputs = capture.watch(operation, call.activations)
    if all(method.is_plain(operation) for method in capture.methods):
        return call.run(inputs)
    result = Followed.apply(_step(capture, call, operation, origins), call.run, *inputs)
    if operation.kind in ("elementwise", "rectifier") and result.shape != inputs[0].shape:
        capture.refuse(f"{operation.where} broadcasts an activation; expand it to the full shape first.")
    return result


def _step(capture: Capture, call: Call, operation: Operation, origins: Origins) -> Step:
    current, kind = capture.current, operation.kind
    if kind == "layer":
        nonnegative = origins[0] is not None and origins[0].nonnegative
        operation.layer = read_layer(call.name, call.args, call.kwargs, nonnegative=nonnegative)
        return LayerStep(operation, current, operation.layer)
    if kind == "addition":
        return AdditionStep(operation, current, _addition(call, origins))
    differentiates = any(method.differentiates(operation) for method in capture.methods)
    if kind == "normalisation":
        read = read_normalisation(call.name, call.args, call.kwargs, call.activations[0])
        return NormalisationStep(operation, current, differentiates=differentiates, normalisation=read)
    if kind in ("elementwise", "rectifier"):
        return ElementStep(operation, current, differentiates=differentiates)
    if kind == "pooling" and any(method.pooling is not None for method in capture.methods):
        return PoolingStep(operation, current)
    return DerivativeStep(operation, current)


def _addition(call: Call, origins: Origins) -> Addition:
    x, alpha = call.activations[0], float(call.kwargs.get("alpha", 1))
    weights = [1.0, alpha if call.name == "add" else -alpha]
    if "rsub" in getattr(call.function, "__name__", ""):
        weights = [-alpha, 1.0]
    depths = tuple(0 if origin is None else origin.depth for origin in origins)
    nonnegative = all(origin is not None and origin.nonnegative for origin in origins)
    return Addition("addition", x.new_tensor(weights), None, {"depths": depths}, nonnegative)


def _batch_norm(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> Tensor | None:
    """Batch norm as the methods want it; None where it keeps its derivative, which is LRP-0."""
    treatment = next(method.batch_norm for method in capture.methods if method.carries != "gradient")
    if treatment == "merged":
        return _merged(capture, call, operation, origin)
    norm, current = read_batch_norm(call), capture.current
    operation.kind = "layer"
    if treatment == "two_linear":
        normalise, scale = (ChannelScale("batch_norm", *line, {}) for line in norm.lines())
        x = _normalised(capture, call, operation, normalise)
        operation.first = False
        step = LayerStep(operation, current, scale)
        return Followed.apply(step, lambda _: call.run_detached(), *capture.watch(operation, [x]))
    if treatment == "four_coefficients":
        operation.own_rule = four_coefficients()
    step = LayerStep(operation, current, ChannelScale("batch_norm", *norm.line(), {}))
    return Followed.apply(step, call.run, *capture.watch(operation, call.activations))


def _normalised(capture: Capture, call: Call, operation: Operation, scale: ChannelScale) -> Tensor:
    """First of two linear layers: (x − μ)/s."""
    part = Operation(0, "batch_norm", "layer", operation.path, operation.first)
    step = LayerStep(part, capture.current, scale)
    result = Followed.apply(
        step,
        lambda xs: scale.forward(xs[0], scale.weight, scale.bias),
        *capture.watch(part, call.activations),
    )
    return capture.record(part, result)


def _merged(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> Tensor | None:
    """Batch norm and the layer whose output it normalises as one layer."""
    normalised = call.activations[0]
    layer = None if origin is None else origin.operation.layer
    if origin is None or layer is None or not layer.shows_channels:
        return None
    if layer.name == "linear" and normalised.ndim != 2:
        return None
    before = origin.operation
    before.merged = True
    operation.name, operation.kind, operation.first = f"{before.name} + batch_norm", "layer", before.first
    inputs = capture.watch(operation, origin.inputs)
    if any(method.carries == "gradient" for method in capture.methods):
        inputs.append(normalised)
    step = MergedStep(operation, capture.current, layer, read_batch_norm(call))
    return Followed.apply(step, lambda _: call.run_detached(), *inputs)
