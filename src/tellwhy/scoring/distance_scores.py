"""Scores that are plain distances: to the nearest centre, or the mean one to the k nearest neighbours.

A training row is its own nearest support point, which hides how odd it is; explanations therefore leave it
out. `find_matching_points` finds such rows among the points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.core.arrays import as_floats
from tellwhy.core.compiled import LoopWithTwin
from tellwhy.core.errors import InvalidInput
from tellwhy.core.running import (
    BATCH_BYTES,
    CACHED_BYTES,
    cut_batches,
    one_thread_for_products,
    track_batches,
)
from tellwhy.core.score import CentreDistance, Floats, Integers, NeighbourDistance, Remembered
from tellwhy.kernels.distances import PAYS_AFTER, ScaledPoints, centre_and_unit
from tellwhy.scoring._compiled_one_class import keep_nearest


def find_matching_points(X: Floats, expansion: Remembered) -> Integers:
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
        for j, key in enumerate(_make_row_keys(points, np.arange(len(points)))):
            first_index.setdefault(key, j)
        found[candidates] = [first_index.get(key, -1) for key in _make_row_keys(X, candidates)]
    return found


def find_recorded_rows(left_out: Integers, expansion: Remembered) -> Integers:
    """Training row that each row left out, or −1 (the support point's index where rows are not recorded)."""
    if expansion.training_rows is None:
        return left_out
    return np.where(left_out >= 0, expansion.training_rows[np.maximum(left_out, 0)], -1)


def points_of(recorded: Integers, expansion: Remembered) -> Integers:
    """Support point of each training row that `find_recorded_rows` tells, or −1."""
    rows = expansion.training_rows
    if rows is None:
        return recorded
    point_of_row = np.full(max(int(rows.max()), int(recorded.max(initial=-1))) + 2, -1, dtype=np.int64)
    point_of_row[rows] = np.arange(len(rows))
    return np.asarray(point_of_row[np.where(recorded < 0, len(point_of_row) - 1, recorded)])


def _make_row_keys(X: Floats, chosen: Integers) -> Iterator[bytes]:
    for rows in cut_batches(len(chosen), X.shape[1] * 8):
        batch = np.ascontiguousarray(X[chosen[rows]] + 0.0)  # −0.0 and 0.0 are the same number
        yield from (row.tobytes() for row in batch)


FEW = 64  # neighbours up to which keeping them in order is faster than partitioning all distances
TILE = 512  # points whose distances are made at a time


class CentreScore:
    """o(x) = min_c ‖x − c‖²."""

    def __init__(
        self,
        expansion: CentreDistance,
        *,
        feature_names: Sequence[str] | None = None,
        describes: str = "squared distance to the nearest centre",
        threshold: float | None = None,
    ):
        self.expansion = expansion
        self.feature_shape = expansion.centres.shape[1:]
        self.feature_names = feature_names
        self.describes = describes
        self.threshold = threshold

    def nearest(self, X: Floats) -> Floats:
        """Return the centre nearest to each row."""
        return np.asarray(self.expansion.centres[self._find_nearest_index(X)])

    def _find_nearest_index(self, X: Floats) -> Integers:
        points = ScaledPoints.of(self.expansion.centres, centre_and_unit(self.expansion.centres)[1])
        found = np.empty(len(X), dtype=np.int64)
        for rows in track_batches(len(X), 8 * len(self.expansion.centres), "distances to centres"):
            found[rows] = points.squared_distances(points.rescale(X[rows])).argmin(axis=1)
        return found

    def value(self, X: Any) -> Floats:
        """Squared distance of each row to its nearest centre."""
        X = as_floats(X, n_columns=self.feature_shape[0])
        with np.errstate(over="ignore"):
            # In the units of the rows; the distances that found the centre are scaled ones.
            scores = ((X - self.nearest(X)) ** 2).sum(axis=1)
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise InvalidInput(
                f"The squared distance of row {row} to its centre overflows. Scale the columns first."
            )
        return np.asarray(scores)

    def gradient(self, X: Any) -> Floats:
        """2 (x − c)."""
        X = as_floats(X, n_columns=self.feature_shape[0])
        return np.asarray(2.0 * (X - self.nearest(X)))


class NeighbourScore:
    """o(x) = (1/k) Σ_{j ∈ k nearest} ‖x − u_j‖."""

    def __init__(
        self,
        expansion: NeighbourDistance,
        *,
        feature_names: Sequence[str] | None = None,
        describes: str = "",
        threshold: float | None = None,
    ):
        self.expansion = expansion
        self.feature_shape = expansion.points.shape[1:]
        self.feature_names = feature_names
        self.describes = describes or f"mean distance to the {expansion.n_neighbours} nearest reference rows"
        self.threshold = threshold

    @cached_property
    def _points(self) -> ScaledPoints:
        return ScaledPoints.of(self.expansion.points, centre_and_unit(self.expansion.points)[1])

    @property
    def remembered(self) -> NeighbourDistance:
        """The points that training rows are left out of."""
        return self.expansion

    def match(self, X: Any) -> Integers:
        """Index of the reference point that each row is, or −1."""
        return self.leave_some(find_matching_points(as_floats(X), self.expansion))

    def leave_some(self, left_out: Integers) -> Integers:
        """Leave nothing out where fewer than k points would remain."""
        enough = len(self.expansion.points) > self.expansion.n_neighbours
        return left_out if enough else np.full_like(left_out, -1)

    def neighbours(self, X: Floats, left_out: Integers | None = None) -> tuple[Integers, Floats]:
        """Indices of the k nearest points of each row and their distances, shape (n, k)."""
        index = np.empty((len(X), self.expansion.n_neighbours), dtype=np.int64)
        return index, self._distances(X, left_out, index)

    def _distances(self, X: Floats, left_out: Integers | None, index: Integers | None) -> Floats:
        """Distances of the k nearest points of each row, shape (n, k); their indices go into `index`."""
        n_points = len(self.expansion.points)
        squares = np.empty((len(X), self.expansion.n_neighbours))
        if left_out is None:
            left_out = np.full(len(X), -1, dtype=np.int64)
        is_few = squares.shape[1] <= FEW
        size, limit = (8 * TILE, CACHED_BYTES) if is_few else (16 * n_points, BATCH_BYTES)
        in_loop = is_few and _keep_nearest.pays(len(X) * n_points)
        places = np.empty(squares.shape, dtype=np.int64) if in_loop and index is None else index
        with one_thread_for_products():  # tiles are small: see there
            for rows in track_batches(len(X), size, "distances to neighbours", limit):
                Z = self._points.rescale(X[rows])
                found = None if places is None else places[rows]
                if in_loop:
                    self._find_few_nearest(Z, left_out[rows], found, squares[rows])
                elif is_few:
                    self._find_few_by_numpy(Z, left_out[rows], found, squares[rows])
                else:
                    self._nearest(Z, left_out[rows], found, squares[rows])
        return np.asarray(np.sqrt(squares) * self._points.length)

    def _find_few_nearest(self, Z: Floats, left_out: Integers, index: Any, squares: Floats) -> None:
        """Write the k nearest into `index` and `squares`; distances are made tile by tile and not kept."""
        for tile in cut_batches(len(self.expansion.points), 1, TILE):
            S = self._points.squared_distances(Z, tile)
            own = left_out - tile.start
            here = np.flatnonzero((own >= 0) & (own < S.shape[1]))
            S[here, own[here]] = np.inf
            keep_nearest(S, tile.start, index, squares)

    def _find_few_by_numpy(
        self, Z: Floats, left_out: Integers, index: Integers | None, squares: Floats
    ) -> None:
        """Write the same, to the bit: distances come from the same tiles."""
        S = np.empty((len(Z), len(self.expansion.points)))
        for tile in cut_batches(S.shape[1], 1, TILE):
            S[:, tile] = self._points.squared_distances(Z, tile)
        here = np.flatnonzero(left_out >= 0)
        S[here, left_out[here]] = np.inf
        if index is None:
            S.partition(squares.shape[1] - 1, axis=1)
            squares[:] = np.sort(S[:, : squares.shape[1]], axis=1)
        else:
            index[:] = smallest(S, squares.shape[1])
            squares[:] = np.take_along_axis(S, index, axis=1)

    def _nearest(self, Z: Floats, left_out: Integers, index: Integers | None, squares: Floats) -> None:
        """Write the k nearest into `index` and `squares`, in no order: a mean needs none."""
        k = squares.shape[1]
        S = self._points.squared_distances(Z)
        here = np.flatnonzero(left_out >= 0)
        S[here, left_out[here]] = np.inf
        places = np.argpartition(S, k - 1, axis=1)[:, :k]
        squares[:] = np.take_along_axis(S, places, axis=1)
        if index is not None:
            index[:] = places

    def value(self, X: Any, left_out: Integers | None = None) -> Floats:
        """Mean distance of each row to its k nearest points."""
        X = as_floats(X, n_columns=self.feature_shape[0])
        return np.asarray(self._distances(X, left_out, None).mean(axis=1))

    def gradient(self, X: Any, left_out: Integers | None = None) -> Floats:
        """(1/k) Σ_j (x − u_j)/r_j."""
        X = as_floats(X, n_columns=self.feature_shape[0])
        index, distance = self.neighbours(X, left_out)
        slopes = np.zeros_like(X)
        for j, r in zip(index.T, distance.T, strict=True):
            # A row that is the point itself has no direction away from it.
            slopes += (X - self.expansion.points[j]) / np.where(r > 0, r, np.inf)[:, None]
        return slopes / self.expansion.n_neighbours


def smallest(squares: Floats, few: int) -> Integers:
    """Places of the smallest entries of each row, in order; of equal ones the first."""
    places = np.sort(np.argpartition(squares, few - 1, axis=1)[:, :few], axis=1)
    values = np.take_along_axis(squares, places, axis=1)
    found = np.take_along_axis(places, np.argsort(values, axis=1, kind="stable"), axis=1)
    tied = np.flatnonzero((squares <= values.max(axis=1)[:, None]).sum(axis=1) > few)
    found[tied] = np.argsort(squares[tied], axis=1, kind="stable")[:, :few]
    return found


_keep_nearest = LoopWithTwin(keep_nearest, smallest, PAYS_AFTER)


def find_nearest_points(points: Floats, X: Floats, left_out: Integers) -> Integers:
    """Index of the point nearest to each row, other than the one it leaves out."""
    one = NeighbourScore(NeighbourDistance(points, 1))
    return np.asarray(one.neighbours(X, one.leave_some(left_out))[0][:, 0])
