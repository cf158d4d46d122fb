"""Operations whose kind a user named: whether the numbers agree with the name.

A wrong kind would give numbers that look like relevance. So the operation is also applied to twice its
activations: what then comes out tells whether it can be what it was said to be.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.nested import tensors_in

_WORDS = {
    "mixing": "linear in its activations",
    "rectifier": "f(s·z) = s·f(z) for s > 0",
    "copying": "such that each output is one of the inputs or a constant",
    "elementwise": "a function of single elements",
}


def contradiction(call: Call, kind: str) -> str:
    """What speaks against the kind of a call, in words; "" where nothing does."""
    holds = _is_elementwise(call) if kind == "elementwise" else _scales(call, kind)
    return "" if holds else f"{kind!r} means that it is {_WORDS[kind]}, and on these rows it is not"


def _scales(call: Call, kind: str) -> bool:
    with torch.no_grad():
        once = tensors_in(call.run([t.detach() for t in call.activations]))
        twice = tensors_in(call.run([2 * t.detach() for t in call.activations]))
        none = tensors_in(call.run([torch.zeros_like(t) for t in call.activations]))
    for y, double, zero in zip(once, twice, none, strict=True):
        if not y.is_floating_point():
            continue
        near = 1e-3 * y.abs().amax() + 1e-12
        if kind == "copying":
            fits = ((double - 2 * y).abs() <= near) | ((double - y).abs() <= near)
        elif kind == "mixing":
            fits = (double - 2 * y + zero).abs() <= near
        else:
            fits = (double - 2 * y).abs() <= near
        if not bool(fits.all()):
            return False
    return True


def _is_elementwise(call: Call) -> bool:
    """Whether turning the order of all elements round turns that of the outputs round."""
    z = call.activations[0].detach()
    with torch.no_grad():
        plain = call.run([z, *[t.detach() for t in call.activations[1:]]])
        if not isinstance(plain, Tensor) or plain.shape != z.shape:
            return True  # refused elsewhere, with its own words
        turned = call.run([_turned(z), *[t.detach() for t in call.activations[1:]]])
    near = 1e-3 * plain.abs().amax() + 1e-12
    return bool(((turned - _turned(plain)).abs() <= near).all())


def _turned(x: Tensor) -> Tensor:
    return x.flatten().flip(0).reshape(x.shape)
