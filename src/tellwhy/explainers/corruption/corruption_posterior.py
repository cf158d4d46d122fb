"""P(cell i is wrong | row): which cell is to blame, by the probability that it was corrupted.

A clean row is drawn from p(z). Each cell is corrupted with probability ρ, independently of the others; a
corrupted one is replaced by a draw from g_i. Of a set A of corrupted cells,

    P(A | x) ∝ e₀(A) (ρ/(1 − ρ))^|A|,   e₀(A) = p(x₋A) Π_{i∈A} g_i(x_i),
    P(cell i is wrong | x) = Σ_{A∋i} P(A | x).

Where e₀ comes from stands in `mixture_cells` (closed form) and in `ScoredCells` below (any score).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from tellwhy.core.params import Rules, Seed, generator, integer, none, one_of, real, seed
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, HasMixture, Integers
from tellwhy.explainers.base import BackgroundExplainer, refuse_set
from tellwhy.explainers.corruption.mixture_cells import MixtureCells, Slab, WeighedSets
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows
from tellwhy.scoring.surprise import Surprise

WRONG_CELLS = 1.5  # of a row whose explanation is asked for, on average
MOST_WRONG = 0.25  # of its cells: more would call ordinary cells of narrow tables wrong
RATES = np.geomspace(1e-6, 0.3, 120)  # that a rate is chosen from


class CorruptionPosterior(BackgroundExplainer):
    """P(cell i is wrong | x): the probability that it was corrupted, given the row and a law of clean rows.

    For Gaussian mixtures p(z) is the mixture, and all is in closed form. For any other score exp(−E) takes
    its place, with E(x) = −τ log P(score ≥ s(x)) learned from ordinary rows; each cell is integrated out over
    other values of its column, and `stderr` tells how much half of these values would change. A wrong one is
    drawn from a law `width` times as wide as its column; of a column of a few values, from these.

    Values are probabilities: they do not add up to the score, nor to one, for several cells may be wrong at
    once. `extras["n_wrong"]` holds the probabilities that 0, 1, … cells are wrong: where the last of them is
    large, raise `max_cells`. Where an encoding made several columns from one of the user's, it is wrong if
    any of them is.

    Parameters
    ----------
    model
        A model or function that `tellwhy.scoring.as_score` reads.
    rate
        ρ, the share of cells that are wrong. None: 1.5 cells a row, as is right for rows known to be
        odd. "auto": what the rows given to `fit` are the likeliest under, as is right for rows of a table.
    width
        Standard deviation of wrong values, in standard deviations of the column.
    max_cells
        How many cells may be wrong at once; of scores that are no mixtures, 2 at most.
    n_kept
        Sets of a size from which larger ones are made. Sets of two cells are all weighed where there are at
        most so many columns.
    random_state
        Seed of the cells that are replaced in `fit`, of scores that are no mixtures.
    batch_size, n_jobs
        Rows that the model gets per call, and calls at the same time, as in `AnomalyShapley`.

    Examples
    --------
    >>> from sklearn.mixture import GaussianMixture
    >>> spread = [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]
    >>> X = np.random.default_rng(0).multivariate_normal([0, 0, 0], spread, 500)
    >>> explainer = CorruptionPosterior(GaussianMixture(1).fit(X))
    >>> explainer.explain(np.array([[0.1, 0.0, 6.0], [4.0, 0.2, 0.5]])).values.round(2)
    array([[0.05, 0.05, 1.  ],
           [1.  , 0.09, 0.1 ]])
    """

    kind = "probability"
    leaves_rows_out = True
    calls_in_batches = True
    only_anomalies = True
    needs_rows = False
    least_rows = 20
    _parameters: ClassVar[dict[str, Rules]] = {
        "rate": (none, one_of("auto"), real(0, 0.5)),
        "width": real(0, np.inf),
        "max_cells": integer(1),
        "n_kept": integer(1),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        rate: float | str | None = None,
        width: float = 3.0,
        max_cells: int = 2,
        n_kept: int = 64,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.rate = rate
        self.width = width
        self.max_cells = max_cells
        self.n_kept = n_kept
        self.random_state = random_state
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def learns_from(self, background: object) -> bool:
        """Whether `fit` is to be called: a mixture needs no rows, unless the rate is learned from them."""
        return background is not None or self.rate == "auto" or not _is_mixture(self.score)

    def _fit(self, X: ArrayLike) -> None:
        """Learn energies and values where the score is no mixture, and the rate where it is asked for."""
        rows = self.rows(X)
        if not _is_mixture(rows.score):
            self.scored_cells_ = ScoredCells.learn(rows, self.width, generator(self.random_state))
        if self.rate == "auto":
            weighed, _ = self._weighed(rows)
            self.rate_ = find_likeliest_rate(weighed, rows.n_owners)

    def _attribute(self, rows: Rows) -> Attribution:
        if not _is_mixture(rows.score):
            self._check_fitted("scored_cells_")
        rate = self._choose_rate(rows.n_owners)
        every, half = self._weighed(rows)
        values, n_wrong = probabilities(every, rate)
        stderr = None if half is None else np.abs(values - probabilities(half, rate)[0])
        return Attribution(
            values,
            rows.scores(),
            stderr=stderr,
            extras={"n_wrong": n_wrong},
            params={"rate": rate},
            per_owner=True,
        )

    def _choose_rate(self, n_cells: int) -> float:
        if self.rate is None:
            return min(WRONG_CELLS / n_cells, MOST_WRONG)
        if not isinstance(self.rate, str):
            return float(self.rate)
        self._check_fitted("rate_")
        return self.rate_

    def _weighed(self, rows: Rows) -> tuple[WeighedSets, WeighedSets | None]:
        """Weigh the sets of wrong cells of each row; where values are tried, also with half of them."""
        if not _is_mixture(rows.score):
            refuse_set(self, "n_kept", "Gaussian mixtures, of which it weighs sets in closed form")
            return self.scored_cells_.weighed(rows, most=min(self.max_cells, 2))
        mixture = rows.score.mixture
        cells = MixtureCells(mixture, Slab.around(mixture, self.width))
        parts = []
        for batch in track_batches(
            len(rows.X), cells.bytes_per_row(self.n_kept, self.max_cells), "weighing wrong cells"
        ):
            parts.append(cells.weighed(rows.X[batch], rows.owner, most=self.max_cells, n_kept=self.n_kept))
        return _joined(parts), None


def _is_mixture(score: Any) -> bool:
    """Whether a score is the energy of a Gaussian mixture of the very columns that it sees."""
    if not isinstance(score, HasMixture):
        return False
    found: Any = score
    return bool(found.mixture.means.shape[1:] == tuple(found.feature_shape or ()))


def _joined(parts: list[WeighedSets]) -> WeighedSets:
    return WeighedSets(
        np.concatenate([part.log_totals for part in parts]), np.concatenate([part.shares for part in parts])
    )


def probabilities(weighed: WeighedSets, rate: float) -> tuple[Floats, Floats]:
    """P(cell is wrong | row), shape (n, owners), and P(0, 1, … cells are wrong | row).

    Examples
    --------
    >>> even = WeighedSets(np.zeros((1, 2)), np.array([[[0.75, 0.25]]]))
    >>> probabilities(even, 0.5)[0]
    array([[0.375, 0.125]])
    """
    sizes = np.arange(weighed.log_totals.shape[1])
    n_wrong = softmax(weighed.log_totals + sizes * np.log(rate / (1.0 - rate)), axis=1)
    values = np.einsum("nm,nmi->ni", n_wrong[:, 1:], weighed.shares)
    return np.minimum(values, 1.0), n_wrong


def find_likeliest_rate(weighed: WeighedSets, n_cells: int) -> float:
    """The ρ that makes rows the likeliest: argmax Σ_rows log Σ_A e₀(A) ρ^|A| (1 − ρ)^(d − |A|)."""
    sizes = np.arange(weighed.log_totals.shape[1])
    best = []
    for rate in RATES:
        prior = sizes * np.log(rate) + (n_cells - sizes) * np.log1p(-rate)
        best.append(np.logaddexp.reduce(weighed.log_totals + prior, axis=1).sum())
    return float(RATES[int(np.argmax(best))])


MOST_LEVELS = 24  # different values of a column up to which each is tried
N_VALUES = 49  # values that are tried in another column
N_TOGETHER = 13  # of each of two columns that are tried together
N_PAIRED = 8  # cells whose pairs are tried: those that are the likeliest alone
N_PLANTED = 60  # rows in every other of which a cell is replaced, to learn τ
SHARPNESSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@dataclass(frozen=True)
class TriedValues:
    """Values that are tried in the columns of one owner, their log h(v), and where wrong values come from.

    Wrong values are spread evenly, `scale` to either side of `centre` or as far as the value lies; where
    there is no centre, all values are as likely.
    """

    columns: Integers
    values: Floats  # (n, columns)
    log_widths: Floats
    centre: float | None = None
    scale: float = 1.0

    @classmethod
    def of(cls, X: Floats, columns: Integers, width: float) -> TriedValues:
        """Learn the values of some columns from ordinary rows."""
        cells = X[:, columns]
        different = np.unique(cells, axis=0)
        if len(columns) > 1 or len(different) <= MOST_LEVELS:
            return cls(columns, different, np.zeros(len(different)))
        x = cells[:, 0]
        deviation = float(x.std()) or 1.0
        inner = np.unique(np.quantile(x, np.linspace(0.0, 1.0, N_VALUES - 2)))
        values = np.concatenate([[inner[0] - deviation], inner, [inner[-1] + deviation]])
        return cls(columns, values[:, None], _log_widths(values), float(x.mean()), width * deviation)

    def log_slab(self, cells: Floats) -> Floats:
        """log g of the values that rows have there; shape (rows,)."""
        if self.centre is None:
            return np.full(len(cells), -np.log(len(self.values) + 1.0))
        reach = np.maximum(np.abs(cells[:, 0] - self.centre), self.scale)
        return np.asarray(-np.log(2.0 * reach))

    def drawn(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw wrong values; shape (n, columns)."""
        if self.centre is None:
            return self.values[rng.integers(len(self.values), size=n)]
        return self.centre + self.scale * (2.0 * rng.random((n, 1)) - 1.0)

    def spread(self, n: int) -> Integers:
        """Places of at most n values, spread evenly among them."""
        most = min(n, len(self.values))
        return np.unique(np.linspace(0, len(self.values) - 1, most).round().astype(np.int64))

    def kept(self, places: Integers) -> TriedValues:
        """Some of the values, which stand for all."""
        if len(places) == len(self.values):
            return self
        values = self.values[places]
        if self.centre is None:
            widths = np.full(len(places), np.log(len(self.values) / len(places)))
        else:
            widths = _log_widths(values[:, 0])
        return TriedValues(self.columns, values, widths, self.centre, self.scale)


