"""Compiled feature maps: the Walsh–Hadamard transform of 16 rows at a time; sine and cosine by polynomials.

Rows lie side by side in the innermost axis: entry i of 16 rows fills 16 neighbouring places ("lanes"). Every
sum of two entries is then one vector instruction, whatever the distance between the entries. Constants have
the data's type: a single number in double precision would make all that it meets double.
"""

from typing import NamedTuple

import numpy as np

from tellwhy.core.compiled import njit

Number = np.float32 | np.float64

LANES = 16
RAW = 0  # the projections themselves
WAVES = 1  # their sines and cosines
RECTIFIED = 2  # what is above 0 of them


class Constants(NamedTuple):
    """Numbers that sine and cosine are made of, in one precision."""

    zero: Number
    half: Number
    one: Number
    two_over_pi: Number
    pi_half_1: Number  # π/2 in three parts; the first two are short, and exact times a whole number
    pi_half_2: Number
    pi_half_3: Number
    farthest: Number  # beyond, whole numbers of quarter turns are too long for those exact products
    s3: Number  # Taylor coefficients of sine
    s5: Number
    s7: Number
    s9: Number
    s11: Number
    s13: Number
    s15: Number
    c2: Number  # and of cosine
    c4: Number
    c6: Number
    c8: Number
    c10: Number
    c12: Number
    c14: Number
    c16: Number


_SINE = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000)
_COSINE = (
    -1 / 2,
    1 / 24,
    -1 / 720,
    1 / 40320,
    -1 / 3628800,
    1 / 479001600,
    -1 / 87178291200,
    1 / 20922789888000,
)
_SIMPLE = (0.0, 0.5, 1.0, 2 / np.pi)
_TURNS_64 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21, 1e6)
_TURNS_32 = (1.5703125, 0.0004837512969970703, 7.549789954891882e-08, 6e3)
CONSTANTS_64 = Constants(*(np.float64(x) for x in _SIMPLE + _TURNS_64 + _SINE + _COSINE))
CONSTANTS_32 = Constants(*(np.float32(x) for x in _SIMPLE + _TURNS_32 + _SINE + _COSINE))


class Recipe(NamedTuple):
    """How rows become features. Factors have the data's type."""

    kind: int  # RAW, WAVES or RECTIFIED
    width: int  # number of projections
    factor: Number  # of the rows, for transforms that are not normalised
    amplitude: Number  # of the features
    constants: Constants


@njit(nogil=True, cache=True)
def transform_lanes(V, p):
    """Apply the unnormalised Walsh–Hadamard transform of size p, a power of two, to flat V in place.

    Two stages of the usual transform are done in one pass over memory, four entries at a time; a last stage
    of two is left where p is not a power of four.
    """
    h = 1
    while 4 * h <= p:
        n = h * LANES
        for start in range(0, p * LANES, 4 * n):
            # Four runs of n neighbouring numbers, so that the loop below has no stride.
            a = V[start : start + n]
            b = V[start + n : start + 2 * n]
            c = V[start + 2 * n : start + 3 * n]
            d = V[start + 3 * n : start + 4 * n]
            for t in range(n):
                w = a[t] + b[t]
                x = a[t] - b[t]
                y = c[t] + d[t]
                z = c[t] - d[t]
                a[t] = w + y
                b[t] = x + z
                c[t] = w - y
                d[t] = x - z
        h *= 4
    if h < p:
        n = h * LANES
        a = V[:n]
        b = V[n : 2 * n]
        for t in range(n):
            x = a[t]
            y = b[t]
            a[t] = x + y
            b[t] = x - y


