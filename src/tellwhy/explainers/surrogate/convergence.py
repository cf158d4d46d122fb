"""Whether chains agree: split-R̂ and effective sample size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats

R_HAT = 1.1  # chains agree below this
GOAL = 1.05  # chains that may go on do so until they agree this well


@dataclass(frozen=True)
class Convergence:
    """Split-R̂ and effective sample size of what is reported: none of it depends on the components' labels.

    Attributes
    ----------
    r_hat, ess
        One number per quantity, by name.
    """

    r_hat: dict[str, float]
    ess: dict[str, float]

    @property
    def worst_r_hat(self) -> float:
        """Largest split-R̂."""
        return max(self.r_hat.values())

    @property
    def least_ess(self) -> float:
        """Smallest effective sample size."""
        return min(self.ess.values())

    def words(self) -> str:
        """Both in a few words."""
        return f"R̂ ≤ {self.worst_r_hat:.2f}, effective draws ≥ {self.least_ess:.0f}"


def split_r_hat(draws: Floats) -> Floats:
    """Split-R̂ of draws (chains, draws, …): √(pooled variance / mean variance within half chains).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> float(split_r_hat(rng.normal(size=(4, 500))).round(1))
    1.0
    >>> bool(split_r_hat(rng.normal(size=(2, 500)) + np.array([[0.0], [3.0]])) > 2)
    True
    """
    # Halves of a chain that drifts differ as two chains would.
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    pooled = within * (half - 1) / half + between
    constant = pooled <= 1e-20 * (1.0 + parts.mean(axis=(0, 1)) ** 2)  # varies by rounding errors at most
    return np.asarray(np.where(constant, 1.0, np.sqrt(pooled / np.where(within > 0, within, 1e-300))))


def effective_draws(draws: Floats) -> Floats:
    """Effective number of independent draws among (chains, draws, …), by Geyer's initial monotone sequence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> int(effective_draws(rng.normal(size=(4, 500))).round(-3))
    2000
    """
    chains, n = draws.shape[:2]
    flat = draws.reshape(chains, n, -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    # All autocovariances at once; twice the length, so that the end does not wrap around to the start.
    spectrum = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1.0)
    between = flat.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else 0.0  # chains apart count as few draws
    pooled = within * (n - 1.0) / n + between
    constant = pooled <= 1e-20 * (1.0 + flat.mean(axis=(0, 1)) ** 2)
    rho = 1.0 - (within - covariance) / np.where(constant, 1.0, pooled)
    # In theory, sums of two neighbouring autocorrelations are positive and fall: what comes after the first
    # that is not positive is noise, and none may exceed the one before (Geyer, 1992).
    pairs = rho[0 : n - n % 2 : 2] + rho[1:n:2]
    positive = np.where(np.cumprod(pairs > 0, axis=0) > 0, pairs, 0.0)
    falling = np.minimum.accumulate(positive, axis=0)
    # Draws that alternate may be worth more than independent ones, but not much can be claimed from few.
    time = np.maximum(2.0 * falling.sum(axis=0) - 1.0, 1.0 / np.log10(max(chains * n, 10)))
    return np.asarray(np.where(constant, chains * n, chains * n / time).reshape(draws.shape[2:]))


def convergence(quantities: dict[str, Floats]) -> Convergence:
    """Split-R̂ and effective draws of named quantities, each (chains, draws)."""
    r_hat = {name: float(split_r_hat(draws)) for name, draws in quantities.items()}
    return Convergence(r_hat, {name: float(effective_draws(draws)) for name, draws in quantities.items()})
