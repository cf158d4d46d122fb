"""Energies of training rows as if each were new: under the mixture re-estimated without it."""

from __future__ import annotations

import numpy as np

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats
from tellwhy.scoring import MixtureScore
from tellwhy.scoring.scores.mixture_score import log_sum

_LEAST_SHRINKAGE = 1e-9  # a row that holds a component alone would have an infinite distance without it
_LEAST_COUNT = 1e-6  # rows that a component must still have without the row that is left out


def left_out_energies(score: MixtureScore, X: Floats, n_training: int) -> Floats:
    """Energy of each training row under the mixture as it would be without that row.

    Weights, means and covariances are estimated again without the row, while the shares r of the other rows
    in the components stay as they are. That changes each covariance by a matrix of rank one, so that nothing
    has to be fitted again: with N_k = Σ r and N′ = N_k − r_ik, the row's squared distance q in component k
    becomes (N_k/N′)·q/(1 − r q/N′), and the determinant gains the factor (N_k/N′)^d (1 − r q/N′).
    """
    energies = np.empty(len(X))
    for rows in tracked_batches(
        len(X), 16 * X.shape[1] * (len(score.log_peaks) + 2), "scoring training rows"
    ):
        energies[rows] = _left_out_batch(score, X[rows], n_training)
    return energies


def _left_out_batch(score: MixtureScore, X: Floats, n_training: int) -> Floats:
    squares = [Y**2 for Y in score.whitened(X)]
    totals = np.stack([square.sum(axis=1) for square in squares], axis=1)
    log_terms = score.log_peaks - 0.5 * totals
    shares = np.exp(log_terms - log_sum(log_terms)[:, None])
    left_out = np.empty_like(log_terms)
    for k, share in enumerate(shares.T):
        # N_k is at least the row's own share, whatever the rounding of the weights says.
        count = np.maximum(np.exp(score.parts.log_weights[k]) * n_training, share)
        # Diagonal covariances change column by column, full ones as a whole.
        square = squares[k] if score.parts.factors.ndim == 2 else totals[:, [k]]
        term = _log_term_without(square, share, count, n_training, X.shape[1])
        left_out[:, k] = score.log_peaks[k] - score.parts.log_weights[k] + term
    return -log_sum(left_out)


def _log_term_without(squares: Floats, share: Floats, count: Floats, n_training: int, d: int) -> Floats:
    """log π′ and the exponent of N(x; μ′, Σ′), relative to the peak of the component with the row."""
    rest = count - share
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = count / rest
        shrunk = np.maximum(1.0 - share[:, None] * squares / rest[:, None], _LEAST_SHRINKAGE)
        distance = grown * (squares / shrunk).sum(axis=1)
        log_volume = d * np.log(grown) + np.log(shrunk).sum(axis=1)
        term = np.log(rest / (n_training - 1)) - 0.5 * (distance + log_volume)
    return np.where(rest > _LEAST_COUNT, term, -np.inf)  # a component that was this row alone is gone
