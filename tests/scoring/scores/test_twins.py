"""Compiled loops of distances, and numpy's way to the same bits."""

import numpy as np
import pytest

from tellwhy.core.compiled import LoopWithTwin
from tellwhy.core.score import NeighbourDistance
from tellwhy.kernels import distances
from tellwhy.kernels._compiled import finish_squared_distances
from tellwhy.scoring import distance_scores as distance_score
from tellwhy.scoring.distance_scores import NeighbourScore


def rows_of(seed, n, d, *, rounded):
    """Rows; rounded ones have many ties and many copies."""
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return np.round(rows) if rounded else rows


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (7, 90, 3), (300, 257, 11), (40, 5, 2)])
def test_squared_distances_are_the_same_to_the_bit(n, m, d, rounded):
    Z = rows_of(n, n, d, rounded=rounded)
    V = np.concatenate([Z[: m // 2], rows_of(1, m - min(m // 2, n), d, rounded=rounded)])
    products = Z @ V.T
    norms = [np.einsum("ij,ij->i", one, one) for one in (Z, V)]
    made = []
    for way in (finish_squared_distances, distances.finish_by_numpy):
        made.append(products.copy())
        way(made[-1], Z, V, *norms)
    assert made[0].tobytes() == made[1].tobytes()


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("k", [1, 5, 33])
@pytest.mark.parametrize("n_points", [34, 700, 1500])
def test_neighbours_are_the_same_to_the_bit(monkeypatch, n_points, k, rounded):
    points = rows_of(0, n_points, 4, rounded=rounded)
    X = np.concatenate([points[:300], rows_of(1, 50, 4, rounded=rounded)])
    own = np.where(np.arange(len(X)) < min(300, n_points), np.arange(len(X)), -1)
    score = NeighbourScore(NeighbourDistance(points, k))
    found = []
    for pays_after in (0, np.inf):
        monkeypatch.setattr(distance_score._keep_nearest, "pays", lambda _, most=pays_after: most == 0)
        index, distance = score.neighbours(X, own)
        found.append([index.tobytes(), distance.tobytes(), score.value(X, own).tobytes()])
    assert found[0] == found[1]


def test_a_loop_is_called_when_it_pays_or_is_there():
    called = []

    class Loop:
        is_made = False

        def __call__(self, word):
            called.append(f"loop {word}")

    both = LoopWithTwin(Loop(), lambda word: called.append(f"twin {word}"), pays_after=10)
    both(8, "a")
    both(8, "b")
    assert called == ["twin a", "loop b"]
    other = LoopWithTwin(Loop(), lambda word: called.append(f"twin {word}"), pays_after=10)
    other.loop.is_made = True
    other(1, "c")
    assert called[-1] == "loop c"
