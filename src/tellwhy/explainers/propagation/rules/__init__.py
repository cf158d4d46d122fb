"""Propagation rules: what one is, those of layers, and those of additions and batch norm."""

from tellwhy.explainers.propagation.rules.handover import Handover
from tellwhy.explainers.propagation.rules.of_layers import (
    RULES,
    alpha_beta,
    epsilon,
    flat,
    gamma,
    rule_named,
    w_square,
    z,
    z_box,
    z_plus,
)
from tellwhy.explainers.propagation.rules.rule import Rule, quotient
from tellwhy.explainers.propagation.rules.special import RESIDUAL_RULES, branch, four_coefficients, shortcut

__all__ = [
    "RESIDUAL_RULES",
    "RULES",
    "Handover",
    "Rule",
    "alpha_beta",
    "branch",
    "epsilon",
    "flat",
    "four_coefficients",
    "gamma",
    "quotient",
    "rule_named",
    "shortcut",
    "w_square",
    "z",
    "z_box",
    "z_plus",
]
