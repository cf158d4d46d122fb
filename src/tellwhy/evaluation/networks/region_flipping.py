"""Perturbation analysis of images and other arrays: how the score falls as relevant regions are painted over.

The model only has to give scores; several fill-ins, and random orders beside the explanation's, tell how far
the result depends on the way regions are taken away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rule, Rules, generator, integer, none, one_of, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.evaluation.flipping import Flipping
from tellwhy.evaluation.networks.explained_output import Scores, explained_scores
from tellwhy.evaluation.networks.fill_ins import FILL_INS, fill_in
from tellwhy.evaluation.networks.regions import Regions, tile

ORDERS = {
    "morf": "most_relevant_first",
    "lerf": "least_relevant_first",
    "most_relevant_first": "most_relevant_first",
    "least_relevant_first": "least_relevant_first",
}
MOST_STEPS = 50
_ACCEPTED: dict[str, Rules] = {
    "order": one_of(*ORDERS),
    "fill": (
        one_of(*FILL_INS),
        Rule(
            "a number, or an array like one input or like all of them",
            lambda value: not isinstance(value, str),
        ),
    ),
    "n_steps": (none, integer(1)),
    "n_random": integer(0),
    "batch_size": integer(1),
    "random_state": seed,
}


@dataclass(frozen=True, eq=False)
class RegionFlipping(Flipping):
    """Scores of n inputs as their regions are painted over in turn; curves, areas and rules as in `Flipping`.

    Attributes
    ----------
    removed
        How many regions were gone at each point of the curves, shape (n_steps + 1,).
    fill
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


def region_flipping(
    explanation: Explanation,
    model: Any,
    *,
    target: Any = None,
    region: int | Sequence[int] = (8, 8),
    axes: Sequence[int] | None = None,
    order: str = "most_relevant_first",
    fill: Any = "mean",
    n_steps: int | None = None,
    n_random: int = 1,
    batch_size: int = 32,
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
    region
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
    >>> explanation = IntegratedGradients(score, reference="zero").explain(np.ones((1, 4, 4)))
    >>> region_flipping(explanation, score, region=2, fill="zero").mean_curve()
    array([1., 0., 0., 0., 0.])
    """
    _check(
        order=order,
        fill=fill,
        n_steps=n_steps,
        n_random=n_random,
        batch_size=batch_size,
        random_state=random_state,
    )
    scores = explained_scores(explanation, model, target, batch_size=batch_size, device=device)
    regions = tile(scores.X.shape[1:], region, axes)
    rng = generator(random_state)
    filled = fill_in(scores.X, fill, regions, rng)
    painting = _Painting(scores, filled, regions, _steps(regions.count, n_steps), batch_size)
    ends = painting.ends()
    ranking = _ranking(explanation, regions, ORDERS[order])
    curves = painting.curves(ranking, ends)
    # Drawn from sorted rankings, so that the random orders do not depend on the explanation.
    in_order = np.sort(ranking, axis=1)
    drawn = [painting.curves(rng.permuted(in_order, axis=1), ends) for _ in range(n_random)]
    words = fill if isinstance(fill, str) else "given values"
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
    return RegionFlipping(curves, normalised_areas(curves, removed), method, order, removed, fill, random)


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


def normalised_areas(curves: Floats, removed: Integers) -> Floats:
    """Mean height of (c − c_end)/(c_0 − c_end) by the trapezoid rule; NaN where c_0 is not above c_end."""
    start = curves[:, 0]
    end = curves[:, -1]
    # A fall that rounding could have made counts as none: the quotient would be noise.
    falls = start - end > 1e-12 * np.maximum(np.abs(start), np.abs(end))
    widths = np.diff(removed) / removed[-1]
    heights = (curves[:, 1:] + curves[:, :-1]) @ widths / 2 - end
    return np.where(falls, heights / np.where(falls, start - end, 1.0), np.nan)
