"""Choosing γ, the weight of the distance against the score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.core.tables import evenly_spread
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.counterfactuals.surroundings import Distance, Surroundings
from tellwhy.explainers.shapley.neighbourhood import Neighbourhood

DEFAULT = 0.01
CANDIDATES = (0.001, 0.01, 0.1, 1.0, 10.0)
FEW_COLUMNS = 20  # on generated rows balancing gains with each further column, and below may lose
N_ROWS = 48  # background rows that γ is chosen by


def balanced_gamma(
    score: ScoreFunction, background: Floats, neighbourhood: Neighbourhood, distance: Distance
) -> float:
    """Return the γ at which moving costs about what it gains.

    That is the median fall of the score, from x to its local minimum, over the median distance moved.
    """
    X = background[evenly_spread(len(background), N_ROWS)]
    scores = RowScores(score, X)
    everything = np.ones((1, X.shape[1]), dtype=bool)
    Y = neighbourhood.lowest(scores, X, everything, gamma=DEFAULT, distance=distance).points[:, 0]
    rows = np.arange(len(X))
    around = Surroundings(neighbourhood.scales, distance, neighbourhood.binary)
    cost = float(np.median(around.cells(X, (Y - X) / neighbourhood.scales)[0].mean(axis=1)))
    fall = float(np.median(scores.value(X, rows) - scores.value(Y, rows)))
    return fall / cost / neighbourhood.score_unit if fall > 0 and cost > 0 else DEFAULT


def gamma_by_injection(
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
        A further candidate: `balanced_gamma`.
    """
    X = background[evenly_spread(len(background), N_ROWS)]
    candidates = np.flatnonzero(~neighbourhood.constant)
    if not len(candidates):
        return DEFAULT
    rows = np.arange(len(X))
    columns = rng.choice(candidates, len(X))
    moves = rng.uniform(1.0, 2.0, len(X)) * rng.choice([-1.0, 1.0], len(X)) * neighbourhood.scales[columns]
    cells = X[rows, columns]
    X[rows, columns] = np.where(neighbourhood.binary[columns], 1.0 - cells, cells + moves)
    tried = sorted({*CANDIDATES, balanced})
    found = {gamma: _mean_reciprocal_rank(explained(X, gamma), player[columns]) for gamma in tried}
    best = max(found.values())
    equals = [gamma for gamma, quality in found.items() if quality == best]
    return min(equals, key=lambda gamma: abs(np.log(gamma / DEFAULT)))


def _mean_reciprocal_rank(values: Floats, truth: Integers) -> float:
    """Mean of 1/rank of the true player; ties share the mean of their ranks."""
    of_truth = values[np.arange(len(values)), truth][:, None]
    above = (values > of_truth).sum(axis=1)
    tied = (values == of_truth).sum(axis=1)
    return float(np.mean(1.0 / (above + 0.5 * (tied + 1))))
