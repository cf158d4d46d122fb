"""Slow, obvious counterparts of what `tellwhy.scoring` computes."""

import math

import numpy as np
from scipy.special import logsumexp


def central_differences(function, X, step=1e-5):
    """Gradient of a scalar function of rows, one cell at a time."""
    slopes = np.empty_like(X)
    for column in range(X.shape[1]):
        shift = np.zeros(X.shape[1])
        shift[column] = step
        slopes[:, column] = (function(X + shift) - function(X - shift)) / (2 * step)
    return slopes


def minus_log_density(model, X):
    """−log p of a fitted scikit-learn KernelDensity, summed over its training rows by log-sum-exp.

    scikit-learn's own tree loses digits to differences of bounds where the density is small.
    """
    rows = np.asarray(model.tree_.data)
    weights = (
        np.ones(len(rows)) if model.tree_.sample_weight is None else np.asarray(model.tree_.sample_weight)
    )
    distances = np.array([[np.linalg.norm(x - u) for u in rows] for x in X]) / model.bandwidth_
    exponents, d = (-(distances**2) / 2 if model.kernel == "gaussian" else -distances), rows.shape[1]
    volume = (2 * np.pi) ** (d / 2) if model.kernel == "gaussian" else sphere(d) * math.factorial(d - 1)
    return -logsumexp(exponents, b=weights / weights.sum(), axis=1) + np.log(volume * model.bandwidth_**d)


def sphere(d):
    """Surface of the unit sphere in d dimensions."""
    return 2 * np.pi ** (d / 2) / math.gamma(d / 2)


def minus_log_discriminant(model, X):
    """−log Σ α k with Σα = 1 of a fitted scikit-learn OneClassSVM, which itself adds and subtracts its offset."""
    alpha = model.dual_coef_.ravel()
    squares = np.array([[np.sum((x - u) ** 2) for u in model.support_vectors_] for x in X])
    return -logsumexp(-model._gamma * squares, b=alpha / alpha.sum(), axis=1)


def touched_columns(transform, table, random_state=0):
    """For each output column of a transform, the set of input columns of a frame whose shuffling changes it."""
    rng = np.random.default_rng(random_state)
    before = dense(transform(table))
    touched = [set() for _ in range(before.shape[1])]
    for position, name in enumerate(table.columns):
        for _ in range(3):
            shuffled = table.copy()
            shuffled[name] = table[name].to_numpy()[rng.permutation(len(table))]
            changed = (dense(transform(shuffled)) != before).any(axis=0)
            for output in np.flatnonzero(changed):
                touched[output].add(position)
    return touched


def dense(rows):
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def sum_by_owner(values, owner, n_columns):
    """Sum of the values of each raw column's encoded columns, one number at a time."""
    summed = np.zeros((len(values), n_columns))
    for row in range(len(values)):
        for column, raw in enumerate(owner):
            summed[row, raw] += values[row, column]
    return summed
