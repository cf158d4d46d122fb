"""How far each place of a picture is from good pictures, by features of a frozen network.

`PlaceGaussians`: a Gaussian for each place, its covariance half that of the place, half that of all places:
for pictures of the same thing in about the same place; or one for the whole picture, where each shows another
thing. `NearestPlaces`: the distance to the nearest of the
features that good pictures have anywhere: for textures. A picture is as odd as its oddest place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
import torch.nn.functional as F

from tellwhy.core.arrays import draw_sample, spread_evenly
from tellwhy.core.params import Fit
from tellwhy.core.progress import track
from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.patches.small_network import (
    CHANNELS,
    FINE,
    N_FINE,
    Resize,
    SecantNetwork,
    Tensor,
    compute_differences_in_pixels,
    load_small_network,
    make_fine_filters,
)

BLOCKS = ("block 2", "block 4", "block 7")
WHOLE = "block 10"  # whose means over a picture tell what it shows
STRIDE = 8  # pixels between places
FINE_STRIDE = 4  # of textures
MOST_FINE_PLACES = 1_500  # beyond them, places of textures are as far apart as the others
SMALLEST = 128  # longer side of a picture as a network sees it; smaller ones are enlarged
MULTIPLE = 16  # of the sides: what the deepest block divides them by
MOST_CHANNELS = 64  # principal directions of the features
SHARED = 0.5  # share of the common covariance in that of a place
RIDGE = 1e-3  # of the mean variance
MOST_FOLDS = 24  # parts of many good pictures that are left out; each of fewer pictures is left out alone
MOST_COMPARED = 40  # good pictures that tell whether each shows another thing
MOST_KEPT = 32  # good pictures that are kept, to explain by
BESIDE = 4  # of them that a picture is explained beside
LEADING = 16  # places of textures whose distances are carried back; the others stay residual
MOST_IN_BANK = 10_000  # features that others are compared with
REACH = 4  # places on either side over which distances are smoothed
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True, eq=False)
class Lens:
    """What is seen of a picture at each place: principal directions of a network's features.

    Attributes
    ----------
    network
        "blocks" of the small network at each place, the "whole" of a picture, or "fine" filters.
    height, width
        Of pictures as they come.
    units
        What each feature is divided by.
    centre, axes
        Mean feature, and the directions, (features, channels).
    """

    network: str
    height: int
    width: int
    units: Floats
    centre: Floats
    axes: Floats

    @classmethod
    def learn(cls, network: str, pictures: Sequence[Floats]) -> tuple[Self, Tensor]:
        """Learn the units and directions; with what is seen of the pictures, (n, channels, rows, columns)."""
        height, width = pictures[0].shape[:2]
        raw = cls(network, height, width, np.ones(0), np.ones(0), np.ones((0, 0)))
        features = [
            raw.features(picture) for picture in track(pictures, len(pictures), "looking at pictures")
        ]
        stack = torch.cat(features)
        spread = stack.std(dim=(0, 2, 3)).double()
        sizes = torch.tensor([float(n) for n in raw._group_sizes for _ in range(n)], dtype=torch.float64)
        units = torch.where(spread > 0, spread, 1.0) * sizes.sqrt()
        rows = stack.permute(0, 2, 3, 1).reshape(-1, stack.shape[1]).double() / units
        centre = rows.mean(dim=0)
        away = rows - centre
        _, directions = torch.linalg.eigh(away.T @ away)
        axes = directions if network == "whole" else directions[:, -MOST_CHANNELS:]
        lens = replace(raw, units=units.numpy(), centre=centre.numpy(), axes=axes.numpy())
        return lens, torch.cat([lens.project(each) for each in features])

    @property
    def _group_sizes(self) -> list[int]:
        if self.network == "fine":
            return [N_FINE]
        return [CHANNELS[name] for name in ((WHOLE,) if self.network == "whole" else BLOCKS)]

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of a picture as the network sees it."""
        larger = max(1.0, SMALLEST / max(self.height, self.width))
        rounded = [MULTIPLE * max(2, round(side * larger / MULTIPLE)) for side in (self.height, self.width)]
        return rounded[0], rounded[1]

    @property
    def stride(self) -> int:
        """Pixels between places, as the network sees them."""
        height, width = self.sides
        is_small = height * width <= MOST_FINE_PLACES * FINE_STRIDE**2
        return FINE_STRIDE if self.network == "fine" and is_small else STRIDE

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of places."""
        if self.network == "whole":
            return 1, 1
        height, width = self.sides
        return height // self.stride, width // self.stride

    @cached_property
    def _network(self) -> SecantNetwork:
        if self.network == "fine":
            inner = make_fine_filters(self.stride)
        else:
            inner = load_small_network(WHOLE if self.network == "whole" else BLOCKS[-1])
        return replace(inner, steps=[Resize(*self.sides), *inner.steps])

    def features(self, picture: Floats) -> Tensor:
        """Return the features of a picture (height, width[, 3]) of numbers from 0 to 255, place by place."""
        return self._gather_features(self.maps(picture)).cpu()

    def maps(self, picture: Floats) -> dict[str, Tensor]:
        """Return what the network hands out of a picture."""
        with torch.no_grad():
            return self._network.maps(as_tensor(picture).float().to(DEVICE))

    def _gather_features(self, maps: dict[str, Tensor]) -> Tensor:
        """All features on the grid of places; a linear function of the maps."""
        if self.network == "fine":
            return maps[FINE]
        if self.network == "whole":
            return maps[WHOLE].mean(dim=(2, 3), keepdim=True)
        return torch.cat([_average_on_grid(maps[name], self.grid) for name in BLOCKS], dim=1)

    def project(self, features: Tensor) -> Tensor:
        """Return the features along the principal directions."""
        units = torch.from_numpy(self.units)[:, None, None]
        centre = torch.from_numpy(self.centre)[:, None, None]
        return torch.einsum("nfhw,fc->nchw", features.double() / units - centre, torch.from_numpy(self.axes))

    def seen(self, picture: Floats) -> Tensor:
        """Return what is seen of a picture, (1, channels, rows, columns)."""
        return self.project(self.features(picture))

    def in_pixels(self, picture: Floats, others: Sequence[Floats], weights: Tensor) -> Floats:
        """Carry Σ weights · (seen(picture) − seen(other)) back to the pixels.

        `weights` has the shape of what is seen of the other pictures, and the precision that is computed in;
        what is returned adds up to that sum.
        """
        network = self._network
        one = as_tensor(picture).to(weights.dtype)
        rest = torch.cat([as_tensor(other) for other in others]).to(weights.dtype)
        with torch.no_grad():
            shapes = {name: maps.shape[1:] for name, maps in network.maps(one).items()}
        told = {name: torch.zeros(len(rest), *shape, dtype=one.dtype) for name, shape in shapes.items()}
        for maps in told.values():
            maps.requires_grad_()
        read_out = (self.project(self._gather_features(told)) * weights).sum()
        slopes = torch.autograd.grad(read_out, list(told.values()), allow_unused=True)
        used = {name: each for name, each in zip(told, slopes, strict=True) if each is not None}
        values = compute_differences_in_pixels(network, one[0], rest, used).sum(dim=(0, 1))
        return np.asarray(values.double().numpy())

    def _require(self) -> Iterator[Fit]:
        yield "network", self.network in ("blocks", "whole", "fine"), True
        yield "axes", self.axes.shape[0], len(self.units)
        yield "centre", self.centre.shape, self.units.shape
        yield "units", bool((self.units > 0).all()) and self.height > 0 and self.width > 0, True


def as_tensor(picture: Floats) -> Tensor:
    """A picture as (1, 3, height, width), from 0 to 1."""
    coloured = np.repeat(picture[..., None], 3, axis=2) if picture.ndim == 2 else picture
    return torch.from_numpy(np.ascontiguousarray(coloured.transpose(2, 0, 1)))[None].double() / 255.0


def _average_on_grid(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Means over 3 × 3 places of a layer, on the grid."""
    even = F.avg_pool2d(F.pad(maps, (1,) * 4, mode="replicate"), 3, 1)
    if even.shape[-1] > grid[1]:
        return F.avg_pool2d(even, even.shape[-1] // grid[1])
    return F.interpolate(even, size=grid, mode="bilinear", align_corners=False)


def smooth_distances(distances: Tensor, width: float) -> Tensor:
    """Distances (n, rows, columns) averaged by a bell over the places around; the border is repeated."""
    away = torch.arange(-REACH, REACH + 1).to(distances)
    bell = torch.softmax(-0.5 * (away / width) ** 2, dim=0)
    padded = F.pad(distances[:, None], (REACH,) * 4, mode="replicate")
    along = F.conv2d(padded, bell.view(1, 1, 1, -1))
    return F.conv2d(along, bell.view(1, 1, -1, 1))[:, 0]


@dataclass(frozen=True, eq=False)
class Told:
    """Why a picture has its score: Σ relevance + residual = score."""

    relevance: Floats
    residual: float
    score: float


class Look(Protocol):
    """What scores pictures by their oddest place."""

    lens: Lens

    def distances(self, seen: Tensor) -> Tensor:
        """Return the distance of each place, (n, rows, columns), of what is seen of pictures."""

    def explain(self, picture: Floats) -> Told:
        """Return the relevance of each pixel for the score."""


def scores_of(look: Any, seen: Tensor) -> Floats:
    """Return the distance of the oddest place of each picture, smoothed."""
    return np.asarray(smooth_distances(look.distances(seen), look.bell).flatten(1).amax(dim=1).numpy())


def _weigh_oddest(distances: Tensor, width: float) -> tuple[Tensor, float]:
    """How much each place counts in the score of a picture, and the score."""
    places = distances.clone().requires_grad_()
    highest = smooth_distances(places, width).flatten().max()
    (weights,) = torch.autograd.grad(highest, places)
    return weights[0], float(highest.detach())


@dataclass(frozen=True, eq=False)
class PlaceGaussians:
    """d'(½ Σ_place + ½ Σ_all + ε)⁻¹ d, d how far a place is from its mean.

    Attributes
    ----------
    lens
        What is seen.
    means, precisions
        Of each place, (places, channels) and (places, channels, channels).
    kept
        Good pictures to explain by, as bytes.
    """

    bell: ClassVar[float] = 1.0  # width of the bell, in places

    lens: Lens
    means: Floats
    precisions: Floats
    kept: list[Any]

    @classmethod
    def learn(cls, pictures: Sequence[Floats], network: str = "blocks") -> tuple[Self, Floats]:
        """Learn from good pictures; with the score of each by Gaussians that have not seen it."""
        lens, seen = Lens.learn(network, pictures)
        scores = np.empty(len(pictures))
        for held, others in folds(len(pictures)):
            scores[held] = scores_of(cls._of(lens, seen[others]), seen[held])
        kept = [make_bytes(pictures[k]) for k in spread_evenly(len(pictures), MOST_KEPT)]
        return replace(cls._of(lens, seen), kept=kept), scores

    @classmethod
    def learn_alone(cls, pictures: Sequence[Floats]) -> Self:
        """Learn from good pictures, to score others."""
        return cls._of(*Lens.learn("blocks", pictures))

    @classmethod
    def _of(cls, lens: Lens, seen: Tensor) -> Self:
        n, n_channels = seen.shape[:2]
        rows = seen.flatten(2).permute(2, 0, 1)  # (places, pictures, channels)
        means = rows.mean(dim=1)
        away = rows - means[:, None]
        shared = torch.einsum("pnc,pnd->cd", away, away) / ((n - 1) * len(rows))
        if len(rows) == 1:  # no other place to share with: all features alike, whose variances sum to 1
            shared = torch.eye(n_channels, dtype=seen.dtype) / len(lens.units)
        ridge = RIDGE * float(shared.diagonal().mean()) + 1e-12
        own = torch.bmm(away.transpose(1, 2), away) / (n - 1)
        covariances = (1.0 - SHARED) * own + SHARED * shared + ridge * torch.eye(n_channels)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariances))
        return cls(lens, means.numpy(), inverse.float().numpy(), [])

    def distances(self, seen: Tensor) -> Tensor:
        """Return the squared Mahalanobis distance of each place."""
        away, turned = self._turned(seen)
        return (away * turned).sum(dim=2).reshape(len(seen), *self.lens.grid)

    def _turned(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """How far each place is from its mean, and that times the precision: (n, places, channels)."""
        away = seen.flatten(2).transpose(1, 2) - torch.from_numpy(self.means)
        precisions = torch.from_numpy(self.precisions)
        turned = torch.einsum("npc,pcd->npd", away.to(precisions.dtype), precisions)
        return away, turned.double()

    def explain(self, picture: Floats) -> Told:
        """Carry the distance at the oddest place to the pixels, beside the most similar good pictures."""
        seen = self.lens.seen(picture)
        weights, score = _weigh_oddest(self.distances(seen), self.bell)
        _, turned = self._turned(seen)
        read = (weights.flatten()[:, None] * turned[0]).T.reshape(1, -1, *self.lens.grid)
        near = _find_most_similar(picture, self.kept)
        values = self.lens.in_pixels(picture, near, read.float().expand(len(near), -1, -1, -1) / len(near))
        return Told(values, score - float(values.sum()), score)

    def _require(self) -> Iterator[Fit]:
        n_places = int(np.prod(self.lens.grid))
        n_channels = self.lens.axes.shape[1]
        yield "means", self.means.shape, (n_places, n_channels)
        yield "precisions", self.precisions.shape, (n_places, n_channels, n_channels)
        yield "kept", _are_pictures(self.kept, self.lens), True


@dataclass(frozen=True, eq=False)
class NearestPlaces:
    """Squared distance of what is seen of a place to the nearest that good pictures have anywhere.

    Attributes
    ----------
    lens
        What is seen.
    bank
        What is seen of places of the kept pictures, (n, channels).
    owners, places
        Which kept picture each is of, and at which place.
    kept
        Good pictures, as bytes.
    """

    bell: ClassVar[float] = 0.6  # a scratch is thin

    lens: Lens
    bank: Floats
    owners: Integers
    places: Integers
    kept: list[Any]

    @classmethod
    def learn(cls, pictures: Sequence[Floats]) -> tuple[Self, Floats]:
        """Learn from good pictures; with the score of each beside the features of the others."""
        found, seen = cls._learned(pictures)
        some = spread_evenly(len(pictures), MOST_KEPT)
        parts = track(range(len(seen)), len(seen), "leaving pictures out")
        scores = [scores_of(found._without(some, k), seen[k : k + 1])[0] for k in parts]
        return found, np.array(scores)

    @classmethod
    def learn_alone(cls, pictures: Sequence[Floats]) -> Self:
        """Learn from good pictures, to score others."""
        return cls._learned(pictures)[0]

    @classmethod
    def _learned(cls, pictures: Sequence[Floats]) -> tuple[Self, Tensor]:
        """The look, and what is seen of the pictures."""
        lens, seen = Lens.learn("fine", pictures)
        some = spread_evenly(len(pictures), MOST_KEPT)
        n_places = int(np.prod(lens.grid))
        chosen = draw_sample(len(some) * n_places, MOST_IN_BANK, np.random.default_rng(0))
        rows = seen[torch.from_numpy(some)].flatten(2).transpose(1, 2).reshape(-1, seen.shape[1])
        found = cls(
            lens,
            rows[torch.from_numpy(chosen)].numpy(),
            np.asarray(chosen // n_places, dtype=np.int64),
            np.asarray(chosen % n_places, dtype=np.int64),
            [make_bytes(pictures[k]) for k in some],
        )
        return found, seen

    def _without(self, kept: Integers, picture: int) -> Self:
        """The same without the features of a picture."""
        return self._select_among(kept[self.owners] != picture)

    def _select_among(self, others: Any) -> Self:
        """The same with some of the features."""
        return replace(self, bank=self.bank[others], owners=self.owners[others], places=self.places[others])

    def distances(self, seen: Tensor) -> Tensor:
        """Return the squared distance of each place to the nearest."""
        return torch.stack([self._nearest(each)[0] for each in seen])

    def _nearest(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        rows = seen.flatten(1).T
        bank = torch.from_numpy(self.bank)
        squares = (bank**2).sum(dim=1) - 2.0 * (rows @ bank.T)
        found = squares.argmin(dim=1)
        distances = ((rows - bank[found]) ** 2).sum(dim=1)
        return distances.reshape(self.lens.grid), found

    def explain(self, picture: Floats) -> Told:
        """Carry the distance back, each place beside a good picture moved so that the nearest lies there."""
        same = np.flatnonzero([np.array_equal(good, make_bytes(picture)) for good in self.kept])
        if len(same):  # one of those that were learned from is compared with the others
            others = ~np.isin(self.owners, same)
            return (
                self._select_among(others).explain_new(picture) if others.any() else self.explain_new(picture)
            )
        return self.explain_new(picture)

    def explain_new(self, picture: Floats) -> Told:
        """Explain a picture that was not learned from."""
        seen = self.lens.seen(picture)
        distances, nearest = self._nearest(seen[0])
        weights, score = _weigh_oddest(distances[None], self.bell)
        parts = (weights * distances).flatten()
        leading = torch.argsort(-parts)[:LEADING]
        away = seen[0].flatten(1).T - torch.from_numpy(self.bank)[nearest]
        read = torch.zeros(len(leading), *seen.shape[1:], dtype=torch.float64)
        for k, at in enumerate(leading.tolist()):
            read[k].flatten(1)[:, at] = weights.flatten()[at] * away[at]
        others = [self._moved(int(nearest[at]), int(at)) for at in leading.tolist()]
        values = self.lens.in_pixels(picture, others, read.float())
        return Told(values, score - float(values.sum()), score)

    def _moved(self, member: int, place: int) -> Floats:
        """The good picture of a feature, moved so that the feature lies at a place."""
        columns = self.lens.grid[1]
        there, here = divmod(int(self.places[member]), columns), divmod(place, columns)
        good = self.kept[self.owners[member]]
        zoom = np.array(good.shape[:2]) / self.lens.sides * self.lens.stride
        down, right = np.rint((np.array(here) - there) * zoom).astype(int).tolist()
        # Pixels beyond the border repeat it, as the filters see them.
        rows = np.clip(np.arange(good.shape[0]) - down, 0, good.shape[0] - 1)
        columns_from = np.clip(np.arange(good.shape[1]) - right, 0, good.shape[1] - 1)
        return np.asarray(good[rows][:, columns_from], dtype=np.float64)

    def _require(self) -> Iterator[Fit]:
        yield "bank", self.bank.shape[1:], (self.lens.axes.shape[1],)
        yield "owners", self.owners.shape, (len(self.bank),)
        yield "owners", bool(((self.owners >= 0) & (self.owners < len(self.kept))).all()), True
        yield "places", self.places.shape, self.owners.shape
        yield "kept", _are_pictures(self.kept, self.lens), True


def change_of_content(pictures: Sequence[Floats]) -> float:
    """How many times as much the means of features differ between pictures as if places were independent.

    About 1 for textures, less for pictures of the same thing, and 4 or more where each shows another thing.
    """
    some = [pictures[k] for k in spread_evenly(len(pictures), MOST_COMPARED)]
    height, width = some[0].shape[:2]
    lens = Lens("whole", height, width, np.ones(0), np.ones(0), np.ones((0, 0)))
    maps = torch.cat([lens.maps(picture)[WHOLE] for picture in some])
    between = maps.mean(dim=(2, 3)).var(dim=0).sum()
    within = maps.var(dim=(0, 2, 3)).sum()
    return float(maps.shape[2] * maps.shape[3] * between / within) if within > 0 else 0.0


def folds(n: int) -> Iterator[tuple[Integers, Integers]]:
    """Which pictures are left out together, and the others; one at a time where they are few."""
    part = np.arange(n) % min(n, MOST_FOLDS)
    for k in range(int(part.max()) + 1):
        yield np.flatnonzero(part == k), np.flatnonzero(part != k)


def make_bytes(picture: Floats) -> Any:
    """A picture in whole grey levels, as it is kept."""
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def _find_most_similar(picture: Floats, kept: Sequence[Any]) -> list[Floats]:
    apart = [float(((picture - good) ** 2).mean()) for good in kept]
    return [np.asarray(kept[k], dtype=np.float64) for k in np.argsort(apart, kind="stable")[:BESIDE]]


def _are_pictures(kept: Sequence[Any], lens: Lens) -> bool:
    shape = (lens.height, lens.width)
    return len(kept) > 0 and all(each.shape[:2] == shape and each.dtype == np.uint8 for each in kept)
