"""Activations of a network's layer in the place of pixels, and relevance carried back to them."""

import copy
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from oracles import one_class as oracle

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import tellwhy  # noqa: E402
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.detectors import GaussianMixture, KernelDensity, PatchModel, load  # noqa: E402
from tellwhy.evaluation import patch_flipping  # noqa: E402
from tellwhy.explainers import PatchRelevance  # noqa: E402

RNG = np.random.default_rng(0)
GREY = np.abs(RNG.normal(size=(6, 5, 6)))


def network(seed=0, n_channels=1):
    torch.manual_seed(seed)
    layers = [nn.Conv2d(n_channels, 3, 2), nn.ReLU(), nn.Conv2d(3, 4, 2), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).double().eval()


def convolved(x, weight, bias):
    """A convolution of kernel 2 × 2, by loops: x (h, w, c) to (h − 1, w − 1, k)."""
    h, w, _ = x.shape
    out = np.zeros((h - 1, w - 1, len(weight)))
    for i in range(h - 1):
        for j in range(w - 1):
            for k in range(len(weight)):
                out[i, j, k] = (x[i : i + 2, j : j + 2] * weight[k].transpose(1, 2, 0)).sum() + bias[k]
    return out


def shared(x, weight, R, rule):
    """Relevance of the inputs of a convolution of kernel 2 × 2 from that of its outputs, by loops."""
    found = np.zeros_like(x)
    for i, j, k in np.ndindex(R.shape):
        parts = x[i : i + 2, j : j + 2] * weight[k].transpose(1, 2, 0)
        parts = np.ones_like(parts) if rule == "flat" else np.clip(parts, 0, None)
        if parts.sum() > 0:
            found[i : i + 2, j : j + 2] += parts / parts.sum() * R[i, j, k]
    return found


def parts_of(net):
    return [(net[k].weight.detach().numpy(), net[k].bias.detach().numpy()) for k in (0, 2)]


def test_scores_and_relevance_are_those_of_explicit_algebra():
    net = network()
    net[0].weight.data.abs_()  # no place is silent as a whole: such rows would be taken for trained ones
    net[2].bias.data += 0.5
    model = PatchModel(KernelDensity(bandwidth=0.5), (1, 1), n_train_patches=20, features=net, layer="3").fit(
        GREY
    )
    points = model.detectors_[0].expansion_.points
    weights = np.full(20, 1 / 20)
    odd = np.abs(RNG.normal(size=(2, 5, 6)))
    explanation = tellwhy.explain(model, odd)
    assert explanation.method == "PatchRelevance"
    assert explanation.params["patches_left_out"] == 0
    (w1, b1), (w2, b2) = parts_of(net)
    for x, values, score in zip(odd, explanation.values, explanation.scores, strict=True):
        first = np.maximum(convolved(x[..., None], w1, b1), 0)
        second = np.maximum(convolved(first, w2, b2), 0)
        R = np.zeros_like(second)
        total = 0.0
        for i, j in np.ndindex(second.shape[:2]):
            row = second[i, j]
            R[i, j] = oracle.relevance(row, points, weights, "exponential", q=2, bandwidth=0.5)
            total += oracle.outlierness(row, points, weights, "exponential", q=2, bandwidth=0.5)
        expected = shared(x[..., None], w1, shared(first, w2, R, "z_plus"), "flat")[..., 0]
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)
        assert score == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("layer", ["1", "3", "4", "5"])
@pytest.mark.parametrize("size", [(1, 1), (2, 2)])
def test_nothing_is_lost_where_every_unit_has_a_positive_part(layer, size):
    if size == (2, 2) and layer in "45":
        pytest.skip("one place")
    net = network()
    for k in (0, 2):
        net[k].weight.data.abs_()  # every product is positive: z_plus and flat hand on all there is
    model = PatchModel(KernelDensity(bandwidth=1.0), size, features=net, layer=layer).fit(GREY)
    odd = 1.0 + np.abs(RNG.normal(size=(2, 5, 6)))
    score = model.to_score()
    latent = PatchRelevance(score.patches).explain(score.features.activations(odd))
    carried = PatchRelevance(model).explain(odd)
    sums = [e.values.reshape(2, -1).sum(axis=1) for e in (latent, carried)]
    np.testing.assert_allclose(sums[1], sums[0], rtol=1e-9)
    np.testing.assert_allclose(carried.scores, latent.scores, rtol=1e-9)
    assert (carried.values >= 0).all()


@pytest.mark.parametrize("through", ["epsilon_plus_flat", "z_plus"])
def test_a_unit_that_is_silent_and_should_not_be_is_relevant(through):
    """What the ordinary pictures have and this one lacks: its activation is 0, its relevance is not."""
    net = nn.Sequential(nn.Conv2d(1, 1, 2), nn.ReLU()).double().eval()
    net[0].weight.data.fill_(1.0)
    net[0].bias.data.fill_(-3.0)
    bright = 1.0 + 0.02 * RNG.normal(size=(4, 4, 4))  # the unit speaks everywhere
    model = PatchModel(KernelDensity(bandwidth=0.3), (1, 1), features=net, layer="1").fit(bright)
    dull = np.full((1, 4, 4), 0.5)
    activations = model.to_score().features.activations(dull)
    assert (activations == 0).all()
    explanation = PatchRelevance(model, through=through).explain(dull)
    latent = PatchRelevance(model.to_score().patches).explain(activations)
    np.testing.assert_allclose(explanation.values.sum(), latent.values.sum(), rtol=1e-9)
    assert explanation.values.sum() > 0.5 * explanation.scores[0]


