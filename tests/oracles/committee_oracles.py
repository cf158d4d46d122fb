"""Slow, obvious versions of what the members of a committee compute."""

import math

import numpy as np


def neighbour_shares(Z, points, k, left_out=None):
    found = np.zeros_like(Z)
    for i, z in enumerate(Z):
        lengths = [math.dist(z, u) for u in points]
        order = sorted(
            (j for j in range(len(points)) if left_out is None or j != left_out[i]), key=lengths.__getitem__
        )
        for j in order[:k]:
            if lengths[j] > 0:
                found[i] += (z - points[j]) ** 2 / lengths[j] / k
    return found


def rest_of_column(Z, j, ridge):
    """Residual of column j under ridge regression on the other columns, the ridge being extra variance of all."""
    others = [c for c in range(Z.shape[1]) if c != j]
    C = np.cov(Z.T) + ridge * np.eye(Z.shape[1])
    slopes = np.linalg.solve(C[np.ix_(others, others)], C[others, j])
    return Z[:, j] - Z[:, others] @ slopes


def pair_surprise(present, a, b):
    """−log P(N ≤ rows with both), N Poisson with the mean that independence expects."""
    n = len(present)
    seen = int(sum(row[a] and row[b] for row in present))
    mean = sum(row[a] for row in present) * sum(row[b] for row in present) / n
    return -math.log(sum(math.exp(-mean) * mean**m / math.factorial(m) for m in range(seen + 1)))


def rarity(column, value):
    """−log of the share of rows whose value is as rare as this one, or rarer."""
    counts = {v: column.count(v) for v in set(column)}
    return -math.log(sum(c for c in counts.values() if c <= counts[value]) / len(column))
