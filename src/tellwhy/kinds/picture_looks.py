"""How pictures of one size are looked at: by features of a network, by fine filters, or by both.

Which of them suits the pictures is tried on good ones: some are held back, defects are planted in them, and
what tells these best from the good ones is taken. Pictures of the same thing in the same place, such as parts
under one camera, are compared pixel by pixel: a part that is missing leaves ordinary background, and no patch
of it is odd anywhere, only there. A picture that is aligned is judged by how far each pixel is from what the
others show in its place, in units of how far those are from each other; patches of these differences are what
a model of patches then learns. At the end: where relevance gathers in a picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage
from sklearn.metrics import roc_auc_score

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit
from tellwhy.core.score import Floats

if TYPE_CHECKING:
    from tellwhy.detectors.patches.looks import Told


LOOKS = ("network", "filters", "whole")
LEAST_SEEN = 5  # pictures that a look is learned from
OTHER_THINGS = 3.0  # change of content from which each picture shows another thing
SAME_THING = 1.0  # change of content below which pictures show the same thing in about the same place
CLEARLY = 0.1  # of the AUROC, by which these need another look than that at each place
HELD = 8  # good pictures, at most, that defects are planted in
DEFECTS = 3  # of each
BETTER = 0.02  # of the AUROC, by which two looks must be better than one
HIGH = 0.84  # quantile a standard deviation above the middle of normal numbers


@dataclass(frozen=True, eq=False)
class PictureLooks:
    """One look at pictures, or two, of which the one that finds more counts.

    Scores are in units of the good pictures': (s − median)/(their 84th hundredth − median).

    Attributes
    ----------
    names, members
        "network", "filters" or "whole", and the look.
    middles, units
        Median score of good pictures by each look, and the unit.
    usual
        Scores of the good pictures themselves, each by looks that have not seen it.
    tried
        AUROC of each way of looking on the planted defects; empty where it was asked for by name.
    """

    names: list[str]
    members: list[Any]
    middles: Floats
    units: Floats
    usual: Floats
    tried: dict[str, float]

    def scores(self, pictures: Sequence[Floats]) -> Floats:
        """Return the score of each picture by the look that finds it oddest."""
        return np.asarray(self._score_by_each(pictures).max(axis=1))

    def _score_by_each(self, pictures: Sequence[Floats]) -> Floats:
        from tellwhy.detectors.patches.looks import scores_of

        found = [[scores_of(look, look.lens.seen(each))[0] for look in self.members] for each in pictures]
        return np.asarray((np.array(found) - self.middles) / self.units)

    def explain(self, picture: Floats) -> tuple[str, Told]:
        """Return the look that finds the picture oddest, and the relevance of its pixels for that."""
        at = int(self._score_by_each([picture])[0].argmax())
        return self.names[at], self.members[at].explain(picture)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the pictures."""
        lens = self.members[0].lens
        return lens.height, lens.width

    def _require(self) -> Iterator[Fit]:
        from tellwhy.detectors.patches.looks import NearestPlaces, PlaceGaussians

        n = len(self.names)
        yield "members", n == len(self.members) > 0, True
        yield "members", all(isinstance(each, (PlaceGaussians, NearestPlaces)) for each in self.members), True
        yield "names", all(name in LOOKS for name in self.names), True
        yield "middles", self.middles.shape == self.units.shape == (n,) and bool((self.units > 0).all()), True
        yield "usual", self.usual.ndim == 1, True


def learn_looks(pictures: Sequence[Floats], features: str, seed: int) -> PictureLooks:
    """Learn the looks that were asked for by name, or that find planted defects best."""
    from tellwhy.detectors.patches.looks import NearestPlaces, PlaceGaussians, change_of_content

    kinds: dict[str, Any] = {"network": PlaceGaussians, "filters": NearestPlaces}
    change = change_of_content(pictures) if features == "auto" else 0.0
    is_whole = features == "whole" or change > OTHER_THINGS
    tried = _try_looks(kinds, pictures, seed) if features == "auto" and not is_whole else {}
    names = (
        ["whole"]
        if is_whole
        else (choose_best(tried, is_same_thing=change < SAME_THING) if tried else features).split("+")
    )
    learned = [
        PlaceGaussians.learn(pictures, "whole") if name == "whole" else kinds[name].learn(pictures)
        for name in names
    ]
    scores = np.stack([each for _, each in learned], axis=1)
    middles, units = _measure_units(scores)
    usual = ((scores - middles) / units).max(axis=1)
    return PictureLooks(names, [look for look, _ in learned], middles, units, usual, tried)


