"""Propagation rules of layers: how the relevance of a layer's outputs is shared among its inputs.

With z_j = Σ_i x_i w_ij + b_j a rule of *contributions* maps c_j = R_j/z_j to c_i = R_i/x_i. A rule of *relevance*
maps R_j to R_i: it gives relevance to inputs that are zero, where c does not exist. A zero denominator gives zero.

Bach et al., PLoS ONE 10 (2015); Montavon et al., Pattern Recognition 65 (2017); Montavon et al., Springer LNCS 11700
(2019) for gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.propagation.layers import LinearMap


@dataclass(frozen=True)
class Rule:
    """A rule: its name, its function (map, x, z, c) -> c of the inputs, and whether that function maps relevance.

    Examples
    --------
    The rule of the plain gradient:

    >>> plain = Rule("plain", lambda layer, x, z, c: layer.backward(x, layer.weight, c))
    >>> plain
    Rule(name='plain', params={})
    """

    name: str
    function: Callable[[LinearMap, Tensor, Tensor, Tensor], Tensor] = field(repr=False)
    maps_relevance: bool = field(default=False, repr=False)
    params: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        listed = ", ".join(
            f"{name}={value:g}" for name, value in self.params.items() if isinstance(value, (int, float))
        )
        return f"{self.name}({listed})" if listed else self.name


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is 0."""
    return torch.where(b == 0, torch.zeros_like(a), a / torch.where(b == 0, torch.ones_like(b), b))


