"""Whether chains agree: rank-normalised split-R̂, and effective draws of the bulk and of the tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from tellwhy.core.score import Floats

R_HAT = 1.1  # chains agree below this
GOAL = 1.05  # chains that may go on do so until they agree this well
BESIDE = "mean log variance of the rows"  # watched, not reported: it tells whether components still change


TAIL = 0.05  # part of the draws in each tail: about the ends of 90 % intervals


@dataclass(frozen=True)
class Convergence:
    """How far chains agree on what is reported: none of it depends on the components' labels.

    Attributes
    ----------
    r_hat, ess, tail
        Rank-normalised split-R̂, and effective draws of the bulk (for means) and of the tails (for ends of
        intervals): one number per quantity, by name. That of `BESIDE` is not reported, and counts only where
        nothing else is there.
    ended
        Why the chains ended, where they were free to go on.
    """

    r_hat: dict[str, float]
    ess: dict[str, float]
    tail: dict[str, float] = field(default_factory=dict)
    ended: str = ""

    @property
    def worst_r_hat(self) -> float:
        """Largest split-R̂ of what is reported."""
        return max(_reported(self.r_hat))

    @property
    def least_ess(self) -> float:
        """Fewest effective draws of what is reported, of the bulk or of the tails."""
        return min([*_reported(self.ess), *_reported(self.tail)])

    def words(self) -> str:
        """All of it in a few words."""
        agreement = f"R̂ ≤ {self.worst_r_hat:.2f}, effective draws ≥ {self.least_ess:.0f}"
        return f"{agreement}; {self.ended}" if self.ended else agreement


def _reported(numbers: dict[str, float]) -> list[float]:
    """Numbers of the quantities that are reported; all where there are no others."""
    return [value for name, value in numbers.items() if name != BESIDE] or list(numbers.values())


def split_r_hat(draws: Floats) -> Floats:
    """Split-R̂ of draws (chains, draws, …): √(pooled variance / mean variance within half chains).

    It needs draws that have a variance, and sees only means that differ: see `rank_r_hat`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> float(split_r_hat(rng.normal(size=(4, 500))).round(1))
    1.0
    >>> bool(split_r_hat(rng.normal(size=(2, 500)) + np.array([[0.0], [3.0]])) > 2)
    True
    """
    parts = halves(draws)
    half = parts.shape[1]
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


def halves(draws: Floats) -> Floats:
    """Both halves of every chain, as chains of their own: halves of one that drifts differ as two would."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def normal_scores(draws: Floats) -> Floats:
    """Draws (chains, draws, …) replaced by the normal quantiles of their ranks among all of them.

    Examples
    --------
    >>> normal_scores(np.array([[1.0, 1e300], [-np.inf, 2.0]])).round(2)
    array([[-0.3 ,  1.05],
           [-1.05,  0.3 ]])
    """
    flat = draws.reshape(draws.shape[0] * draws.shape[1], -1)
    ranks = rankdata(flat, axis=0)  # equal draws share the mean of their ranks
    return np.asarray(ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape))


def rank_r_hat(draws: Floats) -> Floats:
    """Rank-normalised split-R̂ of draws (chains, draws, …), after Vehtari et al. (2021).

    The larger of two: that of the ranks, which sees chains of different means, also where draws have heavy
    tails; and that of the ranks of distances to the median, which sees chains of different spread.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> wider = rng.normal(size=(4, 500)) * np.array([[1.0], [1.0], [1.0], [5.0]])
    >>> bool(rank_r_hat(wider) > 1.1), bool(split_r_hat(wider) > 1.1)
    (True, False)
    """
    folded = np.abs(draws - np.median(draws, axis=(0, 1)))
    return np.maximum(split_r_hat(normal_scores(draws)), split_r_hat(normal_scores(folded)))


def bulk_draws(draws: Floats) -> Floats:
    """Effective draws for means, whatever the tails are: those of the ranks of half chains."""
    return effective_draws(normal_scores(halves(draws)))


def tail_draws(draws: Floats) -> Floats:
    """Effective draws for the ends of intervals: the fewer of those for the 5 % and for the 95 % quantile."""
    parts = halves(draws)
    ends = np.quantile(parts, [TAIL, 1.0 - TAIL], axis=(0, 1))
    return np.minimum(*(effective_draws((parts <= end).astype(np.float64)) for end in ends))


def convergence(quantities: dict[str, Floats], ended: str = "") -> Convergence:
    """How far chains agree on named quantities, each (chains, draws)."""
    names = list(quantities)
    draws = np.stack([quantities[name] for name in names], axis=-1)

    def named(of: Callable[[Floats], Floats]) -> dict[str, float]:
        return dict(zip(names, of(draws).tolist(), strict=True))

    return Convergence(named(rank_r_hat), named(bulk_draws), named(tail_draws), ended)
