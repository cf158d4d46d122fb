"""What is known of each activation while the model runs: where it came from, its role, what replaced it.

It is looked up by the tensor itself. Entries hold weak references: they do not keep activations alive, and
an id that was given to a new tensor after the old one was freed is not mistaken for it.

Three things are recognised here by how activations were made, not by a name: a function of single elements
that the model writes out (x·sigmoid(x), GELU by hand), a softmax that it writes out, and centring. A role
says what an activation is to the operations that use it:

square, mean square
    x², and a mean or sum of such squares.
scale
    A root of a mean square: what a norm divides by. It is a constant for relevance, in every spelling.
gate
    A number between 0 and 1 from a sigmoid, which lets a signal pass or not.
weights
    The output of a softmax: how much attention is paid to what.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Call, Operation
from tellwhy.explainers.propagation.engine.kinds import is_nonnegative


@dataclass(slots=True)
class Origin:
    """Where an activation came from.

    Attributes
    ----------
    operation
        The operation whose output it is.
    depth
        Layers on the longest way to it from the input.
    nonnegative
        Whether it is known to have no negative element.
    inputs
        What went into the operation; kept only where a batch norm may be merged with it, or where it may be a
        softmax.
    role
        What it is to the operations that use it: see the module.
    parents
        The activations that went into the operation, as far as they still exist.
    ancestors
        Activations of the same shape of which it is a function, element by element; the nearest one last.
    n_uses
        How many operations it has gone into so far.
    """

    operation: Operation
    depth: int = 0
    nonnegative: bool = False
    inputs: tuple[Tensor, ...] = ()
    role: str = ""
    parents: tuple[weakref.ref[Tensor], ...] = ()
    ancestors: tuple[weakref.ref[Tensor], ...] = ()
    n_uses: int = 0


def depth_of(origins: Sequence[Origin | None]) -> int:
    """Layers on the longest way to some activations."""
    depth = 0
    for origin in origins:  # asked at every operation: a generator would take longer
        if origin is not None and origin.depth > depth:
            depth = origin.depth
    return depth


def common_ancestor(tensors: Sequence[Tensor], origins: Sequence[Origin | None]) -> Tensor | None:
    """The nearest activation of which all these are functions, element by element; None for no such."""
    lines = []
    for tensor, origin in zip(tensors, origins, strict=True):
        before = () if origin is None else origin.ancestors
        lines.append([t for t in (ref() for ref in before) if t is not None] + [tensor])
    others = [{id(t) for t in line} for line in lines[1:]]
    for candidate in reversed(lines[0]):
        if all(id(candidate) in line for line in others):
            return candidate
    return None


def reaches(tensor: Tensor, leaves: Sequence[Tensor]) -> bool:
    """Whether a tensor was computed from some of the leaves, by the record that autograd has of it."""
    waiting = [tensor.grad_fn]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        start = getattr(node, "variable", None)
        if start is not None and any(start is leaf for leaf in leaves):
            return True
        waiting += [before for before, _ in node.next_functions]
    return False


class Origins:
    """The origin of each activation, and the new tensor of each one that was changed in place.

    An operation that would change a tensor in place is carried out on a copy, which from then on stands for
    the tensor: the backward pass needs the values from before the change.
    """

    def __init__(self) -> None:
        self._origins: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}
        self._replaced: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def of(self, tensor: Tensor) -> Origin | None:
        """Return where an activation came from."""
        kept = self._origins.get(id(tensor))
        return kept[1] if kept is not None and kept[0]() is tensor else None

    def keep(self, tensor: Tensor, origin: Origin) -> None:
        """Remember where an activation came from."""
        key = id(tensor)
        # Forgotten with the tensor: an origin may hold the inputs of a layer, which are large.
        self._origins[key] = (weakref.ref(tensor, lambda _: self._origins.pop(key, None)), origin)

    def replace(self, tensor: Tensor, new: Tensor) -> None:
        """Let another tensor stand for one that the model changed in place."""
        key = id(tensor)
        self._replaced[key] = (weakref.ref(tensor, lambda _: self._replaced.pop(key, None)), new)

    def may_be_replaced(self, tensors: Sequence[Tensor]) -> bool:
        """Whether `newest` is worth calling; quick, since it is asked for every operation."""
        return any(id(t) in self._replaced for t in tensors)

    @property
    def has_replaced(self) -> bool:
        """Whether some tensor was changed in place."""
        return bool(self._replaced)

    def newest(self, tensor: Tensor) -> Tensor:
        """Return what in-place operations made of a tensor; the tensor itself where they left it alone."""
        # A tensor may have been changed several times: each change replaced the tensor of the one before.
        while (kept := self._replaced.get(id(tensor))) is not None and kept[0]() is tensor:
            tensor = kept[1]
        return tensor

    def clear(self) -> None:
        """Let go of everything."""
        self._origins.clear()
        self._replaced.clear()


_MADE = {"square": "square", "sigmoid": "gate", "hardsigmoid": "gate", "softmax": "weights"}
_STARTS = frozenset((*_MADE, "pow", "mul"))
_NEXT = {
    ("mean", "square"): "mean square",
    ("sum", "square"): "mean square",
    ("avg_pool2d", "square"): "mean square",
    ("avg_pool3d", "square"): "mean square",
    ("sqrt", "mean square"): "scale",
    ("rsqrt", "mean square"): "scale",
}
# Roles that stay when an operation moves elements, or scales and shifts them by constants.
_STAYS = frozenset(("mean square", "scale", "gate", "weights"))
_WITH_CONSTANTS = frozenset(
    ("add", "sub", "mul", "div", "rdiv", "reciprocal", "clamp", "clamp_min", "clamp_max", "clip", "maximum")
)
_PRODUCTS = frozenset(("mul", "div", "matmul", "bmm", "mm", "einsum"))


def role_of(call: Call, kind: str, roles: Sequence[str]) -> str:
    """Role of the output of a call, from the roles of its activations."""
    role = roles[0] if roles else ""
    name = call.name
    is_silent = not role and name not in _STARTS  # nearly always
    if is_silent or not roles or any(other != role for other in roles):
        return ""
    if name in _MADE:
        return _MADE[name]
    if name == "pow":
        return _power(call, role)
    if name == "mul" and len(roles) == 1 and call.times == 2:  # x·x
        return "square"
    if (name, role) in _NEXT:
        return _NEXT[name, role]
    moved = role in _STAYS and (kind == "copying" or name in _WITH_CONSTANTS or name == "sum")
    moved = moved or (role == "square" and kind == "copying")
    multiplied = role in ("scale", "weights", "gate") and name in _PRODUCTS
    return role if moved or multiplied else ""


def _power(call: Call, role: str) -> str:
    """Role of x to a power: a square, or a root of a mean square."""
    exponent = call.arguments(("input", "exponent")).get("exponent")
    if isinstance(exponent, Tensor):  # one for each element says nothing of them all
        exponent = exponent.item() if exponent.numel() == 1 else None
    if exponent == 2:
        return "square"
    if role == "mean square" and isinstance(exponent, (int, float)) and abs(exponent) < 1:
        return "scale"
    return ""


def constants_of(call: Call, roles: Sequence[str], constant: frozenset[str]) -> list[bool]:
    """Which activations of a product or quotient get no relevance, since their role makes them constants."""
    found = [role in constant for role in roles]
    if call.name not in _PRODUCTS or len(roles) < 2 or all(found):
        return [False] * len(roles)
    return found


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
    if any(t.shape != call.activations[0].shape for t in call.activations):
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
