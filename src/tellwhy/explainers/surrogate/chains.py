"""Prior distributions of the mixture with the published settings, the state of a chain, whether chains agree.

A state is named tuples of arrays, which compiled code can take. Chains agree by rank-normalised split-R̂, and
tell as much as their effective draws: of the bulk and of the tails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from tellwhy.core.params import real, validate_value
from tellwhy.core.score import Floats, Integers


class Data(NamedTuple):
    """The rows that a mixture is fitted to."""

    X: Floats  # (n, 1 + p), with a first column of ones for the intercept
    y: Floats  # (n,) the model's scaled output
    gates: Floats  # (n, q) where each row lies; q = 0 without gates


class Numbers(NamedTuple):
    """Parameters of the prior distributions; see `Priors`."""

    alpha_shape: float
    alpha_rate: float
    lambda1_shape: float
    lambda2_shape: float
    lambda_rate: float
    variance_shape: float
    variance_scale: float
    intercept_variance: float
    gate_count: float
    gate_shape: float
    gate_scale: float


class State(NamedTuple):
    """Where a chain is: J components, K elastic nets. Draws change the arrays in place.

    Shares are kept as logarithms, since those of empty components may be too small for numbers.
    """

    z: Integers  # (n,) component of each row
    counts: Integers  # (J,) rows of each component
    log_rest: Floats  # (J,) log(1 − u_j): what each component leaves of the stick
    log_pi: Floats  # (J,) log shares of the components
    alpha: Floats  # (1,) concentration: larger, more components
    log_w: Floats  # (K,) log shares of the nets
    c: Integers  # (J,) net of each component
    lambda1: Floats  # (K,) weight of |β|
    lambda2: Floats  # (K,) weight of β²
    sigma2: Floats  # (J,) variance around each regression
    t: Floats  # (J, p) scales τ/(1 − τ) of the coefficients
    coef: Floats  # (J, 1 + p) intercept and coefficients
    gate_mean: Floats  # (J, q)
    gate_var: Floats  # (J, q)
    gram: Floats  # (J + 1, 1 + p, 1 + p) X_jᵀX_j, last XᵀX; no entries where rows are fewer than columns
    moment: Floats  # (J + 1, 1 + p) X_jᵀy_j, last Xᵀy
    member: Integers  # (n,) component of each row in `gram` and `moment`, −1 for none
    moves: Integers  # (4,) splits tried, of these accepted, merges tried, of these accepted
    cold: Floats  # (1,) power ≤ 1 of the densities of rows: below 1 while a burn-in is annealed


class Kept(NamedTuple):
    """Draws that are kept: one entry per draw, in front of the shape that the state has."""

    z: NDArray[np.int16]
    coef: Floats
    log_pi: Floats
    sigma2: Floats
    gate_mean: Floats
    gate_var: Floats

    def part(self, draws: slice) -> Kept:
        """Return views of some draws."""
        return Kept(
            z=self.z[draws],
            coef=self.coef[draws],
            log_pi=self.log_pi[draws],
            sigma2=self.sigma2[draws],
            gate_mean=self.gate_mean[draws],
            gate_var=self.gate_var[draws],
        )


def design(X: Floats, y: Floats, gates: Floats | None = None) -> Data:
    """Return rows as the compiled code takes them, with a first column of ones."""
    places = np.empty((len(y), 0)) if gates is None else np.ascontiguousarray(gates, dtype=np.float64)
    with_ones = np.ascontiguousarray(np.column_stack([np.ones(len(y)), X]))
    return Data(with_ones, np.ascontiguousarray(y), places)


def make_empty_state(data: Data, n_components: int, n_elastic_nets: int) -> State:
    """Return arrays of the right shapes.

    Gram matrices are there only where rows are at least as many as columns: with fewer rows, coefficients are
    drawn from the rows themselves.
    """
    n, width = data.X.shape
    q = data.gates.shape[1]
    n_grams = n_components + 1 if n >= width else 0
    return State(
        z=np.zeros(n, dtype=np.int64),
        counts=np.zeros(n_components, dtype=np.int64),
        log_rest=np.zeros(n_components),
        log_pi=np.full(n_components, -np.log(n_components)),
        alpha=np.ones(1),
        log_w=np.full(n_elastic_nets, -np.log(n_elastic_nets)),
        c=np.zeros(n_components, dtype=np.int64),
        lambda1=np.ones(n_elastic_nets),
        lambda2=np.ones(n_elastic_nets),
        sigma2=np.ones(n_components),
        t=np.ones((n_components, width - 1)),
        coef=np.zeros((n_components, width)),
        gate_mean=np.zeros((n_components, q)),
        gate_var=np.ones((n_components, q)),
        gram=np.zeros((n_grams, width, width)),
        moment=np.zeros((n_grams, width)),
        member=np.full(n, -1, dtype=np.int64),
        moves=np.zeros(4, dtype=np.int64),
        cold=np.ones(1),
    )


def make_kept_arrays(state: State, n_draws: int) -> Kept:
    """Return room for some draws."""
    return Kept(
        z=np.zeros((n_draws, len(state.z)), dtype=np.int16),  # at most 1000 components: saves memory
        coef=np.zeros((n_draws, *state.coef.shape)),
        log_pi=np.zeros((n_draws, *state.log_pi.shape)),
        sigma2=np.zeros((n_draws, *state.sigma2.shape)),
        gate_mean=np.zeros((n_draws, *state.gate_mean.shape)),
        gate_var=np.zeros((n_draws, *state.gate_var.shape)),
    )


@dataclass(frozen=True)
class Priors:
    """Prior distributions, for a target of variance 1 and columns of variance about 1.

    Parameters
    ----------
    alpha_shape, alpha_rate
        α ~ Gamma(e, rate f) of the stick breaking: larger, more components.
    lambda1_shape, lambda2_shape, lambda_rate
        λ1 ~ Gamma(R, rate V/2) and λ2 ~ Gamma(L, rate V/2) of every elastic net.
    variance_shape, variance_scale
        σ² ~ InverseGamma(a, b); a mean exists for a > 1.
    intercept_variance
        Intercepts are N(0, κσ²).

    Examples
    --------
    >>> Priors(alpha_shape=5.0).numbers().alpha_shape
    5.0
    """

    alpha_shape: float = 1.0
    alpha_rate: float = 1.0
    lambda1_shape: float = 2.5
    lambda2_shape: float = 1.0
    lambda_rate: float = 0.5
    variance_shape: float = 2.0
    variance_scale: float = 0.25
    intercept_variance: float = 100.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            validate_value("Priors", name, value, real(0.0))

    def numbers(self) -> Numbers:
        """Return what the compiled code takes; the prior of the gates is weak and fixed."""
        own = {name: float(value) for name, value in asdict(self).items()}
        return Numbers(**own, gate_count=0.1, gate_shape=2.0, gate_scale=0.5)


def _read_published(J: int, e: float, R: float, a: float) -> dict[str, Any]:
    """One line of the table, in its letters; in all of them f = L = V = 1 and b = a."""
    priors = Priors(alpha_shape=e, lambda1_shape=R, variance_shape=a, variance_scale=a)
    return {"n_components": J, "n_elastic_nets": 3, "priors": priors}


PRESETS: dict[str, dict[str, Any]] = {
    "random forest": _read_published(5, 1.0, 4.0, 0.5),
    "svm": _read_published(5, 5.0, 5.0, 1.0),
    "mnist": _read_published(6, 5.0, 2.5, 0.5),
    "fashion-mnist": _read_published(10, 5.0, 2.5, 0.5),
    "imagenet": _read_published(10, 5.0, 2.5, 0.5),
}
"""Settings of Guo et al. (2018), supplement, table 4: `DMMMEN(model, **PRESETS["mnist"])`."""


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


def count_effective_draws(draws: Floats) -> Floats:
    """Effective number of independent draws among (chains, draws, …), by Geyer's initial monotone sequence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> int(count_effective_draws(rng.normal(size=(4, 500))).round(-3))
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


def count_bulk_draws(draws: Floats) -> Floats:
    """Effective draws for means, whatever the tails are: those of the ranks of half chains."""
    return count_effective_draws(normal_scores(halves(draws)))


def count_tail_draws(draws: Floats) -> Floats:
    """Effective draws for the ends of intervals: the fewer of those for the 5 % and for the 95 % quantile."""
    parts = halves(draws)
    ends = np.quantile(parts, [TAIL, 1.0 - TAIL], axis=(0, 1))
    return np.minimum(*(count_effective_draws((parts <= end).astype(np.float64)) for end in ends))


def convergence(quantities: dict[str, Floats], ended: str = "") -> Convergence:
    """How far chains agree on named quantities, each (chains, draws)."""
    names = list(quantities)
    draws = np.stack([quantities[name] for name in names], axis=-1)

    def named(of: Callable[[Floats], Floats]) -> dict[str, float]:
        return dict(zip(names, of(draws).tolist(), strict=True))

    return Convergence(named(rank_r_hat), named(count_bulk_draws), named(count_tail_draws), ended)
