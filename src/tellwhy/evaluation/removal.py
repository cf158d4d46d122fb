"""Removal of segments (IROF) and of single pixels (ROAD) in the order of an explanation.

Pixels that are taken away are told by their neighbours, so that no edge shows where they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import spsolve

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.params import Rules, generator, integer, none, one_of, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.running import NETWORK_BATCH
from tellwhy.core.score import Floats, Integers
from tellwhy.data.pieces import find_spatial_axes, segment
from tellwhy.evaluation.region_flipping import (
    ORDERS,
    RegionFlipping,
    Scores,
    fill_in,
    find_explained_scores,
    normalise_areas,
    tile,
)

# Weights of direct and of diagonal neighbours, as in the publication.
_NEIGHBOURS = {
    **dict.fromkeys([(0, 1), (1, 0), (0, -1), (-1, 0)], 1 / 6),
    **dict.fromkeys([(1, 1), (1, -1), (-1, 1), (-1, -1)], 1 / 12),
}


def impute(x: Floats, gone: NDArray[np.bool_], noise: Floats) -> Floats:
    """Replace the pixels that are gone (height, width) by weighted means of their neighbours, plus noise.

    All of them at once: a pixel whose neighbours are gone too is told by theirs. `x` has channels last.
    Rong, Leemann, Borisov, Kasneci, Kasneci, ICML (2022).

    Examples
    --------
    >>> x = np.arange(9.0).reshape(3, 3, 1)
    >>> gone = np.zeros((3, 3), dtype=bool)
    >>> gone[1, 1] = True
    >>> impute(x, gone, np.zeros((3, 3, 1)))[1, 1]
    array([4.])
    """
    if gone.all():
        return np.broadcast_to(x.mean(axis=(0, 1)), x.shape) + noise
    found = np.array(x, dtype=np.float64)
    if not gone.any():
        return found
    places = np.argwhere(gone)
    number = np.full(gone.shape, -1, dtype=np.int64)
    number[gone] = np.arange(len(places))
    matrix, known = _make_system(x, places, number)
    solved = spsolve(matrix, known)
    found[gone] = solved.reshape(len(places), -1) + noise[gone]
    return found


def _make_system(x: Floats, places: Integers, number: Integers) -> tuple[csr_matrix, Floats]:
    """Equations Σ_neighbours w (pixel − neighbour) = 0 of the pixels that are gone."""
    height, width = number.shape
    known = np.zeros((len(places), x.shape[2]))
    total = np.zeros(len(places))
    here = np.arange(len(places))
    rows = [here]
    columns = [here]
    for (down, right), weight in _NEIGHBOURS.items():
        beside = places + np.array([down, right])
        inside = (beside >= 0).all(axis=1) & (beside[:, 0] < height) & (beside[:, 1] < width)
        total[inside] += weight
        there = beside[inside]
        told = number[there[:, 0], there[:, 1]]
        is_known = told < 0
        known[here[inside][is_known]] += weight * x[there[is_known, 0], there[is_known, 1]]
        rows.append(here[inside][~is_known])
        columns.append(told[~is_known])
    weights = [total]
    weights += [
        np.full(len(part), -weight) for part, weight in zip(rows[1:], _NEIGHBOURS.values(), strict=True)
    ]
    entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    return csr_matrix(entries, shape=(len(places), len(places))), known


_ACCEPTED: dict[str, Rules] = {
    "order": one_of(*ORDERS),
    "n_segments": integer(2),
    "n_steps": integer(2),
    "n_random": integer(0),
    "batch_size": (none, integer(1)),
    "random_state": seed,
}
Changed = Callable[[int, Integers, int], Floats]  # (row, its ranking, how many pieces are gone) -> input


@dataclass(frozen=True, eq=False)
class Removal(RegionFlipping):
    """Scores of n inputs as shares of their pieces are taken away; areas as in `RegionFlipping`."""

    @property
    def area_over_curve(self) -> float:
        """Mean of 1 − c/c_0, the measure of IROF's publication: high is good where the most relevant go."""
        start = self.curves[:, :1]
        known = start[:, 0] > 0
        return float((1 - self.curves[known] / start[known]).mean()) if known.any() else float("nan")


