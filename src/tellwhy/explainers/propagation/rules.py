"""Propagation rules of layers: how the relevance of a layer's outputs is shared among its inputs.

With z_j = Σ_i x_i w_ij + b_j a rule of *contributions* maps c_j = R_j/z_j to c_i = R_i/x_i. A rule of
*relevance* maps R_j to R_i: it gives relevance to inputs that are zero, where c does not exist. A zero
denominator gives zero.

Bach et al., PLoS ONE 10 (2015); Montavon et al., Pattern Recognition 65 (2017); Montavon et al., Springer
LNCS 11700 (2019) for gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.propagation.engine.layers import LinearMap
from tellwhy.explainers.propagation.engine.parts import part, sign, signed_bias


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
    return (a / b).masked_fill_(b == 0, 0)


def z() -> Rule:
    """LRP-0: c_i = Σ_j w_ij c_j."""
    return Rule("z", lambda layer, x, z, c: layer.backward(x, layer.weight, c))  # noqa: ARG005


def epsilon(epsilon: float = 1e-6) -> Rule:
    """c_i = Σ_j w_ij c_j |z_j| / (|z_j| + ε)."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        size = z.abs()
        return layer.backward(x, layer.weight, quotient(size, size + epsilon).mul_(c))

    return Rule("epsilon", function, params={"epsilon": epsilon})


def gamma(gamma: float = 0.25) -> Rule:
    """Shares in proportion to x w + γ(x w)⁺ where z_j > 0, to x w + γ(x w)⁻ elsewhere: favours the output's sign."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance, up = c * z, z > 0
        total = c.new_zeros(x.shape)
        shares = c.new_zeros(z.shape)
        for positive, chosen in ((True, up), (False, ~up)):
            share = part(layer, x, positive=positive)
            whole = z + gamma * share.total(signed_bias(layer, positive=positive))
            s = quotient(relevance, whole).masked_fill_(~chosen, 0)
            shares += s
            total += gamma * share.hand_down(s)
        return total + layer.backward(x, layer.weight, shares)

    return Rule("gamma", function, params={"gamma": gamma})


def alpha_beta(alpha: float = 2.0, beta: float = 1.0, *, conserve: bool = False) -> Rule:
    """R_i = Σ_j (α (x_i w_ij)⁺/P_j − β (x_i w_ij)⁻/N_j) R_j, with α − β = 1, biases in P_j and N_j.

    Where an output has no negative part this hands on α R_j. `conserve=True` takes α = 1 there, and −β = 1
    where an output has no positive part.
    """
    if abs(alpha - beta - 1) > 1e-9 or beta < 0:
        raise InvalidParameter(
            f"alpha_beta needs alpha - beta = 1 and beta >= 0. Got alpha={alpha!r}, beta={beta!r}."
        )

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        upper = part(layer, x, positive=True)
        P = upper.total(signed_bias(layer, positive=True))
        if beta == 0 and not conserve:
            return alpha * upper.hand_down(quotient(relevance, P))
        lower = part(layer, x, positive=False)
        N = lower.total(signed_bias(layer, positive=False))
        up, down = torch.full_like(P, alpha), torch.full_like(P, beta)
        if conserve:
            up, down = torch.where(N == 0, 1.0, up), torch.where(P == 0, -1.0, down)
        found = upper.hand_down(up * quotient(relevance, P))
        return found - lower.hand_down(down * quotient(relevance, N))

    return Rule("alpha_beta", function, params={"alpha": alpha, "beta": beta, "conserve": conserve})


def z_plus() -> Rule:
    """R_i = Σ_j (x_i w_ij)⁺ / Σ_i (x_i w_ij)⁺ R_j, without bias."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        upper = part(layer, x, positive=True)
        return upper.hand_down(quotient(c * z, upper.total()))

    return Rule("z_plus", function)


