"""Compiled loops of flipping."""

import numba


@numba.njit(nogil=True, cache=True)
def add_features_back(Z, V, order, starts, columns, first, last, running, S):
    """Squared distances of what is still present before each of the steps first ≤ t < last, latest step first.

    Before step t the features order[i, t:] are present; feature f owns the columns
    columns[starts[f]:starts[f+1]]. `running` (rows × points) holds the sums of step `last` on entry and of
    step `first` on return; row i·(last − first) + t − first of `S` receives those of step t. `V` holds one
    line per column, one entry per point. Sums only grow, so none is ever negative.
    """
    n_features = order.shape[1]
    m = V.shape[1]
    steps = last - first
    for i in range(Z.shape[0]):
        for t in range(last - 1, first - 1, -1):
            if t < n_features:
                feature = order[i, t]
                for c in columns[starts[feature] : starts[feature + 1]]:
                    for j in range(m):
                        difference = Z[i, c] - V[c, j]
                        running[i, j] += difference * difference
            for j in range(m):
                S[i * steps + t - first, j] = running[i, j]
