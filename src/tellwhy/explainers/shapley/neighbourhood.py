"""What background rows tell about moving away from a row: units, binary columns, ordinary rows, and γ.

γ weighs the distance against the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit, function, one_of, real
from tellwhy.core.score import (
    Floats,
    HasGradient,
    HasValueAndGradient,
    Integers,
    OnDevice,
    ScoreFunction,
    SharesOfOne,
)
from tellwhy.counterfactuals.minimise import (
    Distance,
    Mask,
    Minima,
    MoveCost,
    minimise,
)
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.optimise.arrays import Array
from tellwhy.scoring.moved_columns import (
    draw_steps,
    find_binary_columns,
    find_column_units,
    measure_column_scales,
    reciprocal_ranks,
)
from tellwhy.scoring.reference_rows import lower_half

DISTANCES = (one_of("squared", "absolute"), function)
GAMMAS = real(0, np.inf, closed="left")
N_REFERENCE_ROWS = 8  # ordinary rows that a search without gradients may step towards
_QUARTILES = 1.349  # distance of the quartiles of a normal distribution, in its standard deviations
_LOOKED_AT = 256  # background rows that are scored to find them


@dataclass(frozen=True)
class Neighbourhood:
    """How far is far, by column, as learned from background rows.

    Attributes
    ----------
    scales
        Standard deviation of each column; 1 for a constant one.
    constant
        Mask of the constant columns.
    binary
        Mask of the columns that hold both 0 and 1 and nothing else; all columns of a score of shares of 1.
    reference_rows
        A few ordinary rows, for scores without a gradient, which are searched by trial steps and whose
        distances are bounded; None for others.
    score_unit
        What γ is multiplied with, so that no share depends on the units of the score (a forest's lies between
        0 and 1, a distance is in the units of the data): how far the background's scores are apart.
    """

    scales: Floats
    constant: Mask
    binary: Mask
    reference_rows: Floats | None
    score_unit: float

    @classmethod
    def of(cls, score: ScoreFunction, background: Floats) -> Neighbourhood:
        """Learn from background rows, in the score's own columns."""
        scales = find_column_units(background)
        constant = measure_column_scales(background) == 0
        binary = find_binary_columns(background) | isinstance(score, SharesOfOne)
        looked_at = background[spread_evenly(len(background), _LOOKED_AT)]
        values = np.asarray(score.value(looked_at), dtype=np.float64)
        if isinstance(score, HasGradient):
            return cls(scales, constant, binary, None, _spread(values))
        reference_rows = looked_at[lower_half(values, N_REFERENCE_ROWS)]
        return cls(scales, constant, binary, reference_rows, _find_positive(np.std(values)))

    def lowest(
        self,
        scores: RowScores,
        X: Array,
        free: Mask,
        *,
        gamma: float,
        distance: Distance,
        radius: float | None = None,
        slack: float = 0.0,
        start: Array | None = None,
        max_iterations: int = 300,
    ) -> Minima:
        """Return the local minima of the score around rows, for some sets of free columns."""
        # Descent ends where what is left is small against 1: that must not depend on the score's unit.
        # Quadratic forms are minimised by Newton steps of their own.
        is_scaled = scores.has_gradient and scores.quadratics is None
        return minimise(
            _in_units(scores, self.score_unit) if is_scaled else scores,
            X,
            free,
            gamma=gamma if is_scaled else gamma * self.score_unit,
            scales=self.scales,
            distance=distance if self.reference_rows is None else partial(_bounded, distance),
            binary=self.binary,
            radius=radius,
            reference_rows=self.reference_rows,
            slack=slack,
            start=start,
            max_iterations=max_iterations,
        )

    def _require(self) -> Iterator[Fit]:
        n = len(self.scales)
        yield "constant", self.constant.shape, (n,)
        yield "binary", self.binary.shape, (n,)


def _in_units(scores: RowScores, unit: float) -> RowScores:
    scaled = copy(scores)
    scaled.score = _Scaled(scores.score, unit)
    return scaled


class _Scaled:
    """A score with a gradient, counted in another unit; its other members are those of the score itself."""

    def __init__(self, score: Any, unit: float):
        self._score = score
        self._unit = unit
        if isinstance(score, HasValueAndGradient):
            self.value_and_gradient = self._compute_both
        if isinstance(score, OnDevice):
            self.evaluate_arrays = self._arrays

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying asks before `_score` is there
            raise AttributeError(name)
        return getattr(self._score, name)

    def value(self, X: Any, *without: Any) -> Floats:
        return np.asarray(self._score.value(X, *without)) / self._unit

    def gradient(self, X: Any, *without: Any) -> Floats:
        return np.asarray(self._score.gradient(X, *without)) / self._unit

    def _arrays(self, X: Any, *, with_gradient: bool) -> tuple[Any, Any]:
        value, gradient = self._score.evaluate_arrays(X, with_gradient=with_gradient)
        return value / self._unit, gradient / self._unit

    def _compute_both(self, X: Any, *without: Any) -> tuple[Floats, Floats]:
        value, gradient = self._score.value_and_gradient(X, *without)
        return value / self._unit, gradient / self._unit


