"""Scores of networks: the slopes against PyTorch's, numpy arrays and tensors alike, blocks and threads."""

import sys

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.detectors import DAGMM, VAE, load
from tellwhy.detectors.networks import network_score
from tellwhy.detectors.networks.network_score import softplus
from tellwhy.optimise.arrays import HOST, Space, on_host

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = np.tanh(RNG.normal(size=(120, 2)) @ RNG.normal(size=(2, 5))) * [1.0, 20.0, 0.1, 3.0, 5.0] + 7.0
BITS = (X > 7).astype(float)
QUICK = {"latent": 2, "hidden": 6, "max_epochs": 8, "device": "cpu"}
MODELS = {
    "reconstruction": VAE(**QUICK).fit(X),
    "elbo": VAE("elbo", n_samples=3, **QUICK).fit(X),
    "reconstruction of bits": VAE("reconstruction", "bernoulli", **QUICK).fit(BITS),
    "elbo of bits": VAE("elbo", "bernoulli", **QUICK).fit(BITS),
    "energy": DAGMM(n_components=3, **QUICK).fit(X),
    "energy without anchor": DAGMM(anchor=0.0, **QUICK).fit(X),
}
ROWS = {name: (BITS[:9] * 0.8 + 0.1 if "bits" in name else X[:9] + 0.3) for name in MODELS}
every_model = pytest.mark.parametrize("name", list(MODELS))


def on_tensors(model):
    """The same score with tensors."""
    score = model.to_score()
    score.space = Space("cpu")
    return score


def assert_close(found, expected, tolerance):
    """Within a share of the largest number: what cancels is no more exact than what it is made of."""
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@every_model
def test_slopes_are_those_that_autograd_finds(name):
    score = on_tensors(MODELS[name])
    rows = torch.tensor(ROWS[name], requires_grad=True)
    value, slope = score._energy(score.network, score._scaled(rows), True)
    expected = torch.autograd.grad(value.sum(), rows)[0] * torch.tensor(score.scaling.scale)
    assert_close(on_host(slope), on_host(expected), 1e-10)


def test_softplus_and_its_slope():
    at = np.array([-600.0, -40.0, -3.0, 0.0, 5.0, 21.0, 79.0])
    for a in (at, np.append(at, [81.0, 900.0])):  # beyond 80 the exponential is avoided
        expected = np.array([max(v, 0.0) + np.log1p(np.exp(-abs(v))) for v in a])
        for x in (a, torch.tensor(a)):
            value, slope = softplus(x)
            np.testing.assert_allclose(value, expected, rtol=1e-14, atol=1e-17)
            np.testing.assert_allclose(slope(), [1.0 / (1.0 + np.exp(min(-v, 700.0))) for v in a], rtol=1e-13)


@every_model
def test_tensors_give_what_numpy_gives(name):
    plain, tensors = MODELS[name].to_score(), on_tensors(MODELS[name])
    for a, b in zip(
        plain.value_and_gradient(ROWS[name]), tensors.value_and_gradient(ROWS[name]), strict=True
    ):
        assert isinstance(b, np.ndarray)
        assert_close(a, b, 1e-11)
    if hasattr(plain, "feature_errors"):
        assert_close(plain.feature_errors(ROWS[name]), tensors.feature_errors(ROWS[name]), 1e-11)
    value, slope = tensors.evaluate_arrays(torch.tensor(ROWS[name]), with_gradient=True)
    assert isinstance(value, torch.Tensor)
    assert isinstance(slope, torch.Tensor)


@every_model
def test_blocks_and_threads_change_nothing(name, monkeypatch):
    score = MODELS[name].to_score()
    many = np.tile(ROWS[name], (40, 1))
    whole = score.value_and_gradient(many)
    monkeypatch.setattr(network_score, "BLOCK_BYTES", 4_000)
    for a, b in zip(whole, score.value_and_gradient(many), strict=True):
        assert_close(a, b, 1e-11)


def test_single_precision_is_kept_inside():
    model = VAE("elbo", **QUICK, dtype="float32").fit(X)
    for score in (model.to_score(), on_tensors(model)):
        value, slope = score.value_and_gradient(X[:5])
        assert value.dtype == slope.dtype == np.float64
        assert "float32" in str(score.network.dtype)
        exact = model.__class__(**model.get_params() | {"dtype": "float64"}).fit(X).to_score()
        np.testing.assert_allclose(value, exact.value(X[:5]), rtol=1e-3)


def test_rows_too_far_are_named_for_tensors_too():
    far = X[:4].copy()
    far[2, 0] = 1e200
    for score in (MODELS["elbo"].to_score(), on_tensors(MODELS["elbo"])):
        with pytest.raises(InvalidInput, match="Row 2 of X is too far"):
            score.value(far)


def test_a_saved_network_scores_without_torch(tmp_path, monkeypatch):
    """On the processor, numpy is enough."""
    MODELS["elbo"].save(tmp_path / "vae")
    expected = MODELS["elbo"].outlierness(X[:5])
    monkeypatch.setitem(sys.modules, "torch", None)
    again = load(tmp_path / "vae")
    np.testing.assert_array_equal(again.outlierness(X[:5]), expected)
    assert again.to_score().space is HOST


def test_arrays_of_the_processor_stay_what_they_are():
    value, _ = MODELS["elbo"].to_score().evaluate_arrays(X[:3], with_gradient=False)
    assert on_host(value) is value
