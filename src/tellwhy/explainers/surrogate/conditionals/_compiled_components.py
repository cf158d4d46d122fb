"""Compiled draws of what belongs together: the component of each row, shares and places of components."""

import math

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.surrogate.conditionals._compiled_draws import LOG_2PI, log_gamma_draw, log_sum, pick


@njit(nogil=True, cache=True)
def row_log_densities(state, data):
    """log π_j + log N(y_i; x̃_iᵀβ_j, σ_j²), and the gate's density of each row, shape (n, J)."""
    found = np.dot(data.X, np.ascontiguousarray(state.coef.T))  # fitted values, overwritten below
    n, J = found.shape
    for j in range(J):
        constant = state.log_pi[j] - 0.5 * (LOG_2PI + math.log(state.sigma2[j]))
        for i in range(n):
            found[i, j] = constant - 0.5 * (data.y[i] - found[i, j]) ** 2 / state.sigma2[j]
        for q in range(data.gates.shape[1]):
            mean = state.gate_mean[j, q]
            var = state.gate_var[j, q]
            log_scale = 0.5 * (LOG_2PI + math.log(var))
            for i in range(n):
                found[i, j] -= log_scale + 0.5 * (data.gates[i, q] - mean) ** 2 / var
    return found


@njit(nogil=True, cache=True)
def draw_assignments(state, data, priors, rng):
    """Row z_i: ∝ π_j N(y_i; x̃_iᵀβ_j, σ_j²).

    While a burn-in is annealed, densities are raised to the power `cold` < 1: rows then change component more
    easily, and chains do not stick to the groups they started from.
    """
    densities = row_log_densities(state, data) * state.cold[0]
    state.counts[:] = 0
    for i in range(len(densities)):
        j = pick(densities[i], rng)
        state.z[i] = j
        state.counts[j] += 1


@njit(nogil=True, cache=True)
def draw_sticks(state, data, priors, rng):
    """Row u_j: Beta(1 + n_j, α + Σ_{l>j} n_l), u_J = 1; keeps log(1 − u_j) and log π_j.

    A beta draw is a ratio of gamma draws; it is taken in logarithms because 1 − u_j may underflow, and α is
    drawn from its logarithm.
    """
    J = len(state.counts)
    beyond = len(state.z)  # rows of later components
    left = 0.0  # log of the stick that is left
    for j in range(J - 1):
        beyond -= state.counts[j]
        taken = log_gamma_draw(1.0 + state.counts[j], rng)
        rest = log_gamma_draw(state.alpha[0] + beyond, rng)
        total = log_sum(taken, rest)
        state.log_pi[j] = left + taken - total
        state.log_rest[j] = rest - total
        left += state.log_rest[j]
    state.log_pi[J - 1] = left


@njit(nogil=True, cache=True)
def draw_alpha(state, data, priors, rng):
    """Row α: Gamma(e + J − 1, rate f − Σ_{j<J} log(1 − u_j)); the supplement prints the shape J + e + 1."""
    J = len(state.counts)
    rate = priors.alpha_rate - state.log_rest[: J - 1].sum()
    state.alpha[0] = math.exp(log_gamma_draw(priors.alpha_shape + J - 1, rng)) / rate


@njit(nogil=True, cache=True)
def draw_gates(state, data, priors, rng):
    """Row gates: mean and variance of each component's place, one normal-inverse-gamma draw per coordinate.

    Nothing is drawn without gates. An empty component draws from the prior, N(0, var/gate_count).
    """
    for j in range(len(state.counts)):
        rows = np.flatnonzero(state.z == j)
        n = len(rows)
        for q in range(data.gates.shape[1]):
            column = data.gates[rows, q]
            centre = column.sum() / max(n, 1)
            spread = ((column - centre) ** 2).sum()
            weight = priors.gate_count + n
            shape = priors.gate_shape + 0.5 * n
            scale = priors.gate_scale + 0.5 * (spread + priors.gate_count * n / weight * centre**2)
            state.gate_var[j, q] = scale / math.exp(log_gamma_draw(shape, rng))
            deviation = math.sqrt(state.gate_var[j, q] / weight)
            state.gate_mean[j, q] = n * centre / weight + deviation * rng.standard_normal()
