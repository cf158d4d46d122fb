"""Compiled marginal energies of Gaussian mixtures and Gaussian kernel models, one feature at a time.

Energies are −log densities. `skip[n]` is the support point that row n leaves out, or −1. Sequences pick, at
each of `n_picked` steps, the feature with the largest energy given those picked before. `position[n, i]` is
that step, or −1 for a feature that was not picked; `energies[n, i]` is that energy, or the one given all
picked features.
"""

import math

import numpy as np

from tellwhy.core.compiled import njit

LOG_2PI = math.log(2.0 * math.pi)
UNDERFLOW = 1e-250  # sums below it are computed anew in log space
SMALLEST = 1e-13  # conditional variances are at least this share of the marginal ones


@njit(nogil=True, cache=True)
def _log_sum_exp(a):
    # The largest term is taken out first: exponentials of large energies would be 0, and their logarithm −∞.
    top = -np.inf
    for j in range(len(a)):
        top = max(top, a[j])
    total = 0.0
    for j in range(len(a)):
        total += math.exp(a[j] - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def compute_kernel_energies(Z, points, weights, skip, starts, columns, energies):
    """−log Σ_j α_j exp(−½ Σ_{i in group} (z_i − v_ij)²); points: (d, m).

    Group g has the columns `columns[starts[g]:starts[g + 1]]`: those made from one of the user's columns.
    """
    m = len(weights)
    log_weights = np.log(weights)
    exponents = np.empty(m)
    for n in range(len(Z)):
        # Without point s the other weights are divided by 1 − α_s, so that they add up to 1 again.
        kept = 0.0 if skip[n] < 0 else math.log1p(-weights[skip[n]])
        for g in range(len(starts) - 1):
            exponents[:] = log_weights
            for c in range(starts[g], starts[g + 1]):
                i = columns[c]
                for j in range(m):  # innermost: the points of one column lie side by side in memory
                    difference = Z[n, i] - points[i, j]
                    exponents[j] -= 0.5 * difference * difference
            if skip[n] >= 0:
                exponents[skip[n]] = -np.inf
            energies[n, g] = kept - _log_sum_exp(exponents)


@njit(nogil=True, cache=True)
def _pick(step, n_picked, candidates, level, position, energies):
    """Record the candidate with the largest energy, and return it; −1 after the last step.

    Candidates are energies of the picked features and one more; less `level`, that of the picked ones alone,
    they are energies given those. Features that are never picked keep what they had at the last step.
    """
    best = -np.inf
    chosen = -1
    for i in range(len(candidates)):
        if position[i] < 0:
            energies[i] = candidates[i] - level
            if candidates[i] > best:
                best = candidates[i]
                chosen = i
    if step == n_picked:
        return -1
    position[chosen] = step
    return chosen


@njit(nogil=True, cache=True)
def pick_kernel_sequence(Z, points, weights, skip, n_picked, position, energies):
    """Pick features of a Gaussian kernel model one by one; points: (d, m)."""
    d, m = points.shape
    log_weights = np.log(weights)
    joint = np.empty(m)  # log α_j − ½ Σ over picked features: what is known of each point so far
    candidates = np.empty(d)
    halves = np.empty((d, m))
    factors = np.empty((d, m))
    least = np.empty(d)
    for n in range(len(Z)):
        joint[:] = log_weights
        if skip[n] >= 0:
            joint[skip[n]] = -np.inf
        level = -_log_sum_exp(joint)
        position[n, :] = -1
        _compute_half_squares(Z[n], points, halves, factors, least)
        for step in range(min(n_picked + 1, d)):  # one more than picked: energies of those left over
            _weigh_kernel_candidates(joint, halves, factors, least, position[n], candidates)
            chosen = _pick(step, n_picked, candidates, level, position[n], energies[n])
            if chosen < 0:
                break
            level = candidates[chosen]
            for j in range(m):
                joint[j] -= halves[chosen, j]


@njit(nogil=True, cache=True)
def _compute_half_squares(z, points, halves, factors, least):
    """½(z_i − v_ij)², its least value over the points, and exp(least − it), once for all steps of a row."""
    d, m = points.shape
    for i in range(d):
        least[i] = np.inf
        for j in range(m):
            difference = z[i] - points[i, j]
            halves[i, j] = 0.5 * difference * difference
            least[i] = min(least[i], halves[i, j])
        for j in range(m):
            factors[i, j] = math.exp(least[i] - halves[i, j])


@njit(nogil=True, cache=True)
def _weigh_kernel_candidates(joint, halves, factors, least, position, candidates):
    """−log Σ_j exp(joint_j − halves_ij) for each feature not picked yet.

    A product of two exponentials that are there already is far cheaper than a new one. Where all products
    underflow (a feature near one point while the picked ones are near another), the sum is taken in log
    space.
    """
    top = joint.max()
    shares = np.exp(joint - top)
    for i in range(len(position)):
        if position[i] < 0:
            total = 0.0
            for j in range(len(joint)):
                total += shares[j] * factors[i, j]
            if total > UNDERFLOW:
                candidates[i] = least[i] - top - math.log(total)
            else:
                candidates[i] = -_log_sum_exp(joint - halves[i])


@njit(nogil=True, cache=True)
def pick_mixture_sequence(X, log_weights, means, covariances, n_picked, position, energies):
    """Pick features of a Gaussian mixture one by one.

    Given the picked features S, component k has residuals x − E[x|x_S, k], variances Var[x|x_S, k] and the
    columns L[k] of a Cholesky factor of Σ_k, whose pivots are the picked features. The factor grows by one
    column a step, so that no covariance is ever inverted.
    """
    K, d = means.shape
    joint = np.empty(K)
    candidates = np.empty(d)
    residual = np.empty((K, d))
    variance = np.empty((K, d))
    L = np.empty((K, d, n_picked))
    for n in range(len(X)):
        for k in range(K):
            joint[k] = log_weights[k]
            for i in range(d):
                residual[k, i] = X[n, i] - means[k, i]
                variance[k, i] = covariances[k, i, i]
        level = 0.0
        position[n, :] = -1
        for step in range(min(n_picked + 1, d)):
            _weigh_mixture_candidates(joint, residual, variance, position[n], candidates)
            chosen = _pick(step, n_picked, candidates, level, position[n], energies[n])
            if chosen < 0:
                break
            level = candidates[chosen]
            for k in range(K):
                joint[k] += _log_normal(residual[k, chosen], variance[k, chosen])
                _condition(chosen, step, position[n], covariances[k], L[k], residual[k], variance[k])


@njit(nogil=True, cache=True)
def _log_normal(residual, variance):
    return -0.5 * (LOG_2PI + math.log(variance) + residual * residual / variance)


@njit(nogil=True, cache=True)
def _weigh_mixture_candidates(joint, residual, variance, position, candidates):
    """−log p(x_S, x_i) for each feature i not picked yet."""
    terms = np.empty(len(joint))
    for i in range(len(position)):
        if position[i] < 0:
            for k in range(len(joint)):
                terms[k] = joint[k] + _log_normal(residual[k, i], variance[k, i])
            candidates[i] = -_log_sum_exp(terms)


@njit(nogil=True, cache=True)
def _condition(chosen, step, position, covariance, L, residual, variance):
    """Condition one component on the chosen feature, for the features not picked yet."""
    deviation = math.sqrt(variance[chosen])
    surprise = residual[chosen] / deviation
    for i in range(len(position)):
        if position[i] < 0:
            # the next column of the Cholesky factor: the covariance, less what earlier picks explain of it
            shared = covariance[i, chosen]
            for t in range(step):
                shared -= L[i, t] * L[chosen, t]
            L[i, step] = shared / deviation
            residual[i] -= L[i, step] * surprise
            # rounding must not make the variance of a column that others determine zero or negative
            variance[i] = max(variance[i] - L[i, step] ** 2, SMALLEST * covariance[i, i])
