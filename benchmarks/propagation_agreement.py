"""LRP on residual and batch-normalised networks next to zennit, which needs a canonizer per architecture.

Needs PyTorch, torchvision and zennit (a peer, never imported by the package).
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from _results import publish
from torch import nn

from tellwhy.explainers import LRP
from tellwhy.explainers.propagation import RULES, Composite
from tellwhy.explainers.propagation.composites import convolution, every

STABILISER = 1e-12
PLUS = Composite([(convolution, RULES["alpha_beta"](1, 0)), (every, RULES["epsilon"](STABILISER))])


def torchvision_models() -> Any:
    """The models' module; without torchvision's compiled operators, which the models do not need."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchvision.models as models
    return models, library


def random_model(models: Any, name: str) -> nn.Module:
    torch.manual_seed(0)
    model = getattr(models, name)(weights=None, num_classes=10).double().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.normal_(module.weight, 0.8, 0.3)
            nn.init.normal_(module.bias, std=0.1)
    return model


def zennit_values(model: nn.Module, x: torch.Tensor, canonizers: list[Any]) -> np.ndarray:
    from zennit.attribution import Gradient
    from zennit.composites import EpsilonPlus

    composite = EpsilonPlus(epsilon=STABILISER, stabilizer=STABILISER, canonizers=canonizers)
    first = torch.eye(10, dtype=x.dtype)[[0]]
    with Gradient(model=model, composite=composite, attr_output=lambda outputs: outputs * first) as attributor:
        return attributor(x.clone().requires_grad_())[1].detach().numpy()


def main() -> None:
    if find_spec("zennit") is None or find_spec("torchvision") is None:
        print("left out: needs zennit and torchvision")
        return
    models, library = torchvision_models()
    from zennit.torchvision import ResNetCanonizer, VGGCanonizer

    lines = []
    for name, canonizer in (("vgg11_bn", VGGCanonizer), ("resnet18", ResNetCanonizer)):
        model, x = random_model(models, name), torch.randn(2, 3, 64, 64, dtype=torch.float64)
        ours = LRP(model, 0, composite=PLUS).explain(x).values
        largest = np.abs(ours).max()
        apart = [np.abs(zennit_values(model, x, c) - ours).max() / largest for c in ([canonizer()], [])]
        lines.append({"model": name, "with its canonizer": float(apart[0]), "without": float(apart[1])})
    del library  # the operators' definitions live as long as it does
    text = (
        "Largest difference between zennit's and our attributions, as a share of the largest attribution (float64, "
        "alpha 1 beta 0 for convolutions, epsilon for dense layers, random weights). Our models are unmodified."
    )
    title = "Relevance propagation next to zennit"
    publish("propagation_agreement", title, [(text, pd.DataFrame(lines))], peers=("torch", "zennit"))


if __name__ == "__main__":
    main()
