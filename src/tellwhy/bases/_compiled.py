"""Compiled feature maps: the Walsh–Hadamard transform of 16 rows at a time, and sine and cosine by polynomials.

Rows lie side by side in the innermost axis ("lanes"), so that every butterfly is one vector instruction.
Constants come in a table of the data's type, which keeps single precision single.
"""

import numba
import numpy as np

LANES = 16
RAW, WAVES, RECTIFIED = 0, 1, 2

# 2/π, ½, π/2 in three parts (the first two short, so that their products with whole numbers are exact), 1, the largest
# argument, then the Taylor coefficients of sine and of cosine, highest order first.
_SINE = (-1 / 1307674368000, 1 / 6227020800, -1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6)
_COSINE = (
    1 / 20922789888000,
    -1 / 87178291200,
    1 / 479001600,
    -1 / 3628800,
    1 / 40320,
    -1 / 720,
    1 / 24,
    -0.5,
)
_HEAD_64 = (2 / np.pi, 0.5, 1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21, 1.0, 1e6)
_HEAD_32 = (2 / np.pi, 0.5, 1.5703125, 0.0004837512969970703, 7.549789954891882e-08, 1.0, 6e3)
TABLE_64 = np.array(_HEAD_64 + _SINE + _COSINE, dtype=np.float64)
TABLE_32 = np.array(_HEAD_32 + _SINE + _COSINE, dtype=np.float32)


@numba.njit(nogil=True, cache=True)
def transform_lanes(V, p):
    """Apply the unnormalised Walsh–Hadamard transform of size p, a power of two, to flat V of (p, 16) in place."""
    h = 1
    while 4 * h <= p:
        n = h * LANES
        for i in range(0, p, 4 * h):
            s = i * LANES
            a, b, c, d = (
                V[s : s + n],
                V[s + n : s + 2 * n],
                V[s + 2 * n : s + 3 * n],
                V[s + 3 * n : s + 4 * n],
            )
            for t in range(n):
                w, x, y, z = a[t] + b[t], a[t] - b[t], c[t] + d[t], c[t] - d[t]
                a[t], b[t], c[t], d[t] = w + y, x + z, w - y, x - z
        h *= 4
    if h < p:
        n = h * LANES
        a, b = V[:n], V[n : 2 * n]
        for t in range(n):
            x, y = a[t], b[t]
            a[t], b[t] = x + y, x - y


@numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def waves(Z, table, amplitude, sines, cosines):
    """Write amplitude·sin z and amplitude·cos z of flat Z."""
    largest = table[1] - table[1]
    for t in range(len(Z)):
        largest = max(largest, abs(Z[t]))
    if not largest <= table[6]:
        for t in range(len(Z)):
            sines[t], cosines[t] = amplitude * np.sin(Z[t]), amplitude * np.cos(Z[t])
        return
    inverse, half, first, second, third, one = table[0], table[1], table[2], table[3], table[4], table[5]
    s15, s13, s11, s9, s7, s5, s3 = table[7], table[8], table[9], table[10], table[11], table[12], table[13]
    c16, c14, c12, c10 = table[14], table[15], table[16], table[17]
    c8, c6, c4, c2 = table[18], table[19], table[20], table[21]
    for t in range(len(Z)):
        x = Z[t]
        n = np.floor(x * inverse + half)
        r = ((x - n * first) - n * second) - n * third  # x − nπ/2, in [−π/4, π/4]
        r2 = r * r
        sine = r + r * r2 * (s3 + r2 * (s5 + r2 * (s7 + r2 * (s9 + r2 * (s11 + r2 * (s13 + r2 * s15))))))
        cosine = one + r2 * (
            c2 + r2 * (c4 + r2 * (c6 + r2 * (c8 + r2 * (c10 + r2 * (c12 + r2 * (c14 + r2 * c16))))))
        )
        quarter = np.int32(n) & np.int32(3)
        odd = (quarter & np.int32(1)) != 0
        a = cosine if odd else sine
        b = sine if odd else cosine
        sines[t] = amplitude * (-a if (quarter & np.int32(2)) != 0 else a)
        cosines[t] = amplitude * (-b if ((quarter + np.int32(1)) & np.int32(2)) != 0 else b)


@numba.njit(nogil=True, cache=True)
def _load(X, first, n, factor, V):
    """Put rows first … first+n−1, times a factor, into lanes; zeros fill the rest."""
    V[:] = 0
    for lane in range(n):
        for i in range(X.shape[1]):
            V[i * LANES + lane] = X[first + lane, i] * factor


@numba.njit(nogil=True, cache=True)
def _store(V, first, n, out, column, width):
    """Put `width` entries of each lane back into rows."""
    for lane in range(n):
        for i in range(width):
            out[first + lane, column + i] = V[i * LANES + lane]


@numba.njit(nogil=True, cache=True)
def structured_rows(X, diagonals, factor, width, kind, amplitude, table, out):
    """Features of rows under H D_1 … H D_k, `width` projections in all.

    `diagonals` has shape (copies, k, p); `factor` holds one number of the data's type, the scale of the
    projections. Waves fill out[:, :width] with sines and out[:, width:] with cosines.
    """
    copies, k, p = diagonals.shape
    rows, V = np.empty(p * LANES, X.dtype), np.empty(p * LANES, X.dtype)
    S, C = np.empty(p * LANES, X.dtype), np.empty(p * LANES, X.dtype)
    zero = factor[0] - factor[0]
    for first in range(0, len(X), LANES):
        n = min(LANES, len(X) - first)
        _load(X, first, n, factor[0], rows)
        for copy in range(copies):
            V[:] = rows
            for block in range(k - 1, -1, -1):
                D = diagonals[copy, block]
                for i in range(p):
                    for lane in range(LANES):
                        V[i * LANES + lane] *= D[i]
                transform_lanes(V, p)
            column = copy * p
            here = min(p, width - column)
            if kind == WAVES:
                waves(V[: here * LANES], table, amplitude[0], S, C)
                _store(S, first, n, out, column, here)
                _store(C, first, n, out, width + column, here)
            else:
                if kind == RECTIFIED:
                    for t in range(here * LANES):
                        V[t] = amplitude[0] * max(V[t], zero)
                _store(V, first, n, out, column, here)


@numba.njit(nogil=True, cache=True)
def wave_rows(Z, amplitude, table, out):
    """Sines and cosines of projections Z, shape (n, m), into out, shape (n, 2m)."""
    m = Z.shape[1]
    for i in range(len(Z)):
        waves(Z[i], table, amplitude[0], out[i, :m], out[i, m:])
