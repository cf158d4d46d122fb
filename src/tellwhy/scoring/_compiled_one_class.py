"""Compiled pooling over support points.

The functions take the scaled squared distances `S` of a batch (rows × support points), return the outlierness
of each row, and overwrite `S` with what `mode` asks for. `skip[i]` is the support point that row i leaves
out, or −1.
"""

import math

import numpy as np

from tellwhy.core.compiled import njit

# What S is overwritten with; for SCORE it is left alone.
SCORE = 0
SHARES = 1
RELEVANCE = 2
GRADIENT = 3


@njit(nogil=True, cache=True)
def _power(s, q):
    """s^(q/2), that is (r/σ)^q."""
    # The two usual kernels need no power function, which is slow.
    if q == 2.0:
        return s
    if q == 1.0:
        return math.sqrt(s)
    return s ** (0.5 * q)


@njit(nogil=True, cache=True)
def _slope(s, q):
    """s^(q/2 − 1), taken as 0 at s = 0, where the direction of the gradient is undefined or its size is 0."""
    if q == 2.0:
        return 1.0
    if s == 0.0:
        return 0.0
    return s ** (0.5 * q - 1.0)


@njit(nogil=True, cache=True)
def pool_exponential(S, weights, q, skip, mode, outlierness, attributed):
    """o = −log Σ_j α_j exp(−(r_j/σ)^q/q), by log-sum-exp.

    RELEVANCE: Δ_j/s_j with Δ_j = p_j·min(o, (r_j/σ)^q/q). GRADIENT: p_j·s_j^(q/2−1). SHARES: p_j.
    """
    n, m = S.shape
    # In log space and relative to the largest term: far from all points every exponential underflows to 0.
    log_weights = np.log(weights)
    exponents = np.empty(m)
    for i in range(n):
        nearest = -np.inf
        for j in range(m):
            exponents[j] = log_weights[j] - _power(S[i, j], q) / q
        if skip[i] >= 0:
            exponents[skip[i]] = -np.inf
        for j in range(m):
            nearest = max(nearest, exponents[j])
        total = 0.0
        for j in range(m):
            share = math.exp(exponents[j] - nearest)
            exponents[j] = share
            total += share
        o = -(nearest + math.log(total))
        if skip[i] >= 0:  # the other weights are made to add up to 1 again
            o += math.log1p(-weights[skip[i]])
        o = max(o, 0.0)  # weights add up to 1, so that only rounding makes it negative
        outlierness[i] = o
        if mode == SHARES:
            for j in range(m):
                S[i, j] = exponents[j] / total
        elif mode == RELEVANCE:
            attributed[i] = _relevance_exponential(S[i], exponents, total, q, o)
        elif mode == GRADIENT:
            for j in range(m):
                S[i, j] = exponents[j] / total * _slope(S[i, j], q)


@njit(nogil=True, cache=True)
def _relevance_exponential(s_row, shares, total, q, o):
    attributed = 0.0
    for j in range(len(s_row)):
        s = s_row[j]
        # Distances beyond the outlierness are cut to it, so that no more than the outlierness is attributed.
        delta = shares[j] / total * min(o, _power(s, q) / q)
        attributed += delta
        s_row[j] = delta / s if s > 0.0 else 0.0  # the row is that point: it gets nothing to share
    return attributed


@njit(nogil=True, cache=True)
def pool_student(S, weights, q, a, factor, skip, mode, outlierness, attributed):
    """o = m / Σ_j α_j/(a + (r_j/σ)^q), m = `factor[i]`.

    RELEVANCE: Δ_j/s_j with Δ_j = p_j·(r_j/σ)^q/(a+(r_j/σ)^q)·o. GRADIENT: o·p_j·k_j·q·s_j^(q/2−1). SHARES:
    p_j.
    """
    n, m = S.shape
    for i in range(n):
        left_out = skip[i]
        kept = 1.0 if left_out < 0 else 1.0 - weights[left_out]  # weights that are left, not yet scaled to 1
        g = 0.0
        for j in range(m):
            if j != left_out:
                g += weights[j] / (a + _power(S[i, j], q))
        o = factor[i] * kept / g if g > 0.0 else np.inf
        outlierness[i] = o
        if mode == SCORE:
            continue
        total = 0.0
        for j in range(m):
            s = S[i, j]
            power = _power(s, q)
            k = 1.0 / (a + power)
            share = 0.0 if j == left_out else weights[j] * k / g
            if mode == SHARES:
                S[i, j] = share
            elif mode == RELEVANCE:
                delta = share * power * k * o
                total += delta
                S[i, j] = delta / s if s > 0.0 else 0.0
            else:
                S[i, j] = o * share * k * q * _slope(s, q)
        attributed[i] = total


@njit(nogil=True, cache=True)
def spread_over_features(Z, V, W, R):
    """R_i = Σ_j W_j (z_i − v_ji)² by plain differences: slow, exact where products cancel."""
    for row in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            R[row, i] = 0.0
        for j in range(V.shape[0]):
            if W[row, j] != 0.0:  # shares of distant points underflow to 0: those points are passed over
                for i in range(Z.shape[1]):
                    difference = Z[row, i] - V[j, i]
                    R[row, i] += W[row, j] * difference * difference


@njit(nogil=True, cache=True)
def keep_nearest(squares, first, index, nearest):
    """Put the smallest entries of each row, in order, into `nearest`, and their places into `index`.

    The few that are kept stand in order, so that most entries are dealt with by one comparison with the last
    of them: for ten of thousands this takes a tenth of the time of a partition. Of equal entries the first is
    kept. Entries may come in several parts; `first` is the place of a part's first one, 0 for the first part.
    """
    n, m = squares.shape
    k = nearest.shape[1]
    for i in range(n):
        kept = min(first, k)
        last = nearest[i, kept - 1] if kept > 0 else np.inf
        for j in range(m):
            s = squares[i, j]
            if kept == k and not s < last:
                continue
            place = kept if kept < k else k - 1
            while place > 0 and s < nearest[i, place - 1]:
                nearest[i, place] = nearest[i, place - 1]
                index[i, place] = index[i, place - 1]
                place -= 1
            nearest[i, place] = s
            index[i, place] = first + j
            kept = min(kept + 1, k)
            last = nearest[i, kept - 1]
