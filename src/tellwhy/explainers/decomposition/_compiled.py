"""Compiled marginal energies of Gaussian mixtures and Gaussian kernel models, one feature at a time.

Energies are −log densities. `skip[n]` is the support point that row n leaves out, or −1. Sequences pick, at each step,
the feature with the largest energy given those picked before; `position[n, i]` is when, `energies[n, i]` how much.
"""

import math

import numba
import numpy as np

LOG_2PI = math.log(2.0 * math.pi)
UNDERFLOW = 1e-250  # sums below it are computed anew in log space
SMALLEST = 1e-13  # conditional variances are at least this share of the marginal ones


@numba.njit(nogil=True, cache=True)
def _log_sum_exp(a):
    top = -np.inf
    for j in range(len(a)):
        top = max(top, a[j])
    total = 0.0
    for j in range(len(a)):
        total += math.exp(a[j] - top)
    return top + math.log(total)


@numba.njit(nogil=True, cache=True)
def kernel_energies(Z, points, weights, skip, starts, columns, energies):
    """−log Σ_j α_j exp(−½ Σ_{i in group} (z_i − v_ij)²); group g has columns[starts[g]:starts[g+1]]; points: (d, m)."""
    m = len(weights)
    log_weights = np.log(weights)
    exponents = np.empty(m)
    for n in range(len(Z)):
        kept = 0.0 if skip[n] < 0 else math.log1p(-weights[skip[n]])
        for g in range(len(starts) - 1):
            exponents[:] = log_weights
            for c in range(starts[g], starts[g + 1]):
                i = columns[c]
                for j in range(m):
                    difference = Z[n, i] - points[i, j]
                    exponents[j] -= 0.5 * difference * difference
            if skip[n] >= 0:
                exponents[skip[n]] = -np.inf
            energies[n, g] = kept - _log_sum_exp(exponents)


@numba.njit(nogil=True, cache=True)
def kernel_sequence(Z, points, weights, skip, position, energies):
    """Pick features of a Gaussian kernel model one by one; points: (d, m)."""
    d, m = points.shape
    log_weights = np.log(weights)
    joint, terms, shares = np.empty(m), np.empty(m), np.empty(m)
    halves, factors, least = np.empty((d, m)), np.empty((d, m)), np.empty(d)
    for n in range(len(Z)):
        joint[:] = log_weights
        if skip[n] >= 0:
            joint[skip[n]] = -np.inf
        level = -_log_sum_exp(joint)
        for i in range(d):
            least[i] = np.inf
            for j in range(m):
                difference = Z[n, i] - points[i, j]
                halves[i, j] = 0.5 * difference * difference
                least[i] = min(least[i], halves[i, j])
            for j in range(m):
                factors[i, j] = math.exp(least[i] - halves[i, j])
            position[n, i] = -1
        for step in range(d):
            top = joint.max()
            for j in range(m):
                shares[j] = math.exp(joint[j] - top)
            best, chosen = -np.inf, -1
            for i in range(d):
                if position[n, i] >= 0:
                    continue
                total = 0.0
                for j in range(m):
                    total += shares[j] * factors[i, j]
                if total > UNDERFLOW:
                    energy = least[i] - top - math.log(total)
                else:
                    for j in range(m):
                        terms[j] = joint[j] - halves[i, j]
                    energy = -_log_sum_exp(terms)
                if energy > best:
                    best, chosen = energy, i
            position[n, chosen], energies[n, chosen] = step, best - level
            level = best
            for j in range(m):
                joint[j] -= halves[chosen, j]


@numba.njit(nogil=True, cache=True)
def mixture_sequence(X, log_weights, means, covariances, position, energies):
    """Pick features of a Gaussian mixture one by one.

    Given the picked features S, component k has residuals x − E[x|x_S, k], variances Var[x|x_S, k] and the factor
    L[k] of Σ_k in the order of picking (a Cholesky factor with pivots chosen by energy).
    """
    K, d = means.shape
    joint, terms = np.empty(K), np.empty(K)
    residual, variance, L = np.empty((K, d)), np.empty((K, d)), np.empty((K, d, d))
    for n in range(len(X)):
        for k in range(K):
            joint[k] = log_weights[k]
            for i in range(d):
                residual[k, i] = X[n, i] - means[k, i]
                variance[k, i] = covariances[k, i, i]
        level = 0.0
        position[n, :] = -1
        for step in range(d):
            best, chosen = -np.inf, -1
            for i in range(d):
                if position[n, i] < 0:
                    for k in range(K):
                        v = variance[k, i]
                        terms[k] = joint[k] - 0.5 * (LOG_2PI + math.log(v) + residual[k, i] ** 2 / v)
                    energy = -_log_sum_exp(terms)
                    if energy > best:
                        best, chosen = energy, i
            position[n, chosen], energies[n, chosen] = step, best - level
            level = best
            for k in range(K):
                v = variance[k, chosen]
                joint[k] -= 0.5 * (LOG_2PI + math.log(v) + residual[k, chosen] ** 2 / v)
                _condition(k, chosen, step, position[n], covariances, L, residual, variance)


@numba.njit(nogil=True, cache=True)
def _condition(k, chosen, step, position, covariances, L, residual, variance):
    """Condition component k on the chosen feature, for the features not picked yet."""
    deviation = math.sqrt(variance[k, chosen])
    surprise = residual[k, chosen] / deviation
    for i in range(len(position)):
        if position[i] < 0:
            shared = covariances[k, i, chosen]
            for t in range(step):
                shared -= L[k, i, t] * L[k, chosen, t]
            L[k, i, step] = shared / deviation
            residual[k, i] -= L[k, i, step] * surprise
            reduced = variance[k, i] - L[k, i, step] ** 2
            variance[k, i] = max(reduced, SMALLEST * covariances[k, i, i])