def _log_widths(values: Floats) -> Floats:
    """log of the width that each value stands for, by the trapezoidal rule."""
    steps = np.diff(values)
    ends = np.concatenate([[0.0], steps])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(0.5 * (ends + np.concatenate([steps, [0.0]]))))


@dataclass(frozen=True)
class ScoredCells:
    """Weighs sets of wrong cells by any score: other values are tried in each cell.

    A score says how odd a row is, not how probable. Its energy is E(x) = −τ log P(score ≥ s(x)) among
    ordinary rows, and exp(−E) takes the place of the density. A wrong cell is integrated out over the values
    of its column:

        e₀({i}) = Σ_v h(v) exp(−E(x with x_i := v)) · g_i(x_i),

    with h(v) = 1 for columns of a few values, and the width of v's stretch (trapezoidal rule) for all others.
    Scores differ in how far they can rise for one cell (a forest's hardly do), so that τ is learned: in some
    ordinary rows one cell is replaced, and the τ wins by which the rows as they are and the replaced cells
    are the likeliest.

    Attributes
    ----------
    surprise
        From scores to −log P(score ≥ s).
    tried
        For each of the user's columns, the values that are tried in it.
    sharpness
        τ.
    """

    surprise: Surprise
    tried: tuple[TriedValues, ...]
    sharpness: float = 1.0

    @classmethod
    def learn(cls, rows: Rows, width: float, rng: np.random.Generator) -> ScoredCells:
        """Learn surprises, values and τ from ordinary rows."""
        groups = [np.flatnonzero(rows.owner == owner) for owner in range(rows.n_owners)]
        tried = tuple(TriedValues.of(rows.X, columns, width) for columns in groups)
        found = cls(Surprise.learn(rows.scores()), tried)
        return replace(found, sharpness=found._choose_sharpness(rows, rng))

    def weighed(self, rows: Rows, *, most: int) -> tuple[WeighedSets, WeighedSets]:
        """Weigh sets of up to `most` (1 or 2) cells; once with all values, once with every other of them.

        How much the two differ tells how good the sums are.
        """
        alone = self._try_alone(rows)
        found = [self._weigh_singles(alone, self.sharpness, is_half=half) for half in (False, True)]
        if most > 1 and len(self.tried) > 1:
            self._weigh_pairs(rows, alone.slab, found)
        return found[0].sets(), found[1].sets()

    def _choose_sharpness(self, rows: Rows, rng: np.random.Generator) -> float:
        """Plant a wrong cell in every other of some rows, and choose the τ that tells them best."""
        chosen = rng.permutation(len(rows.X))[:N_PLANTED]
        X = rows.X[chosen]
        planted = np.arange(len(X)) % 2 == 0
        owners = rng.integers(len(self.tried), size=len(X))
        for place in np.flatnonzero(planted):
            tried = self.tried[owners[place]]
            X[place, tried.columns] = tried.drawn(1, rng)[0]
        left_out = None if rows.left_out is None else rows.left_out[chosen]
        output = None if rows.output is None else rows.output[chosen]
        alone = self._try_alone(replace(rows, X=X, left_out=left_out, output=output))
        gains = []
        for sharpness in SHARPNESSES:
            weights = self._weigh_singles(alone, sharpness)
            truth = np.where(planted, weights.single[np.arange(len(X)), owners], weights.none)
            prior = np.where(planted, -np.log(len(self.tried)), 0.0)  # as often one wrong cell as none
            all_sets = np.logaddexp(weights.none, logsumexp(weights.single, axis=1) - np.log(len(self.tried)))
            gains.append((truth + prior - all_sets).mean())
        return SHARPNESSES[int(np.argmax(gains))]

    def _try_alone(self, rows: Rows) -> _Alone:
        """Try each value in each cell."""
        own = self.surprise.value(rows.scores())
        slab = np.stack([t.log_slab(rows.X[:, t.columns]) for t in self.tried], axis=1)
        every = np.arange(len(rows.X))
        return _Alone(own, slab, [self._surprises(rows, every, t.columns, t.values) for t in self.tried])

    def _weigh_singles(self, alone: _Alone, sharpness: float, *, is_half: bool = False) -> _Weights:
        """log e₀ of no cell and of each, by all values or by every other of them."""
        sums = []
        for tried, found in zip(self.tried, alone.surprises, strict=True):
            kept = tried.spread(len(tried.values) // 2 + 1) if is_half else np.arange(len(tried.values))
            sums.append(logsumexp(tried.kept(kept).log_widths - sharpness * found[:, kept], axis=1))
        return _Weights(-sharpness * alone.own, np.stack(sums, axis=1) + alone.slab)

    def _weigh_pairs(self, rows: Rows, slab: Floats, found: list[_Weights]) -> None:
        """Weigh the pairs of the cells that are the likeliest alone, row by row of the same pair together."""
        likely = np.argsort(-found[0].single, axis=1, kind="stable")[:, :N_PAIRED]
        is_likely = np.zeros(found[0].single.shape, dtype=bool)
        np.put_along_axis(is_likely, likely, values=True, axis=1)
        for i, j in combinations(range(len(self.tried)), 2):
            chosen = np.flatnonzero(is_likely[:, i] & is_likely[:, j])
            if len(chosen):
                for part, n in enumerate((N_TOGETHER, N_TOGETHER // 2 + 1)):
                    one, other = (tried.kept(tried.spread(n)) for tried in (self.tried[i], self.tried[j]))
                    sums = self._together(rows, chosen, one, other)
                    found[part].add_pair(i, j, chosen, sums + slab[chosen, i] + slab[chosen, j])

    def _together(self, rows: Rows, chosen: Integers, one: TriedValues, other: TriedValues) -> Floats:
        first = np.repeat(np.arange(len(one.values)), len(other.values))
        second = np.tile(np.arange(len(other.values)), len(one.values))
        values = np.concatenate([one.values[first], other.values[second]], axis=1)
        columns = np.concatenate([one.columns, other.columns])
        energies = self.sharpness * self._surprises(rows, chosen, columns, values)
        return np.asarray(logsumexp(one.log_widths[first] + other.log_widths[second] - energies, axis=1))

    def _surprises(self, rows: Rows, chosen: Integers, columns: Integers, values: Floats) -> Floats:
        """Surprise of chosen rows with other values in some columns; shape (chosen, values)."""
        found = np.empty((len(chosen), len(values)))
        per_row = 8 * rows.X.shape[1] * len(values) * 3
        for batch in track_batches(len(chosen), per_row, "trying other values"):
            X = np.repeat(rows.X[chosen[batch]], len(values), axis=0)
            X[:, columns] = np.tile(values, (len(chosen[batch]), 1))
            own = tuple(np.repeat(points[chosen[batch]], len(values)) for points in rows.without)
            scores = np.asarray(rows.score.value(X, *own))
            found[batch] = self.surprise.value(scores).reshape(-1, len(values))
        return found


@dataclass(frozen=True)
class _Alone:
    """Surprise of the rows, log g of their cells, and surprise with each value in each cell."""

    own: Floats
    slab: Floats
    surprises: list[Floats]


class _Weights:
    """log e₀ of no cell, of single cells (n, owners), and of pairs as they are added."""

    def __init__(self, none: Floats, single: Floats):
        self.none = none
        self.single = single
        self.pairs = np.full(len(none), -np.inf)  # all pairs of a row together
        self.of_owner = np.full(single.shape, -np.inf)  # the pairs that hold a cell

    def add_pair(self, i: int, j: int, chosen: Integers, log_weights: Floats) -> None:
        self.pairs[chosen] = np.logaddexp(self.pairs[chosen], log_weights)
        for owner in (i, j):
            self.of_owner[chosen, owner] = np.logaddexp(self.of_owner[chosen, owner], log_weights)

    def sets(self) -> WeighedSets:
        singles = logsumexp(self.single, axis=1)
        totals = [self.none, singles]
        shares = [np.exp(self.single - singles[:, None])]
        if np.isfinite(self.pairs).any():
            totals.append(self.pairs)
            shares.append(np.exp(self.of_owner - np.where(np.isfinite(self.pairs), self.pairs, 0.0)[:, None]))
        return WeighedSets(np.stack(totals, axis=1), np.stack(shares, axis=1))