def _fixed_shares(layer: LinearMap, x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    total = layer.forward(torch.ones_like(x), weight)
    return layer.backward(x, weight, quotient(relevance, total))


def w_square() -> Rule:
    """R_i = Σ_j w_ij² / Σ_i w_ij² R_j."""
    return Rule("w_square", lambda layer, x, z, R: _fixed_shares(layer, x, layer.weight.square(), R), True)  # noqa: ARG005


def flat() -> Rule:
    """Every input of an output gets the same share of its relevance."""

    def share(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        return _fixed_shares(layer, x, torch.ones_like(layer.weight), R)

    return Rule("flat", share, True)


def z_box(low: Any = -1.0, high: Any = 1.0) -> Rule:
    """R_i = Σ_j (x_i w_ij − l_i w_ij⁺ − h_i w_ij⁻) / Σ_i(…) R_j for inputs in the box [l, h]; numbers or arrays."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, R: Tensor) -> Tensor:  # noqa: ARG001
        w = layer.weight
        low_, high_ = (
            torch.as_tensor(edge, dtype=x.dtype, device=x.device).expand_as(x) for edge in (low, high)
        )
        parts = ((x, w, 1), (low_, w.clamp(min=0), -1), (high_, w.clamp(max=0), -1))
        total = sum(
            (sign * layer.forward(value, weight) for value, weight, sign in parts), torch.zeros_like(R)
        )
        s = quotient(R, total)
        found = (sign * value * layer.backward(x, weight, s) for value, weight, sign in parts)
        return sum(found, torch.zeros_like(x))

    return Rule("z_box", function, True, params={"low": low, "high": high})


def four_coefficients(coefficients: tuple[float, float, float, float] = (2.0, -1.0, 0.0, 0.0)) -> Rule:
    """Rule of batch norm z = w x + b that keeps positive inputs only.

    R_i = (α₀ x⁺w⁺/(x⁺w⁺ + b⁺) + α₁ x⁺w⁻/(x⁺w⁻ + b⁻) + α₂ x⁻w⁺/(x⁻w⁺ + b⁻) + α₃ x⁻w⁻/(x⁻w⁻ + b⁺)) R_j. It does
    not conserve: for w > 0, b = 0 it hands on 2R_j, and nothing where x < 0. Hui, Binder (2018), as given in
    eq. A.3 of Alber's thesis (2022), each bias with the sign of its numerator.
    """

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance, found = c * z, torch.zeros_like(x)
        signs = ((True, True), (True, False), (False, True), (False, False))
        for alpha, (above, upper) in zip(coefficients, signs, strict=True):
            if alpha == 0:
                continue
            weight = sign(layer.weight, positive=upper)
            whole = layer.forward(
                sign(x, positive=above), weight, signed_bias(layer, positive=above == upper)
            )
            share = layer.backward(x, weight, quotient(alpha * relevance, whole))
            found += share * (x > 0 if above else x < 0)
        return found

    return Rule("four_coefficients", function)


def _one_way(name: str, choose: Callable[[tuple[int, ...]], int]) -> Rule:
    def function(layer: LinearMap, x: Tensor, z: Tensor, R: Tensor) -> Tensor:  # noqa: ARG001
        depths = layer.geometry["depths"]
        ways = [k for k, depth in enumerate(depths) if depth == choose(depths)]
        found = torch.zeros_like(x)
        for k in ways:
            found[k] = R / len(ways)
        return found

    return Rule(name, function, True)


def shortcut() -> Rule:
    """Rule of additions: all relevance to the activation that came through the fewest layers; ties share evenly."""
    return _one_way("shortcut", min)


def branch() -> Rule:
    """Rule of additions: all relevance to the activation that came through the most layers; ties share evenly."""
    return _one_way("branch", max)


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
RESIDUAL_RULES: dict[str, Callable[..., Rule]] = {
    **{name: RULES[name] for name in ("epsilon", "gamma", "alpha_beta", "z_plus")},
    "equal": flat,
    "shortcut": shortcut,
    "branch": branch,
}
