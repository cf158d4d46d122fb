"""Roles: what an activation is to the operations that use it, told by how it was made.

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

from collections.abc import Sequence

from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call

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
