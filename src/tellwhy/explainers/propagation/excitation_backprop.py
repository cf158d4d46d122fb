"""Excitation backprop: a winner takes all, in probabilities."""

from __future__ import annotations

from torch import Tensor

from tellwhy.explainers.propagation.base import NetworkExplainer
from tellwhy.explainers.propagation.capture import Method
from tellwhy.explainers.propagation.composites import Composite, every
from tellwhy.explainers.propagation.rules import quotient, z_plus


class ExcitationBackprop(NetworkExplainer):
    """Probability that a walk down the network's exciting connections ends at each input; starts with 1 at the output.

    The walk is that of the z+ rule without biases. It is meant for inputs and activations that are not negative; a
    negative input excites through negative weights. Zhang et al., International Journal of Computer Vision 126 (2018).
    Parameters as in `Gradient`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, 1.0]]))
    >>> ExcitationBackprop(model).explain([[3.0, 2.0]]).values
    array([[0.75, 0.25]])
    """

    kind = "signal"

    def _method(self) -> Method:
        return Method("contribution", Composite([(every, z_plus())]), multiply=True)

    def _seed(self, scores: Tensor) -> Tensor:
        return quotient(scores.new_ones(scores.shape), scores)
