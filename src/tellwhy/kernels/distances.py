"""Squared Euclidean distances by matrix products that keep their digits, and bandwidths chosen from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.arrays import draw_sample
from tellwhy.core.compiled import LoopWithTwin
from tellwhy.core.errors import InvalidInput
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats
from tellwhy.kernels._compiled import CANCELLED, finish_squared_distances

PAYS_AFTER = 3e8  # pairs: half a second of numpy's way
_BLOCK = 2**15  # pairs whose copies stay in memory that is used again; larger ones are fetched anew each time


@dataclass(frozen=True)
class ScaledPoints:
    """Points centred on their mean and divided by a length: large offsets and scales cancel here, once."""

    centre: Floats
    length: float
    scaled: Floats
    squared_norms: Floats

    @classmethod
    def of(cls, points: Floats, length: float) -> ScaledPoints:
        """Centre on the mean and divide by the length."""
        centre, _ = centre_and_unit(points)
        scaled = np.ascontiguousarray((points - centre) / length)
        return cls(centre, length, scaled, np.einsum("ij,ij->i", scaled, scaled))

    def rescale(self, X: Floats) -> Floats:
        """Bring rows into the same coordinates."""
        return np.ascontiguousarray((np.asarray(X, dtype=np.float64) - self.centre) / self.length)

    def squared_distances(self, Z: Floats, points: slice = slice(None)) -> Floats:
        """‖z_i − v_j‖² for rescaled rows Z and all or some of the points, shape (len(Z), n_points)."""
        # ‖z − v‖² = ‖z‖² + ‖v‖² − 2 z·v: nearly all the work is one matrix product.
        V = self.scaled[points]
        products = Z @ V.T
        norms = np.einsum("ij,ij->i", Z, Z)
        _finish(products.size, products, Z, V, norms, self.squared_norms[points])
        return products


def finish_by_numpy(products: Floats, Z: Floats, V: Floats, zz: Floats, vv: Floats) -> None:
    """Do what `finish_squared_distances` does, to the bit."""
    for rows in cut_batches(len(products), len(vv), _BLOCK):
        S = products[rows]
        both = zz[rows, None] + vv
        np.subtract(both, np.multiply(S, 2.0, out=S), out=S)
        close = np.flatnonzero(np.multiply(both, CANCELLED, out=both) >= S)
        if len(close):
            row, column = np.divmod(close, len(vv))
            difference = Z[rows][row] - V[column]
            # A running sum adds one feature after the other, as the loop does; numpy's sum adds in pairs.
            with np.errstate(
                over="ignore"
            ):  # whoever asks looks for numbers that are not finite, as after the loop
                S[row, column] = np.cumsum(difference * difference, axis=1)[:, -1]


_finish = LoopWithTwin(finish_squared_distances, finish_by_numpy, PAYS_AFTER)


def centre_and_unit(X: Floats) -> tuple[Floats, float]:
    """Return the mean of rows and the largest deviation from it (1 where there is none), without overflow."""
    half = X / 2.0  # the difference of the largest numbers of either sign is twice as large as a float can be
    centre = np.mean(half, axis=0)
    unit = float(np.abs(half - centre).max()) * 2.0
    return 2.0 * centre, unit if unit > 0 else 1.0


# Squares then lie between 1e-280 and 1e280, which leaves room for sums over columns and for differences.
_LEAST_UNIT = 1e-140
_MOST_UNIT = 1e140


def squarable_centre_and_unit(X: Floats, what: str) -> tuple[Floats, float]:
    """Return the mean of rows and their largest deviation from it, or say that `what` would not be finite.

    Examples
    --------
    >>> import numpy as np
    >>> squarable_centre_and_unit(np.array([[1.0], [3.0]]), "squared errors")
    (array([2.]), 1.0)
    """
    centre, unit = centre_and_unit(X)
    if not _LEAST_UNIT < unit < _MOST_UNIT:
        raise InvalidInput(
            f"The columns spread over {unit:.1e}, and {what} would leave the range of floating-point "
            "numbers. Scale the columns first, for example with a StandardScaler."
        )
    return centre, unit


SAMPLE = 1_000  # rows: their distances are half a million pairs, enough for a median
NEIGHBOUR = 50
WIDTHS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)  # shares of the median distance that are tried


def median_distance(X: Floats) -> float:
    """Median distance between two rows, of a fixed random sample of at most 1,000.

    It follows the data's units, offset and scale. Where more than half of the pairs are equal, the mean of
    the positive distances takes its place.
    """
    squared, unit = _sample_squared_distances(X, np.random.default_rng(0))
    pairs = squared[np.triu_indices(len(squared), k=1)]
    return _choose_first_positive(float(np.sqrt(np.median(pairs))) if len(pairs) else 0.0, pairs) * unit


def measure_neighbour_distance(X: Floats, rng: np.random.Generator) -> float:
    """Mean distance to the 50th nearest neighbour among 1,000 rows drawn at random (Yu et al., 2015).

    Of fewer than 51 rows, the farthest neighbour counts. Where the 50th neighbours are all copies of the row,
    the mean of the positive distances takes their place.
    """
    squared, unit = _sample_squared_distances(X, rng)
    nth = min(NEIGHBOUR, len(squared) - 1)
    length = float(np.sqrt(np.partition(squared, nth, axis=1)[:, nth]).mean())
    return _choose_first_positive(length, squared) * unit


def _sample_squared_distances(X: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    """Squared distances between the rows of a sample, and the unit of their roots."""
    rows = np.asarray(X[draw_sample(len(X), SAMPLE, rng)], dtype=np.float64)
    # Distances of order 1, because the squares of very large or small ones leave the range of floats.
    _, unit = centre_and_unit(rows)
    points = ScaledPoints.of(rows, unit)
    return points.squared_distances(points.scaled), unit


def _choose_first_positive(length: float, squared: Floats) -> float:
    """The length, or the mean of the positive distances where it is 0."""
    if length > 0:
        return length
    if not squared.any():
        raise InvalidInput(
            "All rows are equal, so bandwidth='auto' has no scale to learn from. Pass a bandwidth in the "
            "units of the data, or leave constant columns out."
        )
    return float(np.sqrt(squared[squared > 0]).mean())
