"""Excitation backprop: relevance as the probability of a random walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from torch import Tensor
from torch.nn import Module

from tellwhy.core.params import Rules, boolean
from tellwhy.explainers.propagation.base import RELEVANCE_PARAMETERS, Pass, RelevanceExplainer
from tellwhy.explainers.propagation.composites import Composite, every, last
from tellwhy.explainers.propagation.engine.layers import LinearMap
from tellwhy.explainers.propagation.rules import Rule, quotient, z_plus
from tellwhy.scoring.network_passes import Device, Target


class ExcitationBackprop(RelevanceExplainer):
    """Probability that a random walk down the network ends at each input.

    The walk starts at the output and goes down connections that excite: from each unit to one that made it
    larger, with a probability in proportion to how much. That is the z+ rule without biases. It is meant for
    inputs and activations that are not negative; a negative input excites through negative weights. Zhang et
    al., International Journal of Computer Vision 126 (2018).

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`.
    contrastive
        Subtract the walk that starts with the negated weights of the last layer: what speaks for the output
        more than against it. Values then add up to zero, where there are both walks.
    operations
        Kinds of operations that are not known, as in `LRP`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(3, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, 1.0, -1.0]]))
    >>> ExcitationBackprop(model).explain([[3.0, 2.0, 4.0]]).values
    array([[0.75, 0.25, 0.  ]])
    >>> ExcitationBackprop(model, contrastive=True).explain([[3.0, 2.0, 4.0]]).values
    array([[ 0.75,  0.25, -1.  ]])
    """

    kind = "signal"
    _parameters: ClassVar[dict[str, Rules]] = {**RELEVANCE_PARAMETERS, "contrastive": boolean}

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        contrastive: bool = False,
        operations: Mapping[str, str] | None = None,
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, operations=operations, batch_size=batch_size, device=device)
        self.contrastive = contrastive

    def passes(self) -> list[Pass]:
        """The walk, and the one from negated weights to subtract."""
        walk = Pass(self.method(Composite([(every, z_plus())]), residual=z_plus()), _one)
        if not self.contrastive:
            return [walk]
        # Negated weights of the last layer excite what speaks against the output.
        negated = Composite([(last, _negated(z_plus())), (every, z_plus())])
        against = self.method(negated, residual=z_plus())
        return [walk, Pass(against, _one, weight=-1.0)]


def _one(scores: Tensor) -> Tensor:
    """What each row starts with: c = 1/score, so that its relevance c·score is 1."""
    return quotient(scores.new_ones(scores.shape), scores)


def _negated(rule: Rule) -> Rule:
    """The same rule, as if all weights of the layer had the other sign."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        return rule.function(replace(layer, weight=-layer.weight), x, z, c)

    return replace(rule, name=f"{rule.name} of negated weights", function=function)
