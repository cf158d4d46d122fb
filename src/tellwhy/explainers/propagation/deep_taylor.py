"""Deep Taylor decomposition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rules, instance_of, none, one_of, real
from tellwhy.core.score import Floats
from tellwhy.explainers.propagation.base import RELEVANCE_PARAMETERS, Pass, RelevanceExplainer
from tellwhy.explainers.propagation.composites import Composite, every, first
from tellwhy.explainers.propagation.rules import Edge, Rule, flat, w_square, z_box, z_plus
from tellwhy.scoring.network_passes import Device, Target

_EDGE = (none, real(), instance_of(np.ndarray, Tensor, words="an array that fits one input"))


class DeepTaylor(RelevanceExplainer):
    """Deep Taylor decomposition: relevance by rules that follow from a Taylor expansion of each layer.

    A layer is expanded around a nearby point where its output is zero. Which points there are depends on the
    range of its inputs, and so does the rule. Hidden layers and residual additions take the z+ rule.
    Layers that see the input take z^B for inputs in [low, high], z+ for inputs that are not negative (low=0,
    no high), w² for unbounded inputs (neither).

    The method is defined for positive outputs: where the explained output is negative all values are zero,
    `extras["undefined"]` is true and the residual is the whole output. Montavon et al., Pattern Recognition
    65 (2017).

    Parameters
    ----------
    model, target, batch_size, device
        The network and which of its outputs is explained, as in `Gradient`.
    low, high
        Range of the inputs: numbers, or arrays that fit one input.
    pooling
        Rule of average pools: "z", in proportion to the inputs, which is the z+ rule of a pool; or "flat",
        evenly, as iNNvestigate does.
    operations
        Kinds of operations that are not known, as in `LRP`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[3.0, -1.0]]))
    >>> DeepTaylor(model, low=0, high=1).explain([[1.0, 0.0]]).values
    array([[2.25, 0.75]])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **RELEVANCE_PARAMETERS,
        "low": _EDGE,
        "high": _EDGE,
        "pooling": one_of("z", "flat"),
    }

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        low: Edge | None = None,
        high: Edge | None = None,
        pooling: str = "z",
        operations: Mapping[str, str] | None = None,
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, operations=operations, batch_size=batch_size, device=device)
        self.low = low
        self.high = high
        self.pooling = pooling

    def handed_down(self, scores: Floats) -> Floats | None:
        """Return what is positive of the output."""
        return np.maximum(scores, 0)

    def passes(self) -> list[Pass]:
        """One way down, from outputs that are positive."""
        composite = Composite([(first, self._input_rule()), (every, z_plus())])
        pooling = flat() if self.pooling == "flat" else None
        # A sum of two activations is a layer whose inputs may be negative: z+ keeps all values from being so.
        method = self.method(composite, pooling=pooling, residual=z_plus())
        # The rules are expansions around a root of a positive output: a negative one hands nothing down.
        return [Pass(method, lambda scores: (scores > 0).to(scores))]

    def _input_rule(self) -> Rule:
        if self.low is None and self.high is None:
            return w_square()
        if self.low is not None and self.high is not None:
            # Outside, the shares could be negative.
            if bool((torch.as_tensor(self.low) > 0).any()) or bool((torch.as_tensor(self.high) < 0).any()):
                raise InvalidParameter("DeepTaylor needs low <= 0 <= high for a box of inputs.")
            return z_box(self.low, self.high)
        if self.high is None and not isinstance(self.low, (np.ndarray, Tensor)) and self.low == 0:
            return z_plus()
        raise InvalidParameter(
            "DeepTaylor takes low and high together, low=0 alone for inputs that are not negative, or "
            f"neither. Got low={self.low!r}, high={self.high!r}."
        )

    def _extras(self, scores: Floats) -> dict[str, Any]:
        return {"undefined": scores < 0}
