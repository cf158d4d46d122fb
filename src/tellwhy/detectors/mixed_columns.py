"""Columns with values that many rows share: point masses, a smooth part, and normal scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtri

from tellwhy.core.rows.scaling import Scaling
from tellwhy.core.score_function import Floats, Integers

LEAST_SHARE = 0.05  # of the rows, that make a value a point mass
LEAST_ROWS = 3
N_CENTRES = 64  # quantiles of the other values that carry kernels
N_LEVELS = 257  # quantiles that the distribution function runs through
LEAST_WIDTH = 0.05  # of a column's standard deviation: kernels on values that hardly differ
_PEAK = np.log(2.0 / (np.pi * np.sqrt(3.0)))  # of Student's t with 3 degrees of freedom
_LARGEST = 1e150  # a difference whose square is still a number


@dataclass(frozen=True, eq=False)
class MixedColumns:
    """Each column by itself: values that repeat, and a density of the others.

    The atoms of column j are `atoms[starts[j]:starts[j + 1]]`, in ascending order, each with its share of the
    rows (`masses`) and its level, the middle of its step in the distribution function. All other values
    together have the share `rest`; their density is a mean of Student kernels (3 degrees of freedom: a value
    far away is unlikely, not impossible) on `centres`. These and the widths are in units of the column's
    standard deviation.
    """

    starts: Integers  # (d + 1,)
    atoms: Floats
    masses: Floats
    levels: Floats
    rest: Floats  # (d,)
    centres: Floats  # (d, 64)
    widths: Floats  # (d,)
    scales: Floats  # (d,)
    quantiles: Floats  # (d, 257) of all values
    n_rows: int

    @classmethod
    def of(cls, X: Floats) -> MixedColumns:
        """Learn from rows."""
        scales = Scaling.of(X, constant=1.0).scale
        columns = [_Column.of(x, scale) for x, scale in zip(X.T, scales, strict=True)]
        return cls(
            starts=np.concatenate([[0], np.cumsum([len(c.atoms) for c in columns])]).astype(np.int64),
            atoms=np.concatenate([c.atoms for c in columns]),
            masses=np.concatenate([c.masses for c in columns]),
            levels=np.concatenate([c.levels for c in columns]),
            rest=np.array([c.rest for c in columns]),
            centres=np.stack([c.centres for c in columns]),
            widths=np.array([c.width for c in columns]),
            scales=scales,
            quantiles=np.quantile(X, np.linspace(0.0, 1.0, N_LEVELS), axis=0).T.copy(),
            n_rows=len(X),
        )

    def surprises(self, X: Floats) -> Floats:
        """−log of the share of rows that have the value, or of the density beside the atoms; shape (n, d)."""
        found = np.empty_like(X)
        for j, x in enumerate(X.T):
            gaps = ((x / self.scales[j])[:, None] - self.centres[j]) / self.widths[j]
            kernels = _PEAK - 2.0 * np.log1p(np.clip(gaps, -_LARGEST, _LARGEST) ** 2 / 3.0)
            height = self.rest[j] / self.widths[j] / N_CENTRES
            found[:, j] = -logsumexp(kernels, axis=1) - np.log(height)
            place = self._atom(j, x)
            found[place >= 0, j] = -np.log(self.masses[place[place >= 0]])
        return found

    def normal_scores(self, X: Floats) -> Floats:
        """Quantile of the standard normal distribution at each cell's level in its column; shape (n, d)."""
        edge = 0.5 / (self.n_rows + 1.0)  # no level is 0 or 1, which have no finite quantile
        grid = np.linspace(0.0, 1.0, N_LEVELS)
        found = np.empty_like(X)
        for j, x in enumerate(X.T):
            level = np.interp(x, self.quantiles[j], grid)
            place = self._atom(j, x)
            level[place >= 0] = self.levels[place[place >= 0]]
            found[:, j] = ndtri(np.clip(level, edge, 1.0 - edge))
        return found

    def _atom(self, j: int, x: Floats) -> Integers:
        """Place of the atom that each value is; −1 for a value that is none."""
        start, stop = self.starts[j : j + 2]
        if start == stop:
            return np.full(len(x), -1)
        atoms = self.atoms[start:stop]
        place = np.minimum(np.searchsorted(atoms, x), len(atoms) - 1)
        return np.where(atoms[place] == x, start + place, -1)


@dataclass(frozen=True)
class _Column:
    atoms: Floats
    masses: Floats
    levels: Floats
    rest: float
    centres: Floats
    width: float

    @classmethod
    def of(cls, x: Floats, scale: float) -> _Column:
        values, counts = np.unique(x, return_counts=True)
        is_atom = counts >= max(LEAST_SHARE * len(x), LEAST_ROWS)
        middles = (np.cumsum(counts) - 0.5 * counts) / len(x)
        others = np.repeat(values[~is_atom], counts[~is_atom])
        # Half a row for each atom and for all other values together: a value never seen is not impossible.
        total = len(x) + 0.5 * (is_atom.sum() + 1)
        carried = others if len(others) else values
        carried = carried / scale  # large numbers have no squares
        centres = np.quantile(carried, (np.arange(N_CENTRES) + 0.5) / N_CENTRES)
        return cls(
            values[is_atom],
            (counts[is_atom] + 0.5) / total,
            middles[is_atom],
            float((len(others) + 0.5) / total),
            centres,
            _width(carried),
        )


def _width(values: Floats) -> float:
    """Silverman's width, with the smaller of standard deviation and quartile distance; never next to 0."""
    low, high = np.quantile(values, [0.25, 0.75])
    spreads = [spread for spread in (float(np.std(values)), (high - low) / 1.349) if spread > 0]
    return float(max(0.9 * min(spreads, default=0.0) * len(values) ** -0.2, LEAST_WIDTH))
