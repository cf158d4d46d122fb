"""Patches on a device: PyTorch's numbers are those of the threads."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tellwhy.core.errors import InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.core.explanation import Explanation  # noqa: E402
from tellwhy.detectors import SVDD, GaussianMixture, KernelDensity, NearestNeighbours, OneClassSVM, PatchModel  # noqa: E402
from tellwhy.detectors.patches.patch_score import DevicePatches  # noqa: E402
from tellwhy.evaluation import patch_flipping  # noqa: E402
from tellwhy.explainers import PatchRelevance  # noqa: E402

RNG = np.random.default_rng(0)
COLOUR = RNG.normal(size=(3, 9, 10, 2))
DETECTORS = [
    KernelDensity(bandwidth=3.0),
    OneClassSVM(q=1),
    OneClassSVM("student_t", q=2),
    OneClassSVM("student_t", q=1, scale="one"),
    NearestNeighbours(3),
    SVDD(),
]
SETTINGS = [{}, {"positions": "feature"}, {"stride": 2}, {"channels": "separate"}]


def here_and_there(detector, settings, dtype="float64"):
    """The same model on threads and by PyTorch, here on the processor, in small pieces."""
    model = PatchModel(detector, (4, 4), n_train_patches=40, **settings).fit(COLOUR)
    return model, DevicePatches(model.to_score(), "cpu", dtype, memory=2**18)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("detector", DETECTORS, ids=str)
def test_scores_and_relevance_are_those_of_the_threads(detector, settings):
    model, device = here_and_there(detector, settings)
    expected = PatchRelevance(model).explain(COLOUR)
    found = device.relevance(COLOUR)
    np.testing.assert_allclose(found["values"], expected.values, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found["positions"], expected.extras["positions"], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found["base"], expected.base_values, rtol=1e-12)
    assert found["left_out"] == expected.params["patches_left_out"] > 0
    for unseen in (False, True):
        plain = model.to_score().positions(COLOUR, unseen=unseen)
        np.testing.assert_allclose(device.positions(COLOUR, unseen=unseen), plain, rtol=1e-8, atol=1e-6)


def test_single_precision_is_right_to_five_digits():
    model, device = here_and_there(OneClassSVM(), {}, "float32")
    expected = PatchRelevance(model).explain(COLOUR)
    found = device.relevance(COLOUR)
    assert np.abs(found["values"] - expected.values).max() < 1e-5 * expected.values.max()
    np.testing.assert_allclose(found["positions"], expected.extras["positions"], rtol=1e-5)


def test_patches_far_from_the_origin_keep_their_digits():
    X = COLOUR + 1e6
    model = PatchModel(KernelDensity(bandwidth=2.0), (4, 4), n_train_patches=40).fit(X)
    found = DevicePatches(model.to_score(), "cpu").relevance(X[:1])
    np.testing.assert_allclose(found["values"], PatchRelevance(model).explain(X[:1]).values, rtol=1e-6)


def test_a_row_next_to_its_points_is_computed_from_differences(monkeypatch):
    model, device = here_and_there(KernelDensity(bandwidth=1e-3), {})
    expected = PatchRelevance(model).explain(COLOUR).values
    np.testing.assert_allclose(device.relevance(COLOUR)["values"], expected, rtol=1e-9)
    monkeypatch.setattr("tellwhy.scoring.one_class_torch.DIGITS_KEPT", 0.0)  # all from differences
    np.testing.assert_allclose(device.relevance(COLOUR)["values"], expected, rtol=1e-9)


@pytest.mark.parametrize("detector", [DETECTORS[0], DETECTORS[2], DETECTORS[4]], ids=str)
def test_flipping_is_that_of_the_threads(detector):
    model, device = here_and_there(detector, {"positions": "feature"})
    values = RNG.random(COLOUR.shape)
    order = Explanation(values=values, scores=np.zeros(3), method="random", data=COLOUR, kind="ranking")
    expected = patch_flipping(order, model, n_steps=4).curves
    score = model.to_score()
    score.on_device = device
    np.testing.assert_allclose(patch_flipping(order, score, n_steps=4).curves, expected, atol=1e-9)


def test_the_explainer_asks_the_device():
    model, device = here_and_there(OneClassSVM(), {})
    score = model.to_score()
    score.on_device = device
    explanation = PatchRelevance(score).explain(COLOUR)
    plain = PatchRelevance(model).explain(COLOUR)
    np.testing.assert_allclose(explanation.values, plain.values, rtol=1e-9, atol=1e-12)
    assert explanation.params["patches_explained_by"] == plain.params["patches_explained_by"]
    assert (
        PatchRelevance(score, by="NearestSupport").explain(COLOUR).params["patches_explained_by"]
        == "NearestSupport"
    )


def test_what_is_not_made_of_distances_is_refused():
    model = PatchModel(GaussianMixture(), (4, 4), n_train_patches=60).fit(COLOUR)
    with pytest.raises(UnsupportedModel, match=r"made of distances.*device='cpu'"):
        DevicePatches(model.to_score(), "cpu").positions(COLOUR)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_a_device_that_is_not_there_is_told():
    model = PatchModel(KernelDensity(), (4, 4), device="cuda")
    with pytest.raises(InvalidParameter, match="sees no CUDA device"):
        model.fit(COLOUR)
    assert PatchModel(KernelDensity(), (4, 4), device="auto").fit(COLOUR).outlierness(COLOUR).shape == (3,)
