"""Compiled loops over pairs of points."""

import numpy as np

from tellwhy.core.storage.compiled_loops import njit

# Below this share of ‖z‖²+‖v‖² the expanded square has lost too many digits and the pair is computed anew.
CANCELLED = 1e-5


@njit(nogil=True, cache=True)
def finish_squared_distances(products, Z, V, zz, vv):
    """Turn products z·v in place into ‖z−v‖², each right to about 1e-10 of itself."""
    n, m = products.shape
    for i in range(n):
        # The first pass has no branch and becomes vector instructions. It only notes whether any pair of the
        # row is too close; most rows have none, and never see the second pass.
        smallest = np.inf
        for j in range(m):
            s = zz[i] + vv[j] - 2.0 * products[i, j]
            products[i, j] = s
            excess = s - CANCELLED * (zz[i] + vv[j])
            smallest = min(smallest, excess)
        if smallest <= 0.0:
            for j in range(m):
                if products[i, j] <= CANCELLED * (zz[i] + vv[j]):
                    s = 0.0
                    for k in range(Z.shape[1]):
                        difference = Z[i, k] - V[j, k]
                        s += difference * difference
                    products[i, j] = s
