"""Recording an operation on activations: its kind, how it is run, and where its output came from.

Where the plain derivative serves all methods, the operation runs as it is and autograd does the rest.
Elsewhere it runs inside a step of its kind (`steps`, `derivative_steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Call, Operation, has_derivatives, tensors_in
from tellwhy.explainers.propagation.engine.derivative_steps import (
    DerivativeStep,
    ElementStep,
    NormalisationStep,
    PoolingStep,
    SoftmaxStep,
    attention,
    biased,
    by_own_function,
    ratio_of,
)
from tellwhy.explainers.propagation.engine.differences import is_compared
from tellwhy.explainers.propagation.engine.kinds import (
    OF_THE_FIRST,
    OTHERS,
    check_complex,
    check_evaluation_mode,
    check_named,
    check_seen,
    is_leaky,
    is_rectifier,
    kind_of,
    note_unknown,
    of_complex_numbers,
)
from tellwhy.explainers.propagation.engine.layers import (
    Addition,
    BatchNorm,
    ChannelScale,
    bias_of,
    read_batch_norm,
    read_layer,
    read_normalisation,
)
from tellwhy.explainers.propagation.engine.origins import (
    Origin,
    Written,
    centres,
    constants_of,
    depth_of,
    origin_of,
    roles_of,
    written_function,
)
from tellwhy.explainers.propagation.engine.steps import (
    AdditionStep,
    Followed,
    LayerStep,
    MergedStep,
    Relu,
    Step,
    portion,
)
from tellwhy.explainers.propagation.rules import four_coefficients

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture

OriginsOfInputs = Sequence[Origin | None]


def run_operation(
    capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs, written: Written | None
) -> Any:
    """Run an operation of a known kind."""
    if written is not None:
        return _run_written(capture, call, operation, written)
    if operation.kind == "attention":
        return attention(capture, call, operation)
    past = _past_layer(capture, call, operation, origins[0]) if capture.follows_rules else None
    if past is not None:
        inputs = capture.watch(operation, capture.inputs_of_layer(call.activations[0]))
        return Followed.apply(past, lambda _: call.run_detached(), *inputs)
    if call.name == "batch_norm" and operation.kind == "layer":
        return _run_batch_norm(capture, call, operation)
    if operation.constants:
        # What gets no relevance is left out of the graph: nothing is computed for it on the way down.
        call = _only_live(operation.constants, call)
        operation.constants = ()
    return _run(capture, call, operation, origins)


def _only_live(held: Sequence[bool], call: Call) -> Call:
    """A call in which some activations are constants."""
    live = [t for t, constant in zip(call.activations, held, strict=True) if not constant]
    return replace(call, activations=live, times=len(live), only_activations=False)


def _run(capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs) -> Any:
    if capture.compared is not None and is_compared(operation):
        return capture.compared.run(operation, capture, call)
    inputs = capture.watch(operation, call.activations)
    before = origins[0]
    is_short = not (capture.needs_layer_inputs or capture.carries_relevance or operation.rectifies)
    if call.name == "relu" and is_short and before is not None and before.operation.kind == "layer":
        overwrites = _overwrites(capture, call, before)
        before.operation.owns_cotangent = overwrites
        return Relu.apply(inputs[0], overwrites)
    if all(method.is_plain(operation) for method in capture.methods):
        return call.run(inputs)
    if operation.kind == "product" and not capture.carries_relevance:
        # The derivative gives the whole to each factor, of which each gets its share.
        return portion(call.run(inputs), 1 / call.times)
    result = Followed.apply(_step(capture, call, operation, origins), call.run, *inputs)
    # f(z)/z is taken element by element, which needs one output for each input.
    if operation.kind in ("elementwise", "rectifier") and result.shape != inputs[0].shape:
        capture.refuse(f"{operation.where} broadcasts an activation; expand it to the full shape first.")
    return result


def _overwrites(capture: Capture, call: Call, before: Origin) -> bool:
    """Whether a ReLU may be carried out in place: the model does so, and nothing else has seen its input."""
    alone = before.n_uses == 1 and before.operation.own_rule is None
    return capture.may_overwrite and call.in_place and alone


def _run_written(capture: Capture, call: Call, operation: Operation, written: Written) -> Tensor:
    """The last operation of a function that the model writes out: relevance goes to what it is of."""
    step: Step = ElementStep(operation, capture.current)
    if written.axis is not None:
        step = SoftmaxStep(operation, capture.current, written.axis)
    return Followed.apply(step, lambda _: call.run_detached(), *capture.watch(operation, [written.z]))


def _step(capture: Capture, call: Call, operation: Operation, origins: OriginsOfInputs) -> Step:
    current = capture.current
    kind = operation.kind
    if kind == "layer":
        nonnegative = origins[0] is not None and origins[0].nonnegative
        operation.layer = read_layer(call, nonnegative=nonnegative)
        return LayerStep(operation, current, operation.layer, capture.needs_layer_inputs)
    if kind == "addition":
        return AdditionStep(operation, current, _addition(call, origins))
    if kind == "normalisation":
        read = read_normalisation(call)
        step = NormalisationStep(operation, current, read)
        if read.is_layer_norm and not (capture.carries_relevance or has_derivatives.get()):
            step.is_short = True
            step.bias = bias_of(call)
        return step
    if kind in ("elementwise", "rectifier"):
        return ElementStep(operation, current, ratio_of(call))
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


def _past_layer(
    capture: Capture, call: Call, operation: Operation, origin: Origin | None
) -> LayerStep | None:
    """The step of what is one with the layer before it, whose inputs its relevance goes to; else None."""
    if call.name == "add":
        return biased(capture, call, operation, origin)
    if call.name != "batch_norm":
        return None
    # Methods that share a forward pass have the same treatment.
    if capture.methods[0].batch_norm == "merged":
        return _merged(capture, call, operation, origin)
    operation.kind = "layer"
    return None


def _run_batch_norm(capture: Capture, call: Call, operation: Operation) -> Tensor:
    """Batch norm as a layer of its own, or as two; without a layer before it, it keeps its derivative."""
    norm = read_batch_norm(call)
    treatment = capture.methods[0].batch_norm
    line = norm.line()
    x = call.activations
    if treatment == "two_linear":
        x = [_normalised(capture, call, operation, norm)]
        line = norm.scaling_line()
    if treatment == "four_coefficients":
        operation.own_rule = four_coefficients()
    step = LayerStep(operation, capture.current, ChannelScale("batch_norm", *line, {}))
    # The output is that of the model's own call, to the last bit, not one of our two layers.
    return Followed.apply(step, lambda _: call.run_detached(), *capture.watch(operation, x))


def _normalised(capture: Capture, call: Call, operation: Operation, norm: BatchNorm) -> Tensor:
    """The first of two layers, recorded: batch norm before it scales."""
    normalise = ChannelScale("batch_norm", *norm.normalising_line(), {})
    first = Operation(0, "batch_norm", "layer", operation.path, operation.first)
    operation.first = False
    x = Followed.apply(
        LayerStep(first, capture.current, normalise),
        lambda xs: normalise.forward(xs[0], normalise.weight, normalise.bias),
        *capture.watch(first, call.activations),
    )
    recorded: Tensor = capture.record(first, x)
    return recorded


def _merged(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> MergedStep | None:
    """Batch norm and the layer whose output it normalises as one layer; None where there is no such layer."""
    layer = None if origin is None else origin.operation.layer
    if origin is None or layer is None or not layer.shows_channels:
        return None
    if layer.name == "linear" and call.activations[0].ndim != 2:
        return None  # batch norm takes axis 1 as channels, a fully connected layer has them last
    before = origin.operation
    before.merged = True
    operation.name = f"{before.name} + batch_norm"
    operation.kind = "layer"
    operation.first = before.first
    return MergedStep(
        operation, capture.current, layer, capture.needs_layer_inputs, norm=read_batch_norm(call)
    )


def run_and_record(capture: Capture, call: Call) -> Any:
    """Run an operation on activations, and record it."""
    origins = [capture.origins.of(t) for t in call.activations]
    for origin in origins:
        if origin is not None:
            origin.n_uses += 1
    operation, written = _operation(capture, call, origins)
    if operation.kind == "unknown" and call.name == "div" and (capture.follows_rules or capture.compared):
        quotient = _quotient(capture, call)
        if quotient is not None:
            return quotient
    for own in capture.own.functions:
        if own.takes(operation):
            check_evaluation_mode(capture, call, operation)
            made = by_own_function(capture, call, operation, own)
            return _kept(capture, call, operation, made, origins)
    if capture.rectifies:
        _look_for_rectifier(capture, call, operation, origins)
    if None in origins:
        check_seen(capture, call, operation, origins)
    if operation.kind == "unknown":
        result = call.run(call.activations)
        if not any(capture.is_activation(t) for t in tensors_in(result)):
            return result  # x.argmax(), x > 0: nothing can be handed down, no rule is missing
        note_unknown(capture, call, operation)
    else:
        check_evaluation_mode(capture, call, operation)
        check_named(capture, call, operation)
        check_complex(capture, call, operation)
        result = run_operation(capture, call, operation, origins, written)
    return _kept(capture, call, operation, result, origins)


def _quotient(capture: Capture, call: Call) -> Any:
    """A quotient whose divisor is an activation: a product with its reciprocal."""
    given = call.arguments(("input", "other"))
    if given.get("rounding_mode") is not None:
        return None
    with capture:
        result = given["input"] * given["other"].reciprocal()
    if call.in_place:
        capture.origins.replace(call.target, result)
    return result


def _operation(
    capture: Capture, call: Call, origins: Sequence[Origin | None]
) -> tuple[Operation, Written | None]:
    """The record of an operation, and the function that it completes where the model writes one out."""
    meets = len(origins) > 1 and capture.follows_rules
    constants = constants_of(call, roles_of(origins), capture.constant_roles) if meets else []
    written = written_function(call, origins, capture.origins) if meets else None
    kind = _kind(capture, call, origins, constants)
    if written is not None:
        kind = "elementwise" if written.axis is None else "softmax"
        constants = []
    is_first = depth_of(origins) == 0
    operation = Operation(len(capture.operations), call.name, kind, capture.paths.current, is_first)
    operation.constants = tuple(constants) if any(constants) else ()
    operation.before = tuple(origin.operation for origin in origins if origin is not None)
    return operation, written


def _kind(capture: Capture, call: Call, origins: Sequence[Origin | None], constants: Sequence[bool]) -> str:
    live = call.activations
    times = call.times
    if any(constants):
        live = [t for t, held in zip(call.activations, constants, strict=True) if not held]
        times = len(live)
    kind = kind_of(call.name, times, call.args, call.kwargs, capture.kinds)
    if any(t.is_complex() for t in call.activations):
        kind = of_complex_numbers(call.name, kind)
    is_of_one = kind in ("layer", "normalisation") or (call.name in OF_THE_FIRST and kind != "unknown")
    if is_of_one and call.target is not live[0]:
        return "unknown"  # the weights, or the divisor, depend on the input instead
    if kind == "addition" and (len(call.activations) != call.times or centres(call, origins)):
        return "mixing"  # x + x, or x − mean(x)
    return kind


def _look_for_rectifier(
    capture: Capture, call: Call, operation: Operation, origins: Sequence[Origin | None]
) -> None:
    """Tell methods that replace rectifiers which operations are some, and which are something else."""
    operation.rectifies = is_rectifier(call)
    if operation.rectifies and operation.kind in ("copying", "mixing"):
        operation.kind = "rectifier"
    if (call.name in OTHERS and not operation.rectifies) or is_leaky(call):
        capture.not_rectifiers.append(operation)
    written = written_function(call, origins, capture.origins) if call.name == "div" else None
    if written is not None and written.axis is not None:  # its exponential is part of a softmax
        powers = origins[0].operation if origins[0] is not None else None
        capture.not_rectifiers = [other for other in capture.not_rectifiers if other is not powers]


def _kept(capture: Capture, call: Call, operation: Operation, result: Any, origins: OriginsOfInputs) -> Any:
    """Record an operation; keep the origin of its outputs, and what an in-place change replaced."""
    result = capture.record(operation, result)
    outputs = tensors_in(result)
    made = origin_of(call, operation, origins, outputs)
    for tensor in outputs:
        capture.origins.keep(tensor, made)
    if operation.kind == "copying":
        views = [t for t in outputs if t._is_view() or call.name == "view"]
        capture.viewed.update([t.untyped_storage().data_ptr() for t in views])
    if call.in_place:
        target = call.target
        # The change was made to a copy, so that views of the tensor do not show it.
        capture.must_verify |= target.untyped_storage().data_ptr() in capture.viewed
        if outputs and outputs[0] is not target:
            capture.origins.replace(target, outputs[0])
    return result
