"""Pictures of the same thing in the same place, such as parts under one camera: compared pixel by pixel.

A part that is missing leaves ordinary background: no patch of it is odd anywhere, only there. So pictures
that are aligned are judged by how far each pixel is from what the others show in its place, in units of how
far those are from each other. Patches of these differences are what a model of patches then learns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from tellwhy.core.arrays import evenly_spread
from tellwhy.core.params import Fit
from tellwhy.core.score import Floats

LEAST = 5  # pictures that tell whether they are aligned
MOST = 200  # pictures that the middle and the spread are learned from
LEAST_SHARE = 0.5  # of the differences between pixels that their place explains
# Few pictures tell the spread of a pixel badly: so many more have the spread of the middle pixel.
PRIOR = 5
AROUND = 3  # pixels that share the largest of their spreads: edges move by a pixel
GREY_LEVEL = 1.0  # of pixels from 0 to 255; what is rounded differs by as much
TO_DEVIATION = 1.4826  # from the median distance to the standard deviation of normal numbers


@dataclass(frozen=True, eq=False)
class Ground:
    """What pictures are compared with, pixel by pixel.

    Attributes
    ----------
    middle, spread
        What other pictures show in each place, and how far from it they are; None where pictures are not
        aligned, and looked at as they are.
    share
        Share of the differences between pixels that their place explains.
    """

    middle: Floats | None
    spread: Floats | None
    share: float

    @classmethod
    def learn(cls, pictures: Sequence[Floats], *, is_clean: bool) -> Ground:
        """Learn from pictures of one size; with odd ones among them, from their medians.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> part = np.zeros((20, 20))
        >>> part[5:15, 5:15] = 200.0
        >>> ground = Ground.learn([part + rng.normal(0, 3, part.shape) for _ in range(9)], is_clean=True)
        >>> bool(np.abs(ground.seen(part)).max() < 3), bool(ground.seen(0 * part)[10, 10] < -20)
        (True, True)
        """
        some = evenly_spread(len(pictures), MOST)
        stack = np.stack([pictures[k] for k in some])
        middle = stack.mean(axis=0) if is_clean else np.median(stack, axis=0)
        if is_clean:
            variances = ((stack - middle) ** 2).sum(axis=0) / (len(stack) - 1)
        else:
            variances = (TO_DEVIATION * np.median(np.abs(stack - middle), axis=0)) ** 2
        return cls(middle, _spread(variances, len(stack)), placed_share(stack))

    def seen(self, picture: Floats) -> Floats:
        """Return the picture as it is judged."""
        if self.middle is None or self.spread is None:
            return picture
        # Where all pictures are equal, what rounding hid is all that makes their patches differ.
        hidden = np.random.default_rng(0).uniform(-0.5, 0.5, size=picture.shape) * GREY_LEVEL
        return np.asarray((picture + hidden - self.middle) / self.spread)

    @property
    def is_aligned(self) -> bool:
        """Whether pictures are compared place by place."""
        return self.middle is not None

    def _fits(self) -> Iterator[Fit]:
        yield "spread", self.spread is None, self.middle is None
        if self.middle is not None and self.spread is not None:
            yield "spread", self.spread.shape, self.middle.shape
            yield "spread", bool((self.spread > 0).all()), True


AS_THEY_ARE = Ground(None, None, 0.0)


def ground_of(judged: Sequence[Floats], good: Sequence[Floats]) -> Ground:
    """Learn from good pictures, or from all where there are none, if they are aligned."""
    learned = good or judged
    if len(learned) < LEAST or len({picture.shape for picture in [*judged, *good]}) > 1:
        return AS_THEY_ARE
    ground = Ground.learn(learned, is_clean=bool(good))
    return ground if ground.share >= LEAST_SHARE else AS_THEY_ARE


def placed_share(stack: Floats) -> float:
    """Share of the variance of pixels that their place explains: 0 for textures, near 1 for aligned parts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> texture = rng.normal(size=(8, 30, 30))
    >>> bool(abs(placed_share(texture)) < 0.05), bool(placed_share(texture + 9 * texture[:1]) > 0.95)
    (True, True)
    """
    n = len(stack)
    within = float(stack.var(axis=0, ddof=1).mean()) if n > 1 else 0.0
    total = float(stack.var(axis=(0, 1, 2)).mean())
    return 1.0 - within / total if total > 0 else 1.0  # blank pictures are the same in every place


def _spread(variances: Floats, n: int) -> Floats:
    """Spread of each pixel and those around it; where few pictures tell it, that of a usual pixel counts."""
    positive = variances[variances > 0]
    usual = float(np.median(positive)) if len(positive) else 0.0
    pooled = ((n - 1) * variances + PRIOR * usual) / (n - 1 + PRIOR)
    size = (AROUND, AROUND) + (1,) * (variances.ndim - 2)
    return np.asarray(np.sqrt(ndimage.maximum_filter(pooled, size=size) + GREY_LEVEL**2 / 12))
