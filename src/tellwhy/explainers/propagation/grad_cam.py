"""Grad-CAM: which places of a layer's maps speak for the output."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.params import Rules, instance_of, none
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.engine.capture import ModulePaths
from tellwhy.explainers.propagation.engine.methods import Method
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import Device, Target, TrailingSoftmax, chosen_outputs, pick_scores


class GradCAM(NetworkExplainer):
    """Places of the input where a layer's channels that speak for the output are active.

    Each channel of a layer's maps A is weighted by the mean slope of the output over its places; what is
    positive of the weighted sum, ReLU(Σ_k α_k A_k), is enlarged to the size of the input. The map is shared
    evenly by the channels of the input, so that their sum is the map. Selvaraju et al., ICCV (2017).

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`. One input, of pictures (n, channels, height, width).
    layer
        Name of the module whose output has the maps; None: the last 2-D convolution.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1, bias=False), torch.nn.Flatten()).eval()
    >>> _ = model[0].weight.data.fill_(2.0)
    >>> GradCAM(model, target=0).explain(torch.tensor([[[[1.0, 0.0], [0.0, 3.0]]]])).values[0, 0]
    array([[0.5, 0. ],
           [0. , 1.5]])
    """

    kind = "signal"
    shares_forward = False
    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "layer": (none, instance_of(str, words="a module's name")),
    }

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        layer: str | None = None,
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.layer = layer

    def passes(self) -> list[Pass]:
        """Return the gradient, which stops at the layer."""
        return [Pass(Method("gradient"))]

    def explain_batch(
        self,
        model: Module,
        rows: Inputs,
        target: Any,
        *,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Result:
        """Explain some rows."""
        x = rows.tensors[0]
        if len(rows.tensors) != 1 or x.ndim != 4:
            raise InvalidInput(f"GradCAM explains pictures (n, channels, height, width). Got {rows.words}.")
        maps: list[Tensor] = []
        paths = ModulePaths(model)
        name = self._layer(model)
        paths.on_output = lambda path, output: maps.append(output) if path == name else None
        watch = TrailingSoftmax()
        with paths.followed(), watch:
            given = rows.apply(model, [x.detach().clone().requires_grad_()])
        outputs, softmax = watch.left_out(given)
        scores = pick_scores(outputs, target)
        places = _slopes_times_maps(name, maps, scores)
        found = torch.nn.functional.interpolate(
            places, size=x.shape[2:], mode="bilinear", align_corners=False
        )
        values = found.expand_as(x) / x.shape[1]
        return Result([values], scores.detach(), chosen_outputs(outputs, target), softmax)

    def _layer(self, model: Module) -> str:
        """Name of the module whose maps are weighted."""
        modules = dict(model.named_modules())
        if self.layer is not None:
            if self.layer not in modules:
                raise InvalidInput(f"The network has no module {self.layer!r}.")
            return self.layer
        found = [name for name, module in modules.items() if isinstance(module, torch.nn.Conv2d)]
        if not found:
            raise UnsupportedModel("The network has no 2-D convolution: name the module with layer=….")
        return found[-1]


def _slopes_times_maps(name: str, maps: list[Tensor], scores: Tensor) -> Tensor:
    """ReLU of the channels' weighted sum, (n, 1, height, width)."""
    if not maps or not isinstance(maps[-1], Tensor) or maps[-1].ndim != 4:
        raise InvalidInput(f"The output of module {name!r} is not one tensor of maps (n, channels, h, w).")
    last = maps[-1]
    slopes = torch.autograd.grad(scores.sum(), last, allow_unused=True)[0]
    if slopes is None:
        raise InvalidInput(f"The explained output does not depend on module {name!r}.")
    weights = slopes.mean(dim=(2, 3), keepdim=True)
    return (weights * last.detach()).sum(dim=1, keepdim=True).relu()
