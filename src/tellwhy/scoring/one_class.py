"""One-class models in the paper's order: inlierness g, outlierness o, its shares p_j, and relevance R_i.

Outlierness is a soft minimum over distances r_j = ‖x − u_j‖ to support points with weights α_j, in log space
(equations 1 and 2), where g(x) = Σ_j α_j k(r_j):

    exponential   o(x) = −log g(x)     h_j = −log α_j + (r_j/σ)^q/q     pooled by −logsumexp(−h)
    t-Student     o(x) = m / g(x)      h_j = (a + (r_j/σ)^q)/α_j        pooled by the harmonic mean

A support point's share is p_j = α_j k(r_j)/g (equations 3 to 5, `KernelScore.pooled`). Its relevance Δ_j goes
to the columns in proportion to their squared distance, R_i = Σ_j Δ_j (x_i − u_ji)²/r_j² (equation 6,
`relevance`); Δ_j stands in `_compiled_one_class`. What is usual of a column: `measure_usual_relevance`. The
explainer `OneClassDTD` shows R; detectors choose their bandwidth by it.

A row that the model was trained on is a support point itself: at distance 0 it takes nearly the whole share,
and o would be small however odd the row is. Such a row i does without its point (`match` finds it, `left_out`
names it), and the other weights become α_j/(1 − α_i): in log space, o + log(1 − α_i).

Kauffmann, Müller and Montavon, Pattern Recognition 101 (2020) 107198.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.running import track_batches
from tellwhy.core.score import CentreDistance, Floats, Integers, KernelExpansion, NeighbourDistance
from tellwhy.kernels.distances import ScaledPoints
from tellwhy.kernels.radial import Exponential, StudentT
from tellwhy.scoring import _compiled_one_class as _compiled
from tellwhy.scoring._compiled_one_class import spread_over_features
from tellwhy.scoring.distance_scores import CentreScore, NeighbourScore, find_matching_points

MODES = {
    "score": _compiled.SCORE,
    "shares": _compiled.SHARES,
    "relevance": _compiled.RELEVANCE,
    "gradient": _compiled.GRADIENT,
}
LABELS = {
    "score": "scoring rows",
    "shares": "explaining rows by support points",
    "relevance": "explaining rows",
    "gradient": "computing gradients",
}


@dataclass(frozen=True)
class PooledBatch:
    """One batch of rows.

    Attributes
    ----------
    rows
        Where it is among all rows.
    scaled
        The rows in the coordinates of `KernelScore.points`.
    outlierness
        Of each row, without the offset.
    coefficients
        One per row and support point: what the mode asked for.
    attributed
        In mode "relevance" the part of each row's outlierness that its support points got.
    """

    rows: slice
    scaled: Floats
    outlierness: Floats
    coefficients: Floats
    attributed: Floats


def pool(expansion: KernelExpansion, S: Floats, left_out: Integers, mode: str) -> tuple[Floats, Floats]:
    """Pool the scaled squared distances S of some rows, overwriting them: outlierness, and its shares."""
    weights = expansion.weights
    kernel = expansion.kernel
    asked = MODES[mode]
    found = (np.empty(len(S)), np.zeros(len(S)))
    if isinstance(kernel, Exponential):
        _compiled.pool_exponential(S, weights, float(kernel.q), left_out, asked, *found)
    elif isinstance(kernel, StudentT):
        factor = find_student_factor(expansion, left_out)
        shape = (float(kernel.q), float(kernel.a))
        _compiled.pool_student(S, weights, *shape, factor, left_out, asked, *found)
    else:
        raise UnsupportedModel(
            f"Expansions have an Exponential or StudentT kernel; got {type(kernel).__name__}."
        )
    return found


def find_student_factor(expansion: KernelExpansion, left_out: Integers) -> Floats:
    """Return the factor m of each row's t-Student outlierness: the number of its support points, or 1."""
    if expansion.scale == "one":
        return np.ones(len(left_out))
    return np.asarray(len(expansion.weights) - (left_out >= 0), dtype=np.float64)