def test_relevance_falls_where_a_picture_was_changed():
    net = network(3)
    model = PatchModel(None, (1, 1), features=net, layer="3").fit(np.tile(GREY, (4, 3, 3)))
    odd = np.tile(GREY[:1], (1, 3, 3))
    odd[0, 9:11, 10:12] += 6.0
    values = tellwhy.explain(model, odd).values[0]
    row, column = np.unravel_index(values.argmax(), values.shape)
    assert 8 <= row <= 11
    assert 9 <= column <= 12
    assert model.predict(odd)[0] == -1


def test_series_go_through_convolutions_of_time():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(2, 4, 5), nn.ReLU(), nn.Linear(16, 1)).eval()  # in single precision
    waves = np.stack([np.sin(np.arange(200) / 5), np.cos(np.arange(200) / 3)], axis=-1)
    series = waves[None] + 0.05 * RNG.normal(size=(3, 200, 2))
    model = PatchModel(None, (1,), features=net, layer="1").fit(series)
    assert len(model.detectors_) == 1  # activations have one model for all channels
    odd = series[:1].copy()
    odd[0, 120:123, 1] += 4.0
    values = tellwhy.explain(model, odd).values
    assert values.shape == (1, 200, 2)
    assert 115 <= values[0].sum(axis=1).argmax() <= 127


def test_the_network_is_left_as_it_was():
    net = network().train()
    before = copy.deepcopy(net.state_dict())
    model = PatchModel(None, (1, 1), features=net, layer="3").fit(GREY)
    tellwhy.explain(model, GREY)
    assert net.training
    assert net[0].training
    assert not any(module._forward_hooks for module in net.modules())
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


def test_what_comes_after_the_layer_does_not_change_its_activations():
    net = network()  # the layer 2 is followed by a rectifier that works in place
    model = PatchModel(None, (1, 1), features=net, layer="2").fit(GREY)
    found = model.to_score().features.activations(GREY)
    plain = net[2](net[1](net[0](torch.as_tensor(GREY[:, None])))).detach().numpy()
    np.testing.assert_allclose(found, np.moveaxis(plain, 1, -1), rtol=1e-12)
    assert found.min() < 0


def test_saved_without_code_and_loaded_with_the_class(tmp_path):
    model = PatchModel(None, (2, 2), features=network(), layer="3").fit(GREY)
    saved = model.save(tmp_path / "model.tellwhy")
    assert {Path(name).suffix for name in ZipFile(saved).namelist()} <= {".json", ".npy"}
    other = network(seed=9)
    again = PatchModel.load(saved, features=other)
    np.testing.assert_array_equal(again.outlierness(GREY), model.outlierness(GREY))
    np.testing.assert_array_equal(tellwhy.explain(again, GREY).values, tellwhy.explain(model, GREY).values)
    assert not torch.equal(other[0].weight, again.features[0].weight)  # the given one is not written to
    np.testing.assert_array_equal(
        PatchModel.load(again.save(tmp_path / "b"), features=other).shape_, model.shape_
    )


def test_a_loaded_model_asks_for_its_network(tmp_path):
    PatchModel(None, (2, 2), features=network(), layer="3").fit(GREY).save(tmp_path / "model")
    alone = load(tmp_path / "model")
    with pytest.raises(InvalidInput, match=r"layer '3' of a Sequential.*features=Sequential\(…\)"):
        alone.outlierness(GREY)
    with pytest.raises(InvalidInput, match=r"does not fit the weights.*'0.weight'"):
        PatchModel.load(tmp_path / "model", features=network(n_channels=3))
    PatchModel(None, (2, 2)).fit(GREY).save(tmp_path / "plain")
    with pytest.raises(InvalidParameter, match="without a network"):
        PatchModel.load(tmp_path / "plain", features=network())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": network()}, "layer= names the layer"),
        ({"layer": "3"}, "features= is a torch.nn.Module"),
        ({"features": network(), "layer": "nowhere"}, "no layer 'nowhere'"),
        ({"features": network(n_channels=3), "layer": "3"}, "cannot be applied"),
        ({"features": network(), "layer": "3", "patch_size": (9, 9)}, "does not fit"),
    ],
)
def test_what_cannot_work_is_told(settings, message):
    with pytest.raises((InvalidInput, InvalidParameter), match=message):
        PatchModel(None, settings.pop("patch_size", (1, 1)), **settings).fit(GREY)


def test_what_has_no_meaning_behind_a_network_is_refused():
    model = PatchModel(GaussianMixture(), (1, 1), features=network(), layer="3").fit(GREY)
    with pytest.raises(UnsupportedModel, match="features="):
        patch_flipping(PatchRelevance(model).explain(GREY), model)
    with pytest.raises(InvalidInput, match="was fitted on"):
        model.outlierness(RNG.normal(size=(2, 5, 6, 3)))
