"""Columns that move together: where they are odd together, they are one reason."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import rankdata

from tellwhy.core.score import Floats, Integers

LEAST_TOGETHER = 0.6  # mean of |Spearman's correlation| between two columns of a group
LEAST_COLUMNS = 3
MOST_COLUMNS = 300  # of a table; the correlations of more take too long
LEAST_ROWS = 30

Groups = tuple[tuple[int, ...], ...]


def groups_of_columns(encoded: Floats, owner: Integers) -> Groups:
    """Find groups of at least three columns that rise and fall together, in either direction.

    Columns are joined while the mean of |Spearman's correlation| between two groups is at least .6 (average
    linkage).

    Parameters
    ----------
    encoded
        Ordinary rows.
    owner
        The user's column that each encoded column belongs to; only columns that are one number are grouped.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> size = rng.normal(size=(200, 1))
    >>> X = np.hstack([size + 0.1 * rng.normal(size=(200, 3)), rng.normal(size=(200, 2))])
    >>> groups_of_columns(X, np.arange(5))
    ((0, 1, 2),)
    """
    columns, counts = np.unique(owner, return_counts=True)
    columns = columns[counts == 1]
    columns = columns[[bool(np.ptp(encoded[:, np.argmax(owner == c)]) > 0) for c in columns]]
    if not LEAST_COLUMNS <= len(columns) <= MOST_COLUMNS or len(encoded) < LEAST_ROWS:
        return ()
    ranks = rankdata(encoded[:, [int(np.argmax(owner == c)) for c in columns]], axis=0)
    apart = 1.0 - np.abs(np.corrcoef(ranks, rowvar=False))
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform((apart + apart.T) / 2, checks=False), "average")
    labels = fcluster(tree, 1.0 - LEAST_TOGETHER, "distance")
    found = [tuple(int(c) for c in columns[labels == label]) for label in np.unique(labels)]
    return tuple(sorted(group for group in found if len(group) >= LEAST_COLUMNS))
