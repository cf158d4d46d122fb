"""P(cell i is wrong | row): which cell is to blame, by the probability that it was corrupted.

A clean row is drawn from p(z). Each cell is corrupted with probability ρ, independently of the others; a
corrupted one is replaced by a draw from g_i. Of a set A of corrupted cells,

    P(A | x) ∝ e₀(A) (ρ/(1 − ρ))^|A|,   e₀(A) = p(x₋A) Π_{i∈A} g_i(x_i),
    P(cell i is wrong | x) = Σ_{A∋i} P(A | x).

Where e₀ comes from stands in `mixture_cells` (closed form) and in `scored_cells` (any score).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from tellwhy.core.params import Rules, Seed, generator, integer, none, one_of, real, seed
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, HasMixture
from tellwhy.explainers.base import BackgroundExplainer, refuse_set
from tellwhy.explainers.corruption.mixture_cells import MixtureCells, Slab, WeighedSets
from tellwhy.explainers.corruption.scored_cells import ScoredCells
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows

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
            self.rate_ = likeliest_rate(weighed, rows.n_owners)

    def _attribute(self, rows: Rows) -> Attribution:
        if not _is_mixture(rows.score):
            self._check_fitted("scored_cells_")
        rate = self._used_rate(rows.n_owners)
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

    def _used_rate(self, n_cells: int) -> float:
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


def likeliest_rate(weighed: WeighedSets, n_cells: int) -> float:
    """The ρ that makes rows the likeliest: argmax Σ_rows log Σ_A e₀(A) ρ^|A| (1 − ρ)^(d − |A|)."""
    sizes = np.arange(weighed.log_totals.shape[1])
    best = []
    for rate in RATES:
        prior = sizes * np.log(rate) + (n_cells - sizes) * np.log1p(-rate)
        best.append(np.logaddexp.reduce(weighed.log_totals + prior, axis=1).sum())
    return float(RATES[int(np.argmax(best))])