def _signed(layer: LinearMap, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """w⁺, w⁻, x⁺ and x⁻; None for x⁻ where no input is negative."""
    w = layer.weight
    return w.clamp(min=0), w.clamp(max=0), x.clamp(min=0), x.clamp(max=0) if bool((x < 0).any()) else None


def _part(layer: LinearMap, x: Tensor, *, positive: bool, bias: bool) -> Tensor:
    """P_j = Σ(x_i w_ij)⁺ (+ b_j⁺), or N_j = Σ(x_i w_ij)⁻ (+ b_j⁻)."""
    w_plus, w_minus, x_plus, x_minus = _signed(layer, x)
    same, other = (w_plus, w_minus) if positive else (w_minus, w_plus)
    b = layer.bias if bias else None
    if b is not None:
        b = b.clamp(min=0) if positive else b.clamp(max=0)
    part = layer.forward(x_plus, same, b)
    return part if x_minus is None else part + layer.forward(x_minus, other)


def _to_part(layer: LinearMap, x: Tensor, s: Tensor, *, positive: bool) -> Tensor:
    """Σ_j s_j w_ij over the weights that make (x_i w_ij) positive (or negative)."""
    w_plus, w_minus, _, x_minus = _signed(layer, x)
    same, other = (w_plus, w_minus) if positive else (w_minus, w_plus)
    c = layer.backward(x, same, s)
    return c if x_minus is None else torch.where(x < 0, layer.backward(x, other, s), c)


def z() -> Rule:
    """LRP-0: c_i = Σ_j w_ij c_j."""
    return Rule("z", lambda layer, x, z, c: layer.backward(x, layer.weight, c))  # noqa: ARG005


def epsilon(epsilon: float = 1e-6) -> Rule:
    """c_i = Σ_j w_ij c_j |z_j| / (|z_j| + ε)."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        size = z.abs()
        return layer.backward(x, layer.weight, c * quotient(size, size + epsilon))

    return Rule("epsilon", function, params={"epsilon": epsilon})


def gamma(gamma: float = 0.25) -> Rule:
    """Shares in proportion to x w + γ(x w)⁺ where z_j > 0, to x w + γ(x w)⁻ elsewhere: favours the output's sign."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance, up = c * z, z > 0
        total = c.new_zeros(x.shape)
        shares = c.new_zeros(z.shape)
        for positive, chosen in ((True, up), (False, ~up)):
            part = _part(layer, x, positive=positive, bias=True)
            s = torch.where(chosen, quotient(relevance, z + gamma * part), torch.zeros_like(z))
            shares = shares + s
            total = total + gamma * _to_part(layer, x, s, positive=positive)
        return total + layer.backward(x, layer.weight, shares)

    return Rule("gamma", function, params={"gamma": gamma})


def alpha_beta(alpha: float = 2.0, beta: float = 1.0, *, conserve: bool = False) -> Rule:
    """R_i = Σ_j (α (x_i w_ij)⁺/P_j − β (x_i w_ij)⁻/N_j) R_j, with α − β = 1, biases in P_j and N_j.

    Where an output has no negative part this hands on α R_j. `conserve=True` takes α = 1 there, and −β = 1 where an
    output has no positive part.
    """
    if abs(alpha - beta - 1) > 1e-9 or beta < 0:
        raise InvalidParameter(f"alpha_beta needs alpha - beta = 1 and beta >= 0. Got alpha={alpha!r}, beta={beta!r}.")

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        P = _part(layer, x, positive=True, bias=True)
        if beta == 0 and not conserve:
            return alpha * _to_part(layer, x, quotient(relevance, P), positive=True)
        N = _part(layer, x, positive=False, bias=True)
        up, down = torch.full_like(P, alpha), torch.full_like(P, beta)
        if conserve:
            up, down = torch.where(N == 0, 1.0, up), torch.where(P == 0, -1.0, down)
        positive = _to_part(layer, x, up * quotient(relevance, P), positive=True)
        return positive - _to_part(layer, x, down * quotient(relevance, N), positive=False)

    return Rule("alpha_beta", function, params={"alpha": alpha, "beta": beta, "conserve": conserve})


def z_plus() -> Rule:
    """R_i = Σ_j (x_i w_ij)⁺ / Σ_i (x_i w_ij)⁺ R_j, without bias."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        P = _part(layer, x, positive=True, bias=False)
        return _to_part(layer, x, quotient(c * z, P), positive=True)

    return Rule("z_plus", function)


def _fixed_shares(layer: LinearMap, x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    total = layer.forward(torch.ones_like(x), weight)
    return layer.backward(x, weight, quotient(relevance, total))


def w_square() -> Rule:
    """R_i = Σ_j w_ij² / Σ_i w_ij² R_j."""
    return Rule("w_square", lambda layer, x, z, R: _fixed_shares(layer, x, layer.weight.square(), R), True)  # noqa: ARG005


def flat() -> Rule:
    """Every input of an output gets the same share of its relevance."""
    return Rule("flat", lambda layer, x, z, R: _fixed_shares(layer, x, torch.ones_like(layer.weight), R), True)  # noqa: ARG005


def z_box(low: Any = -1.0, high: Any = 1.0) -> Rule:
    """R_i = Σ_j (x_i w_ij − l_i w_ij⁺ − h_i w_ij⁻) / Σ_i(…) R_j for inputs in the box [l, h]; numbers or arrays."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, R: Tensor) -> Tensor:  # noqa: ARG001
        w = layer.weight
        low_, high_ = (torch.as_tensor(edge, dtype=x.dtype, device=x.device).expand_as(x) for edge in (low, high))
        parts = ((x, w, 1), (low_, w.clamp(min=0), -1), (high_, w.clamp(max=0), -1))
        total = sum((sign * layer.forward(value, weight) for value, weight, sign in parts), torch.zeros_like(R))
        s = quotient(R, total)
        found = (sign * value * layer.backward(x, weight, s) for value, weight, sign in parts)
        return sum(found, torch.zeros_like(x))

    return Rule("z_box", function, True, params={"low": low, "high": high})


RULES: dict[str, Callable[..., Rule]] = {
    "z": z,
    "epsilon": epsilon,
    "gamma": gamma,
    "alpha_beta": alpha_beta,
    "z_plus": z_plus,
    "flat": flat,
    "w_square": w_square,
    "z_box": z_box,
}