class KernelScore:
    """The outlierness of a `KernelExpansion` as a score function, plus a constant `offset`."""

    def __init__(
        self,
        expansion: KernelExpansion,
        *,
        feature_names: Sequence[str] | None = None,
        describes: str = "",
        threshold: float | None = None,
        offset: float = 0.0,
    ):
        self.expansion = expansion
        self.feature_shape = expansion.points.shape[1:]
        self.feature_names = feature_names
        self.threshold = threshold
        self.offset = offset
        formula = "−log g(x)" if isinstance(expansion.kernel, Exponential) else "m/g(x)"
        self.describes = describes or f"outlierness o(x) = {formula} of a kernel expansion"

    @cached_property
    def points(self) -> ScaledPoints:
        """Support points in the coordinates all distances are computed in."""
        return ScaledPoints.of(self.expansion.points, self.expansion.kernel.bandwidth)

    @cached_property
    def coordinates_and_squares(self) -> Floats:
        """[V, V²] of the scaled support points V, shape (m, 2d)."""
        return np.hstack([self.points.scaled, self.points.scaled**2])

    def base_values(self, left_out: Integers) -> Floats:
        """Return the smallest score there is for each row: the offset, and m·a more for t-Student kernels."""
        kernel = self.expansion.kernel
        if isinstance(kernel, StudentT):
            return kernel.a * find_student_factor(self.expansion, left_out) + self.offset
        return np.full(len(left_out), self.offset)

    def inlierness_of(self, outlierness: Floats, left_out: Integers) -> Floats:
        """Return g(x) for outlierness without the offset: exp(−o), or m/o for t-Student kernels."""
        if isinstance(self.expansion.kernel, StudentT):
            return find_student_factor(self.expansion, left_out) / outlierness
        return np.asarray(np.exp(-outlierness))

    def value(self, X: Any, left_out: Integers | None = None) -> Floats:
        """Outlierness of each row; `left_out[i]` is a support point that row i does without, −1 for none."""
        X = as_floats(X, n_columns=self.feature_shape[0])
        scores = np.empty(len(X))
        for batch in self.pooled(X, "score", left_out):
            scores[batch.rows] = batch.outlierness
        return scores + self.offset

    def gradient(self, X: Any, left_out: Integers | None = None) -> Floats:
        """∂o/∂x: Σ_j p_j s_j^(q/2−1) (x − u_j)/σ² for exponential kernels."""
        X = as_floats(X, n_columns=self.feature_shape[0])
        slopes = np.empty_like(X)
        for batch in self.pooled(X, "gradient", left_out):
            # Σ_j c_j (z − v_j) = z Σ_j c_j − Σ_j c_j v_j: a matrix product instead of all differences.
            pull = batch.coefficients @ self.points.scaled
            slopes[batch.rows] = batch.scaled * batch.coefficients.sum(axis=1, keepdims=True) - pull
        return slopes / self.expansion.kernel.bandwidth

    @property
    def remembered(self) -> KernelExpansion:
        """The points that training rows are left out of."""
        return self.expansion

    def match(self, X: Any) -> Integers:
        """Index of the support point that each row is (the row was trained on), or −1."""
        return self.leave_some(find_matching_points(as_floats(X), self.expansion))

    def leave_some(self, left_out: Integers) -> Integers:
        """Leave nothing out of a model that would have no weight left."""
        emptied = self.expansion.weights[np.maximum(left_out, 0)] > 1 - 1e-12
        return np.where(emptied, -1, left_out)

    def pooled(self, X: Floats, mode: str, left_out: Integers | None = None) -> Iterator[PooledBatch]:
        """Pool batches of rows; coefficients are what `mode` asks for (see `_compiled`)."""
        m, d = self.expansion.points.shape
        nothing = np.full(len(X), -1, dtype=np.int64)
        skip = nothing if left_out is None else self.leave_some(np.asarray(left_out, np.int64))
        for rows in track_batches(len(X), 8 * (m + 4 * d), LABELS[mode]):
            Z = self.points.rescale(X[rows])
            S = self.points.squared_distances(Z)
            outlierness, attributed = pool(self.expansion, S, skip[rows], mode)
            if not np.isfinite(outlierness).all():
                self._raise_overflow(rows.start + int(np.argmin(np.isfinite(outlierness))))
            yield PooledBatch(rows, Z, outlierness, S, attributed)

    def _raise_overflow(self, row: int) -> None:
        raise InvalidInput(
            f"Row {row} of X is too far from the model for a finite score: its distance, divided by the "
            f"bandwidth ({self.expansion.kernel.bandwidth:g}) and raised to q = {self.expansion.kernel.q:g}, "
            "overflows. Scale the columns, or use a larger bandwidth (bandwidth='auto' follows the data)."
        )


