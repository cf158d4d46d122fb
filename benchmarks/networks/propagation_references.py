"""Layer-wise attributions of iNNvestigate 1.0.9 (TensorFlow), reproduced.

Reads the files of `tests/references/layer` of the iNNvestigate repository from $TELLWHY_DATA/innvestigate_layer_refs;
needs PyTorch and h5py.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import torch
from torch import nn

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.data.benchmarks import data_folder
from tellwhy.explainers import (
    LRP,
    DeconvNet,
    DeepTaylor,
    Gradient,
    GuidedBackprop,
    InputTimesGradient,
    IntegratedGradients,
)

METHODS = {
    "Gradient": Gradient,
    "InputTimesGradient": InputTimesGradient,
    "IntegratedGradients": IntegratedGradients,
    "Deconvnet": DeconvNet,
    "GuidedBackprop": GuidedBackprop,
    "LRPZ": lambda m: LRP(m, rule="z"),
    "LRPEpsilon": lambda m: LRP(m, rule="epsilon", rule_params={"epsilon": 1e-7}),
    "LRPAlpha1Beta0": lambda m: LRP(m, rule="alpha_beta", rule_params={"alpha": 1, "beta": 0}),
    "LRPAlpha2Beta1": lambda m: LRP(m, rule="alpha_beta", rule_params={"alpha": 2, "beta": 1}),
    "LRPFlat": lambda m: LRP(m, rule="flat"),
    "LRPWSquare": lambda m: LRP(m, rule="w_square"),
    "DeepTaylor": lambda m: DeepTaylor(m, low=0, pooling="flat"),
}


STARTS_WITH_OUTPUT = ("Deconvnet", "GuidedBackprop")


class ChannelsLast(nn.Module):
    """A layer on images (n, rows, columns, channels), its output flattened in that order."""

    def __init__(self, layer: nn.Module, act: nn.Module):
        super().__init__()
        self.layer, self.act = layer, act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.layer(x.permute(0, 3, 1, 2))).permute(0, 2, 3, 1).flatten(1)


class Dense(nn.Module):
    """A fully connected layer on the channels of each pixel."""

    def __init__(self, layer: nn.Module, act: nn.Module):
        super().__init__()
        self.layer, self.act = layer, act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.layer(x)).flatten(1)


def build(name: str, weights: list[np.ndarray]) -> nn.Module:
    act = nn.ReLU() if name.endswith("_relu") else nn.Identity()
    if name.startswith("Dense"):
        model: nn.Module = Dense(nn.Linear(3, 5), act)
        kernel = weights[0].T
    elif name.startswith("Conv2D"):
        model = ChannelsLast(nn.Conv2d(3, 5, 3), act)
        kernel = weights[0].transpose(3, 2, 0, 1)
    else:
        return ChannelsLast(nn.AvgPool2d(2) if name.startswith("Average") else nn.MaxPool2d(2), act).eval()
    with torch.no_grad():
        model.layer.weight.copy_(torch.from_numpy(kernel.copy()))
        model.layer.bias.copy_(torch.from_numpy(weights[1]))
    return model.double().eval()


def main() -> None:
    folder = data_folder() / "innvestigate_layer_refs"
    if find_spec("h5py") is None or not folder.is_dir():
        print(f"left out: needs h5py and iNNvestigate's tests/references/layer in {folder}")
        return
    import h5py

    lines = []
    for method, make in METHODS.items():
        with h5py.File(folder / f"{method}.hdf5") as file:
            x = file["input"][()].astype(np.float64)
            for name in (key for key in file if key != "input"):
                weights = [file[name]["weights"][key][()] for key in sorted(file[name]["weights"])]
                model = build(name, weights)
                outputs = model(torch.from_numpy(x)).detach().numpy()
                explanation = make(model).explain(x)
                found = explanation.values
                if method in STARTS_WITH_OUTPUT:
                    found = found * explanation.scores.reshape(-1, 1, 1, 1)
                lines.append(
                    {
                        "method": method,
                        "layer": name,
                        "output difference": float(np.abs(outputs - file[name]["output"][()]).max()),
                        "attribution difference": float(np.abs(found - file[name]["attribution"][()]).max()),
                        "largest attribution": float(np.abs(found).max()),
                    }
                )
    text = (
        "Largest absolute differences to the stored attributions, computed in single precision by iNNvestigate 1.0.9. "
        "There DeconvNet and guided backprop start with the output instead of 1: ours are multiplied by it. There deep "
        'Taylor spreads relevance evenly over an average pool: that is `pooling="flat"` here; by default it is shared '
        "in proportion to the inputs, which is the z+ rule of a layer with equal weights. Its integrated gradients are the "
        "mean of 64 gradients: where a kink lies on the line (ReLU, maxima) that is off by so much, while ours go on until "
        "the integral is right to one per cent."
    )
    publish(
        "propagation_references",
        "Attributions of iNNvestigate, layer by layer",
        [(text, pd.DataFrame(lines))],
        peers=("torch",),
    )


if __name__ == "__main__":
    arguments(__doc__)
    main()
