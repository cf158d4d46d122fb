"""Localisation: whether the features that were made odd are the ones an explanation names.

By the rank of the first of them, by hits among the first k, and by AUROC; and which of several explainers
finds cells that were moved in the user's own rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from tellwhy.core.arrays import draw_sample, take_rows
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Seed, generator, integer, seed, validate_value
from tellwhy.core.score import Floats
from tellwhy.evaluation.injection import inject_anomalies, numbers_of
from tellwhy.scoring.moved_columns import measure_column_scales

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Localisation:
    """How well an explanation points at the features that are known to be odd; higher is better.

    Attributes
    ----------
    reciprocal_ranks
        1 / rank of the best-ranked true feature of each row, shape (n,).
    hit
        1 where that rank is at most k, 0 elsewhere.
    aurocs
        Chance that a true feature has a higher value than another one, of each row.
    k
        How many top features `hit` looks at.
    method
        Name of the explainer.

    Notes
    -----
    Equal values count as if they were in random order: reciprocal ranks and hits are means over all orders
    (so a hit may be a fraction), and AUROC counts a tie as one half. An explanation that is constant thus
    scores what a random one scores on average. Rows without a true feature have nothing to find: they are NaN
    and count in no mean. Rows whose features are all true have no AUROC: it is NaN there, and they do not
    count in its mean.
    """

    reciprocal_ranks: Floats
    hit: Floats
    aurocs: Floats
    k: int
    method: str

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return _mean(self.reciprocal_ranks)

    @property
    def hits(self) -> float:
        """Share of rows with a true feature among the top k."""
        return _mean(self.hit)

    @property
    def auroc(self) -> float:
        """Mean area under the ROC curve."""
        return _mean(self.aurocs)


def localisation(explanation: Explanation, truth: ArrayLike, *, k: int = 3) -> Localisation:
    """Compare an explanation with the features that are known to be odd.

    Features are ranked by their signed values, highest first: a negative value says that a feature makes the
    row look more normal. Inputs with a shape (images) are flattened.

    Parameters
    ----------
    explanation
        Of any kind.
    truth
        Mask of the odd features of each row, shaped like `explanation.values`.
    k
        How many top features count as a hit.

    Returns
    -------
    Localisation
        How well the explanation points at those features, row by row.

    Examples
    --------
    >>> e = Explanation(values=[[3.0, 1.0, 0.0], [1.0, 1.0, 0.0]], scores=[4.0, 2.0], method="Example")
    >>> found = localisation(e, [[True, False, False], [True, False, False]], k=1)
    >>> found.reciprocal_ranks, found.hits, found.auroc
    (array([1.  , 0.75]), 0.75, 0.875)
    """
    validate_value("localisation", "k", k, integer(1))
    values = explanation.values.reshape(len(explanation), -1)
    mask = _mask(truth, explanation)
    if not np.isfinite(values).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InvalidInput(
            f"The explanation has no finite value in row {row}, feature {column}: it gives no rank."
        )
    reciprocal_ranks, hit = _rank_first_true(values, mask, int(k))
    return Localisation(reciprocal_ranks, hit, _compute_aurocs(values, mask), int(k), explanation.method)


def _mask(truth: ArrayLike, explanation: Explanation) -> Mask:
    """Return the truth as a flat mask (n, d), or say what is wrong with it."""
    given = np.asarray(truth)
    flat = given.reshape(len(given), -1) if given.ndim > 1 else given
    wanted = (len(explanation), explanation.values[0].size)
    if given.shape != explanation.values.shape and flat.shape != wanted:
        raise InvalidInput(
            f"truth has shape {given.shape}; expected a mask shaped like the explanation's values, "
            f"{explanation.values.shape}."
        )
    if not np.isin(flat, [0, 1]).all():
        raise InvalidInput(
            f"truth must hold True and False (or 1 and 0) only. Got {given.dtype} with other values."
        )
    mask = flat.astype(bool)
    if not mask.any():
        raise InvalidInput("truth marks no feature of any row; there is nothing to find.")
    return mask


def _rank_first_true(values: Floats, mask: Mask, k: int) -> tuple[Floats, Floats]:
    """Expected 1/rank of the best true feature, and chance that it is among the first k, per row."""
    best = np.where(mask, values, -np.inf).max(axis=1, keepdims=True)  # highest value of a true feature
    above = (values > best).sum(axis=1)
    tied = (values == best).sum(axis=1)
    true_tied = ((values == best) & mask).sum(axis=1)
    reciprocal = 1.0 / (above + 1)
    hit = (above < k).astype(np.float64)
    for row in np.flatnonzero(tied > true_tied):  # a wrong feature has the same value: any order may be meant
        chance = _place_of_first(int(tied[row]), int(true_tied[row]))
        ranks = above[row] + 1 + np.arange(len(chance))
        reciprocal[row] = (chance / ranks).sum()
        hit[row] = chance[ranks <= k].sum()
    nothing = ~mask.any(axis=1)
    reciprocal[nothing] = np.nan
    hit[nothing] = np.nan
    return reciprocal, hit


def _place_of_first(tied: int, true: int) -> Floats:
    """Chance that the first of `true` items is at place 1, 2, … of `tied` items in random order."""
    if true == 0:
        return np.zeros(0)
    places = np.arange(tied - true + 1)
    # P(none of the first p items is a true one) = Π_{i<p} (tied − true − i)/(tied − i)
    none_before = np.concatenate([[1.0], np.cumprod((tied - true - places[:-1]) / (tied - places[:-1]))])
    return np.asarray(none_before * true / (tied - places))


def _compute_aurocs(values: Floats, mask: Mask) -> Floats:
    """Mann–Whitney statistic of each row; NaN where one of the two groups is empty."""
    n_true = mask.sum(axis=1)
    pairs = n_true * (mask.shape[1] - n_true)
    rank_sums = (rankdata(values, axis=1) * mask).sum(axis=1)
    wins = rank_sums - n_true * (n_true + 1) / 2  # ranks of true features among themselves win nothing
    return np.where(pairs > 0, wins / np.maximum(pairs, 1), np.nan)


def _mean(per_row: Floats) -> float:
    """Mean over the rows that have a number; NaN where none has."""
    counted = per_row[np.isfinite(per_row)]
    return float(counted.mean()) if len(counted) else float("nan")


N_ROWS = 50
DOUBT = 2.0  # standard errors: the first explainer stays unless another is better by more than that


@dataclass(frozen=True)
class Choice:
    """What was tried and chosen.

    Attributes
    ----------
    best
        Name of the explainer to take: the first one given, unless another ranks the moved cells better by
        more than two standard errors.
    reciprocal_ranks
        1/rank of the moved cell of each row, by name.
    """

    best: str
    reciprocal_ranks: dict[str, Floats]

    @property
    def means(self) -> dict[str, float]:
        """Mean reciprocal rank by name."""
        return {name: float(ranks.mean()) for name, ranks in self.reciprocal_ranks.items()}

    @property
    def words(self) -> str:
        """What to say of the choice, in a sentence."""
        n = len(self.reciprocal_ranks[self.best])
        told = ", ".join(f"{name} {mean:.2f}" for name, mean in self.means.items())
        return f"{self.best}: mean reciprocal rank of one cell moved in each of {n} rows: {told}"


def choose_by_injection(
    explainers: Mapping[str, Any], X: Any, random_state: Seed = 0, *, n_rows: int = N_ROWS
) -> Choice:
    """Choose between explainers of one model by anomalies that are made from ordinary rows.

    One cell in each of a few rows is moved by one to two standard deviations, or flipped where its column is
    binary. The explainer that ranks these cells highest is the one to take; the first one given stays where
    no other is better by more than two standard errors of the difference.

    Parameters
    ----------
    explainers
        Explainers by name, fitted where they learn; the one to take in case of doubt first.
    X
        Ordinary rows, as the explainers take them, but not those that they were fitted on: one that looks for
        the nearest rows would find the row itself, without the moved cell.
    random_state
        Seed of the rows, cells and moves.
    n_rows
        How many rows to change.

    Returns
    -------
    Choice
        What was tried and chosen.

    Examples
    --------
    >>> from tellwhy.explainers import AnomalyShapley, RandomAttribution
    >>> X = np.random.default_rng(0).normal(size=(300, 6)) * [1, 1, 1, 1, 1, 9]
    >>> def distance(rows):
    ...     return ((rows / X.std(axis=0)) ** 2).sum(axis=1)
    >>> tried = {"random": RandomAttribution(distance), "shapley": AnomalyShapley(distance).fit(X[:200])}
    >>> choose_by_injection(tried, X[200:]).best
    'shapley'
    """
    validate_value("choose_by_injection", "random_state", random_state, seed)
    validate_value("choose_by_injection", "n_rows", n_rows, integer(2))
    if not explainers:
        raise InvalidInput("choose_by_injection got no explainers; expected at least one, by name.")
    rng = generator(random_state)
    rows = take_rows(X, np.sort(draw_sample(len(X), n_rows, rng)))
    odd = inject_anomalies(rows, 1, rng, scale=np.nan_to_num(measure_column_scales(numbers_of(X))))
    ranks = {
        name: localisation(each.explain(odd.X), odd.truth).reciprocal_ranks
        for name, each in explainers.items()
    }
    return Choice(_best(ranks), ranks)


def _best(ranks: dict[str, Floats]) -> str:
    """Return the name with the highest mean, or the first where that is not reliably higher."""
    first = next(iter(ranks))
    best = max(ranks, key=lambda name: float(ranks[name].mean()))
    gains = ranks[best] - ranks[first]
    return best if gains.mean() > DOUBT * gains.std() / np.sqrt(len(gains)) else first
