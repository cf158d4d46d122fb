"""Rules of single kinds of operation: additions of two activations, and batch norm.

`rule` says what a rule is. Hui, Binder (2018) for batch norm, as given in eq. A.3 of Alber's thesis (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from tellwhy.explainers.propagation.operations.layers import LinearMap
from tellwhy.explainers.propagation.operations.parts import sign, signed_bias
from tellwhy.explainers.propagation.rules.of_layers import alpha_beta, epsilon, flat, gamma, z_plus
from tellwhy.explainers.propagation.rules.rule import Rule, quotient


def four_coefficients(coefficients: tuple[float, float, float, float] = (2.0, -1.0, 0.0, 0.0)) -> Rule:
    """Rule of batch norm z = w x + b that keeps positive inputs only, with the coefficients (2, −1, 0, 0).

    R_i = (α₀ x⁺w⁺/(x⁺w⁺ + b⁺) + α₁ x⁺w⁻/(x⁺w⁻ + b⁻) + α₂ x⁻w⁺/(x⁻w⁺ + b⁻) + α₃ x⁻w⁻/(x⁻w⁻ + b⁺)) R_j. It does
    not conserve: for w > 0, b = 0 it hands on 2R_j, and nothing where x < 0.
    """

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        handed = torch.zeros_like(x)
        signs = ((True, True), (True, False), (False, True), (False, False))
        for alpha, (above, upper) in zip(coefficients, signs, strict=True):
            if alpha == 0:
                continue
            weight = sign(layer.weight, positive=upper)
            # Each bias is taken with the sign of its numerator, so that no share exceeds one.
            bias = signed_bias(layer, positive=above == upper)
            whole = layer.forward(sign(x, positive=above), weight, bias)
            share = layer.backward(x, weight, quotient(alpha * relevance, whole))
            handed += share * (x > 0 if above else x < 0)
        return handed

    return Rule("four_coefficients", function)


def _one_way(name: str, choose: Callable[[tuple[int, ...]], int]) -> Rule:
    """Rule of additions that gives everything to the summand whose depth is chosen; ties share evenly."""

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        depths = layer.geometry["depths"]
        wanted = choose(depths)
        takers = [k for k, depth in enumerate(depths) if depth == wanted]
        handed = torch.zeros_like(x)  # x holds the summands, stacked along its first axis
        for k in takers:
            handed[k] = R / len(takers)
        return handed

    return Rule(name, function, maps_relevance=True)


def shortcut() -> Rule:
    """Rule of additions: all relevance to the summand that came through the fewest layers."""
    return _one_way("shortcut", min)


def branch() -> Rule:
    """Rule of additions: all relevance to the summand that came through the most layers."""
    return _one_way("branch", max)


RESIDUAL_RULES: Mapping[str, Callable[..., Rule]] = MappingProxyType(
    {
        "epsilon": epsilon,
        "gamma": gamma,
        "alpha_beta": alpha_beta,
        "z_plus": z_plus,
        "equal": flat,
        "shortcut": shortcut,
        "branch": branch,
    }
)
