"""Gradients that are rectified on their way down."""

from __future__ import annotations

from tellwhy.explainers.propagation import passes
from tellwhy.explainers.propagation.base import NetworkExplainer
from tellwhy.explainers.propagation.capture import Method


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

    def _method(self) -> Method:
        return Method("gradient", rectifier=passes.deconvolution)


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

    def _method(self) -> Method:
        return Method("gradient", rectifier=passes.guided)
