"""Compiled regression of some rows, given the precisions of its coefficients: means, densities, draws."""

import math

import numpy as np

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.surrogate.conditionals._compiled_coefficients import (
    JITTER,
    add_products,
    normal_by_precision,
    normal_by_rows,
    solve_lower,
    solve_upper,
)
from tellwhy.explainers.surrogate.conditionals._compiled_draws import LOG_2PI


@njit(nogil=True, cache=True)
def by_columns(rows, data, diagonal):
    """Mean coefficients, log|I + X D⁻¹ Xᵀ| and yᵀ(I + X D⁻¹ Xᵀ)⁻¹y, by equations of as many columns."""
    width = len(diagonal)
    gram = np.zeros((width, width))
    mean = np.zeros(width)
    add_products(rows, data, gram, mean, 1.0)
    scale = 1.0 / np.sqrt(np.diag(gram) + diagonal)
    for k in range(width):
        gram[k] *= scale * scale[k]
        gram[k, k] = 1.0 + JITTER
    L = np.asfortranarray(np.linalg.cholesky(gram))
    mean *= scale
    solve_lower(L, mean)
    y = data.y[rows]
    quadratic = np.dot(y, y) - np.dot(mean, mean)
    solve_upper(L, mean)
    log_det = 2.0 * np.log(np.diag(L) / scale).sum() - np.log(diagonal).sum()
    return mean * scale, log_det, quadratic


@njit(nogil=True, cache=True)
def by_rows(rows, data, diagonal):
    """The same, by equations of as many rows."""
    scaled = data.X[rows] / np.sqrt(diagonal)
    matrix = np.dot(scaled, scaled.T)
    for i in range(len(rows)):
        matrix[i, i] += 1.0
    L = np.asfortranarray(np.linalg.cholesky(matrix))
    half = data.y[rows]
    solve_lower(L, half)
    quadratic = np.dot(half, half)
    solve_upper(L, half)
    return np.dot(half, scaled) / np.sqrt(diagonal), 2.0 * np.log(np.diag(L)).sum(), quadratic


@njit(nogil=True, cache=True)
def regression(rows, data, diagonal, sigma2):
    """Mean coefficients of a component that has these rows, and the log density of their outputs.

    The density is N(y; 0, σ²(I + X D⁻¹ Xᵀ)), D the prior precision in units of 1/σ²: β is integrated out.
    """
    if len(rows) == 0:
        return np.zeros(len(diagonal)), 0.0
    solved = by_columns(rows, data, diagonal) if len(rows) >= len(diagonal) else by_rows(rows, data, diagonal)
    density = -0.5 * (len(rows) * (LOG_2PI + math.log(sigma2)) + solved[1] + solved[2] / sigma2)
    return solved[0], density


@njit(nogil=True, cache=True)
def coefficients_of(rows, data, diagonal, sigma2, rng):
    """Draw of N(M Xᵀy, σ²M), M = (XᵀX + D)⁻¹, for these rows."""
    width = len(diagonal)
    if len(rows) == 0:
        found = np.empty(width)
        for k in range(width):
            found[k] = math.sqrt(sigma2 / diagonal[k]) * rng.standard_normal()
        return found
    if len(rows) < width:
        return normal_by_rows(data.X[rows], data.y[rows], diagonal, sigma2, rng)
    gram = np.zeros((width, width))
    moment = np.zeros(width)
    add_products(rows, data, gram, moment, 1.0)
    return normal_by_precision(gram, moment, diagonal, sigma2, rng)