# Products may be fused into sums, and the sign of zero does not matter. Sums keep their order, or the three
# parts of π/2 would be added first and lose what they are split for.
@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def waves(Z, constants, amplitude, sines, cosines):
    """Write amplitude·sin z and amplitude·cos z of flat Z."""
    k = constants
    largest = k.zero
    for t in range(len(Z)):
        largest = max(largest, abs(Z[t]))
    if not largest <= k.farthest:  # NaN takes this way too
        for t in range(len(Z)):
            sines[t] = amplitude * np.sin(Z[t])
            cosines[t] = amplitude * np.cos(Z[t])
        return
    for t in range(len(Z)):
        x = Z[t]
        n = np.floor(x * k.two_over_pi + k.half)
        r = ((x - n * k.pi_half_1) - n * k.pi_half_2) - n * k.pi_half_3  # x − nπ/2, in [−π/4, π/4]
        r2 = r * r
        tail = k.s9 + r2 * (k.s11 + r2 * (k.s13 + r2 * k.s15))
        sine = r + r * r2 * (k.s3 + r2 * (k.s5 + r2 * (k.s7 + r2 * tail)))
        tail = k.c10 + r2 * (k.c12 + r2 * (k.c14 + r2 * k.c16))
        cosine = k.one + r2 * (k.c2 + r2 * (k.c4 + r2 * (k.c6 + r2 * (k.c8 + r2 * tail))))
        # n quarter turns exchange sine and cosine where n is odd, and change signs. Choices instead of
        # branches, and whole numbers of 32 bits, keep this in vector registers.
        quarter = np.int32(n) & np.int32(3)
        odd = (quarter & np.int32(1)) != 0
        a = cosine if odd else sine
        b = sine if odd else cosine
        sines[t] = amplitude * (-a if (quarter & np.int32(2)) != 0 else a)
        cosines[t] = amplitude * (-b if ((quarter + np.int32(1)) & np.int32(2)) != 0 else b)


@njit(nogil=True, cache=True)
def _load(X, first, n, factor, V):
    """Put rows first … first+n−1, times a factor, into lanes; zeros fill the rest."""
    V[:] = 0
    for lane in range(n):
        for i in range(X.shape[1]):
            V[i * LANES + lane] = X[first + lane, i] * factor


@njit(nogil=True, cache=True)
def _store(V, first, n, out, column, width):
    """Put `width` entries of each lane back into rows."""
    for lane in range(n):
        for i in range(width):
            out[first + lane, column + i] = V[i * LANES + lane]


@njit(nogil=True, cache=True)
def _project(V, diagonals):
    """Apply H D_1 … H D_k to lanes in place: the last diagonal first."""
    k, p = diagonals.shape
    for block in range(k - 1, -1, -1):
        for i in range(p):
            for lane in range(LANES):
                V[i * LANES + lane] *= diagonals[block, i]
        transform_lanes(V, p)


@njit(nogil=True, cache=True)
def make_structured_rows(X, diagonals, recipe, out):
    """Features of rows under H D_1 … H D_k.

    `diagonals` has shape (copies, k, p). Sines go to out[:, :width] and cosines to out[:, width:].
    """
    p = diagonals.shape[2]
    width = recipe.width
    rows = np.empty(p * LANES, X.dtype)
    V = np.empty(p * LANES, X.dtype)
    S = np.empty(p * LANES, X.dtype)
    C = np.empty(p * LANES, X.dtype)
    # 16 rows go through all copies while they are in the cache; a few more lanes than rows do no harm.
    for first in range(0, len(X), LANES):
        n = min(LANES, len(X) - first)
        _load(X, first, n, recipe.factor, rows)
        for copy in range(len(diagonals)):
            V[:] = rows
            _project(V, diagonals[copy])
            column = copy * p
            here = min(p, width - column)  # the last copy may have more directions than are wanted
            if recipe.kind == WAVES:
                waves(V[: here * LANES], recipe.constants, recipe.amplitude, S, C)
                _store(S, first, n, out, column, here)
                _store(C, first, n, out, width + column, here)
            else:
                if recipe.kind == RECTIFIED:
                    for t in range(here * LANES):
                        V[t] = recipe.amplitude * max(V[t], recipe.constants.zero)
                _store(V, first, n, out, column, here)


@njit(nogil=True, cache=True)
def write_wave_rows(Z, recipe, out):
    """Sines and cosines of projections Z, shape (n, m), into out, shape (n, 2m)."""
    m = Z.shape[1]
    for i in range(len(Z)):
        waves(Z[i], recipe.constants, recipe.amplitude, out[i, :m], out[i, m:])
