"""Networks of convolutions whose differences between two pictures are carried back to the pixels exactly.

Between two pictures, every step of such a network is linear: a convolution and a sum are anyway, and a limit
or an absolute value is where its slope is that of the chord, (f(z) − f(z'))/(z − z'). With these slopes the
gradient of a linear read-out, times x − x', adds up to the difference of the read-out, to the last digits
(the rescale rule of DeepLIFT).

References
----------
Shrikumar, Greenside and Kundaje, *Learning important features through propagating activation differences*,
ICML 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F

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
