"""Layer-wise relevance propagation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch.nn import Module

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rules, boolean, instance_of, none, one_of, validate_value
from tellwhy.core.score import Floats
from tellwhy.explainers.propagation.base import RELEVANCE_PARAMETERS, Pass, RelevanceExplainer
from tellwhy.explainers.propagation.composites import (
    COMPOSITES,
    Composite,
    composite_named,
    every,
    without_biases,
)
from tellwhy.explainers.propagation.engine.steps import ATTENTION, BATCH_NORM, GATES
from tellwhy.explainers.propagation.rules import RESIDUAL_RULES, RULES, Handover, Rule, flat, rule_named
from tellwhy.scoring.network_passes import Device, Target


class LRP(RelevanceExplainer):
    """Relevance of each input: the output is handed down layer by layer, each layer sharing it by its rule.

    Values add up to the explained output, less what biases and stabilisers absorbed (the residual;
    `ledger(x)` says where). Bach et al., PLoS ONE 10 (2015).

    Parameters
    ----------
    model, target, batch_size, device
        The network and which of its outputs is explained, as in `Gradient`.
    rule
        Rule of every layer: "z", "epsilon" (the default), "gamma", "alpha_beta", "z_plus", "flat",
        "w_square", "z_box", another name that was registered (`register_rule`), or a `Rule`.
    composite
        Instead of one rule, a rule per layer: "epsilon_plus", "preset_a", "preset_b", each also with "_flat",
        or a `Composite`.
    rule_params
        Settings of a rule or composite that is given by its name, as {"epsilon": 0.01}. Presets take
        epsilon = 0.1 where nothing is said; `params["rules"]` of an explanation lists the rules in full.
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
    attention
        "attnlrp": softmax hands relevance down by its derivative and each product shares it in halves, as in
        Achtibat et al., ICML (2024); what softmax does not pass on is in the residual. "detached": attention
        weights are constants and the values get all, which conserves.
    gates
        Products of a gate (a sigmoid) and a signal, as in LSTMs and GRUs: "signal" takes all (Arras et al.,
        2017), or one "half" each. Other products share evenly.
    ignore_biases
        Whether layers are taken as if they had no biases, so that inputs get all of the relevance that biases
        would absorb. iNNvestigate's "IgnoreBias" rules are these.
    own
        Functions of your own for single operations, or for whole modules: a list of `Handover`.
    operations
        Kinds of operations that are not known, by PyTorch's name, as {"sinc": "elementwise"}; the kinds are
        those of `register_operation`.

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
        **RELEVANCE_PARAMETERS,
        # Names are looked up when the rule is made: more of them may be registered until then.
        "rule": (none, instance_of(str, Rule, words="a rule's name or a Rule")),
        "composite": (none, one_of(*COMPOSITES), instance_of(Composite)),
        "rule_params": (none, instance_of(Mapping, words="a dict of the rule's settings")),
        "batch_norm": one_of(*BATCH_NORM),
        "residual": (one_of("z", *RESIDUAL_RULES), instance_of(Rule)),
        "pooling": one_of("z", "flat"),
        "attention": one_of(*ATTENTION),
        "gates": one_of(*GATES),
        "ignore_biases": boolean,
        "own": (none, instance_of(Sequence, words="a list of Handover")),
    }

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        rule: str | Rule | None = None,
        composite: str | Composite | None = None,
        rule_params: Mapping[str, Any] | None = None,
        batch_norm: str = "merged",
        residual: str | Rule = "z",
        pooling: str = "z",
        attention: str = "attnlrp",
        gates: str = "signal",
        ignore_biases: bool = False,
        operations: Mapping[str, str] | None = None,
        own: Sequence[Handover] | None = None,
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, operations=operations, batch_size=batch_size, device=device)
        self.rule = rule
        self.composite = composite
        self.rule_params = rule_params
        self.batch_norm = batch_norm
        self.residual = residual
        self.pooling = pooling
        self.attention = attention
        self.gates = gates
        self.ignore_biases = ignore_biases
        self.own = own

    @classmethod
    def _check_given(cls, given: Mapping[str, Any]) -> None:
        """Answer the setting of a rule, given as a parameter of its own, with where it goes."""
        for name in given:
            cls._answer_unknown(name)
        super()._check_given(given)

    @staticmethod
    def _answer_unknown(name: str) -> None:
        """Raise with what to type for the setting of a rule; all other names are left alone."""
        owners = [rule for rule in RULES if name in inspect.signature(RULES[rule]).parameters]
        if owners and name not in inspect.signature(LRP).parameters:
            raise InvalidParameter(
                f"LRP takes the settings of its rule together: rule={owners[0]!r}, "
                f"rule_params={{{name!r}: …}}."
            )

    def check(self) -> None:
        """Refuse settings that are out of range, and names of rules that do not exist."""
        super().check()
        if isinstance(self.rule, str):
            validate_value("LRP", "rule", self.rule, (none, one_of(*RULES), instance_of(Rule)))
        for item in self.own or ():
            validate_value("LRP", "own", item, instance_of(Handover, words="a list of Handover"))

    def handed_down(self, scores: Floats) -> Floats | None:
        """Return the whole output."""
        return scores

    def passes(self) -> list[Pass]:
        """One way down, by the rules of the composite."""
        method = self.method(
            without_biases(self._composite()) if self.ignore_biases else self._composite(),
            batch_norm=self.batch_norm,
            residual=self._residual(),
            pooling=flat() if self.pooling == "flat" else None,
            attention=self.attention,
            gates=self.gates,
            own=self.own or (),
        )
        return [Pass(method)]

    def settings(self) -> dict[str, Any]:
        """What an explanation is saved with: also the rules in full, with settings that nobody gave."""
        return {**super().settings(), "rules": str(self._composite())}

    def _residual(self) -> Rule | None:
        """Rule of additions; None for "z", which is their derivative and needs no step."""
        if isinstance(self.residual, Rule):
            return self.residual
        return None if self.residual == "z" else RESIDUAL_RULES[self.residual]()

    def _composite(self) -> Composite:
        if self.composite is not None:
            if self.rule is not None:
                raise InvalidParameter("LRP takes either a rule or a composite. Got both.")
            if isinstance(self.composite, str):
                return composite_named(self.composite, self.rule_params or {})
            if self.rule_params is not None:
                raise InvalidParameter(
                    "rule_params are settings of a composite that is given by its name. Got a Composite."
                )
            return self.composite
        if isinstance(self.rule, Rule):
            if self.rule_params is not None:
                raise InvalidParameter(
                    "rule_params are settings of a rule that is given by its name. Got a Rule."
                )
            return Composite([(every, self.rule)])
        return Composite([(every, rule_named(self.rule or "epsilon", self.rule_params or {}))])
