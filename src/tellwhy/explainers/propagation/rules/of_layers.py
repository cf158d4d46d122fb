"""The rules of layers with weights, and the table of their names.

z_j = Σ_i x_i w_ij + b_j is an output of the layer; (…)⁺ and (…)⁻ are positive and negative parts. `rule` says
what a rule is. Bach et al., PLoS ONE 10 (2015); Montavon et al., Pattern Recognition 65 (2017) for w², z+ and
z^B; Montavon et al., Springer LNCS 11700 (2019) for gamma.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.propagation.operations.layers import LinearMap
from tellwhy.explainers.propagation.operations.open_table import OpenTable
from tellwhy.explainers.propagation.operations.parts import part, signed_bias
from tellwhy.explainers.propagation.rules.rule import Rule, quotient

Edge = float | np.ndarray | Tensor  # of a range of inputs: a number, or an array that fits one input


def z() -> Rule:
    """LRP-0: c_i = Σ_j w_ij c_j."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:  # noqa: ARG001
        return layer.backward(x, layer.weight, c)

    return Rule("z", function, needs_input=False, ignores_idle=True, conserves="without bias")


def epsilon(epsilon: float = 1e-6) -> Rule:
    """c_i = Σ_j w_ij c_j |z_j| / (|z_j| + ε): outputs near zero hand less on."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        # The usual form divides R_j by z_j + ε sign(z_j). With c_j = R_j/z_j that is c_j |z_j|/(|z_j| + ε).
        if epsilon == 0:
            return layer.backward(x, layer.weight, c.masked_fill(z == 0, 0))
        # c − ε c/(|z| + ε) is the same, in three passes over the memory instead of six.
        into = c if layer.owns_cotangent else None
        kept = torch.addcdiv(c, c, z.abs().add_(epsilon), value=-epsilon, out=into)
        return layer.backward(x, layer.weight, kept)

    return Rule("epsilon", function, params={"epsilon": epsilon}, needs_input=False, ignores_idle=True)


def gamma(gamma: float = 0.25) -> Rule:
    """Favour the inputs that have the sign of the output.

    Shares are in proportion to x w + γ(x w)⁺ where z_j > 0, to x w + γ(x w)⁻ elsewhere.
    """

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        up = z > 0
        total = c.new_zeros(x.shape)
        shares = c.new_zeros(z.shape)
        for positive, chosen in ((True, up), (False, ~up)):
            share = part(layer, x, positive=positive)
            whole = z + gamma * share.total(signed_bias(layer, positive=positive))
            s = quotient(relevance, whole).masked_fill_(~chosen, 0)
            shares += s
            total += gamma * share.hand_down(s)
        # The term x w is the same for both signs: one backward pass for all outputs.
        return total + layer.backward(x, layer.weight, shares)

    return Rule("gamma", function, params={"gamma": gamma}, conserves="without bias")


def alpha_beta(alpha: float = 2.0, beta: float = 1.0, *, conserve: bool = False) -> Rule:
    """R_i = Σ_j (α (x_i w_ij)⁺/P_j − β (x_i w_ij)⁻/N_j) R_j, with α − β = 1.

    P_j and N_j are the sums of the positive and of the negative parts that make z_j, biases included. Where
    an output has no negative part this hands on α R_j. `conserve=True` takes α = 1 there, and −β = 1 where an
    output has no positive part.
    """
    if abs(alpha - beta - 1) > 1e-9 or beta < 0:
        raise InvalidParameter(
            f"alpha_beta needs alpha - beta = 1 and beta >= 0. Got alpha={alpha!r}, beta={beta!r}."
        )

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        upper = part(layer, x, positive=True)
        P = upper.total(signed_bias(layer, positive=True))
        if beta == 0 and not conserve:  # half the work: the negative part is not needed
            return alpha * upper.hand_down(quotient(relevance, P))
        lower = part(layer, x, positive=False)
        N = lower.total(signed_bias(layer, positive=False))
        up = torch.full_like(P, alpha)
        down = torch.full_like(P, beta)
        if conserve:
            up = torch.where(N == 0, 1.0, up)
            down = torch.where(P == 0, -1.0, down)
        handed = upper.hand_down(up * quotient(relevance, P))
        return handed - lower.hand_down(down * quotient(relevance, N))

    return Rule("alpha_beta", function, params={"alpha": alpha, "beta": beta, "conserve": conserve})


def z_plus() -> Rule:
    """R_i = Σ_j (x_i w_ij)⁺ / Σ_i (x_i w_ij)⁺ R_j: only what made an output larger counts; without bias."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        upper = part(layer, x, positive=True)
        return upper.hand_down(quotient(c * z, upper.total()))

    return Rule("z_plus", function, conserves="always")


def _fixed_shares(layer: LinearMap, x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """Share relevance in proportion to weights alone, whatever the inputs are."""
    # The layer applied to ones sums the weights of each output; at the edges of a padded convolution it
    # counts only those that meet an input.
    total = layer.forward(torch.ones_like(x), weight)
    return layer.backward(x, weight, quotient(relevance, total))


def w_square() -> Rule:
    """R_i = Σ_j w_ij² / Σ_i w_ij² R_j: in proportion to squared weights, whatever the inputs are."""

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        return _fixed_shares(layer, x, layer.weight.square(), R)

    return Rule("w_square", function, maps_relevance=True, conserves="always")


def flat() -> Rule:
    """Every input of an output gets the same share of its relevance."""

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        return _fixed_shares(layer, x, torch.ones_like(layer.weight), R)

    return Rule("flat", function, maps_relevance=True, conserves="always")


def z_box(low: Edge = -1.0, high: Edge = 1.0) -> Rule:
    """R_i = Σ_j (x_i w_ij − l_i w_ij⁺ − h_i w_ij⁻) / Σ_i(…) R_j for inputs in the box [l, h].

    The edges are numbers, or arrays that fit one input.
    """

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        lowest = torch.as_tensor(low, dtype=x.dtype, device=x.device).expand_as(x)
        highest = torch.as_tensor(high, dtype=x.dtype, device=x.device).expand_as(x)
        weight = layer.weight
        up = weight.clamp(min=0)
        down = weight.clamp(max=0)
        total = layer.forward(x, weight) - layer.forward(lowest, up) - layer.forward(highest, down)
        s = quotient(R, total)
        from_input = x * layer.backward(x, weight, s)
        return from_input - lowest * layer.backward(x, up, s) - highest * layer.backward(x, down, s)

    return Rule("z_box", function, maps_relevance=True, params={"low": low, "high": high}, conserves="always")


RULES: OpenTable[Callable[..., Rule]] = OpenTable(
    "rule",
    {
        "z": z,
        "epsilon": epsilon,
        "gamma": gamma,
        "alpha_beta": alpha_beta,
        "z_plus": z_plus,
        "flat": flat,
        "w_square": w_square,
        "z_box": z_box,
    },
)


def rule_named(name: str, settings: Mapping[str, Any]) -> Rule:
    """Make the rule of a name in `RULES` with these settings."""
    try:
        rule = RULES[name](**settings)
    except TypeError as error:
        raise InvalidParameter(f"rule_params do not fit rule {name!r}: {error}") from error
    if not isinstance(rule, Rule):
        raise InvalidParameter(f"Rule {name!r} with {dict(settings)} must be a Rule. Got {rule!r} instead.")
    return rule
