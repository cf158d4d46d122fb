"""LRP next to zennit, which needs a canonizer per architecture, and integrated gradients next to Captum.

Needs PyTorch, torchvision, zennit and Captum (peers, never imported by the package).
"""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from benchmarks.networks._peers import captum_attr, random_model, torchvision_models
from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.explainers import LRP, IntegratedGradients
from tellwhy.explainers.propagation import RULES, Composite
from tellwhy.explainers.propagation.composites import convolution, every

STABILISER = 1e-12
N_STEPS = 50
PLUS = Composite([(convolution, RULES["alpha_beta"](1, 0)), (every, RULES["epsilon"](STABILISER))])


def apart(theirs: np.ndarray, ours: np.ndarray) -> float:
    """Largest difference, as a share of the largest attribution."""
    return float(np.abs(theirs - ours).max() / np.abs(ours).max())


def pictures(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(2, 3, 64, 64, dtype=dtype, generator=torch.Generator().manual_seed(0))


def zennit_values(model: nn.Module, x: torch.Tensor, canonizers: list[Any]) -> np.ndarray:
    from zennit.attribution import Gradient
    from zennit.composites import EpsilonPlus

    composite = EpsilonPlus(epsilon=STABILISER, stabilizer=STABILISER, canonizers=canonizers)
    first = torch.eye(10, dtype=x.dtype)[[0]]
    with Gradient(
        model=model, composite=composite, attr_output=lambda outputs: outputs * first
    ) as attributor:
        return attributor(x.clone().requires_grad_())[1].detach().numpy()


def captum_lrp(model: nn.Module, x: torch.Tensor) -> np.ndarray:
    """Captum's LRP with its epsilon rule, on a copy whose rectifiers do not work in place."""
    copied = without_in_place(model)
    return captum_attr().LRP(copied).attribute(x.clone().requires_grad_(), target=0).detach().numpy()


def without_in_place(model: nn.Module) -> nn.Module:
    copied = copy.deepcopy(model)
    for module in copied.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
    return copied


def lrp_table() -> pd.DataFrame:
    torchvision_models()
    from zennit.torchvision import ResNetCanonizer, VGGCanonizer

    lines = []
    for name, canonizer in (("vgg11_bn", VGGCanonizer), ("resnet18", ResNetCanonizer)):
        model, x = random_model(name, num_classes=10).double(), pictures()
        ours = LRP(model, target=0, composite=PLUS).explain(x).values
        plain = LRP(model, target=0, rule="epsilon", rule_params={"epsilon": 1e-9}).explain(x).values
        try:
            captum = apart(captum_lrp(model, x), plain)
        except Exception as error:
            captum = f"fails: {type(error).__name__}: {str(error)[:90]}"
        lines.append(
            {
                "model": name,
                "zennit with its canonizer": apart(zennit_values(model, x, [canonizer()]), ours),
                "zennit without": apart(zennit_values(model, x, []), ours),
                "Captum (epsilon rule)": captum,
            }
        )
    return pd.DataFrame(lines)


def integrated_table() -> pd.DataFrame:
    lines = []
    for name in ("vgg11_bn", "resnet18"):
        ours, captum = {}, {}
        for dtype in (torch.float64, torch.float32):
            model, x = random_model(name, num_classes=10).to(dtype), pictures(torch.float32).to(dtype)
            steps = {"n_steps": N_STEPS, "method": "gausslegendre", "internal_batch_size": 32}
            captum[dtype] = (
                captum_attr().IntegratedGradients(model).attribute(x, target=0, **steps).detach().numpy()
            )
            ours[dtype] = IntegratedGradients(model, target=0, n_steps=N_STEPS, max_iter=N_STEPS).explain(x)
        refined = IntegratedGradients(model, target=0).explain(x)
        line = {"model": name, "difference": apart(captum[torch.float64], ours[torch.float64].values)}
        line |= {"Captum, float32 from float64": apart(captum[torch.float32], captum[torch.float64])}
        line |= {
            "ours, float32 from float64": apart(*(ours[t].values for t in (torch.float32, torch.float64)))
        }
        line |= {"not attributed": unattributed(ours[torch.float64]), "by default": unattributed(refined)}
        lines.append(line | {"gradients, by default": int(refined.extras["n_gradients"].max())})
    return pd.DataFrame(lines)


def unattributed(explanation: Any) -> float:
    """Largest share of the difference between the scores of row and reference that is in no value."""
    return float(np.abs(explanation.residual / (explanation.scores - explanation.base_values)).max())


def main() -> None:
    if not all(find_spec(peer) for peer in ("zennit", "captum", "torchvision")):
        print("left out: needs zennit, captum and torchvision")
        return
    lrp = (
        "Largest difference between zennit's and our relevance, as a share of the largest (float64, random weights; "
        "alpha 1 beta 0 for convolutions, epsilon for dense layers, with zennit's epsilon and stabiliser set to "
        f"{STABILISER:g} instead of its 1e-6, and our epsilon too). Our models are unmodified. Captum's LRP, with its "
        "epsilon rule for every layer, runs on a copy without in-place rectifiers and is compared with ours."
    )
    integrated = (
        f"Integrated gradients with {N_STEPS} Gauss-Legendre steps from zero: the largest difference between Captum's "
        "and ours in float64, as a share of the largest attribution; how far each is from itself in float32, where "
        "rounding decides which rectifiers are active; and the largest share of the score that is not attributed, with "
        "these steps (float64) and with our defaults, which refine where it is needed (float32)."
    )
    publish(
        "propagation_agreement",
        "Explanations of networks next to zennit and Captum",
        [(lrp, lrp_table()), (integrated, integrated_table())],
        peers=("torch", "zennit", "captum"),
    )


if __name__ == "__main__":
    arguments(__doc__)
    main()