@takes_old_names
def irof(
    explanation: Explanation,
    model: Any,
    *,
    target: Any = None,
    n_segments: int = 60,
    order: str = "most_relevant_first",
    baseline: Any = "mean",
    n_steps: int = 20,
    n_random: int = 1,
    batch_size: int | None = None,
    device: Any = None,
    random_state: Any = 0,
) -> Removal:
    """Take segments of each picture away in the order of their mean relevance, and watch the score.

    Segments follow the picture's own edges, so that explanations are not judged by how they fit a grid.

    Parameters
    ----------
    explanation, model, target, order, baseline, n_random, batch_size, device, random_state
        As in `region_flipping`.
    n_segments
        Segments of a picture, about.
    n_steps
        Points of the curve after the first one, at equal shares of the segments.

    Returns
    -------
    Removal
        Curves and areas, per row.

    References
    ----------
    Rieger, Hansen, ICLR Workshop (2020).

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> corner = np.zeros((1, 6, 6))
    >>> corner[0, :3, :3] = 1.0
    >>> score = FunctionScore(lambda X: X[:, :3, :3].mean(axis=(1, 2)), feature_shape=(6, 6))
    >>> told = Explanation(values=corner, scores=[1.0], method="Told", data=corner)
    >>> bool(irof(told, score, n_segments=4, baseline="zero", n_steps=4).area < 0.3)
    True
    """
    _check("irof", order=order, n_segments=n_segments, n_steps=n_steps, n_random=n_random)
    _check("irof", batch_size=batch_size, random_state=random_state)
    scores = find_explained_scores(explanation, model, target, batch_size=batch_size, device=device)
    shape = scores.X.shape[1:]
    axes = find_spatial_axes(shape)
    size = max(1, round((np.prod([shape[a] for a in axes]) / n_segments) ** (1 / len(axes))))
    rng = generator(random_state)
    filled = fill_in(scores.X, baseline, tile(shape, [size] * len(axes), axes), rng)
    labels = np.stack([segment(x, n_segments) for x in scores.X])

    def changed(row: int, ranking: Integers, n_gone: int) -> Floats:
        gone = np.isin(labels[row], ranking[:n_gone])
        return np.where(gone, filled[row], scores.X[row])

    values = _values(explanation)
    rankings = [_order(_average_segments(v, label), order) for v, label in zip(values, labels, strict=True)]
    words = baseline if isinstance(baseline, str) else "given values"
    return _removed(
        _Removing(scores, changed, n_steps, batch_size or NETWORK_BATCH),
        rankings,
        explanation,
        order=order,
        fill=words,
        n_random=n_random,
        rng=rng,
    )


