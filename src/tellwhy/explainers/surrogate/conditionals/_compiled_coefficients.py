"""Compiled draws of the coefficients of each component, in one of two ways: by columns, or by rows."""

import math

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.surrogate.conditionals._compiled_draws import normal_above

JITTER = 1e-12  # added to a unit diagonal: of nearly equal columns, the matrix is singular after rounding
PIECE = 1024  # rows that are multiplied at a time
STRIP = 96  # columns of a product of which only one half is computed


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
def add_products(rows, data, gram, moment, sign):
    """Add (sign 1) or subtract (sign −1) XᵀX and Xᵀy of some rows.

    XᵀX is symmetric: of wide ones only the lower half is multiplied, strip by strip, and then mirrored. Rows
    are taken in pieces, so that a copy of them stays small.
    """
    width = gram.shape[0]
    strip = width if width <= 2 * STRIP else STRIP
    for start in range(0, len(rows), PIECE):
        some = rows[start : start + PIECE]
        X = data.X[some]
        moment += sign * np.dot(data.y[some], X)
        turned = np.ascontiguousarray(X.T)
        for low in range(0, width, strip):
            high = min(low + strip, width)
            gram[low:, low:high] += sign * np.dot(turned[low:], turned[low:high].T)
    for low in range(0, width, strip):
        high = min(low + strip, width)
        gram[low:high, high:] = gram[high:, low:high].T


@njit(nogil=True, cache=True)
def update_grams(state, data):
    """Bring X_jᵀX_j and X_jᵀy_j up to date with the rows that changed component.

    Most of a sweep's time goes here. A component whose rows changed little has these added and subtracted,
    another one is summed anew, and the largest is what the others leave of the sum over all rows, which never
    changes and is kept in the last place.
    """
    J = len(state.counts)
    is_new = state.member[0] < 0
    if is_new:
        add_products(np.arange(len(state.z)), data, state.gram[J], state.moment[J], 1.0)
    largest = np.argmax(state.counts)
    state.gram[largest] = state.gram[J]
    state.moment[largest] = state.moment[J]
    for j in range(J):
        if j == largest:
            continue
        left = np.flatnonzero((state.member == j) & (state.z != j))
        came = np.flatnonzero((state.member != j) & (state.z == j))
        if is_new or len(left) + len(came) >= state.counts[j]:
            state.gram[j] = 0.0
            state.moment[j] = 0.0
            came = np.flatnonzero(state.z == j)
            left = came[:0]
        add_products(left, data, state.gram[j], state.moment[j], -1.0)
        add_products(came, data, state.gram[j], state.moment[j], 1.0)
        if state.counts[j] > 0:
            state.gram[largest] -= state.gram[j]
            state.moment[largest] -= state.moment[j]
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
