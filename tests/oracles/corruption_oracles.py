"""P(cell is wrong | row) by adding up every set of wrong cells, with densities of scipy."""

from itertools import combinations

import numpy as np
from scipy.stats import multivariate_normal


def wrong_cells(x, weights, means, covariances, slab, *, rate, most, owner=None):
    """Return P(each of the user's columns is wrong) and P(0, 1, … cells are wrong) of one row.

    `slab` is (centre, scale) of the normal law of wrong values.
    """
    d = len(x)
    owner = np.arange(d) if owner is None else owner
    total = np.zeros(most + 1)
    held = np.zeros(owner.max() + 1)
    for size in range(most + 1):
        for chosen in combinations(range(d), size):
            rest = [i for i in range(d) if i not in chosen]
            clean = sum(
                w * (multivariate_normal.pdf(x[rest], m[rest], c[np.ix_(rest, rest)]) if rest else 1.0)
                for w, m, c in zip(weights, means, covariances, strict=True)
            )
            wrong = np.prod(
                [multivariate_normal.pdf(x[i], slab[0][i], slab[1][i] ** 2) for i in chosen] or [1.0]
            )
            weight = clean * wrong * (rate / (1 - rate)) ** size
            total[size] += weight
            for column in {owner[i] for i in chosen}:
                held[column] += weight
    return held / total.sum(), total / total.sum()
