"""The columns that a surrogate sees: constant ones left out, the rest scaled, in an order of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.rows.scaling import ColumnSpread
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import canonical_order

MOST_GATES = 4  # coordinates of a place; more would drown the output, which tells components apart too


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns in use, with their centres and units.

    Attributes
    ----------
    used
        Numbers of the columns in use. Their order depends on their contents only, so that the draws do not
        depend on the order in which columns are given.
    centre, unit
        Mean of each used column, and what it is divided by.
    n_columns
        How many there are in all.
    """

    used: Integers
    centre: Floats
    unit: Floats
    n_columns: int

    def scaled(self, X: Floats) -> Floats:
        """Return the used columns, centred and scaled."""
        return np.asarray((X[:, self.used] - self.centre) / self.unit)

    def spread(self, values: Floats) -> Floats:
        """Put numbers of used columns (…, p) into all columns, zero elsewhere."""
        found = np.zeros((*values.shape[:-1], self.n_columns))
        found[..., self.used] = values
        return found


def choose_columns(X: Floats, y: Floats, *, n_used: int | None, scale: str) -> Columns:
    """Return the columns that vary; only the `n_used` most correlated with y, where that is fewer.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 5.0], [1.0, 1.0, 4.0], [1.0, 2.0, 5.0]])
    >>> choose_columns(X, np.array([0.0, 1.0, 2.0]), n_used=1, scale="columns").used
    array([1])
    """
    spread = ColumnSpread.of(X)
    centre = spread.mean
    deviation = spread.deviation
    # A column far from zero may vary by no more than its rounding errors.
    varying = np.flatnonzero(deviation > 1e-12 * (np.abs(centre) + deviation.max(initial=0.0)))
    unit = deviation[varying]
    if scale == "common":
        unit = np.full(len(varying), np.sqrt((deviation[varying] ** 2).mean()) if len(varying) else 1.0)
    Z = (X[:, varying] - centre[varying]) / unit
    order = canonical_order(Z)
    if n_used is not None and n_used < len(order):
        correlation = ((y - y.mean())[:, None] * (Z / Z.std(axis=0))).sum(axis=0)  # times a constant
        strongest = np.argsort(-np.abs(correlation)[order], kind="stable")[:n_used]
        order = order[np.sort(strongest)]
    chosen = varying[order]
    return Columns(chosen, centre[chosen], unit[order], X.shape[1])


@dataclass(frozen=True, eq=False)
class Gate:
    """Leading principal directions of the scaled rows, each to variance 1: where in the data a row lies."""

    directions: Floats  # (p, q)

    def of(self, Z: Floats) -> Floats:
        """Coordinates of scaled rows, shape (n, q)."""
        return np.asarray(Z @ self.directions)


def choose_gate(Z: Floats) -> Gate:
    """Return up to four principal directions of scaled rows that vary."""
    found = np.linalg.svd(Z, full_matrices=False)
    varies = 1e-9 * max(found.S.max(initial=0.0), 1e-300) < found.S
    kept = min(MOST_GATES, int(varies.sum()))
    return Gate(found.Vh[:kept].T * (np.sqrt(len(Z)) / found.S[:kept]))
