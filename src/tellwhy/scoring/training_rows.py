"""Rows a model was trained on, found among its own support points.

A training row is its own nearest support point, which hides how odd it is; explanations therefore leave it
out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, Integers, Remembered


def matching_points(X: Floats, expansion: Remembered) -> Integers:
    """Index of the support point that is the same row as X[i], or −1.

    When X is the whole training set, row i is matched to its own point by index, so that a duplicate
    elsewhere still counts. Otherwise rows are matched by exact equality, duplicates to the first.
    """
    points, rows = expansion.points, expansion.training_rows
    found = np.full(len(X), -1, dtype=np.int64)
    if rows is not None and len(X) == expansion.n_training and np.array_equal(X[rows], points):
        found[rows] = np.arange(len(points))
        return found
    candidates = np.flatnonzero(
        np.isin(X[:, 0], points[:, 0])
    )  # rows without one are new: no need to look further
    if len(candidates):
        first_index: dict[bytes, int] = {}
        for j, key in enumerate(_row_keys(points, np.arange(len(points)))):
            first_index.setdefault(key, j)
        found[candidates] = [first_index.get(key, -1) for key in _row_keys(X, candidates)]
    return found


def recorded_rows(left_out: Integers, expansion: Remembered) -> Integers:
    """Training row that each row left out, or −1 (the support point's index where rows are not recorded)."""
    if expansion.training_rows is None:
        return left_out
    return np.where(left_out >= 0, expansion.training_rows[np.maximum(left_out, 0)], -1)


def points_of(recorded: Integers, expansion: Remembered) -> Integers:
    """Support point of each training row that `recorded_rows` tells, or −1."""
    rows = expansion.training_rows
    if rows is None:
        return recorded
    point_of_row = np.full(max(int(rows.max()), int(recorded.max(initial=-1))) + 2, -1, dtype=np.int64)
    point_of_row[rows] = np.arange(len(rows))
    return np.asarray(point_of_row[np.where(recorded < 0, len(point_of_row) - 1, recorded)])


def _row_keys(X: Floats, chosen: Integers) -> Iterator[bytes]:
    for rows in row_batches(len(chosen), X.shape[1] * 8):
        batch = np.ascontiguousarray(X[chosen[rows]] + 0.0)  # −0.0 and 0.0 are the same number
        yield from (row.tobytes() for row in batch)