def choose_best(tried: dict[str, float], *, is_same_thing: bool = False) -> str:
    """Return the way of looking with the largest AUROC; two together only where that is clearly better.

    Of pictures of the same thing in about the same place, only a look at each place finds what is missing:
    planted defects, which add something, must speak clearly against it.

    Examples
    --------
    >>> choose_best({"network": 0.95, "filters": 0.7, "network+filters": 0.96})
    'network'
    """
    if is_same_thing and max(tried.values()) < tried["network"] + CLEARLY:
        return "network"
    singles = {name: value for name, value in tried.items() if "+" not in name}
    best = max(singles, key=lambda name: singles[name])
    return next((name for name in tried if "+" in name and tried[name] > singles[best] + BETTER), best)


def _try_looks(kinds: dict[str, Any], pictures: Sequence[Floats], seed: int) -> dict[str, float]:
    """AUROC of each way of looking, and of both together, of planted defects beside good pictures."""
    from tellwhy.detectors.patches.looks import scores_of

    rng = np.random.default_rng(seed)
    n_held = int(min(HELD, max(2, len(pictures) // 3)))
    held = set(rng.permutation(len(pictures))[:n_held].tolist())
    good = [each for k, each in enumerate(pictures) if k in held]
    others = [each for k, each in enumerate(pictures) if k not in held]
    spoiled = [plant_defect(each, rng) for each in good for _ in range(DEFECTS)]
    is_odd = np.arange(len(good) + len(spoiled)) >= len(good)
    columns = []
    for kind in kinds.values():
        look = kind.learn_alone(others)
        columns.append([scores_of(look, look.lens.seen(each))[0] for each in [*good, *spoiled]])
    scores = np.array(columns).T
    middles, units = _measure_units(scores[: len(good)])
    tried = {name: float(roc_auc_score(is_odd, scores[:, k])) for k, name in enumerate(kinds)}
    joint = ((scores - middles) / units).max(axis=1)
    return tried | {"+".join(kinds): float(roc_auc_score(is_odd, joint))}


def _measure_units(scores: Floats) -> tuple[Floats, Floats]:
    """Median score by each look, and how far good pictures usually go above it."""
    middles = np.median(scores, axis=0)
    spreads = np.quantile(scores, HIGH, axis=0) - middles
    return middles, np.maximum(spreads, 1e-9 + 0.01 * np.abs(middles))


def plant_defect(picture: Floats, rng: np.random.Generator) -> Floats:
    """Return a copy of a picture with one small defect of a kind drawn at random."""
    height, width = picture.shape[:2]
    side = int(max(4, rng.uniform(0.08, 0.16) * min(height, width)))
    top, left = (int(rng.integers(0, max(1, length - side))) for length in (height, width))
    place = (slice(top, top + side), slice(left, left + side))
    found = picture.copy()
    kind = rng.choice(["stain", "scratch", "moved", "turned", "smeared"])
    piece = found[place]
    if kind == "stain":
        level = rng.uniform(picture.min(), picture.max())
        found[place] = piece + 0.7 * _draw_disc(piece.shape) * (level - piece)
    elif kind == "scratch":
        at = np.arange(side)
        drift = (at * rng.uniform(-1, 1)).astype(int) % side
        found[top + at, np.minimum(left + drift, width - 1)] = rng.choice([picture.min(), picture.max()])
    elif kind == "moved":
        other = (int(rng.integers(0, max(1, height - side))), int(rng.integers(0, max(1, width - side))))
        found[place] = picture[other[0] : other[0] + side, other[1] : other[1] + side]
    elif kind == "turned":
        found[place] = np.swapaxes(piece, 0, 1)
    else:
        sizes = (side / 3, side / 3) + (0,) * (picture.ndim - 2)
        found[place] = ndimage.gaussian_filter(piece, sizes)
    return found


def _draw_disc(shape: tuple[int, ...]) -> Floats:
    """1 inside a disc that fills a square, 0 outside."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    middle = (shape[0] - 1) / 2
    inside = ((rows - middle) ** 2 + (columns - middle) ** 2 <= (middle + 0.5) ** 2).astype(np.float64)
    return inside.reshape(inside.shape + (1,) * (len(shape) - 2))


MOST_REGIONS = 3
HALF = 0.5  # a region is where the smoothed relevance is above this share of its highest point


@dataclass(frozen=True)
class Region:
    """A box of pixels, what share of the relevance is in it, and how many times the usual it has."""

    top: int
    left: int
    bottom: int
    right: int
    share: float
    times_usual: float


def find_regions(relevance: Floats, patch: int) -> list[Region]:
    """Return the places with most relevance, at most three, the one with most first.

    Relevance is smoothed over a patch; a place is a connected part above half of the highest point that
    stands out from the middle of the picture.

    Examples
    --------
    >>> relevance = np.ones((40, 40))
    >>> relevance[10:16, 20:26] = 30.0
    >>> [(r.top, r.left, r.bottom, r.right) for r in find_regions(relevance, 3)]
    [(10, 20, 16, 26)]
    """
    flat = relevance.sum(axis=2) if relevance.ndim == 3 else relevance
    positive = np.clip(flat, 0.0, None)
    total = positive.sum()
    if total <= 0:
        return []
    smooth = ndimage.uniform_filter(positive, size=patch, mode="nearest")
    usual = float(np.median(smooth))
    labels, _ = ndimage.label(smooth > max(HALF * smooth.max(), 1.5 * usual))
    found = []
    for k, box in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[box] == k
        share = float(positive[box][inside].sum() / total)
        level = float(smooth[box][inside].mean()) / (usual or 1.0)
        rows, columns = box
        found.append(Region(rows.start, columns.start, rows.stop, columns.stop, share, level))
    return sorted(found, key=lambda region: -region.share)[:MOST_REGIONS]


LEAST_ALIGNED = 5  # pictures that tell whether they are aligned
MOST_LEARNED = 200  # pictures that the middle and the spread are learned from
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
        some = spread_evenly(len(pictures), MOST_LEARNED)
        stack = np.stack([pictures[k] for k in some])
        middle = stack.mean(axis=0) if is_clean else np.median(stack, axis=0)
        if is_clean:
            variances = ((stack - middle) ** 2).sum(axis=0) / (len(stack) - 1)
        else:
            variances = (TO_DEVIATION * np.median(np.abs(stack - middle), axis=0)) ** 2
        return cls(middle, _spread(variances, len(stack)), measure_placed_share(stack))

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

    def _require(self) -> Iterator[Fit]:
        yield "spread", self.spread is None, self.middle is None
        if self.middle is not None and self.spread is not None:
            yield "spread", self.spread.shape, self.middle.shape
            yield "spread", bool((self.spread > 0).all()), True


AS_THEY_ARE = Ground(None, None, 0.0)


def learn_ground(judged: Sequence[Floats], good: Sequence[Floats]) -> Ground:
    """Learn from good pictures, or from all where there are none, if they are aligned."""
    learned = good or judged
    if len(learned) < LEAST_ALIGNED or len({picture.shape for picture in [*judged, *good]}) > 1:
        return AS_THEY_ARE
    ground = Ground.learn(learned, is_clean=bool(good))
    return ground if ground.share >= LEAST_SHARE else AS_THEY_ARE


def measure_placed_share(stack: Floats) -> float:
    """Share of the variance of pixels that their place explains: 0 for textures, near 1 for aligned parts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> texture = rng.normal(size=(8, 30, 30))
    >>> bool(abs(measure_placed_share(texture)) < 0.05)
    True
    >>> bool(measure_placed_share(texture + 9 * texture[:1]) > 0.95)
    True
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
