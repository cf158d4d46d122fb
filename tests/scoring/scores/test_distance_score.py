"""Nearest points beside a plain loop over all distances."""

import numpy as np
import pytest

from tellwhy.core.score import NeighbourDistance
from tellwhy.scoring import NeighbourScore, distance_scores as distance_score


def nearest_by_sorting(points, X, k, left_out):
    """Indices and distances of the k nearest; of equal distances the first."""
    distances = np.sqrt(((X[:, None] - points) ** 2).sum(axis=2))
    for row, point in enumerate(left_out):
        if point >= 0:
            distances[row, point] = np.inf
    index = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return index, np.take_along_axis(distances, index, axis=1)


@pytest.mark.parametrize("tile", [1, 7, 40, 512])
@pytest.mark.parametrize("k", [1, 10, 65])
def test_nearest_points_found_in_tiles_are_those_of_a_sort(monkeypatch, tile, k):
    """Tiles smaller than k, and points left out in any of them; 65 are found by a partition."""
    monkeypatch.setattr(distance_score, "TILE", tile)
    rng = np.random.default_rng(k)
    points = rng.normal(size=(130, 4))
    points[[30, 90]] = points[2]  # the same point in several tiles
    X = np.concatenate([rng.normal(size=(20, 4)), points[[2, 30, 129]]])
    left_out = np.full(len(X), -1)
    left_out[[3, 5, 20, 21, 22]] = [0, 129, 2, 90, 129]
    index, distance = NeighbourScore(NeighbourDistance(points, k)).neighbours(X, left_out)
    expected, lengths = nearest_by_sorting(points, X, k, left_out)
    order = np.argsort(distance, axis=1, kind="stable")
    assert np.allclose(np.take_along_axis(distance, order, axis=1), lengths, rtol=1e-9, atol=1e-12)
    if k < distance_score.FEW:
        assert np.array_equal(index, expected)
    else:
        assert [set(row) for row in index] == [set(row) for row in expected]


def test_batches_of_rows_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    score = NeighbourScore(NeighbourDistance(rng.normal(size=(50, 3)), 5))
    X = rng.normal(size=(40, 3))
    whole = score.neighbours(X)
    monkeypatch.setattr(distance_score, "CACHED_BYTES", 8 * distance_score.TILE * 3)  # three rows at a time
    parts = score.neighbours(X)
    assert np.array_equal(whole[0], parts[0])
    assert np.allclose(whole[1], parts[1], rtol=1e-12)
