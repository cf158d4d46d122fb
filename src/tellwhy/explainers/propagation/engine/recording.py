"""Recording an operation on activations: its kind, the way it is run, and where its output came from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tellwhy.explainers.propagation.engine.composed_steps import by_own_function
from tellwhy.explainers.propagation.engine.follow import Way, way_of
from tellwhy.explainers.propagation.engine.lineage import (
    Written,
    centres,
    origin_of,
    roles_of,
    written_function,
)
from tellwhy.explainers.propagation.engine.origins import Origin, depth_of
from tellwhy.explainers.propagation.engine.refusals import (
    check_complex,
    check_evaluation_mode,
    check_named,
    check_seen,
    note_unknown,
)
from tellwhy.explainers.propagation.inside.course import OtherCourse
from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.kinds import OF_THE_FIRST, kind_of, of_complex_numbers
from tellwhy.explainers.propagation.operations.nested import tensors_in
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.explainers.propagation.operations.rectifiers import OTHERS, is_leaky, is_rectifier
from tellwhy.explainers.propagation.operations.roles import constants_of
from tellwhy.explainers.propagation.rules import Handover

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture


def run_and_record(capture: Capture, call: Call) -> Any:
    """Run an operation on activations, and record it."""
    if capture.repeats is not None:
        raise OtherCourse
    origins = [capture.origins.of(t) for t in call.activations]
    for origin in origins:
        if origin is not None:
            origin.n_uses += 1
    operation, written = _operation(capture, call, origins)
    if operation.kind == "unknown" and call.name == "div" and capture.follows_rules:
        quotient = _quotient(capture, call)
        if quotient is not None:
            return quotient
    for own in capture.own.functions:
        if own.takes(operation):
            return _by_own(capture, call, operation, own, origins)
    if capture.rectifies:
        _look_for_rectifier(capture, call, operation, origins)
    if None in origins:
        check_seen(capture, call, operation, origins)
    if operation.kind == "unknown":
        way: Way = partial(_run_unknown, operation)
    else:
        check_evaluation_mode(capture, call, operation)
        check_named(capture, call, operation)
        check_complex(capture, call, operation)
        way = way_of(capture, call, operation, origins, written)
    return _take(capture, way, call, operation, origins)


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


def _take(
    capture: Capture, way: Way, call: Call, operation: Operation, origins: Sequence[Origin | None]
) -> Any:
    """Run an operation in the way that was chosen for it, and record it."""
    arguments = None if capture.course is None else capture.course.described(call.args, call.kwargs, [])
    result = way(capture, call)
    if operation.kind == "unknown":
        if not any(capture.is_activation(t) for t in tensors_in(result)):
            # x.argmax(), x > 0: nothing can be handed down, no rule is missing
            if capture.course is not None:
                capture.course.note(call, arguments, None, (way, result))
            return result
        note_unknown(capture, call, operation)
    result = capture.record(operation, result)
    _keep(capture, call, operation, result, origins)
    if capture.course is not None:
        capture.course.note(call, arguments, operation, (way, result))
    return result


def _run_unknown(operation: Operation, capture: Capture, call: Call) -> Any:
    return capture.run_unknown(call, operation)


def _by_own(
    capture: Capture, call: Call, operation: Operation, own: Handover, origins: Sequence[Origin | None]
) -> Any:
    """Run and record an operation that the user has a function for."""
    check_evaluation_mode(capture, call, operation)
    result = capture.record(operation, by_own_function(capture, call, operation, own))
    _keep(capture, call, operation, result, origins)
    return result


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


def _keep(
    capture: Capture, call: Call, operation: Operation, result: Any, origins: Sequence[Origin | None]
) -> None:
    """Keep the origin of the outputs, and what an in-place change replaced."""
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
