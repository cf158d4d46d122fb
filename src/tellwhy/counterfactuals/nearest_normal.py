"""The nearest row that looks normal: few cells changed, by little, to values that occur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import InvalidInput
from tellwhy.core.parallel import row_batches
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.core.tables import as_floats
from tellwhy.counterfactuals.change_search import SHORTLIST, ChangeSearch
from tellwhy.counterfactuals.choices import (
    Choices,
    Mask,
    as_mask,
    as_numbers,
    choices_of,
    one_hot_blocks,
)
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.counterfactuals.surroundings import column_scales
from tellwhy.scoring.observed import whole_columns

_BATCH_BYTES = 64 * 2**20


@dataclass(frozen=True)
class NearestNormal:
    """The nearest normal version of each row.

    Attributes
    ----------
    points
        Rows whose score is at most the threshold; NaN where none was found.
    found
        Which rows have one (a row that is normal already is its own).
    changed
        Mask of the cells that differ from the row.
    threshold
        The score that counts as normal, at most.
    """

    points: Floats
    found: Mask
    changed: Mask
    threshold: float


def nearest_normal(
    score: ScoreFunction,
    X: ArrayLike,
    *,
    prototypes: ArrayLike,
    threshold: float | None = None,
    scales: ArrayLike | None = None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    integers: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    owner: ArrayLike | None = None,
    listed: ArrayLike | None = None,
    distance: str = "absolute",
    ranking: ArrayLike | None = None,
    left_out: Integers | None = None,
) -> NearestNormal:
    """Find what would make each row normal: argmin dist(y, x) subject to e(y) ≤ threshold, with few changes.

    Columns are changed one after the other, each time the one that lowers the score most, until it is low
    enough; where one change suffices, the smallest such change is taken. Changes that turn out not to be
    needed are taken back, and the others shrunk until the score is at the threshold. Where that fails, the
    search starts from the nearest normal prototype. Only values of the score are used, so it needs no
    gradient.

    Parameters
    ----------
    score
        A score function (not an `EncodedScore`: pass its `inner` and encoded rows).
    X
        Rows in the score's own columns.
    prototypes
        Ordinary rows: they give ranges, units, candidates, and a starting point of last resort.
    threshold
        Score that counts as normal, at most: the score's own threshold by default, or else what 95 % of the
        prototypes stay below.
    scales
        Unit of each column; the standard deviation of the prototypes by default.
    low, high
        Range of each column for changed cells; that of the prototypes by default.
    integers
        Mask of the columns that hold whole numbers; those of the prototypes that do by default.
    steps
        Distance between allowed values of each column, counted from the first prototype; 0 where there is
        none. For whole numbers behind an encoding that rescales them.
    owner
        Block that each column belongs to: columns of a block change together, to values that some prototype
        has in all of them. By default, neighbouring columns of 0 and 1 with a single 1 in every prototype
        (one-hot columns) are a block, and every other column is one of its own.
    listed
        Mask of the columns that, like a block, take only values that some prototype has: numbers that stand
        for something else. None by default.
    distance
        "absolute" or "squared": what is kept small, once the number of changed columns is.
    ranking
        Values (n, blocks), or without `owner` (n, columns), for instance attributions: where there are more
        than 64 blocks, only the 64 highest of each row are looked at.
    left_out
        Support point that each row of X leaves out of a kernel model, −1 for none; by default its own, where
        the model was trained on it.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> bowl = FunctionScore(lambda X: (X**2).sum(axis=1), threshold=4.0)
    >>> ordinary = np.random.default_rng(0).normal(size=(100, 3))
    >>> found = nearest_normal(bowl, np.array([[0.0, 9.0, 0.0]]), prototypes=ordinary)
    >>> found.points.round(3), found.changed
    (array([[0., 2., 0.]]), array([[False,  True, False]]))
    """
    validate_value("nearest_normal", "distance", distance, one_of("absolute", "squared"))
    X = as_floats(X)
    prototypes = as_floats(prototypes, what="prototypes", n_columns=X.shape[1])
    d = X.shape[1]
    whole = whole_columns(prototypes) if integers is None else as_mask(integers, d, "integers")
    given_steps = as_numbers(steps, np.zeros(d), "steps")
    choices = choices_of(
        prototypes,
        owner=one_hot_blocks(prototypes) if owner is None else np.asarray(owner),
        scales=as_numbers(scales, column_scales(prototypes)[0], "scales"),
        low=as_numbers(low, prototypes.min(axis=0), "low"),
        high=as_numbers(high, prototypes.max(axis=0), "high"),
        steps=np.where(given_steps > 0, given_steps, np.where(whole, 1.0, 0.0)),
        origin=np.where(given_steps > 0, prototypes[0], 0.0),
        listed=as_mask(listed, d, "listed"),
    )
    # A prototype that the model was trained on must not vouch for itself, any more than a row of X.
    own = RowScores(score, prototypes).value(prototypes, np.arange(len(prototypes)))
    level = _threshold(score, threshold, own)
    power = 1.0 if distance == "absolute" else 2.0
    search = ChangeSearch(RowScores(score, X, left_out), X, choices, level, power)
    order = None if ranking is None else _ranking(ranking, owner, choices.block, len(X))
    points = _searched(search, prototypes[(own <= level) & _in_range(prototypes, choices)], order)
    found = np.asarray(~np.isnan(points).any(axis=1))
    return NearestNormal(points, found, found[:, None] & (points != X), level)


def _in_range(prototypes: Floats, choices: Choices) -> Mask:
    """Tell which prototypes lie within the range of changed cells: a given range may be narrower."""
    return np.asarray(((prototypes >= choices.low) & (prototypes <= choices.high)).all(axis=1))


def _searched(search: ChangeSearch, normal: Floats, ranking: Floats | None) -> Floats:
    """Search for the rows that are above the level, in batches; the others stay as they are."""
    points = search.X.copy()
    odd = np.flatnonzero(search.scores.value(points, np.arange(len(points))) > search.level)
    # A row is copied once for every block it may change, and a few times over.
    bytes_per_row = 8 * points.shape[1] * min(search.choices.n_blocks, SHORTLIST) * 4
    batches = row_batches(len(odd), bytes_per_row, _BATCH_BYTES)
    for some in track(batches, len(batches), "looking for the nearest normal rows"):
        rows = odd[some]
        points[rows] = search.run(rows, normal, None if ranking is None else ranking[rows])
    return points


def _threshold(score: ScoreFunction, given: float | None, of_prototypes: Floats) -> float:
    own = score.threshold if given is None else given
    level = float(np.quantile(of_prototypes, 0.95)) if own is None else float(own)
    if not np.isfinite(level):
        raise InvalidInput(f"threshold must be a finite number. Got {level}.")
    return level


def _ranking(given: ArrayLike, owner: ArrayLike | None, block: Integers, n: int) -> Floats:
    """Return one number per row and block; values of owners that have no column are left out."""
    values = np.asarray(given, dtype=np.float64)
    n_blocks = int(block.max()) + 1
    if owner is None and values.shape == (n, len(block)):
        values = np.stack([values[:, block == b].sum(axis=1) for b in range(n_blocks)], axis=1)
    if owner is not None and values.ndim == 2 and values.shape[1] > np.max(owner):
        values = values[:, np.unique(owner)]
    if values.shape != (n, n_blocks):
        raise InvalidInput(
            f"ranking must hold one number per row and block ({n}, {n_blocks}). Got {np.shape(given)}."
        )
    return values
