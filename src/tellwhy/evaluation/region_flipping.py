"""Perturbation analysis of images and other arrays: how the score falls as relevant regions are painted over.

The model only has to give scores; several fill-ins, and random orders beside the explanation's, tell how far
the result depends on the way regions are taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.params import Rule, Rules, generator, integer, none, one_of, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.running import NETWORK_BATCH
from tellwhy.core.score import Floats, Integers
from tellwhy.evaluation.flipping import Flipping
from tellwhy.scoring import NetworkOutput, as_score
from tellwhy.scoring.function_scores import read_array_rows


@dataclass(frozen=True)
class Regions:
    """Regions of one input.

    `index` holds the number of each cell's region and has the shape of one input, with length 1 along axes
    that are not cut; `sizes` are the lengths of a region along `axes`.
    """

    index: Integers
    count: int
    axes: tuple[int, ...]
    sizes: tuple[int, ...]

    def sums(self, values: Floats) -> Floats:
        """Sum of values (n, *shape) over each region and all other axes, shape (n, count)."""
        others = tuple(1 + axis for axis in range(values.ndim - 1) if axis not in self.axes)
        flat = values.sum(axis=others).reshape(len(values), -1)
        numbers = self.index.ravel()
        return np.stack([np.bincount(numbers, weights=row, minlength=self.count) for row in flat])


def tile(shape: tuple[int, ...], region: int | Sequence[int], axes: Sequence[int] | None = None) -> Regions:
    """Cut inputs of a shape into regions of equal size; those at the far edges may be smaller.

    Examples
    --------
    >>> tile((3, 4, 5), (2, 3)).index[0]
    array([[0, 0, 0, 1, 1],
           [0, 0, 0, 1, 1],
           [2, 2, 2, 3, 3],
           [2, 2, 2, 3, 3]])
    """
    sizes = _read_sizes(region, shape, axes)
    n_axes = len(shape)
    given = range(n_axes - len(sizes), n_axes) if axes is None else axes
    chosen = tuple(int(a) + n_axes if a < 0 else int(a) for a in given)
    is_each_once = len(set(chosen)) == len(chosen) == len(sizes)
    if not is_each_once or not all(0 <= a < n_axes for a in chosen):
        raise InvalidParameter(
            f"patch_size={region!r} and axes={axes!r} do not fit inputs of shape {shape}: give one size per "
            "axis, and each axis once."
        )
    cuts = sorted(zip(chosen, sizes, strict=True))
    index = np.zeros([1] * n_axes, dtype=np.int64)
    for axis, size in cuts:
        numbers = np.arange(shape[axis]) // size
        along = [1] * n_axes
        along[axis] = shape[axis]
        # Like digits: regions along this axis count fastest, those along earlier axes slower.
        index = index * (int(numbers[-1]) + 1) + numbers.reshape(along)
    return Regions(
        index=index,
        count=int(index.max()) + 1,
        axes=tuple(axis for axis, _ in cuts),
        sizes=tuple(size for _, size in cuts),
    )


def _read_sizes(region: Any, shape: tuple[int, ...], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Length of a region along each axis that is cut: one number stands for all of them, two axes at most."""
    n_axes = len(axes) if axes is not None else min(2, len(shape))
    sizes = (region,) * n_axes if np.ndim(region) == 0 else tuple(region)
    if not sizes or not all(isinstance(size, (int, np.integer)) and size >= 1 for size in sizes):
        raise InvalidParameter(
            "The 'patch_size' parameter must be a whole number of cells, at least 1, or one per axis. Got "
            f"{region!r} instead."
        )
    if axes is None and len(sizes) > len(shape):
        if len(shape) == 1 and len(set(sizes)) == 1:
            return sizes[:1]  # the default (8, 8), for a sequence
        raise InvalidParameter(
            f"patch_size={region!r} has more sizes than inputs of shape {shape} have axes."
        )
    return tuple(int(size) for size in sizes)


# From inputs X (n, *shape) to what broadcasts against them. Channels are filled in one by one: axes that are
# not cut into regions keep their own mean, range and blur.
Filler = Callable[[Floats, Regions, np.random.Generator], Floats]