ORDINARY_SHARE = 0.9  # of the rows that a model learned from, those that score lowest
LEAST_USUAL = 0.1  # of the average column's relevance, added to each column's: a constant column has none
_DIGITS_KEPT = 1e-9  # relative error above which relevance is computed again, slowly and exactly


def relevance(score: Any, X: Floats, left_out: Integers) -> tuple[Floats, Floats]:
    """Return the relevance of each cell, and the score of each row.

    The score has an `expansion`; row i does without its point `left_out[i]`, −1 for none.
    """
    if isinstance(score.expansion, CentreDistance):
        return _of_centre(score, X)
    if isinstance(score.expansion, NeighbourDistance):
        return _of_neighbours(score, X, left_out)
    return _of_kernel(score, X, left_out)


def measure_usual_relevance(values: Floats, scores: Floats) -> Floats:
    """Return the relevance that each column usually has: its mean over ordinary rows, plus a little.

    Ordinary are the nine tenths that score lowest: anomalies among the rows a model learned from would hide
    the columns they are odd in. A tenth of the average column's relevance is added to each, so that a column
    that was (almost) constant does not outweigh all others as soon as it moves at all.

    Examples
    --------
    >>> measure_usual_relevance(np.array([[1.0, 3.0], [1.0, 5.0]]), np.array([4.0, 4.0]))
    array([1.25, 4.25])
    """
    mean = values[scores <= np.quantile(scores, ORDINARY_SHARE)].mean(axis=0)
    usual = mean + LEAST_USUAL * mean.mean()
    return np.where(usual > 0, usual, 1.0)  # no row of all had any relevance: then nothing is usual


def _of_kernel(score: KernelScore, X: Floats, left_out: Integers) -> tuple[Floats, Floats]:
    """R = x²·Σ_j w_j − 2x⊙(w U) + w U² with w_j = Δ_j / r_j²: two matrix products per batch."""
    n, d = X.shape
    values = np.empty((n, d))
    scores = np.empty(n)
    for batch in score.pooled(X, "relevance", left_out):
        W = batch.coefficients  # (rows, points)
        Z = batch.scaled  # (rows, d), in units of the bandwidth from the middle of the points
        sums = W @ score.coordinates_and_squares
        weight = W.sum(axis=1)
        found = Z * (Z * weight[:, None] - 2.0 * sums[:, :d]) + sums[:, d:]
        norms = np.einsum("ij,ij->i", Z, Z)
        # The three terms nearly cancel where a row is near its points and both are far from the origin. Where
        # their rounding error is no longer small beside the sum, the sum is taken over differences instead.
        error = 16 * np.finfo(float).eps * (weight * norms + W @ score.points.squared_norms)
        lost = np.flatnonzero(error > _DIGITS_KEPT * batch.attributed)
        if len(lost):
            exact = np.empty((len(lost), d))
            spread_over_features(Z[lost], score.points.scaled, W[lost], exact)
            found[lost] = exact
        values[batch.rows] = np.maximum(found, 0.0, out=found)  # −0 and rounding below it
        scores[batch.rows] = batch.outlierness
    return values, scores + score.offset


def _of_neighbours(score: NeighbourScore, X: Floats, left_out: Integers) -> tuple[Floats, Floats]:
    """R_i = (1/k) Σ_j (x_i − u_ji)² / r_j over the k nearest points."""
    index, distance = score.neighbours(X, left_out)
    values = np.zeros_like(X)
    for j, r in zip(index.T, distance.T, strict=True):
        difference = X - score.expansion.points[j]
        # divided before it is squared, so that 1e200 does not overflow; equal rows have nothing to share
        values += difference * (difference / np.where(r > 0, r, np.inf)[:, None])
    return values / score.expansion.n_neighbours, distance.mean(axis=1)


def _of_centre(score: CentreScore, X: Floats) -> tuple[Floats, Floats]:
    """R_i = (x_i − c_i)² for the nearest centre."""
    values = (X - score.nearest(X)) ** 2
    return values, values.sum(axis=1)
