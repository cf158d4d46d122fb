"""The origin of an operation's outputs, and what it tells of the next operation.

Three things are recognised here by how activations were made, not by a name: a function of single elements
that the model writes out (x·sigmoid(x), GELU by hand), a softmax that it writes out, and centring.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from tellwhy.explainers.propagation.engine.origins import Origin, Origins, common_ancestor, depth_of
from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.kinds import is_nonnegative
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.explainers.propagation.operations.roles import role_of

_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "neg"))
_UNCHANGED = frozenset(
    ("to", "float", "double", "half", "bfloat16", "type", "type_as", "clone", "contiguous")
)
_UNCHANGED |= {"dropout", "feature_dropout", "alpha_dropout"}
_LIKE_ANOTHER = frozenset(("expand_as", "view_as", "reshape_as", "type_as"))
_LOOKED_BACK_AT = frozenset(("mean", "sum", "sub", "max", "amax"))  # parts of norms and of a softmax by hand
_POINTWISE = frozenset(("elementwise", "rectifier"))
_KEEPS_INPUTS = frozenset(("softmax", "log_softmax", "exp"))
OriginsOfInputs = Sequence[Origin | None]


def origin_of(
    call: Call, operation: Operation, origins: OriginsOfInputs, outputs: Sequence[Tensor]
) -> Origin:
    """Where the outputs of an operation came from. Called at every operation, so it looks at little."""
    depth = depth_of(origins)
    kind = operation.kind
    if kind == "layer":
        return Origin(operation, depth + 1, inputs=tuple(call.activations))
    # Constants among the arguments, and a factor `alpha` of an addition, may be negative.
    inputs_are = call.only_activations and "alpha" not in call.kwargs
    inputs_are = inputs_are and all(o is not None and o.nonnegative for o in origins)
    made = Origin(operation, depth, is_nonnegative(call.name, kind, inputs_are=inputs_are))
    if call.name in _KEEPS_INPUTS:
        made.inputs = tuple(call.activations)
    if call.name in _LOOKED_BACK_AT:
        made.parents = tuple(weakref.ref(t) for t in call.activations)
    if kind in _POINTWISE or call.name in _ARITHMETIC or call.name in _UNCHANGED:
        made.ancestors = _ancestors(call, origins, outputs)
    made.role = "weights" if kind == "softmax" else _role(call, operation, origins)
    return made


def _role(call: Call, operation: Operation, origins: OriginsOfInputs) -> str:
    # Of x.expand_as(y) only x goes into the output.
    counted = origins[:1] if call.name in _LIKE_ANOTHER else origins
    if operation.constants:
        counted = [o for o, held in zip(counted, operation.constants, strict=True) if not held]
    return role_of(call, operation.kind, roles_of(counted))


def roles_of(origins: OriginsOfInputs) -> list[str]:
    """Role of each activation."""
    return ["" if origin is None else origin.role for origin in origins]


def _ancestors(
    call: Call, origins: OriginsOfInputs, outputs: Sequence[Tensor]
) -> tuple[weakref.ref[Tensor], ...]:
    """Activations of which the output is a function, element by element."""
    if len(outputs) != 1 or any(t.shape != outputs[0].shape for t in call.activations):
        return ()
    if len(call.activations) == 1:
        before = () if origins[0] is None else origins[0].ancestors
        return (*before, weakref.ref(call.activations[0]))
    shared = common_ancestor(call.activations, origins)
    return () if shared is None else (weakref.ref(shared),)


class Written(NamedTuple):
    """A function that the model writes out: the activation z it is of, and the axis of a softmax.

    Without an axis it is a function of single elements.
    """

    z: Tensor
    axis: int | None = None


def written_function(call: Call, origins: OriginsOfInputs, known: Origins) -> Written | None:
    """The function of one activation that a product or quotient of several completes; None for no such."""
    if call.name not in ("mul", "div") or len(call.activations) < 2:
        return None
    if call.name == "div":
        softmax = _written_softmax(call, origins, known)
        if softmax is not None:
            return softmax
    if len({t.shape for t in call.activations}) > 1:
        return None
    z = common_ancestor(call.activations, origins)
    return None if z is None else Written(z)


def _written_softmax(call: Call, origins: OriginsOfInputs, known: Origins) -> Written | None:
    """The softmax that exp(z) / Σ exp(z) is."""
    top = origins[0]
    bottom = origins[1]
    if top is None or bottom is None or top.operation.name != "exp" or bottom.operation.name != "sum":
        return None
    powers = call.activations[0]
    total = call.activations[1]
    if call.target is not powers or bottom.parents[0]() is not powers or total.ndim != powers.ndim:
        return None
    axes = [axis for axis in range(powers.ndim) if total.shape[axis] != powers.shape[axis]]
    return Written(_not_shifted(top.inputs[0], known), axes[0]) if len(axes) == 1 else None


def _not_shifted(z: Tensor, known: Origins) -> Tensor:
    """z as it was before its largest element was subtracted: softmax is the same for both."""
    origin = known.of(z)
    operation = None if origin is None else origin.operation
    if origin is None or operation is None or (operation.name, operation.kind) != ("sub", "addition"):
        return z
    before = [ref() for ref in origin.parents]
    largest = None if before[0] is None or before[1] is None else known.of(before[1])
    if before[0] is None or largest is None or largest.operation.name not in ("max", "amax"):
        return z
    return before[0] if largest.parents[0]() is before[0] else z


def centres(call: Call, origins: OriginsOfInputs) -> bool:
    """Whether a difference subtracts a mean of x from x: part of a norm, not a residual connection."""
    if call.name != "sub" or len(call.activations) != 2 or call.target is not call.activations[0]:
        return False
    mean = origins[1]
    return mean is not None and mean.operation.name == "mean" and mean.parents[0]() is call.activations[0]