def _mean(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    return np.asarray(X.mean(axis=_cut_axes(regions), keepdims=True))


def _fill_with_zero(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    return np.zeros((1,) * X.ndim)


def _noise(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:
    low = X.min(axis=_cut_axes(regions), keepdims=True)
    high = X.max(axis=_cut_axes(regions), keepdims=True)
    return np.asarray(low + (high - low) * rng.random(X.shape))


def _fill_with_blur(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    widths = np.zeros(X.ndim)  # of 0: rows and channels are not blurred into each other
    widths[list(_cut_axes(regions))] = regions.sizes
    return np.asarray(gaussian_filter(X, widths, mode="nearest"))


FILL_INS: dict[str, Filler] = {
    "mean": _mean,
    "zero": _fill_with_zero,
    "noise": _noise,
    "blur": _fill_with_blur,
}


def fill_in(X: Floats, fill: Any, regions: Regions, rng: np.random.Generator) -> Floats:
    """Return what each input X (n, *shape) looks like where everything is painted over.

    Examples
    --------
    >>> from tellwhy.evaluation.region_flipping import tile
    >>> X = np.arange(8.0).reshape(1, 2, 4)
    >>> fill_in(X, "mean", tile((2, 4), (2,)), np.random.default_rng(0))[0, :, 0]
    array([1.5, 5.5])
    """
    if isinstance(fill, str):
        return np.broadcast_to(FILL_INS[fill](X, regions, rng), X.shape)
    given = np.asarray(fill.detach().cpu() if hasattr(fill, "detach") else fill, dtype=np.float64)
    try:
        filled = np.broadcast_to(given, X.shape)
    except ValueError:
        raise InvalidInput(
            f"baseline has shape {given.shape}; expected a number, one input {X.shape[1:]} or all of them "
            f"{X.shape}."
        ) from None
    if not np.isfinite(given).all():
        raise InvalidInput(
            "baseline is not finite everywhere; regions can only be painted over with finite numbers."
        )
    return filled


def _cut_axes(regions: Regions) -> tuple[int, ...]:
    """Axes of X (n, *shape) that are cut into regions."""
    return tuple(1 + axis for axis in regions.axes)


# Two scores count as the same if they differ by less than this share of the largest one. An explanation may
# have been made in half precision, which has three digits.
_SAME = 0.02


@dataclass(frozen=True)
class Scores:
    """Explained inputs X (n, *shape) and their score.

    Of a network, `outputs` holds the number of the output that was explained for each input.
    """

    score: Any  # a ScoreFunction; that of a network takes the outputs as a further argument
    X: Floats
    outputs: Integers | None = None

    def value(self, inputs: Floats, row: Integers) -> Floats:
        """Score of changed versions of some rows."""
        further = () if self.outputs is None else (self.outputs[row],)
        return np.asarray(self.score.value(inputs, *further))


def find_explained_scores(
    explanation: Explanation, model: Any, target: Any, *, batch_size: int | None, device: Any = None
) -> Scores:
    """Return the score that was explained; of a network, the output that was chosen for each row."""
    X = _find_explained_inputs(explanation)
    score = as_score(model)
    if not isinstance(score, NetworkOutput):
        if target is not None:
            raise InvalidParameter(
                f"target chooses an output of a network; {score.describes} has one. Leave it out."
            )
        return Scores(score, X)
    if score is not model:  # a bare network: which of its outputs is left to the target, or to the record
        chosen = explanation.extras.get("output", "max") if target is None else target
        score = NetworkOutput(model, chosen, batch_size=batch_size, device=device)
    fixed = score.fixed(X)
    found = Scores(score, X, fixed[0] if fixed else None)
    if target is None:
        _check_same(explanation, found)
    return found


def _find_explained_inputs(explanation: Explanation) -> Floats:
    """Return the inputs (n, *shape) that the values belong to, or say what is missing."""
    if explanation.data is None:
        raise InvalidInput(
            "The explained inputs are needed, and this explanation has none (its data is None)."
        )
    X = read_array_rows(explanation.data)
    if X.shape != explanation.values.shape:
        raise InvalidInput(
            f"The explanation has values of shape {explanation.values.shape} for data of shape {X.shape}; "
            "one value per cell of the data is needed."
        )
    if not np.isfinite(explanation.values).all():
        row = int(np.argwhere(~np.isfinite(explanation.values))[0][0])
        raise InvalidInput(f"The explanation has a value that is not finite in row {row}: it gives no order.")
    return X


def _check_same(explanation: Explanation, found: Scores) -> None:
    """Refuse to judge an explanation of one output by another one."""
    scores = found.value(found.X, np.arange(len(found.X)))
    apart = np.abs(scores - explanation.scores)
    largest = np.abs(explanation.scores).max(initial=0.0)
    if (apart > _SAME * largest).any():
        row = int(np.argmax(apart))
        raise InvalidInput(
            f"The explanation is of {explanation.params.get('explains', 'a score')}, "
            f"{explanation.scores[row]:.4g} in row {row}, but {found.score.describes} is {scores[row]:.4g} "
            "there. Pass the model that was explained, and target=… as it was explained."
        )


ORDERS = {
    "morf": "most_relevant_first",
    "lerf": "least_relevant_first",
    "most_relevant_first": "most_relevant_first",
    "least_relevant_first": "least_relevant_first",
}
MOST_STEPS = 50
_ACCEPTED: dict[str, Rules] = {
    "order": one_of(*ORDERS),
    "baseline": (
        one_of(*FILL_INS),
        Rule(
            "a number, or an array like one input or like all of them",
            lambda value: not isinstance(value, str),
        ),
    ),
    "n_steps": (none, integer(1)),
    "n_random": integer(0),
    "batch_size": (none, integer(1)),
    "random_state": seed,
}


@dataclass(frozen=True, eq=False)
class RegionFlipping(Flipping):
    """Scores of n inputs as their regions are painted over in turn; curves, areas and rules as in `Flipping`.

    Attributes
    ----------
    removed
        How many regions were gone at each point of the curves, shape (n_steps + 1,).
    baseline
        What regions were painted over with.
    random
        The same with random orders, averaged: what is left to chance. None where no random order was asked
        for.
    """

    removed: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    fill: str = ""
    random: Flipping | None = None

    @property
    def shares(self) -> Floats:
        """Share of the regions that were gone at each point of the curves, from 0 to 1."""
        return np.asarray(self.removed / max(int(self.removed[-1]), 1))


@takes_old_names
def region_flipping(
    explanation: Explanation,
    model: Any,
    *,
    target: Any = None,
    patch_size: int | Sequence[int] = (8, 8),
    axes: Sequence[int] | None = None,
    order: str = "most_relevant_first",
    baseline: Any = "mean",
    n_steps: int | None = None,
    n_random: int = 1,
    batch_size: int | None = None,
    device: Any = None,
    random_state: Any = 0,
) -> RegionFlipping:
    """Paint over the regions of each input in the order of an explanation, and watch the model's score.

    Inputs are cut into regions; the relevance of a region is the sum of the values in it over all channels
    (of absolute values for sensitivities, whose signs are directions). Each curve ends where everything is
    painted over, which is the same for every order, so explanations of the same inputs can be compared by
    their areas.

    Parameters
    ----------
    explanation
        Of images or other arrays, with its data.
    model
        The network, model or score function that was explained.
    target
        The explained output of a network, as in `LRP`. By default the one that the explanation was made for.
    patch_size
        Size of a region along each of `axes`.
    axes
        Axes of one input that are cut into regions; the last ones by default, as in (channels, height,
        width). Use (0, 1) for images of shape (height, width, channels). All other axes are painted over
        together.
    order
        'most_relevant_first' (or 'morf': a good explanation has a small area) or 'least_relevant_first'
        ('lerf': a large one).
    fill
        What comes into a region: "mean" or "zero", "noise" (between the input's least and largest value),
        "blur" (the input, blurred over a region's size), a number, or an array like one input or like all of
        them. "mean", "noise" and "blur" are taken per channel.
    n_steps
        Points of the curve after the first one; at most one per region. By default up to 50.
    n_random
        Random orders beside the explanation's, averaged in `random`.
    batch_size, device
        Inputs that go through a network at once, and where, as in `LRP`.
    random_state
        Seed of the random orders and of the noise.

    Returns
    -------
    RegionFlipping
        Curves and areas, per input.

    References
    ----------
    Samek, Binder, Montavon, Lapuschkin, Müller, IEEE TNNLS 28 (2017).

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.explainers import IntegratedGradients
    >>> from tellwhy.scoring import FunctionScore
    >>> corner = np.zeros((4, 4))
    >>> corner[:2, :2] = 1.0
    >>> score = FunctionScore(
    ...     lambda X: (X * corner).sum(axis=(1, 2)),
    ...     gradient=lambda X: corner * np.ones_like(X),
    ...     feature_shape=(4, 4),
    ...     describes="the upper left corner",
    ... )
    >>> explanation = IntegratedGradients(score, baseline="zero").explain(np.ones((1, 4, 4)))
    >>> region_flipping(explanation, score, patch_size=2, baseline="zero").mean_curve()
    array([1., 0., 0., 0., 0.])
    """
    _check(
        order=order,
        baseline=baseline,
        n_steps=n_steps,
        n_random=n_random,
        batch_size=batch_size,
        random_state=random_state,
    )
    scores = find_explained_scores(explanation, model, target, batch_size=batch_size, device=device)
    regions = tile(scores.X.shape[1:], patch_size, axes)
    rng = generator(random_state)
    filled = fill_in(scores.X, baseline, regions, rng)
    painting = _Painting(scores, filled, regions, _steps(regions.count, n_steps), batch_size or NETWORK_BATCH)
    ends = painting.ends()
    ranking = _ranking(explanation, regions, ORDERS[order])
    curves = painting.curves(ranking, ends)
    # Drawn from sorted rankings, so that the random orders do not depend on the explanation.
    in_order = np.sort(ranking, axis=1)
    drawn = [painting.curves(rng.permuted(in_order, axis=1), ends) for _ in range(n_random)]
    words = baseline if isinstance(baseline, str) else "given values"
    result = partial(_result, order=ORDERS[order], removed=painting.removed, fill=words)
    chance = result(np.mean(drawn, axis=0), method="RandomAttribution") if drawn else None
    return result(curves, method=explanation.method, random=chance)


def _result(
    curves: Floats,
    *,
    method: str,
    order: str,
    removed: Integers,
    fill: str,
    random: Flipping | None = None,
) -> RegionFlipping:
    return RegionFlipping(curves, normalise_areas(curves, removed), method, order, removed, fill, random)


def _check(**given: Any) -> None:
    for name, value in given.items():
        validate_value("region_flipping", name, value, _ACCEPTED[name])


def _ranking(explanation: Explanation, regions: Regions, order: str) -> Integers:
    """Regions of each row in the order they go, shape (n, n_regions)."""
    values = np.abs(explanation.values) if explanation.kind == "sensitivity" else explanation.values
    relevance = regions.sums(values)
    return np.argsort(-relevance if order == "most_relevant_first" else relevance, axis=1, kind="stable")


class _Ends(NamedTuple):
    """Scores of the untouched inputs, and of those that are painted over everywhere."""

    start: Floats
    end: Floats


@dataclass(frozen=True)
class _Painting:
    """Inputs, what they are painted over with, and how many regions are gone at each step."""

    scores: Scores
    filled: Floats
    regions: Regions
    removed: Integers
    batch_size: int

    def ends(self) -> _Ends:
        """Scores at both ends of the curves, which are the same for every order."""
        rows = np.arange(len(self.scores.X))
        start = self.scores.value(self.scores.X, rows)
        return _Ends(start, self.scores.value(np.ascontiguousarray(self.filled), rows))

    def curves(self, ranking: Integers, ends: _Ends) -> Floats:
        """Scores after each step, shape (n, n_steps + 1); `ranking` lists each row's regions as they go."""
        place = np.argsort(ranking, axis=1, kind="stable")  # in the ranking, of each region
        middle = self.removed[1:-1]
        found = np.empty(len(place) * len(middle))
        # Pairs of a row and a step are numbered through: batches are full whatever the number of rows.
        batches = [slice(i, i + self.batch_size) for i in range(0, len(found), self.batch_size)]
        for pairs in track(batches, len(batches), "painting over regions"):
            row, step = np.divmod(np.arange(pairs.start, min(pairs.stop, len(found))), len(middle))
            gone = (place[row] < middle[step][:, None])[:, self.regions.index]  # (pairs, *shape)
            found[pairs] = self.scores.value(np.where(gone, self.filled[row], self.scores.X[row]), row)
        return np.column_stack([ends.start, found.reshape(len(place), -1), ends.end])


def _steps(n_regions: int, n_steps: int | None) -> Integers:
    """Numbers of regions that are gone, from none to all, evenly spaced."""
    wanted = min(n_regions, MOST_STEPS if n_steps is None else n_steps)
    return np.unique(np.linspace(0, n_regions, wanted + 1).round().astype(np.int64))


def normalise_areas(curves: Floats, removed: Integers) -> Floats:
    """Mean height of (c − c_end)/(c_0 − c_end) by the trapezoid rule; NaN where c_0 is not above c_end."""
    start = curves[:, 0]
    end = curves[:, -1]
    # A fall that rounding could have made counts as none: the quotient would be noise.
    falls = start - end > 1e-12 * np.maximum(np.abs(start), np.abs(end))
    widths = np.diff(removed) / removed[-1]
    heights = (curves[:, 1:] + curves[:, :-1]) @ widths / 2 - end
    return np.where(falls, heights / np.where(falls, start - end, 1.0), np.nan)
