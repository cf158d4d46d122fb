"""A linear model of the score around each row, fitted to perturbations of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dsyrk

from tellwhy.core.arrays import ColumnSpread
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Fit, Rules, Seed, generator, integer, one_of, real, seed
from tellwhy.core.running import cut_batches, track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows


class AnomalyContribution(BackgroundExplainer):
    """R_i = w_i (x_i − μ_i) with o(z) ≈ b + Σ_i w_i (z_i − μ_i) for rows z around x.

    This is the anomaly contribution explainer, ACE: a linear model that imitates the score near the row.
    Neighbours z = x ± s ⊙ ξ have normal noise ξ of the given width in units of the background's standard
    deviations s, and count with weight exp(−‖ξ‖² / (¾√d)). At the background's mean μ the linear model has
    the least score b of the background rows, so that contributions add up to how much more odd the row is
    than the most ordinary one; what the model misses at the row itself is the residual. (The publication
    takes b = 0, which makes contributions depend on constants in the score, and shows log(1 + exp R_i), which
    has the same order.)

    All rows share their noise, and each noise vector is used with both signs, so a quadratic score has an
    exact slope; `stderr` is the spread of the values over draws of that noise, somewhat overstated for such
    scores. Rows that a kernel model was trained on are left out of it, as in `OneClassDTD`.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads.
    n_samples
        Neighbours per row; "auto": 4 per column, at least 256 and (for many columns) at most 2 per
        column and 2048.
    width
        Standard deviation of the noise, in standard deviations of the background. Scores made of steps, like
        those of forests, need a larger one.
    random_state
        Seed of the noise.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Examples
    --------
    >>> background = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = AnomalyContribution(lambda X: (X**2).sum(axis=1)).fit(background)
    >>> explainer.explain(np.array([[1.0, 5.0]])).values.round()
    array([[ 1., 25.]])
    """

    leaves_rows_out = True
    calls_in_batches = True
    only_anomalies = True
    least_rows = 2
    _parameters: ClassVar[dict[str, Rules]] = {
        "n_samples": (one_of("auto"), integer(4)),
        "width": real(0, np.inf),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        n_samples: int | str = "auto",
        width: float = 0.1,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.n_samples = n_samples
        self.width = width
        self.random_state = random_state

    def _fit(self, X: ArrayLike) -> None:
        """Learn means, standard deviations and the least score of background rows, and draw the noise."""
        rows = self.rows(X)
        spread = ColumnSpread.of(rows.X)
        self.mean_ = spread.mean
        self.scale_ = spread.deviation
        self.least_ = float(rows.scores().min())
        d = rows.X.shape[1]
        self.neighbours_ = Neighbours.draw(self._count_pairs_of_noise(d), d, self.width, self.random_state)

    def _count_pairs_of_noise(self, d: int) -> int:
        if isinstance(self.n_samples, str):
            return max(128, min(2 * d, d + 1024))
        if self.n_samples < 2 * (d + 2):
            raise InvalidParameter(
                f"The 'n_samples' parameter of AnomalyContribution must be at least {2 * (d + 2)} for {d} "
                "columns: a linear model of them is to be fitted. "
                f"Got {self.n_samples} instead; n_samples='auto' fits."
            )
        return int(self.n_samples) // 2

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("neighbours_")
        neighbours = self.neighbours_
        n, d = rows.X.shape
        values = np.empty((n, d))
        stderr = np.empty((n, rows.n_owners))
        per_row = 8 * (3 * d + 8) * len(neighbours.noise)
        for batch in track_batches(n, per_row, "explaining by perturbation"):
            X = rows.X[batch]
            others = tuple(points[batch] for points in rows.without)
            # a constant column has no deviation: how far the row is from the constant is its only unit
            scale = np.where(self.scale_ > 0, self.scale_, np.abs(X - self.mean_))
            up = self._score_perturbed(rows.score, X, scale, others) - self.least_
            down = self._score_perturbed(rows.score, X, -scale, others) - self.least_
            position = np.divide(X - self.mean_, scale, out=np.zeros_like(X), where=scale > 0)
            fitted = neighbours.fit(position, up, down)
            values[batch] = fitted.slopes * position
            stderr[batch] = neighbours.standard_errors(fitted, position, rows.owner, rows.n_owners)
        return Attribution(values, rows.scores(), self.least_, stderr)

    def _score_perturbed(self, score: Any, X: Floats, scale: Floats, others: tuple[Integers, ...]) -> Floats:
        """Score of each row moved by each noise vector, shape (rows, pairs).

        `others` are further arguments of the score, one entry per row.
        """
        noise = self.neighbours_.noise
        found = np.empty((len(X), len(noise)))
        for pairs in cut_batches(len(noise), 24 * X.size):
            moved = X[:, None, :] + scale[:, None, :] * noise[pairs]
            repeated = tuple(np.repeat(other, moved.shape[1]) for other in others)
            found[:, pairs] = score.value(moved.reshape(-1, X.shape[1]), *repeated).reshape(len(X), -1)
        return found


@dataclass(frozen=True)
class Neighbours:
    """Noise δ_p around a row and its weights π_p, of mean 1: Σ_p π_p δ_p δ_pᵀ / Σ_p π_p = width² I exactly.

    Weighted least squares on the neighbours a ± δ_p of a row at a (all in standard deviations from the mean)
    then has the normal matrix 2 Σ_p π_p (width² I + aaᵀ), which is inverted in closed form.
    """

    noise: Floats  # (pairs, d)
    weights: Floats  # (pairs,)
    width: float

    @classmethod
    def draw(cls, n_pairs: int, d: int, width: float, random_state: Seed) -> Neighbours:
        """Draw normal noise, and bring it to the exact second moments by a Cholesky factor of its own."""
        noise = generator(random_state).normal(size=(n_pairs, d))
        noise *= width
        exponent = np.einsum("pi,pi->p", noise, noise) / (0.75 * np.sqrt(d))
        # relative to the nearest neighbour: with many columns every exp(−exponent) would underflow
        weights = np.exp(exponent.min() - exponent)
        weights /= weights.mean()
        parts = cut_batches(n_pairs, 32 * d)
        moments = np.zeros((d, d), order="F")
        for pairs in parts:  # in place throughout: with 10,000 columns a second copy would not fit
            weighted = noise[pairs].T * np.sqrt(weights[pairs] / n_pairs)
            moments = dsyrk(1.0, weighted, 1.0, moments, lower=1, overwrite_c=1)
        lower = cholesky(moments, lower=True, overwrite_a=True, check_finite=False)
        for pairs in parts:
            noise[pairs] = width * solve_triangular(lower, noise[pairs].T, lower=True, check_finite=False).T
        return cls(noise, weights, width)

    def fit(self, position: Floats, up: Floats, down: Floats) -> Fitted:
        """Fit the slopes of each row to the scores of its neighbours a + δ and a − δ.

        Given the exact moments, the draw enters only through the slopes of a model with a free intercept and
        through the mean score of the neighbours: what each pair adds to these two is its part in the error.
        """
        odd = (up - down) / 2  # what changes sign with the noise: the slope
        even = (up + down) / 2  # what does not: the level, and curvature
        free = (odd * self.weights) @ self.noise / (len(self.noise) * self.width**2)
        level = (even * self.weights).mean(axis=1)
        # the intercept is not free but b at the mean, which pulls the fit along the row's own direction
        pull = position / (self.width**2 + np.einsum("ni,ni->n", position, position))[:, None]
        slopes = free + (level - np.einsum("ni,ni->n", free, position))[:, None] * pull
        across = (odd - free @ self.noise.T) * self.weights / self.width**2
        along = (even - level[:, None]) * self.weights - across * (position @ self.noise.T)
        return Fitted(slopes, pull, along, across)

    def standard_errors(self, fitted: Fitted, position: Floats, owner: Integers, n_owners: int) -> Floats:
        """Standard error of Σ a_i w_i over the columns of each owner, from what each pair adds to it."""
        n_pairs, d = self.noise.shape
        variance = np.zeros((len(position), n_owners))
        for column in range(n_owners):
            mine = owner == column
            if mine.any():
                reach = np.einsum("ni,ni->n", position[:, mine], fitted.pull[:, mine])[:, None]
                influence = fitted.along * reach + fitted.across * (position[:, mine] @ self.noise[:, mine].T)
                variance[:, column] = np.einsum("np,np->n", influence, influence)
        return np.asarray(np.sqrt(variance / (n_pairs * (n_pairs - d))))

    def _require(self) -> Iterator[Fit]:
        yield "weights", self.weights.shape, self.noise.shape[:1]


@dataclass(frozen=True)
class Fitted:
    """Slopes per standard deviation; what pair p adds to their error is along[p]·pull + across[p]·δ_p."""

    slopes: Floats  # (rows, d)
    pull: Floats  # (rows, d)
    along: Floats  # (rows, pairs)
    across: Floats  # (rows, pairs)
