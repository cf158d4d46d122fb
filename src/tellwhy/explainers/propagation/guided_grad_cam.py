"""Guided Grad-CAM: guided backprop where Grad-CAM says that a layer's maps speak for the output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tellwhy.explainers.propagation.base import Pass
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.grad_cam import GradCAM
from tellwhy.explainers.propagation.gradient import guided
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs


class GuidedGradCAM(GradCAM):
    """Guided backprop times the map of Grad-CAM, cell by cell: fine edges, where the class is.

    Selvaraju et al., ICCV (2017).

    Parameters
    ----------
    model, target, batch_size, device, layer
        As in `GradCAM`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1, bias=False), torch.nn.ReLU(), torch.nn.Flatten())
    >>> _ = model[0].weight.data.fill_(2.0)
    >>> picture = torch.tensor([[[[1.0, 0.0], [0.0, 3.0]]]])
    >>> GuidedGradCAM(model.eval(), target=3).explain(picture).values[0, 0]
    array([[0., 0.],
           [0., 3.]])
    """

    def passes(self) -> list[Pass]:
        """Return the gradient with another ReLU, which goes down to the input."""
        return [Pass(Method("gradient", rectifier=guided))]

    def explain_batch(
        self, model: Any, rows: Inputs, target: Any, *, rng: np.random.Generator, down: Work
    ) -> Result:
        """Explain some rows."""
        found = super().explain_batch(model, rows, target, rng=rng, down=down)
        chosen = target if callable(target) else found.outputs.cpu().numpy()
        fine = down(rows, [chosen])[0].values[0]
        maps = found.values[0] * rows.tensors[0].shape[1]  # which the channels have shared
        return replace(found, values=[fine * maps])
