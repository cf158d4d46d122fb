"""Prior distributions of the mixture with the published settings, and the state of a chain.

A state is named tuples of arrays, which compiled code can take.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def empty_state(data: Data, n_components: int, n_elastic_nets: int) -> State:
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


def kept_arrays(state: State, n_draws: int) -> Kept:
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


def _published(J: int, e: float, R: float, a: float) -> dict[str, Any]:
    """One line of the table, in its letters; in all of them f = L = V = 1 and b = a."""
    priors = Priors(alpha_shape=e, lambda1_shape=R, variance_shape=a, variance_scale=a)
    return {"n_components": J, "n_elastic_nets": 3, "priors": priors}


PRESETS: dict[str, dict[str, Any]] = {
    "random forest": _published(5, 1.0, 4.0, 0.5),
    "svm": _published(5, 5.0, 5.0, 1.0),
    "mnist": _published(6, 5.0, 2.5, 0.5),
    "fashion-mnist": _published(10, 5.0, 2.5, 0.5),
    "imagenet": _published(10, 5.0, 2.5, 0.5),
}
"""Settings of Guo et al. (2018), supplement, table 4: `DMMMEN(model, **PRESETS["mnist"])`."""
