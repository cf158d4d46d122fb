"""Relevance of each column for a score made of distances, and what is usual of it: One-Class DTD's formulas.

Kauffmann, Müller and Montavon, Pattern Recognition 101 (2020), equation 6. The explainer `OneClassDTD` shows
it; detectors choose their bandwidth by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.core.score_function import CentreDistance, Floats, Integers, NeighbourDistance
from tellwhy.scoring.scores._compiled import spread_over_features
from tellwhy.scoring.scores.distance_score import CentreScore, NeighbourScore
from tellwhy.scoring.scores.kernel_score import KernelScore

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


def usual_relevance(values: Floats, scores: Floats) -> Floats:
    """Return the relevance that each column usually has: its mean over ordinary rows, plus a little.

    Ordinary are the nine tenths that score lowest: anomalies among the rows a model learned from would hide
    the columns they are odd in. A tenth of the average column's relevance is added to each, so that a column
    that was (almost) constant does not outweigh all others as soon as it moves at all.

    Examples
    --------
    >>> usual_relevance(np.array([[1.0, 3.0], [1.0, 5.0]]), np.array([4.0, 4.0]))
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
