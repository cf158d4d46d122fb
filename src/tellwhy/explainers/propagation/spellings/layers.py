"""Fully connected layers in other words: products with a constant matrix, as `linear` would compute them.

A rule depends on the function that is computed, not on its name. So x @ W, `addmm` (as GPT-2 has it) and
`einsum` with constant weights become calls of `linear`, which gets the rule of a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_letters
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Constant = Callable[[Tensor], bool]  # whether a tensor does not depend on the explained input


def product_of_matrices(x: Tensor, weight: Tensor, is_constant: Constant) -> Tensor | None:
    """x @ W with a constant matrix W; None where it is something else."""
    if x.ndim < 2 or weight.ndim != 2 or is_constant(x) or not is_constant(weight):
        return None
    return functional.linear(x, weight.t())


def shifted_product(
    shift: Tensor, x: Tensor, weight: Tensor, is_constant: Constant, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """β·shift + α·x @ W, as `addmm` and `baddbmm` compute it."""
    is_layer = weight.ndim == 2 and is_constant(weight) and is_constant(shift) and not is_constant(x)
    if is_layer and shift.numel() == weight.shape[1] and shift.shape[-1] == weight.shape[1]:
        scaled = weight if alpha == 1 else alpha * weight
        bias = shift.reshape(-1)
        return functional.linear(x, scaled.t(), bias if beta == 1 else beta * bias)
    product = torch.matmul(x, weight)
    product = product if alpha == 1 else alpha * product
    if beta == 0:  # PyTorch then ignores the first argument, whatever is in it
        return product
    return (shift if beta == 1 else beta * shift) + product


def linear_with_computed_weights(
    x: Tensor, weight: Tensor, bias: Tensor | None, is_constant: Constant
) -> Tensor | None:
    """`linear` whose weights depend on the input: a product of two activations; None where they do not."""
    if is_constant(weight) and (bias is None or is_constant(bias)):
        return None
    product = torch.matmul(x, weight.mT)
    return product if bias is None else product + bias


def einsum_layer(equation: Any, operands: tuple[Any, ...], is_constant: Constant) -> Tensor | None:
    """`einsum` of one activation and constant weights that sums over all axes they share; else None."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or len(operands) != 2 or "->" not in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    x_axes, w_axes = inputs.split(",")
    x = operands[0]
    weight = operands[1]
    if is_constant(x) and not is_constant(weight):
        return einsum_layer(f"{w_axes},{x_axes}->{output}", (weight, x), is_constant)
    if is_constant(x) or not is_constant(weight) or "." in w_axes:
        return None
    # The axes that "..." stands for get letters that nothing else has.
    n_more = x.ndim - len(x_axes.replace("...", ""))
    more = "".join(letter for letter in ascii_letters if letter not in equation)[:n_more]
    x_axes = x_axes.replace("...", more)
    output = output.replace("...", more)
    if len(set(x_axes)) < len(x_axes) or len(x_axes) != x.ndim:
        return None
    return _einsum_as_linear(x, weight, x_axes=x_axes, w_axes=w_axes, output=output)


def _einsum_as_linear(x: Tensor, weight: Tensor, *, x_axes: str, w_axes: str, output: str) -> Tensor | None:
    summed = [axis for axis in w_axes if axis in x_axes]
    free = [axis for axis in w_axes if axis not in x_axes]
    kept = [axis for axis in x_axes if axis not in summed]
    # An axis of both that stays makes one layer per entry; one that is summed over alone is no layer either.
    if not summed or not free or set(output) != set(kept + free):
        return None
    sizes = dict(zip(w_axes, weight.shape, strict=True))
    matrix = weight.permute([w_axes.index(axis) for axis in free + summed])
    order = kept + summed
    if order != list(x_axes):
        x = x.permute([x_axes.index(axis) for axis in order])
    # Axes are moved and joined only where they have to be: a bias is looked for right behind the layer.
    if len(summed) > 1:
        x = x.flatten(len(kept))
    found = functional.linear(x, matrix.reshape(-1, x.shape[-1]))
    if len(free) > 1:
        found = found.unflatten(-1, [sizes[axis] for axis in free])
    if kept + free == list(output):
        return found
    return found.permute([(kept + free).index(axis) for axis in output])
