"""What explanations of a data set have in common: relevance inside and outside of boxes, odd groups.

As in Lapuschkin et al., Nature Communications 10 (2019): maps of relevance are made coarse, joined to their
nearest neighbours, and cut into groups by the eigenvectors of that graph. A group is odd if a large part of
its relevance lies in one place where hardly any relevance of all other pictures lies, and its pictures show
the same thing there: a caption, a watermark, a border. It is named by that place, and all pictures of the
class that look there belong to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import integer, none, seed, validate_value
from tellwhy.core.score import Floats, Integers
from tellwhy.results.notice import Notice

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Group:
    """Explanations of one class that are alike.

    Attributes
    ----------
    of
        The class.
    rows
        Rows of the explanation that are in it.
    share
        Part of the class that it is.
    map
        Mean share of relevance that each cell of the coarse map has, shape (cells, cells).
    box
        The place that sets it apart, in pixels: top, bottom, left, right (ends excluded).
    inside, elsewhere
        Part of the relevance in that place: in the group, and in all other pictures.
    alike
        Mean correlation of the group's pictures in that place; None without pictures.
    is_odd
        Whether that place reveals an odd strategy.
    """

    of: Any
    rows: Integers
    share: float
    map: Floats
    box: tuple[int, int, int, int]
    inside: float
    elsewhere: float
    alike: float | None
    is_odd: bool

    def words(self) -> str:
        """What sets the group apart, in a sentence."""
        names = ("share", "box", "inside", "elsewhere", "alike")
        facts = {"n": len(self.rows), "of": str(self.of), **{name: getattr(self, name) for name in names}}
        return Notice("group_apart", facts).text


@dataclass(frozen=True, eq=False)
class Strategies:
    """Groups of explanations, class by class; `odd` are those that stand apart, the clearest first."""

    groups: Sequence[Group]

    @property
    def odd(self) -> list[Group]:
        """Groups that reveal an odd strategy."""
        found = [group for group in self.groups if group.is_odd]
        return sorted(found, key=lambda group: group.elsewhere - group.inside)

    def to_frame(self) -> pd.DataFrame:
        """One line per group."""
        import pandas as pd

        lines = [
            (g.of, len(g.rows), g.share, g.inside, g.elsewhere, g.alike, *g.box, g.is_odd)
            for g in self.groups
        ]
        names = ["class", "pictures", "share", "inside", "elsewhere", "alike"]
        names += ["top", "bottom", "left", "right", "odd"]
        return pd.DataFrame(lines, columns=names)


_CHANNELS = (1, 3, 4)


def make_picture_maps(explanation: Explanation, owner: str) -> Floats:
    """Values with their channels kept apart, of shape (n, height, width, channels)."""
    values = explanation.values
    if values.ndim == 3:
        return values[..., None]
    if values.ndim != 4:
        raise InvalidInput(
            f"{owner} reads explanations of pictures: features of shape (h, w), (h, w, channels) or "
            f"(channels, h, w). Got {explanation.feature_shape}."
        )
    first = values.shape[1] in _CHANNELS and values.shape[-1] not in _CHANNELS
    return np.moveaxis(values, 1, 3) if first else values


def find_class_of_rows(explanation: Explanation, classes: Any, owner: str) -> Integers | np.ndarray:
    """The class of each row: as given, or the output that was explained."""
    if classes is None:
        found = explanation.extras.get("output")
        return np.zeros(len(explanation), dtype=np.int64) if found is None else np.asarray(found)
    given = np.asarray(classes)
    if given.shape != (len(explanation),):
        raise InvalidInput(
            f"{owner} needs one class per row: there are {len(explanation)} rows, and classes of shape "
            f"{given.shape}."
        )
    return given


_DRAWS = 1_000


@dataclass(frozen=True, eq=False)
class BoxRatios:
    """How the relevance of each picture is shared between the inside and the outside of its box.

    Attributes
    ----------
    inside
        Share of absolute relevance inside the box, of each picture; NaN where there is no relevance.
    area
        Share of the picture that the box covers.
    classes
        Class of each picture.
    """

    inside: Floats
    area: Floats
    classes: np.ndarray

    @property
    def ratios(self) -> Floats:
        """Relevance inside divided by that outside, of each picture."""
        outside = 1.0 - self.inside
        return np.divide(self.inside, outside, out=np.full_like(outside, np.inf), where=outside > 0)

    def by_class(self, *, random_state: int = 0) -> pd.DataFrame:
        """One line per class, the one that looks at its objects least first.

        `inside` is the mean share inside the box with a 95 % bootstrap interval (`low`, `high`), `ratio` that
        share over the rest, `times_area` the share over what an even spread would give.
        """
        import pandas as pd

        rng = np.random.default_rng(random_state)
        lines = []
        for name in np.unique(self.classes):
            known = (self.classes == name) & np.isfinite(self.inside)
            if not known.any():
                continue
            shares = self.inside[known]
            draws = rng.integers(0, len(shares), size=(_DRAWS, len(shares)))
            low, high = np.quantile(shares[draws].mean(axis=1), [0.025, 0.975])
            mean = float(shares.mean())
            ratio = mean / (1.0 - mean) if mean < 1 else np.inf
            lines.append((name, len(shares), mean, low, high, ratio, mean / float(self.area[known].mean())))
        names = ["class", "pictures", "inside", "low", "high", "ratio", "times_area"]
        return pd.DataFrame(lines, columns=names).sort_values("ratio", ignore_index=True)


def box_ratios(explanation: Explanation, boxes: ArrayLike, classes: Any = None) -> BoxRatios:
    """Compare the relevance inside the objects' boxes with that outside, picture by picture and by class.

    A class whose relevance lies outside its boxes is recognised by something else than the object: its
    ground, a caption, a watermark.

    Parameters
    ----------
    explanation
        Of pictures.
    boxes
        One box per picture: first row, row after the last, first column, column after the last.
    classes
        Class of each picture; by default the output that was explained.

    Returns
    -------
    BoxRatios
        How the relevance of each picture is shared between the inside and the outside of its box.

    Examples
    --------
    >>> values = np.zeros((1, 4, 4))
    >>> values[0, :2, :2] = 3.0
    >>> values[0, 3, 3] = -4.0
    >>> e = Explanation(values=values, scores=[8.0], method="Example")
    >>> box_ratios(e, [[0, 2, 0, 2]]).ratios
    array([3.])
    """
    size = np.abs(make_picture_maps(explanation, "box_ratios")).sum(axis=3)
    limits = np.asarray(boxes)
    n = len(size)
    height, width = size.shape[1:]
    if limits.shape != (n, 4) or limits.dtype.kind not in "iu":
        raise InvalidInput(
            f"box_ratios needs one box of four whole numbers per picture (top, bottom, left, right): shape "
            f"({n}, 4). Got shape {limits.shape} of {limits.dtype}."
        )
    rows, columns = np.mgrid[:height, :width]
    edges = limits[:, :, None, None]
    within = (rows >= edges[:, 0]) & (rows < edges[:, 1])
    within &= (columns >= edges[:, 2]) & (columns < edges[:, 3])
    if not within.any(axis=(1, 2)).all():
        bad = int(np.argmin(within.any(axis=(1, 2))))
        raise InvalidInput(
            f"The box of picture {bad}, {limits[bad].tolist()}, holds none of its {height} × {width} pixels."
        )
    total = size.sum(axis=(1, 2))
    inside = np.divide((size * within).sum(axis=(1, 2)), total, out=np.full(n, np.nan), where=total > 0)
    return BoxRatios(inside, within.mean(axis=(1, 2)), find_class_of_rows(explanation, classes, "box_ratios"))


LEAST = 10  # pictures of a class that are grouped, and half as many as the least of an odd group
MOST = 1_500  # pictures of a class that the graph is made of; the others join the nearest group
ODD_SHARE = 0.1  # of a group's relevance that one place must hold
USED = 0.02  # of the relevance of all other pictures, in a place that counts as not looked at by them
ALIKE = 0.8  # correlation of the pictures there: strokes of digits of one class reach 0.7, a mark has 1
AROUND = 2  # pixels around a place that are compared too
UNSEEN = 0.2  # of ODD_SHARE's kind, where there are no pictures to compare
_MOST_GROUPS = 6


def strategies(
    explanation: Explanation,
    classes: Any = None,
    *,
    cells: int = 7,
    n_groups: int | None = None,
    random_state: Any = 0,
) -> Strategies:
    """Group the explanations of each class, and find groups that look where others do not.

    Parameters
    ----------
    explanation
        Of pictures, several classes of them: what all classes look at is the measure of what is odd. With its
        data, what groups show in their places is compared too.
    classes
        Class of each picture; by default the output that was explained.
    cells
        Side of the coarse maps.
    n_groups
        Groups of each class; by default as many as the eigenvalues of the graph tell.
    random_state
        Seed of the clustering.

    Returns
    -------
    Strategies
        The groups, class by class, and those that stand apart.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> values = np.zeros((80, 14, 14))
    >>> values[:, 5:9, 5:9] = rng.random((80, 4, 4))
    >>> values[:20, 0:2, 0:2] = 3.0  # a mark in the corner of every second picture of class 0
    >>> e = Explanation(values=values, scores=np.ones(80), method="Example")
    >>> found = strategies(e, np.repeat([0, 1], 40)).odd
    >>> [(group.of, len(group.rows), group.box) for group in found]
    [(0, 20, (0, 2, 0, 2))]
    """
    validate_value("strategies", "cells", cells, integer(2))
    validate_value("strategies", "n_groups", n_groups, (none, integer(1)))
    validate_value("strategies", "random_state", random_state, seed)
    maps = make_picture_maps(explanation, "strategies").sum(axis=3)
    seen = _Seen(make_coarse_maps(maps, cells), _pictures(explanation), maps.shape[1:])
    coarse = seen.coarse
    of = find_class_of_rows(explanation, classes, "strategies")
    groups: list[Group] = []
    for name in np.unique(of).tolist():
        rows = np.flatnonzero((of == name) & (coarse.sum(axis=(1, 2)) > 0))
        if len(rows) < LEAST:
            continue
        label = _grouped(coarse[rows].reshape(len(rows), -1), n_groups, random_state)
        members = [rows[label == k] for k in range(int(label.max()) + 1)]
        found = [_group(_Members(name, m, rows), seen) for m in members if len(m)]
        groups += _without_repeats(found)
    return Strategies(groups)


def make_coarse_maps(maps: Floats, cells: int) -> Floats:
    """Share of the positive relevance in each of cells × cells parts; zeros where there is none."""
    height, width = maps.shape[1:]
    down = np.minimum(np.arange(height) * cells // height, cells - 1)
    across = np.minimum(np.arange(width) * cells // width, cells - 1)
    to_rows = (down[:, None] == np.arange(cells)).astype(np.float64)
    to_columns = (across[:, None] == np.arange(cells)).astype(np.float64)
    found = np.einsum("nhw,ha,wb->nab", np.maximum(maps, 0.0), to_rows, to_columns, optimize=True)
    total = found.sum(axis=(1, 2), keepdims=True)
    return np.divide(found, total, out=np.zeros_like(found), where=total > 0)


def _grouped(shares: Floats, n_groups: int | None, random_state: Any) -> Integers:
    """Number of the group of each row: spectral clustering of the graph of nearest neighbours."""
    from sklearn.cluster import KMeans

    roots = np.sqrt(shares)  # distances of roots of shares do not hang on the largest cells alone
    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.permutation(len(roots))[:MOST])
    values, vectors = _compute_spectrum(roots[chosen])
    k = _number(values) if n_groups is None else min(n_groups, len(chosen))
    embedded = vectors[:, :k] / np.maximum(np.linalg.norm(vectors[:, :k], axis=1, keepdims=True), 1e-12)
    found = KMeans(k, n_init=5, random_state=int(rng.integers(2**31))).fit_predict(embedded)
    nearest = np.argmin(cdist(roots, roots[chosen]), axis=1)  # a chosen row is its own nearest one
    return np.asarray(found[nearest], dtype=np.int64)


def _compute_spectrum(points: Floats) -> tuple[Floats, Floats]:
    """Smallest eigenvalues of the normalised Laplacian of the graph of nearest neighbours."""
    n = len(points)
    distance = cdist(points, points)
    k = min(n - 1, max(5, round(np.log2(n))))
    near = np.argsort(distance, axis=1, kind="stable")[:, 1 : k + 1]
    joined = np.zeros((n, n))
    joined[np.repeat(np.arange(n), k), near.ravel()] = 1.0
    joined = np.maximum(joined, joined.T)
    root = 1.0 / np.sqrt(joined.sum(axis=1))
    laplacian = np.eye(n) - root[:, None] * joined * root[None, :]
    most = min(_MOST_GROUPS, n - 1)
    found = eigh(laplacian, subset_by_index=[0, most])
    return np.asarray(found[0]), np.asarray(found[1])


def _number(values: Floats) -> int:
    """How many groups: before the widest gap between eigenvalues, at least two."""
    gaps = np.diff(values)
    return int(np.argmax(gaps[1:])) + 2 if len(gaps) > 1 else 1


@dataclass(frozen=True, eq=False)
class _Members:
    """Rows of a group, and those of its whole class."""

    name: Any
    rows: Integers
    of_class: Integers


@dataclass(frozen=True, eq=False)
class _Seen:
    """Coarse maps of all pictures, the pictures themselves where they are there, and their size."""

    coarse: Floats
    pictures: Floats | None
    shape: tuple[int, ...]


def _pictures(explanation: Explanation) -> Floats | None:
    """The explained pictures (n, height, width), channels added up; None where they are not there."""
    if explanation.data is None:
        return None
    found = Explanation(
        values=np.asarray(explanation.data, dtype=np.float64), scores=explanation.scores, method="pictures"
    )
    return np.asarray(make_picture_maps(found, "strategies").sum(axis=3))


def _group(members: _Members, seen: _Seen) -> Group:
    """A group with the place that sets it apart from all other pictures."""
    coarse = seen.coarse
    place = _place(coarse[members.rows].mean(axis=0), _others(coarse, members.rows).mean(axis=0))
    box = _box(place, seen.shape)
    shares = coarse[:, place].sum(axis=1)
    # Clustering may cut through pictures that look at the same place: those that do are one group.
    looking = members.of_class[shares[members.of_class] >= shares[members.rows].mean() / 2]
    for rows in (looking, members.rows):
        rest = np.delete(shares, rows)
        found = Group(
            of=members.name,
            rows=rows,
            share=len(rows) / len(members.of_class),
            map=coarse[rows].mean(axis=0),
            box=box,
            inside=float(shares[rows].mean()),
            elsewhere=float(rest.mean()) if len(rest) else 1.0,
            alike=None if seen.pictures is None else _alike(seen.pictures[rows], box),
            is_odd=False,
        )
        if _is_odd(found):
            return replace(found, is_odd=True)
    return found


def _is_odd(group: Group) -> bool:
    """Whether a group looks where others do not, at what is the same in all of its pictures."""
    is_same = group.inside >= UNSEEN if group.alike is None else group.alike >= ALIKE
    return is_same and len(group.rows) >= LEAST // 2 and group.inside >= ODD_SHARE and group.elsewhere <= USED


def _alike(pictures: Floats, box: tuple[int, int, int, int]) -> float:
    """Mean correlation of what pictures show in a place and right around it; 0 of a single picture."""
    # With its surroundings: a mark of one shade has no pattern of its own, but an edge.
    top, left = max(box[0] - AROUND, 0), max(box[2] - AROUND, 0)
    flat = pictures[:, top : box[1] + AROUND, left : box[3] + AROUND].reshape(len(pictures), -1)
    flat = flat - flat.mean(axis=1, keepdims=True)
    size = np.linalg.norm(flat, axis=1, keepdims=True)
    unit = np.divide(flat, size, out=np.zeros_like(flat), where=size > 1e-12 * (np.abs(flat).max() or 1.0))
    n = len(unit)
    # The sum over all pairs is the square of the sum, less each one with itself.
    return float(((unit.sum(axis=0) ** 2).sum() - (unit**2).sum()) / (n * (n - 1))) if n > 1 else 0.0


def _others(coarse: Floats, rows: Integers) -> Floats:
    """Maps of all other pictures; one of zeros where there is no other."""
    left = np.delete(coarse, rows, axis=0)
    return left if len(left) else np.zeros((1, *coarse.shape[1:]))


def _box(place: np.ndarray, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Pixels of a place: cell k holds the pixels p with p · cells // size = k."""
    cells = len(place)
    down, across = np.nonzero(place)
    edges = [-(-int(k) * shape[0] // cells) for k in (down.min(), down.max() + 1)]
    edges += [-(-int(k) * shape[1] // cells) for k in (across.min(), across.max() + 1)]
    return edges[0], edges[1], edges[2], edges[3]


def _without_repeats(groups: Sequence[Group]) -> list[Group]:
    """Leave out odd groups most of whose pictures are in a clearer one; what is left of others stays."""
    kept: list[Group] = []
    for group in sorted(groups, key=lambda g: (not g.is_odd, -g.inside)):
        taken = np.concatenate([g.rows for g in kept if g.is_odd] or [np.empty(0, dtype=np.int64)])
        free = ~np.isin(group.rows, taken)
        if group.is_odd and free.mean() < 0.5:
            continue
        if group.is_odd or free.all():
            kept.append(group)
        elif free.any():
            kept.append(replace(group, rows=group.rows[free], share=group.share * float(free.mean())))
    return kept


def _place(mean: Floats, others: Floats) -> np.ndarray:
    """The connected cells around the largest excess that have a good part of it, as a mask."""
    excess = mean - others
    top = np.unravel_index(int(np.argmax(excess)), excess.shape)
    labels, _ = ndimage.label(excess >= 0.25 * excess[top], structure=np.ones((3, 3)))
    return np.asarray(labels == labels[top])
