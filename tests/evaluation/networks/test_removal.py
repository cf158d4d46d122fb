"""IROF and ROAD: on scores of which the answer is known, and beside explicit algebra."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.data.pieces import segment
from tellwhy.evaluation import irof, road
from tellwhy.evaluation.removal import impute
from tellwhy.scoring import FunctionScore

rng = np.random.default_rng(0)
X = rng.random((4, 3, 10, 12))
X[:, :, 2:6, 3:8] += 2.0


def score_of(Z):
    return Z[:, :, 2:6, 3:8].mean(axis=(1, 2, 3))


SCORE = FunctionScore(score_of, feature_shape=(3, 10, 12))
RIGHT = np.zeros(X.shape)
RIGHT[:, :, 2:6, 3:8] = 1.0


def told(values):
    return Explanation(values=values, scores=score_of(X), method="Told", data=X)


@pytest.mark.parametrize("check", [irof, road])
def test_a_right_explanation_is_better_than_chance_and_a_wrong_one_worse(check):
    right = check(told(RIGHT), SCORE, n_random=2)
    wrong = check(told(-RIGHT), SCORE, n_random=2)
    assert right.area < right.random.area - 0.1 < wrong.area - 0.2
    assert right.area_over_curve > wrong.area_over_curve
    np.testing.assert_array_equal(right.random.curves, wrong.random.curves)
    last = check(told(RIGHT), SCORE, order="lerf")
    assert last.area > last.random.area
    assert right.shares[[0, -1]].tolist() == [0, 1]


def test_curves_of_irof_are_those_of_a_slow_loop():
    values = rng.normal(size=X.shape)
    found = irof(told(values), SCORE, n_segments=9, n_steps=5, baseline="zero", batch_size=3)
    for x, v, curve in zip(X, values, found.curves, strict=True):
        labels = segment(x, 9)
        means = np.array([v[labels == k].mean() for k in range(labels.max() + 1)])
        ranking = np.argsort(-means)
        for step in range(6):
            gone = ranking[: round(step / 5 * len(means))]
            changed = np.where(np.isin(labels, gone), 0.0, x)
            np.testing.assert_allclose(curve[step], score_of(changed[None])[0], rtol=1e-12)


def test_missing_pixels_solve_the_equations_of_their_neighbours():
    x = rng.normal(size=(6, 7, 2))
    gone = rng.random((6, 7)) < 0.6
    found = impute(x, gone, np.zeros(x.shape))
    np.testing.assert_array_equal(found[~gone], x[~gone])
    for i, j in np.argwhere(gone):
        total, mean = 0.0, np.zeros(2)
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                if (di or dj) and 0 <= i + di < 6 and 0 <= j + dj < 7:
                    weight = 1 / 6 if di == 0 or dj == 0 else 1 / 12
                    total += weight
                    mean += weight * found[i + di, j + dj]
        np.testing.assert_allclose(found[i, j], mean / total, atol=1e-12)
    everything = impute(x, np.ones((6, 7), dtype=bool), np.zeros(x.shape))
    np.testing.assert_allclose(everything, np.broadcast_to(x.mean(axis=(0, 1)), x.shape))


def test_a_plane_loses_nothing():
    """Neighbours tell every pixel of a plane, but for the edges: no pixel of it carries information."""
    plane = np.add.outer(np.arange(8.0), np.arange(9.0))[..., None]
    gone = np.zeros((8, 9), dtype=bool)
    gone[2:6, 2:7] = True
    np.testing.assert_allclose(impute(plane, gone, np.zeros(plane.shape)), plane, atol=1e-10)


def test_networks_and_what_is_refused():
    torch = pytest.importorskip("torch")
    from tellwhy.explainers import LRP

    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(320, 3)
    model = torch.nn.Sequential(*layers).eval()
    found = LRP(model).explain(torch.as_tensor(X).float())
    for check in (irof, road):
        result = check(found, model, n_steps=4, batch_size=7)
        np.testing.assert_allclose(result.curves[:, 0], found.scores, rtol=1e-4)
    flat = Explanation(values=X[:, 0, 0], scores=np.zeros(4), method="Told", data=X[:, 0, 0])
    with pytest.raises(InvalidInput, match="pictures"):
        road(flat, lambda Z: Z.sum(axis=1))
    with pytest.raises(InvalidParameter, match="n_segments"):
        irof(told(RIGHT), SCORE, n_segments=1)
