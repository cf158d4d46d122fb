"""A propagation rule: how the relevance of a layer's outputs is shared among its inputs.

A layer computes z_j = Σ_i x_i w_ij + b_j. R_j is the relevance of its output z_j, R_i that of its input x_i.
A rule comes in one of two forms:

contributions
    It maps c_j = R_j/z_j to c_i = R_i/x_i. This is the cheaper form, and the plain rule is then the
    gradient.
relevance
    It maps R_j to R_i. A rule that gives relevance to inputs which are zero needs this form: R_i/x_i does not
    exist there.

Wherever a rule divides by zero the result is zero: an output to which nothing contributed hands nothing on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.propagation.operations.layers import LinearMap

RuleFunction = Callable[[LinearMap, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Rule:
    """How a layer shares the relevance of its outputs among its inputs.

    Parameters
    ----------
    name
        Its name, for tables and messages.
    function
        A function (layer, x, z, c) of the layer's linear map, its input x, its output z and c_j = R_j/z_j. It
        returns c_i = R_i/x_i.
    maps_relevance
        Whether the function takes and returns relevance R instead of contributions c.
    params
        Its settings, for tables and messages.
    needs_input
        Whether the function looks at the values of x. Where it is false, and contributions travel, x has the
        shape of the input only, whose memory is given back on the way up.
    ignores_idle
        Whether an output with c_j = 0 hands nothing down whatever its z_j is. Then a ReLU that the model
        applies in place may overwrite z, which saves its memory.
    conserves
        Whether the inputs get all relevance of the outputs: "always", "without bias", or "" for no promise.
        An explanation that breaks the promise by more than 5 % of its score warns.

    Examples
    --------
    The rule of the plain gradient:

    >>> plain = Rule("plain", lambda layer, x, z, c: layer.backward(x, layer.weight, c))
    >>> plain
    Rule(name='plain', params={})
    """

    name: str
    function: RuleFunction = field(repr=False)
    maps_relevance: bool = field(default=False, repr=False)
    params: Mapping[str, Any] = field(default_factory=dict)
    needs_input: bool = field(default=True, repr=False)
    ignores_idle: bool = field(default=False, repr=False)
    conserves: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.function).bind(None, None, None, None)
        except ValueError:
            return  # a compiled function may not show its arguments
        except TypeError as error:
            raise InvalidParameter(
                f"The function of rule {self.name!r} must take four arguments: the layer's linear map, its "
                f"input x, its output z, and what comes down. Got {self.function!r}: {error}."
            ) from None

    def __str__(self) -> str:
        numbers = {name: value for name, value in self.params.items() if isinstance(value, (int, float))}
        listed = ", ".join(f"{name}={value:g}" for name, value in numbers.items())
        return f"{self.name}({listed})" if listed else self.name


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is 0."""
    zero = b == 0
    if torch.is_grad_enabled():  # explanations that are differentiated: 0 · inf would be in the derivative
        return (a / b.masked_fill(zero, 1)).masked_fill(zero, 0)
    # A division by zero gives inf or nan, and is overwritten: fewer passes over the memory.
    return (a / b).masked_fill_(zero, 0)