def _spread(values: Floats) -> float:
    """Standard deviation of the middle half of the scores, were they normal.

    Scores with a gradient have no upper bound: one row far away would be most of their standard deviation.
    """
    low, high = np.quantile(values, [0.25, 0.75])
    return _find_positive((high - low) / _QUARTILES, np.std(values), np.abs(values).mean())


def _find_positive(*candidates: Any) -> float:
    """Return the first of some numbers that is a unit, finite and above 0; 1 where the score is always 0."""
    units = (float(each) for each in candidates)
    return next((unit for unit in units if np.isfinite(unit) and unit > 0), 1.0)


def place_where_scored(scores: RowScores, X: Floats, distance: Distance) -> Array:
    """Return rows where the score computes; on the host where the distance is the user's function."""
    return X if callable(distance) else scores.space.array(X)


def _bounded(distance: Distance, U: Floats) -> Floats:
    """Return dist/(1 + dist): however far a row is, a score that is bounded itself can make up for it."""
    if callable(distance):
        cost = np.asarray(distance(U), dtype=np.float64)
    else:
        cost = np.abs(U) if distance == "absolute" else np.square(U)
    return cost / (1.0 + cost)


def describe_distance(distance: Distance) -> str:
    """Name a distance for the record of an explanation."""
    return distance if isinstance(distance, str) else getattr(distance, "__name__", type(distance).__name__)


DEFAULT = 0.01
CANDIDATES = (0.001, 0.01, 0.1, 1.0, 10.0)
FEW_COLUMNS = 20  # on generated rows balancing gains with each further column, and below may lose
N_ROWS = 48  # background rows that γ is chosen by


def balance_gamma(
    score: ScoreFunction, background: Floats, neighbourhood: Neighbourhood, distance: Distance
) -> float:
    """Return the γ at which moving costs about what it gains.

    That is the median fall of the score, from x to its local minimum, over the median distance moved.
    """
    X = background[spread_evenly(len(background), N_ROWS)]
    scores = RowScores(score, X)
    everything = np.ones((1, X.shape[1]), dtype=bool)
    Y = neighbourhood.lowest(scores, X, everything, gamma=DEFAULT, distance=distance).points[:, 0]
    rows = np.arange(len(X))
    around = MoveCost(neighbourhood.scales, distance, neighbourhood.binary)
    cost = float(np.median(around.cells(X, (Y - X) / neighbourhood.scales)[0].mean(axis=1)))
    fall = float(np.median(scores.value(X, rows) - scores.value(Y, rows)))
    return fall / cost / neighbourhood.score_unit if fall > 0 and cost > 0 else DEFAULT


def choose_gamma_by_injection(
    explained: Callable[[Floats, float], Floats],
    background: Floats,
    neighbourhood: Neighbourhood,
    player: Integers,
    rng: np.random.Generator,
    *,
    balanced: float = DEFAULT,
) -> float:
    """Return the candidate whose explanations rank columns that were made odd highest (mean reciprocal rank).

    One column of each background row is moved by 1 to 2 standard deviations, or flipped where it is binary.
    Among equals the candidate nearest to 0.01 is taken.

    Parameters
    ----------
    explained
        From rows and γ to the values of the players, (n, players).
    background
        Ordinary rows.
    neighbourhood
        Units and kinds of the columns.
    player
        The player that each column belongs to.
    rng
        Chooses columns and moves.
    balanced
        A further candidate: `balance_gamma`.
    """
    X = background[spread_evenly(len(background), N_ROWS)]
    candidates = np.flatnonzero(~neighbourhood.constant)
    if not len(candidates):
        return DEFAULT
    rows = np.arange(len(X))
    columns = rng.choice(candidates, len(X))
    moves = draw_steps(rng, len(X)) * neighbourhood.scales[columns]
    cells = X[rows, columns]
    X[rows, columns] = np.where(neighbourhood.binary[columns], 1.0 - cells, cells + moves)
    tried = sorted({*CANDIDATES, balanced})
    found = {gamma: reciprocal_ranks(explained(X, gamma), player[columns]).mean() for gamma in tried}
    best = max(found.values())
    equals = [gamma for gamma, quality in found.items() if quality == best]
    return min(equals, key=lambda gamma: abs(np.log(gamma / DEFAULT)))
