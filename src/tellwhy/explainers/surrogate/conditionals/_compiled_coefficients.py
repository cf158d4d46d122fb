"""Compiled draws of the coefficients of each component, in one of two ways: by columns, or by rows."""

import math

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.surrogate.conditionals._compiled_draws import normal_above

JITTER = 1e-12  # added to a unit diagonal: of nearly equal columns, the matrix is singular after rounding


@njit(nogil=True, cache=True)
def solve_lower(L, b):
    """Solve L x = b in place; L in Fortran order, whose columns the inner loop goes down."""
    for k in range(len(b)):
        b[k] /= L[k, k]
        for i in range(k + 1, len(b)):
            b[i] -= L[i, k] * b[k]


@njit(nogil=True, cache=True)
def solve_upper(L, b):
    """Solve Lᵀ x = b in place; L in Fortran order, whose columns the inner loop goes down."""
    for k in range(len(b) - 1, -1, -1):
        total = b[k]
        for i in range(k + 1, len(b)):
            total -= L[i, k] * b[i]
        b[k] = total / L[k, k]


@njit(nogil=True, cache=True)
def normal_by_precision(gram, moment, diagonal, sigma2, rng):
    """Draw of N(M·moment, σ²M), M = (gram + diag)⁻¹, in time p³.

    With gram + diag = LLᵀ, the draw is L⁻ᵀ(L⁻¹·moment + σ·noise). The matrix is scaled to a unit diagonal
    first: scales t range over many orders of magnitude, which costs Cholesky its digits.
    """
    width = len(moment)
    scale = 1.0 / np.sqrt(np.diag(gram) + diagonal)
    scaled = gram.copy()
    for k in range(width):
        scaled[k] *= scale * scale[k]
        scaled[k, k] = 1.0 + JITTER
    L = np.asfortranarray(np.linalg.cholesky(scaled))
    found = moment * scale
    solve_lower(L, found)
    for k in range(width):
        found[k] += math.sqrt(sigma2) * rng.standard_normal()
    solve_upper(L, found)
    return found * scale


@njit(nogil=True, cache=True)
def normal_by_rows(X, y, diagonal, sigma2, rng):
    """The same draw for fewer rows than columns, in time n²p (Bhattacharya, Chakraborty, Mallick, 2016).

    A draw from the prior is corrected by what it gets wrong about the rows, for which n × n equations are
    solved instead of p × p.
    """
    n, width = X.shape
    sigma = math.sqrt(sigma2)
    root = 1.0 / np.sqrt(diagonal)
    scaled = X * root
    start = np.empty(width)
    for k in range(width):
        start[k] = sigma * rng.standard_normal()
    right = y - np.dot(scaled, start)
    for i in range(n):
        right[i] -= sigma * rng.standard_normal()
    matrix = np.dot(scaled, scaled.T)
    for i in range(n):
        matrix[i, i] += 1.0
    L = np.asfortranarray(np.linalg.cholesky(matrix))
    solve_lower(L, right)
    solve_upper(L, right)
    return root * (start + np.dot(right, scaled))


@njit(nogil=True, cache=True)
def prior_coefficients(j, state, priors, rng):
    """Draw the coefficients of an empty component: random sign × N(−λ1/(2λ2), σ²/λ2) above 0."""
    lambda1 = state.lambda1[state.c[j]]
    lambda2 = state.lambda2[state.c[j]]
    deviation = math.sqrt(state.sigma2[j] / lambda2)
    low = lambda1 / (2.0 * lambda2 * deviation)
    state.coef[j, 0] = math.sqrt(state.sigma2[j] * priors.intercept_variance) * rng.standard_normal()
    for k in range(1, state.coef.shape[1]):
        size = deviation * (normal_above(low, rng) - low)
        state.coef[j, k] = size if rng.random() < 0.5 else -size


@njit(nogil=True, cache=True)
def update_grams(state, data):
    """Bring X_jᵀX_j and X_jᵀy_j up to date with the rows that changed component.

    After the burn-in few rows move from one sweep to the next: subtracting and adding these costs less than
    summing all rows anew. Where more than half have moved, everything is summed anew.
    """
    moved = np.flatnonzero(state.member != state.z)
    if 2 * len(moved) > len(state.z):
        state.gram[:] = 0.0
        state.moment[:] = 0.0
        state.member[:] = -1
        moved = np.arange(len(state.z))
    for j in range(len(state.counts)):
        for sign in (-1.0, 1.0):  # rows that left component j, then rows that came to it
            before_or_after = state.member[moved] if sign < 0 else state.z[moved]
            rows = moved[before_or_after == j]
            if len(rows) == 0:
                continue
            X = data.X[rows]
            state.gram[j] += sign * np.dot(X.T, X)
            state.moment[j] += sign * np.dot(data.y[rows], X)
    state.member[:] = state.z


@njit(nogil=True, cache=True)
def draw_coefficients(state, data, priors, rng):
    """Row β_j: N(M X_jᵀy_j, σ_j²M), M = (X_jᵀX_j + λ2 diag(1 + t))⁻¹, with 1/κ for the intercept."""
    J, width = state.coef.shape
    has_grams = len(state.gram) > 0
    if has_grams:
        update_grams(state, data)
    diagonal = np.empty(width)
    for j in range(J):
        if state.counts[j] == 0:
            prior_coefficients(j, state, priors, rng)
            continue
        diagonal[0] = 1.0 / priors.intercept_variance
        diagonal[1:] = state.lambda2[state.c[j]] * (1.0 + state.t[j])
        # By columns costs p³, by rows n_j²·p: the latter pays for components of few rows.
        if has_grams and 2 * state.counts[j] >= width:
            found = normal_by_precision(state.gram[j], state.moment[j], diagonal, state.sigma2[j], rng)
        else:
            rows = np.flatnonzero(state.z == j)
            found = normal_by_rows(data.X[rows], data.y[rows], diagonal, state.sigma2[j], rng)
        state.coef[j] = found
