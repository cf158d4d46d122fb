"""Gradients that are rectified on their way down: another backward pass of ReLU.

In both functions c is what comes down to a ReLU, z its input and a its output.
"""

from __future__ import annotations

from torch import Tensor

from tellwhy.explainers.propagation.base import NetworkExplainer, Pass
from tellwhy.explainers.propagation.engine.methods import Method


def deconvolution(c: Tensor, z: Tensor, a: Tensor) -> Tensor:  # noqa: ARG001
    """Rectify what comes down, whether the unit was active or not: ReLU is applied to the signal itself."""
    return c.clamp(min=0)


def guided(c: Tensor, z: Tensor, a: Tensor) -> Tensor:
    """Rectify what comes down, through active units only."""
    return c.clamp(min=0) * ((z > 0) & (a == z))  # above its bound ReLU6 is not active either


class DeconvNet(NetworkExplainer):
    """The gradient with another backward pass of ReLU: negative parts of what comes down are cut off.

    Zeiler, Fergus, ECCV (2014). Parameters as in `Gradient`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 1, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> DeconvNet(model).explain([[-3.0, 1.0]]).values
    array([[2., 0.]])
    """

    kind = "signal"

    def passes(self) -> list[Pass]:
        """One way down, by derivatives with another ReLU."""
        return [Pass(Method("gradient", rectifier=deconvolution))]


class GuidedBackprop(NetworkExplainer):
    """The gradient with another backward pass of ReLU: only positive parts, only through active units.

    Springenberg et al., ICLR Workshop (2015). Parameters as in `Gradient`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 1, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> GuidedBackprop(model).explain([[-3.0, 1.0]]).values
    array([[0., 0.]])
    """

    kind = "signal"

    def passes(self) -> list[Pass]:
        """One way down, by derivatives with another ReLU."""
        return [Pass(Method("gradient", rectifier=guided))]
