"""Compiled draws of the elastic nets: the net of each component, penalties, variances and scales."""

import math

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.surrogate.conditionals._compiled_draws import (
    REACH,
    LogScale,
    inverse_gaussian,
    log_elastic_net,
    log_gamma_draw,
    log_sum,
    pick,
    slice_step,
)


@njit(nogil=True, cache=True)
def norms(state):
    """Σ|β_jl| and Σβ_jl² of each component; the intercept has a prior of its own and is left out."""
    J, width = state.coef.shape
    l1 = np.zeros(J)
    l2 = np.zeros(J)
    for j in range(J):
        for k in range(1, width):
            l1[j] += abs(state.coef[j, k])
            l2[j] += state.coef[j, k] ** 2
    return l1, l2


@njit(nogil=True, cache=True)
def draw_nets(state, data, priors, rng):
    """Row c_j: ∝ w_k EN(β_j | σ_j², λ_k), the scales t integrated out."""
    l1, l2 = norms(state)
    K = len(state.log_w)
    p = state.coef.shape[1] - 1
    logits = np.empty(K)
    for j in range(len(state.c)):
        for k in range(K):
            density = log_elastic_net(l1[j], l2[j], p, state.sigma2[j], state.lambda1[k], state.lambda2[k])
            logits[k] = state.log_w[k] + density
        state.c[j] = pick(logits, rng)


@njit(nogil=True, cache=True)
def draw_net_weights(state, data, priors, rng):
    """Row w: Dirichlet(1/K + m_k), m_k = #{j: c_j = k}, empty components included.

    A Dirichlet draw is gamma draws over their sum, in logarithms because 1/K may be small.
    """
    K = len(state.log_w)
    total = -np.inf
    for k in range(K):
        members = 0
        for j in range(len(state.c)):
            members += state.c[j] == k
        state.log_w[k] = log_gamma_draw(1.0 / K + members, rng)
        total = state.log_w[k] if k == 0 else log_sum(total, state.log_w[k])
    for k in range(K):
        state.log_w[k] -= total


@njit(nogil=True, cache=True)
def draw_penalties(state, data, priors, rng):
    """Rows λ1_k and λ2_k: a slice step on each logarithm; from the prior where no component uses the net.

    With x/√2 = λ1/√(8σ²λ2), the argument of erfcx grows with λ1 (inner = 1) and with λ2^(−½) (inner = −½).
    Slopes hold the prior's shape, whose −1 the Jacobian cancels; Z adds p/2·log λ2 for each component.
    """
    l1, l2 = norms(state)
    p = state.coef.shape[1] - 1
    for k in range(len(state.log_w)):
        members = np.flatnonzero(state.c == k)
        if len(members) == 0:
            log_rate = math.log(priors.lambda_rate)
            # λ2 = 0 would be divided by; so small a prior draw is as good as e^−60.
            state.lambda1[k] = math.exp(max(log_gamma_draw(priors.lambda1_shape, rng) - log_rate, -REACH))
            state.lambda2[k] = math.exp(max(log_gamma_draw(priors.lambda2_shape, rng) - log_rate, -REACH))
            continue
        sigma2 = state.sigma2[members]
        half = 1.0 / np.sqrt(8.0 * sigma2)
        weight1 = priors.lambda_rate + (0.5 * l1[members] / sigma2).sum()
        weight2 = priors.lambda_rate + (0.5 * l2[members] / sigma2).sum()
        factors = half / math.sqrt(state.lambda2[k])
        target1 = LogScale(priors.lambda1_shape, weight1, 1.0, p, 1.0, factors)
        state.lambda1[k] = math.exp(slice_step(math.log(state.lambda1[k]), target1, rng))
        slope = priors.lambda2_shape + 0.5 * p * len(members)
        target2 = LogScale(slope, weight2, 1.0, p, -0.5, half * state.lambda1[k])
        state.lambda2[k] = math.exp(slice_step(math.log(state.lambda2[k]), target2, rng))


@njit(nogil=True, cache=True)
def residual_sums(state, data):
    """Σ_{z_i=j} (y_i − x̃_iᵀβ_j)² of each component."""
    found = np.zeros(len(state.counts))
    for i in range(len(data.y)):
        j = state.z[i]
        found[j] += (data.y[i] - np.dot(data.X[i], state.coef[j])) ** 2
    return found


@njit(nogil=True, cache=True)
def draw_variances(state, data, priors, rng):
    """Row σ_j²: a slice step on its logarithm, t integrated out, empty components included.

    The slope counts the rows, the p coefficients and the intercept (the + 1), whose prior variances are all
    proportional to σ².
    """
    l1, l2 = norms(state)
    rss = residual_sums(state, data)
    p = state.coef.shape[1] - 1
    for j in range(len(state.sigma2)):
        lambda1 = state.lambda1[state.c[j]]
        lambda2 = state.lambda2[state.c[j]]
        slope = -(priors.variance_shape + 0.5 * (state.counts[j] + p + 1))
        intercept = state.coef[j, 0] ** 2 / priors.intercept_variance
        weight = priors.variance_scale + 0.5 * (rss[j] + lambda1 * l1[j] + lambda2 * l2[j] + intercept)
        factors = np.full(1, lambda1 / math.sqrt(8.0 * lambda2))
        target = LogScale(slope, weight, -1.0, p, -0.5, factors)
        state.sigma2[j] = math.exp(slice_step(math.log(state.sigma2[j]), target, rng))


@njit(nogil=True, cache=True)
def draw_scales(state, data, priors, rng):
    """Row t_jl: InverseGaussian(mean λ1/(2λ2|β_jl|), shape λ1²/(4λ2σ_j²)).

    Empty components do not need it: their coefficients are drawn from the elastic net itself.
    """
    for j in range(len(state.counts)):
        if state.counts[j] == 0:
            continue
        lambda1 = state.lambda1[state.c[j]]
        lambda2 = state.lambda2[state.c[j]]
        shape = lambda1 * lambda1 / (4.0 * lambda2 * state.sigma2[j])
        for k in range(state.t.shape[1]):
            size = max(abs(state.coef[j, k + 1]), 1e-150)  # a coefficient of 0 would have an infinite mean
            state.t[j, k] = inverse_gaussian(lambda1 / (2.0 * lambda2 * size), shape, rng)
