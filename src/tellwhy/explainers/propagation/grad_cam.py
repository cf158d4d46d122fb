"""Grad-CAM: which places of a layer's maps speak for the output; guided Grad-CAM, which has finer edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.params import Rules, instance_of, none
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.engine.capture import ModulePaths
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import (
    Device,
    Target,
    TrailingSoftmax,
    choose_outputs,
    pick_scores,
    tensor_of,
)


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
        Name of the module whose output has the maps, or tokens that stand for places; None: the last 2-D
        convolution, and in a vision transformer the last norm that sees the tokens of all places.

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
        down: Work,  # noqa: ARG002
    ) -> Result:
        """Explain some rows."""
        x = rows.tensors[0]
        if len(rows.tensors) != 1 or x.ndim != 4:
            raise InvalidInput(f"GradCAM explains pictures (n, channels, height, width). Got {rows.words}.")
        met: list[_Met] = []
        modules = dict(model.named_modules())
        if self.layer is not None and self.layer not in modules:
            raise InvalidInput(f"The network has no module {self.layer!r}.")
        paths = ModulePaths(model)
        paths.on_output = lambda path, output: met.append(_Met(path, modules[path], output))
        watch = TrailingSoftmax()
        with paths.followed(), watch:
            given = rows.apply(model, [x.detach().clone().requires_grad_()])
        outputs, softmax = watch.left_out(tensor_of(model, given))
        scores = pick_scores(outputs, target)
        places = _slopes_times_maps(_chosen(met, self.layer), scores)
        found = torch.nn.functional.interpolate(
            places, size=x.shape[2:], mode="bilinear", align_corners=False
        )
        values = found.expand_as(x) / x.shape[1]
        return Result([values], scores.detach(), choose_outputs(outputs, target), softmax)


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
        from tellwhy.explainers.propagation.gradient import guided  # here, for shorter chains of imports

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


class _Met(NamedTuple):
    """A module that has run, and its output."""

    path: str
    module: Module
    output: Any


class _Maps(NamedTuple):
    """Output of a module, as it is, and what makes maps (n, channels, height, width) of it."""

    path: str
    output: Tensor
    as_maps: Callable[[Tensor], Tensor]


def _chosen(met: list[_Met], layer: str | None) -> list[_Maps]:
    """What may be weighted: the module that was asked for; else the last one that has a slope."""
    convolutions = [k for k, m in enumerate(met) if isinstance(m.module, torch.nn.Conv2d)]
    grid = met[convolutions[-1]].output.shape[2:] if convolutions else None
    if layer is not None:
        return [_read(m, grid) for m in met if m.path == layer][-1:]
    if not convolutions:
        raise UnsupportedModel("The network has no 2-D convolution: name the module with layer=….")
    # A vision transformer has a convolution for its patches only. What each place has come to say is in its
    # tokens, and the norms of blocks see all of them.
    tokens = [m for m in met[convolutions[-1] :] if _is_norm_of_tokens(m)]
    if any(_is_norm_of_tokens(m) for m in met[: convolutions[-1]]):
        tokens = []
    named = [m for m in met if m.path == _last_convolution(met)]
    return [_read(m, grid) for m in (*named[-1:], *tokens)]


def _last_convolution(met: list[_Met]) -> str:
    return [m.path for m in met if isinstance(m.module, torch.nn.Conv2d)][-1]


def _is_norm_of_tokens(m: _Met) -> bool:
    """Whether a module normalises places one by one, the channels last."""
    weight = getattr(m.module, "weight", None)
    is_norm = "norm" in type(m.module).__name__.lower() and isinstance(m.output, Tensor)
    if (
        not is_norm
        or m.output.ndim not in (3, 4)
        or isinstance(m.module, torch.nn.modules.batchnorm._BatchNorm)
    ):
        return False
    return weight is None or weight.shape == m.output.shape[-1:]


def _read(m: _Met, grid: Sequence[int] | None) -> _Maps:
    """The output of a module as maps: those of a convolution as they are, tokens in the places of a grid."""
    output = m.output
    if not isinstance(output, Tensor) or output.ndim not in (3, 4):
        raise InvalidInput(f"The output of module {m.path!r} is not one tensor of maps (n, channels, h, w).")
    if output.ndim == 4:
        last = _is_norm_of_tokens(m)
        return _Maps(m.path, output, (lambda t: t.permute(0, 3, 1, 2)) if last else lambda t: t)
    n_tokens = output.shape[1]
    side = math.isqrt(n_tokens)
    height, width = grid if grid is not None and grid[0] * grid[1] <= n_tokens else (side, side)
    n_extra = n_tokens - height * width  # of classes and the like, which come first

    def as_maps(t: Tensor) -> Tensor:
        return t[:, n_extra:].transpose(1, 2).unflatten(2, (height, width))

    return _Maps(m.path, output, as_maps)


def _slopes_times_maps(found: list[_Maps], scores: Tensor) -> Tensor:
    """ReLU of the channels' weighted sum, (n, 1, height, width)."""
    if not found:
        raise InvalidInput("The module that was named does not run when the network is applied.")
    slopes = torch.autograd.grad(scores.sum(), [maps.output for maps in found], allow_unused=True)
    for maps, slope in zip(reversed(found), reversed(slopes), strict=True):
        if slope is None or (maps is not found[0] and not bool(maps.as_maps(slope).any())):
            continue
        weights = maps.as_maps(slope).mean(dim=(2, 3), keepdim=True)
        return (weights * maps.as_maps(maps.output.detach())).sum(dim=1, keepdim=True).relu()
    raise InvalidInput(f"The explained output does not depend on module {found[0].path!r}.")
