"""Compiled loops of flipping."""

from collections import namedtuple

from tellwhy.core.compiled import njit

Differences = namedtuple("Differences", "Z points_by_column order starts columns")
"""Rows Z (n, columns) and points (columns, m) in the same units, and what is taken away when.

`order[i, t]` is the feature that row i loses in step t; feature f owns columns[starts[f]:starts[f + 1]].
Points are laid out by column because the inner loop goes over all points of one column: that is memory in
one piece.
"""


@njit(nogil=True, cache=True)
def add_features_back(given, first, last, running, S):
    """Squared distances to all points before the steps first ≤ t < last of Algorithm 4, last step first.

    Before step t the features order[i, t:] are still present. `running` (rows × points) holds the distances
    of step `last` on entry and those of step `first` on return; row i·(last − first) + t − first of `S` gets
    those of step t.

    Steps are undone, from no feature to all of them, because a sum that only grows is never negative: taking
    features away one by one leaves rounding errors below zero, whose roots are NaN.
    """
    n_features = given.order.shape[1]
    m = given.points_by_column.shape[1]
    steps = last - first
    for i in range(given.Z.shape[0]):
        for t in range(last - 1, first - 1, -1):
            if t < n_features:  # step n_features is the end, where nothing is present
                feature = given.order[i, t]
                for c in given.columns[given.starts[feature] : given.starts[feature + 1]]:
                    for j in range(m):
                        difference = given.Z[i, c] - given.points_by_column[c, j]
                        running[i, j] += difference * difference
            for j in range(m):
                S[i * steps + t - first, j] = running[i, j]
