"""CoalitionWorths of a network's score with tensors: what numpy gives, and nothing goes through numpy on the way."""

from copy import copy

import numpy as np
import pytest

from tellwhy.counterfactuals import minimise
from tellwhy.detectors import DAGMM, VAE
from tellwhy.detectors.networks.network_score import NetworkScore
from tellwhy.explainers import AnomalyShapley, Compensation
from tellwhy.explainers.shapley import anomaly_shapley
from tellwhy.optimise.arrays import Space

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = np.tanh(RNG.normal(size=(150, 2)) @ RNG.normal(size=(2, 5))) + 0.1 * RNG.normal(size=(150, 5))
ODD = X[:4] + np.array([0.0, 2.0, 0.0, 0.0, -1.0])
WIDE = RNG.normal(size=(150, 3)) @ RNG.normal(size=(3, 14)) + 0.1 * RNG.normal(size=(150, 14))
BITS = (X > 0).astype(float)
QUICK = {"latent": 2, "hidden": 6, "max_epochs": 20, "device": "cpu"}
MODEL = VAE(**QUICK).fit(X)


@pytest.fixture(autouse=True)
def _no_way_through_numpy(monkeypatch):
    """As on a graphics card: a tensor becomes an array only where that is asked for."""

    def refuse(*_):
        raise AssertionError("a tensor was taken for an array")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)


def both(model, rows, background, explainer=AnomalyShapley, **settings):
    """The explanation with numpy, and with tensors; γ = 2 makes valleys round, so that rounding moves no minimum."""
    if settings.get("characteristic") != "ball":  # where moving costs nothing
        settings = {"gamma": 2.0} | settings
    with pytest.MonkeyPatch.context() as patch:
        # `fit` reads the score of the model anew: the class says where all of them compute
        patch.setattr(NetworkScore, "space", Space("cpu"))
        seen = spied(patch)
        moved = explainer(model, **settings).fit(background).explain(rows)
    assert seen
    assert all(isinstance(each, torch.Tensor) for each in seen)
    return explainer(model, **settings).fit(background).explain(rows), moved


def spied(patch):
    """The points that a network scores, in the order in which it gets them."""
    seen = []
    own = NetworkScore.evaluate_arrays

    def spy(score, points, *, with_gradient):
        seen.append(points)
        return own(score, points, with_gradient=with_gradient)

    patch.setattr(NetworkScore, "evaluate_arrays", spy)
    return seen


def assert_equal(plain, moved, tolerance=1e-6):
    for name in ("values", "base_values", "scores"):
        a, b = getattr(plain, name), getattr(moved, name)
        assert isinstance(b, np.ndarray)
        np.testing.assert_allclose(b, a, atol=tolerance * np.abs(a).max())
    np.testing.assert_allclose(moved.residual, 0.0, atol=1e-10)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"characteristic": "local"},
        {"characteristic": "ball", "radius": 1.0},
        {"distance": "absolute", "gamma": 0.3},
        {"distance": np.square},
        {"groups": [[0, 1], [2, 4]]},
        {"gamma": "balance"},
    ],
    ids=["relaxed", "local", "ball", "absolute", "function", "groups", "balance"],
)
def test_every_kind_of_game(settings):
    assert_equal(*both(MODEL, ODD, X, **settings))


@pytest.mark.parametrize("model", [VAE("elbo", **QUICK).fit(X), DAGMM(**QUICK).fit(X)], ids=["elbo", "DAGMM"])
def test_every_network(model):
    assert_equal(*both(model, ODD, X), tolerance=1e-5)


def test_binary_columns():
    assert_equal(*both(VAE("elbo", "bernoulli", **QUICK).fit(BITS), BITS[:4], BITS))


def test_sampled_games_with_their_errors():
    model = VAE(**QUICK).fit(WIDE)
    rows = WIDE[:3] + 3.0 * np.eye(14)[:3]
    plain, moved = both(model, rows, WIDE)
    assert_equal(plain, moved)
    np.testing.assert_allclose(moved.stderr, plain.stderr, rtol=1e-4)


def test_a_few_steps_lead_to_the_same_points(monkeypatch):
    """Steps are counted in units of the score, wherever it computes: three of them end at the same place."""
    monkeypatch.setattr(anomaly_shapley, "TOLERATED", -1.0)  # every row is polished
    model = VAE(**QUICK).fit(WIDE)
    rows = WIDE[:2] + 3.0 * np.eye(14)[:2]
    assert_equal(*both(model, rows, WIDE, gamma=0.01, n_coalitions=60))


def test_single_precision():
    single = VAE(**QUICK, dtype="float32").fit(X)
    exact = VAE(**QUICK).fit(X)
    assert_equal(both(exact, ODD, X)[0], both(single, ODD, X)[1], tolerance=1e-3)


def test_small_batches_change_nothing(monkeypatch):
    whole = both(MODEL, ODD, X)[1]
    monkeypatch.setattr(minimise, "BATCH_BYTES", 20_000)
    monkeypatch.setattr(anomaly_shapley, "_BATCH_BYTES", 3_000)
    monkeypatch.setattr(anomaly_shapley, "_ROWS_BYTES", 30_000)
    assert_equal(whole, both(MODEL, ODD, X)[1])


def test_compensation():
    plain, moved = both(MODEL, ODD, X, explainer=Compensation)
    np.testing.assert_allclose(moved.values, plain.values, atol=1e-5)
    np.testing.assert_allclose(moved.extras["displacement"], plain.extras["displacement"], atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("kind", [VAE, DAGMM])
def test_cuda(kind):
    model = kind(**QUICK).fit(X)
    plain, moved = (
        AnomalyShapley(copy(model).set_params(device=device), gamma=2.0).fit(X).explain(ODD)
        for device in ("cpu", "cuda")
    )
    assert_equal(plain, moved, tolerance=1e-5)
