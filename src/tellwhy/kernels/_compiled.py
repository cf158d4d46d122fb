"""Compiled loops over pairs of points."""

from tellwhy.core.compiled import njit

# Below this share of ‖z‖²+‖v‖² the expanded square has lost too many digits and the pair is computed anew.
CANCELLED = 1e-5


@njit(nogil=True, cache=True)
def finish_squared_distances(products, Z, V, zz, vv):
    """Turn products z·v in place into ‖z−v‖², each right to about 1e-10 of itself."""
    n, m = products.shape
    for i in range(n):
        # The first pass has no branch and becomes vector instructions (a count does, a minimum does not). It
        # only notes whether any pair of the row is too close; most rows have none, and never see the second.
        n_close = 0
        for j in range(m):
            both = zz[i] + vv[j]
            s = both - 2.0 * products[i, j]
            products[i, j] = s
            n_close += int(s <= CANCELLED * both)
        if n_close:
            for j in range(m):
                if products[i, j] <= CANCELLED * (zz[i] + vv[j]):
                    s = 0.0
                    for k in range(Z.shape[1]):
                        difference = Z[i, k] - V[j, k]
                        s += difference * difference
                    products[i, j] = s
