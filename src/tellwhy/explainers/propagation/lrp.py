"""Layer-wise relevance propagation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch.nn import Module

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rules, instance_of, none, one_of
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.composites import COMPOSITES, Composite, every
from tellwhy.explainers.propagation.engine.methods import BATCH_NORM, relevance_method
from tellwhy.explainers.propagation.rules import RESIDUAL_RULES, RULES, Rule


class LRP(NetworkExplainer):
    """Relevance of each input: the output is handed down layer by layer, each layer sharing it by its rule.

    Values add up to the explained output, less what biases and stabilisers absorbed (the residual;
    `ledger(x)` says where). Bach et al., PLoS ONE 10 (2015).

    Parameters
    ----------
    model
        A `torch.nn.Module` in evaluation mode. It is not changed.
    target
        The explained output: "max", its number, one number per row, or a function of the outputs.
    rule
        Rule of every layer: "z", "epsilon", "gamma", "alpha_beta", "z_plus", "flat", "w_square", "z_box", or
        a `Rule`.
    composite
        Instead of one rule, a rule per layer: "epsilon_plus", "preset_a", "preset_b", each also with "_flat",
        or a `Composite`.
    rule_params
        Settings of a rule that is given by its name, as {"epsilon": 0.01}.
    batch_norm
        "merged": batch norm and the layer before it are one layer, which rules that tell positive from
        negative weights need (without a layer before it, its derivative, LRP-0); "one_linear": a layer of its
        own, z = w x + b; "two_linear": two layers, normalising and scaling; "four_coefficients": the rule of
        Hui and Binder, which does not conserve. The composite chooses the rule of layers of their own. The
        first three are the same under rule "z".
    residual
        Rule of additions of two activations: "z" (in proportion), "epsilon", "gamma", "alpha_beta", "z_plus"
        (in proportion to positive parts), "equal", "shortcut" (all to the one that came through fewer
        layers), "branch" (all to the other), or a `Rule`.
    pooling
        Rule of average pools: "z" (in proportion to the inputs) or "flat" (evenly).
    batch_size
        Rows that go through the model at once.
    device
        Where to compute; by default where the model is. Elsewhere a copy of the model is used.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]])), model.bias.data.fill_(0.5)
    >>> explanation = LRP(model, rule="z").explain([[3.0, 1.0]])
    >>> explanation.values, explanation.scores, explanation.residual
    (array([[ 6., -1.]]), array([5.5]), array([0.5]))
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "rule": (none, one_of(*RULES), instance_of(Rule)),
        "composite": (none, one_of(*COMPOSITES), instance_of(Composite)),
        "rule_params": (none, instance_of(Mapping, words="a dict of the rule's settings")),
        "batch_norm": one_of(*BATCH_NORM),
        "residual": (one_of("z", *RESIDUAL_RULES), instance_of(Rule)),
        "pooling": one_of("z", "flat"),
    }

    def __init__(
        self,
        model: Module,
        target: Any = "max",
        *,
        rule: str | Rule | None = None,
        composite: str | Composite | None = None,
        rule_params: Mapping[str, Any] | None = None,
        batch_norm: str = "merged",
        residual: str | Rule = "z",
        pooling: str = "z",
        batch_size: int = 32,
        device: Any = None,
    ):
        super().__init__(model, target, batch_size=batch_size, device=device)
        self.rule = rule
        self.composite = composite
        self.rule_params = rule_params
        self.batch_norm = batch_norm
        self.residual = residual
        self.pooling = pooling

    def passes(self) -> list[Pass]:
        """One way down, by the rules of the composite."""
        residual = (
            self.residual if isinstance(self.residual, Rule) else _unless_z(self.residual, RESIDUAL_RULES)
        )
        pooling = _unless_z(self.pooling, RULES)
        method = relevance_method(
            self._composite(), batch_norm=self.batch_norm, residual=residual, pooling=pooling
        )
        return [Pass(method)]

    def _composite(self) -> Composite:
        if self.composite is not None:
            if self.rule is not None or self.rule_params is not None:
                raise InvalidParameter("LRP takes either a rule or a composite. Got both.")
            return COMPOSITES[self.composite]() if isinstance(self.composite, str) else self.composite
        if isinstance(self.rule, Rule):
            return Composite([(every, self.rule)])
        name = self.rule or "epsilon"
        try:
            return Composite([(every, RULES[name](**(self.rule_params or {})))])
        except TypeError as error:
            raise InvalidParameter(f"rule_params do not fit rule {name!r}: {error}") from error


def _unless_z(name: str, table: Mapping[str, Callable[..., Rule]]) -> Rule | None:
    """Rule of that name; None for "z", which is the operation's derivative."""
    return None if name == "z" else table[name]()