def road(
    explanation: Explanation,
    model: Any,
    *,
    target: Any = None,
    order: str = "most_relevant_first",
    n_steps: int = 10,
    noise: float = 0.01,
    n_random: int = 1,
    batch_size: int | None = None,
    device: Any = None,
    random_state: Any = 0,
) -> Removal:
    """Take single pixels away, told by their neighbours ever after, and watch the score.

    What is painted over leaves edges that a network may see, and that tell where the relevant pixels were.
    Here a missing pixel is the weighted mean of its neighbours, missing ones among them, plus a little noise:
    its information is gone and nothing new is there.

    Parameters
    ----------
    explanation, model, target, order, n_random, batch_size, device, random_state
        As in `region_flipping`; pictures only.
    n_steps
        Points of the curve after the first one, at equal shares of the pixels; at the last one every pixel is
        the picture's mean.
    noise
        Standard deviation of the noise, relative to that of each picture.

    Returns
    -------
    Removal
        Curves and areas, per row.

    References
    ----------
    Rong, Leemann, Borisov, Kasneci, Kasneci, ICML (2022).
    """
    _check("road", order=order, n_steps=n_steps, n_random=n_random)
    _check("road", batch_size=batch_size, random_state=random_state)
    scores = find_explained_scores(explanation, model, target, batch_size=batch_size, device=device)
    axes = find_spatial_axes(scores.X.shape[1:])
    if len(axes) != 2:
        raise InvalidInput(f"road takes pictures; one input has the shape {scores.X.shape[1:]}.")
    rng = generator(random_state)
    X = np.moveaxis(scores.X, [1 + a for a in axes], [1, 2])
    X = X.reshape(*X.shape[:3], -1)  # channels last
    drawn = noise * X.std(axis=(1, 2, 3), keepdims=True) * rng.normal(size=X.shape)

    def changed(row: int, ranking: Integers, n_gone: int) -> Floats:
        gone = np.zeros(X.shape[1] * X.shape[2], dtype=bool)
        gone[ranking[:n_gone]] = True
        found = impute(X[row], gone.reshape(X.shape[1:3]), drawn[row])
        moved = np.moveaxis(scores.X[row], axes, [0, 1])
        return np.moveaxis(found.reshape(moved.shape), [0, 1], axes)

    values = np.moveaxis(_values(explanation), [1 + a for a in axes], [1, 2])
    relevance = values.reshape(len(values), X.shape[1] * X.shape[2], -1).sum(axis=2)
    return _removed(
        _Removing(scores, changed, n_steps, batch_size or NETWORK_BATCH),
        [_order(r, order) for r in relevance],
        explanation,
        order=order,
        fill="neighbours",
        n_random=n_random,
        rng=rng,
    )


@dataclass(frozen=True)
class _Removing:
    """Inputs, how they look with some pieces gone, and at how many shares the score is asked for."""

    scores: Scores
    changed: Changed
    n_steps: int
    batch_size: int

    def curves(self, rankings: list[Integers]) -> Floats:
        """Scores at each share, shape (n, n_steps + 1)."""
        n = len(rankings)
        pairs = [(row, step) for row in range(n) for step in range(self.n_steps + 1)]
        found = np.empty(len(pairs))
        batches = [slice(i, i + self.batch_size) for i in range(0, len(pairs), self.batch_size)]
        for part in track(batches, len(batches), "taking pieces away"):
            some = pairs[part]
            counts = [round(step / self.n_steps * len(rankings[row])) for row, step in some]
            inputs = [
                self.changed(row, rankings[row], n_gone) if n_gone else self.scores.X[row]
                for (row, _), n_gone in zip(some, counts, strict=True)
            ]
            found[part] = self.scores.value(np.stack(inputs), np.array([row for row, _ in some]))
        return found.reshape(n, self.n_steps + 1)


def _removed(
    removing: _Removing,
    rankings: list[Integers],
    explanation: Explanation,
    *,
    order: str,
    fill: str,
    n_random: int,
    rng: np.random.Generator,
) -> Removal:
    """Curves of an explanation's order, and of random ones beside it."""
    removed = np.arange(removing.n_steps + 1)

    def result(curves: Floats, method: str, random: Removal | None = None) -> Removal:
        return Removal(curves, normalise_areas(curves, removed), method, ORDERS[order], removed, fill, random)

    # Drawn from sorted rankings, so that the random orders do not depend on the explanation.
    drawn = [removing.curves([rng.permutation(np.sort(r)) for r in rankings]) for _ in range(n_random)]
    chance = result(np.mean(drawn, axis=0), "RandomAttribution") if drawn else None
    return result(removing.curves(rankings), explanation.method, chance)


def _values(explanation: Explanation) -> Floats:
    """Values that tell an order: sizes where signs are directions."""
    return np.abs(explanation.values) if explanation.kind == "sensitivity" else explanation.values


def _average_segments(values: Floats, label: Integers) -> Floats:
    """Mean value of each segment."""
    counts = np.bincount(label.ravel())
    return np.asarray(np.bincount(label.ravel(), values.ravel()) / counts)


def _order(relevance: Floats, order: str) -> Integers:
    most_first = ORDERS[order] == "most_relevant_first"
    return np.argsort(-relevance if most_first else relevance, kind="stable")


def _check(name: str, **given: Any) -> None:
    for parameter, value in given.items():
        validate_value(name, parameter, value, _ACCEPTED[parameter])
