"""Fine filters: the colours of a picture, and how strong its edges and lines of a few widths are.

Features of a network trained on photographs of things forget the grain of a texture. Derivatives of a
Gaussian, first (edges) and second (lines), do not. Their sizes are averaged over squares of eight pixels, and
count by their logarithm: a smooth spot in grass is as odd as a glaring one.
"""

from __future__ import annotations

import numpy as np
import torch

from tellwhy.core.score import Floats
from tellwhy.detectors.patches.secant_network import Convolution, Grain, Keep, SecantNetwork, Size

KEPT = "fine"
SQUARE = 8
WIDTHS = (0.7, 1.4, 2.8)  # standard deviations in pixels
DIRECTIONS = 4
SIDE = 17  # of the filters: six times the largest width
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
N_CHANNELS = 3 + 2 * DIRECTIONS * len(WIDTHS)


def fine_filters(stride: int) -> SecantNetwork:
    """Return the filters as a network of one layer, and their means over squares that are a stride apart."""
    bank = np.concatenate([_colours(), *(_lines_and_edges(width) for width in WIDTHS)])
    weights = torch.from_numpy(bank).float()
    nothing = torch.zeros(len(weights))
    mean = torch.full((len(weights), 1, SQUARE, SQUARE), 1.0 / SQUARE**2)
    steps = [
        Convolution(weights, nothing, border="replicate"),
        Size(),
        Convolution(mean, nothing, stride, len(weights), border="replicate"),
        Grain(3),
        Keep(KEPT),
    ]
    return SecantNetwork(steps)


def _colours() -> Floats:
    """Three filters that hand the colours on."""
    found = np.zeros((3, 3, SIDE, SIDE))
    for colour in range(3):
        found[colour, colour, SIDE // 2, SIDE // 2] = 1.0
    return found


def _lines_and_edges(width: float) -> Floats:
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
