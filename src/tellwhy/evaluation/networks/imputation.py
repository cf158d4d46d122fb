"""Pixels that are taken away and told by their neighbours, so that no edge shows where they were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import spsolve

from tellwhy.core.score_function import Floats, Integers

# Weights of direct and of diagonal neighbours, as in the publication.
_NEIGHBOURS = {
    **dict.fromkeys([(0, 1), (1, 0), (0, -1), (-1, 0)], 1 / 6),
    **dict.fromkeys([(1, 1), (1, -1), (-1, 1), (-1, -1)], 1 / 12),
}


def impute(x: Floats, gone: NDArray[np.bool_], noise: Floats) -> Floats:
    """Replace the pixels that are gone (height, width) by weighted means of their neighbours, plus noise.

    All of them at once: a pixel whose neighbours are gone too is told by theirs. `x` has channels last.
    Rong, Leemann, Borisov, Kasneci, Kasneci, ICML (2022).

    Examples
    --------
    >>> x = np.arange(9.0).reshape(3, 3, 1)
    >>> gone = np.zeros((3, 3), dtype=bool)
    >>> gone[1, 1] = True
    >>> impute(x, gone, np.zeros((3, 3, 1)))[1, 1]
    array([4.])
    """
    if gone.all():
        return np.broadcast_to(x.mean(axis=(0, 1)), x.shape) + noise
    found = np.array(x, dtype=np.float64)
    if not gone.any():
        return found
    places = np.argwhere(gone)
    number = np.full(gone.shape, -1, dtype=np.int64)
    number[gone] = np.arange(len(places))
    matrix, known = _system(x, places, number)
    solved = spsolve(matrix, known)
    found[gone] = solved.reshape(len(places), -1) + noise[gone]
    return found


def _system(x: Floats, places: Integers, number: Integers) -> tuple[csr_matrix, Floats]:
    """Equations Σ_neighbours w (pixel − neighbour) = 0 of the pixels that are gone."""
    height, width = number.shape
    known = np.zeros((len(places), x.shape[2]))
    total = np.zeros(len(places))
    here = np.arange(len(places))
    rows = [here]
    columns = [here]
    for (down, right), weight in _NEIGHBOURS.items():
        beside = places + np.array([down, right])
        inside = (beside >= 0).all(axis=1) & (beside[:, 0] < height) & (beside[:, 1] < width)
        total[inside] += weight
        there = beside[inside]
        told = number[there[:, 0], there[:, 1]]
        is_known = told < 0
        known[here[inside][is_known]] += weight * x[there[is_known, 0], there[is_known, 1]]
        rows.append(here[inside][~is_known])
        columns.append(told[~is_known])
    weights = [total]
    weights += [
        np.full(len(part), -weight) for part, weight in zip(rows[1:], _NEIGHBOURS.values(), strict=True)
    ]
    entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    return csr_matrix(entries, shape=(len(places), len(places))), known
