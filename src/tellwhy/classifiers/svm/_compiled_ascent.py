"""The compiled sweep of accelerated ascent: every row in turn, all its classes at once."""

import numpy as np

from tellwhy.classifiers.svm._compiled_steps import NEVER, compiled, for_each_row


@for_each_row
def _gains(i, entries, moving, square, gains):
    """1 + w_cᵀx of all classes, by the weights of z + θ² u."""
    for c in range(len(gains)):
        gains[c] = 1.0
    for e in range(entries.indptr[i], entries.indptr[i + 1]):
        f = entries.indices[e]
        x = entries.values[e]
        for c in range(len(gains)):
            gains[c] += x * (moving.weights[f, c] + square * moving.momentum_weights[f, c])


@for_each_row
def _steps(i, cap, per_gain, moving, factor, gains):
    """Move the variables of a row; leaves the steps in `gains`, less their mean, which no weight can feel."""
    mean = 0.0
    n = len(gains)
    for c in range(n):
        before = moving.variables[i, c]
        now = min(max(before + per_gain * gains[c], 0.0), cap)
        moving.variables[i, c] = now
        moving.momentum[i, c] -= factor * (now - before)
        gains[c] = now - before
        mean += (now - before) / n
    for c in range(n):
        gains[c] -= mean


@for_each_row
def _add(i, entries, moving, factor, steps):
    """Move the weights by what the steps of a row ask for."""
    for e in range(entries.indptr[i], entries.indptr[i + 1]):
        f = entries.indices[e]
        x = entries.values[e]
        for c in range(len(steps)):
            moving.weights[f, c] -= x * steps[c]
            moving.momentum_weights[f, c] += factor * x * steps[c]


@compiled
def sweep(order, entries, bounds, moving, theta):
    """Visit the rows in the order given; returns the next θ."""
    n = len(bounds.caps)
    gains = np.empty(moving.variables.shape[1])
    for i in order:
        square = theta * theta
        _gains(i, entries, moving, square, gains)
        for j in range(bounds.own_at[i], bounds.own_at[i + 1]):
            gains[bounds.own[j]] = NEVER  # stays at 0
        factor = (1.0 - n * theta) / square
        _steps(i, bounds.caps[i], 1.0 / (n * theta * bounds.squares[i]), moving, factor, gains)
        _add(i, entries, moving, factor, gains)
        theta = 0.5 * (np.sqrt(square * square + 4.0 * square) - square)
    return theta
