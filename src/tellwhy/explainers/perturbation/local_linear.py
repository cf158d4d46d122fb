"""Weighted ridge regression on which pieces of an input were kept: the model that LIME fits around a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tellwhy.core.score_function import Floats


@dataclass(frozen=True)
class LocalModel:
    """f(z) ≈ intercept + Σ_j coefficients_j z_j for masks z; `errors` are standard errors of coefficients."""

    coefficients: Floats
    intercept: float
    errors: Floats


def proximity(masks: Floats, width: float) -> Floats:
    """Weight of each mask, sqrt(exp(−D²/width²)) with D the cosine distance from the mask that keeps all.

    Examples
    --------
    >>> proximity(np.array([[1.0, 1.0], [1.0, 0.0]]), 0.25).round(3)
    array([1.   , 0.503])
    """
    kept = masks.mean(axis=1)
    distance = 1.0 - np.sqrt(kept)
    return np.exp(-0.5 * np.square(distance / width))


@dataclass(frozen=True)
class Design:
    """Masks and their weights, prepared for many regressions on the same masks.

    Ridge regression without a penalty on the intercept: masks are centred by their weighted means, and
    `solver` maps centred, weighted outputs to coefficients.
    """

    masks: Floats  # (samples, pieces)
    weights: Floats  # (samples,)
    means: Floats  # (pieces,)
    solver: Floats  # (pieces, samples)

    @property
    def is_complete(self) -> bool:
        """Whether these are all masks there are."""
        return len(self.masks) == 2.0 ** self.masks.shape[1]

    @classmethod
    def of(cls, masks: Floats, weights: Floats, alpha: float) -> Design:
        """Prepare masks for a penalty alpha."""
        means = weights @ masks / weights.sum()
        centred = masks - means
        weighted = centred * weights[:, None]
        normal = centred.T @ weighted
        normal[np.diag_indices_from(normal)] += alpha
        return cls(masks, weights, means, np.linalg.solve(normal, weighted.T))

    def fit(self, outputs: Floats) -> LocalModel:
        """Fit the outputs of random masks."""
        found = self._coefficients(outputs[None])[0]
        intercept = self._intercepts(outputs[None], found[None])[0]
        misfit = outputs - intercept - self.masks @ found
        # What each sample adds to the coefficients, times its misfit: holds whatever the noise looks like.
        errors = np.sqrt(np.square(self.solver * misfit).sum(axis=1))
        return LocalModel(found, float(intercept), errors)

    def fit_each(self, outputs: Floats) -> LocalModel:
        """Mean of the fits to outputs (r, samples) of all masks, one row for each way to replace pieces.

        Standard errors are those of the mean over these ways; nothing else is left to chance.
        """
        found = self._coefficients(outputs)
        intercepts = self._intercepts(outputs, found)
        n = len(outputs)
        errors = found.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(found.shape[1])
        return LocalModel(found.mean(axis=0), float(intercepts.mean()), errors)

    def _levels(self, outputs: Floats) -> Floats:
        return np.asarray(outputs @ self.weights / self.weights.sum())

    def _coefficients(self, outputs: Floats) -> Floats:
        return np.asarray((outputs - self._levels(outputs)[:, None]) @ self.solver.T)

    def _intercepts(self, outputs: Floats, coefficients: Floats) -> Floats:
        return np.asarray(self._levels(outputs) - coefficients @ self.means)


def all_masks(n_pieces: int) -> Floats:
    """Every mask, the one that keeps everything first."""
    numbers = np.arange(2**n_pieces)[::-1, None]
    return ((numbers >> np.arange(n_pieces)) & 1).astype(np.float64)


def random_masks(n_samples: int, n_pieces: int, seed: int) -> Floats:
    """Masks of zeros and ones, each with probability ½; the first keeps everything."""
    masks = np.random.default_rng(seed).integers(0, 2, size=(n_samples, n_pieces)).astype(np.float64)
    masks[0] = 1.0
    return masks


@lru_cache(maxsize=8)
def design(n_samples: int, n_pieces: int, width: float, alpha: float, seed: int) -> Design:
    """Masks, prepared: all of them where that are no more than the samples, random ones elsewhere.

    Inputs with as many pieces share them.
    """
    few = n_pieces < 31 and 2**n_pieces <= n_samples
    masks = all_masks(n_pieces) if few else random_masks(n_samples, n_pieces, seed)
    return Design.of(masks, proximity(masks, width), alpha)
