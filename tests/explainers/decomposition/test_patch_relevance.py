"""Images and series explained cell by cell through their patches, which are cut out and put back."""

import numpy as np
import pytest
from oracles import one_class as oracle

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.data.pieces import cut_patches
from tellwhy.detectors import Committee, GaussianMixture, KernelDensity, OneClassSVM, PatchModel
from tellwhy.explainers import PatchDTD, PatchRelevance

RNG = np.random.default_rng(0)


def test_relevance_of_pixels_is_that_of_a_plain_loop_over_patches():
    images = RNG.normal(size=(2, 6, 7))
    model = PatchModel(KernelDensity(bandwidth=1.5), (2, 3), n_train_patches=15).fit(
        RNG.normal(size=(3, 6, 7))
    )
    points = model.detectors_[0].expansion_.points
    weights = np.full(15, 1 / 15)
    explanation = tellwhy.explain(model, images)
    assert explanation.method == "PatchRelevance"
    for image, values, score in zip(images, explanation.values, explanation.scores, strict=True):
        expected = np.zeros((6, 7))
        total = 0.0
        for i in range(5):
            for j in range(5):
                x = image[i : i + 2, j : j + 3].ravel()
                R = oracle.relevance(x, points, weights, "exponential", q=2, bandwidth=1.5)
                expected[i : i + 2, j : j + 3] += R.reshape(2, 3)
                total += oracle.outlierness(x, points, weights, "exponential", q=2, bandwidth=1.5)
        np.testing.assert_allclose(values, expected, rtol=1e-10)
        assert score == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(3, 30), (3, 30, 2), (2, 60, 58), (2, 9, 10, 3)])
def test_both_explainers_of_patches_say_the_same(shape, stride, monkeypatch):
    monkeypatch.setattr("tellwhy.data.pieces.PIECE", 97)
    size = (4, 3) if len(shape) > 3 or shape[1] == 60 else (4,)
    X = RNG.normal(size=shape)
    model = PatchModel(
        OneClassSVM(nu=0.3), size, stride, n_train_patches=60, scale="none", channels="joint"
    ).fit(X)
    ours = tellwhy.explain(model, X)
    plain = PatchDTD(model.detectors_[0], patch_size=size, stride=stride).explain(X)
    np.testing.assert_allclose(ours.values, plain.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.scores, plain.scores, rtol=1e-9)
    np.testing.assert_allclose(ours.base_values, plain.base_values, rtol=1e-9)
    assert ours.values.shape == X.shape
    assert ours.extras["positions"].shape == (len(X), *model.patch_rows_.windows.grid(X.shape[1:]))
    assert ours.params["patches_left_out"] > 0


def test_pieces_do_not_change_the_result(monkeypatch):
    X = RNG.normal(size=(3, 20, 21))
    model = PatchModel(KernelDensity(), (5, 5), n_train_patches=200).fit(X)
    whole = tellwhy.explain(model, X)
    monkeypatch.setattr("tellwhy.data.pieces.Windows.pieces.__defaults__", (50,))
    cut = tellwhy.explain(model, X)
    np.testing.assert_allclose(cut.values, whole.values, rtol=1e-9)
    np.testing.assert_allclose(cut.scores, whole.scores, rtol=1e-12)


@pytest.mark.parametrize("positions", ["shared", "feature", "separate"])
def test_what_is_odd_about_a_picture_is_where_it_was_put(positions):
    good = 0.1 * RNG.normal(size=(40, 12, 12, 3))
    odd = 0.1 * RNG.normal(size=(1, 12, 12, 3))
    odd[0, 5, 7, 1] += 2.0
    model = PatchModel(patch_size=4, stride=2, n_train_patches=800, positions=positions).fit(good)
    explanation = tellwhy.explain(model, odd)
    assert np.unravel_index(explanation.values.argmax(), odd.shape) == (0, 5, 7, 1)
    total = explanation.base_values + explanation.values.sum(axis=(1, 2, 3)) + explanation.residual
    np.testing.assert_allclose(total, explanation.scores)


@pytest.mark.parametrize(
    ("detector", "method"),
    [(GaussianMixture(1), "IntegratedGradients"), (Committee(), "CommitteeShares")],
    ids=["mixture", "committee"],
)
def test_other_detectors_are_explained_by_what_suits_them(detector, method):
    series = np.cumsum(RNG.normal(size=(6, 40, 2)), axis=1)
    model = PatchModel(detector, (4,), n_train_patches=200).fit(series)
    odd = series[:1].copy()
    odd[0, 20, 1] += 40.0
    explanation = tellwhy.explain(model, odd)
    assert explanation.params["patches_explained_by"] == method
    time, channel = np.unravel_index(explanation.values[0].argmax(), (40, 2))
    assert abs(time - 20) <= 1
    assert channel == 1


def test_another_method_for_patches_is_chosen_by_name():
    X = RNG.normal(size=(2, 12))
    model = PatchModel(KernelDensity(), 4, n_train_patches=18).fit(X)
    explanation = tellwhy.explain(model, X + 0.1, "PatchRelevance", by="Sensitivity")
    assert (explanation.kind, explanation.params["patches_explained_by"]) == ("sensitivity", "Sensitivity")
    with pytest.raises(InvalidParameter, match="no explainer named 'Sensitvity'; did you mean"):
        PatchRelevance(model, by="Sensitvity").explain(X)


def test_a_channel_that_is_ordinary_gets_what_its_own_model_says():
    series = RNG.normal(size=(3, 40, 2))
    model = PatchModel(KernelDensity(), (5,), n_train_patches=60, scale="none").fit(series)
    whole = tellwhy.explain(model, series + 0.1)
    for c, detector in enumerate(model.detectors_):
        alone = PatchDTD(detector, patch_size=(5,)).explain(series[..., c] + 0.1)
        np.testing.assert_allclose(whole.values[..., c], alone.values, rtol=1e-9)


def test_relevance_of_pixels_adds_up_over_patches():
    images = RNG.normal(size=(2, 5, 6))
    points = RNG.normal(size=(12, 6))
    model = KernelDensity(bandwidth=1.5).fit(points)
    explanation = PatchDTD(model, patch_size=(2, 3)).explain(images)
    weights = np.full(12, 1 / 12)
    for image, values, score in zip(images, explanation.values, explanation.scores, strict=True):
        expected, total = np.zeros((5, 6)), 0.0
        for i in range(4):
            for j in range(4):
                x = image[i : i + 2, j : j + 3].ravel()
                R = oracle.relevance(x, points, weights, "exponential", q=2, bandwidth=1.5)
                expected[i : i + 2, j : j + 3] += R.reshape(2, 3)
                total += oracle.outlierness(x, points, weights, "exponential", q=2, bandwidth=1.5)
        np.testing.assert_allclose(values, expected, rtol=1e-10)
        assert score == pytest.approx(total, rel=1e-10)
    np.testing.assert_allclose(
        explanation.residual, explanation.scores - explanation.values.sum(axis=(1, 2)), rtol=1e-12
    )


def test_patches_of_the_training_image_are_explained_without_themselves():
    image = np.tile([[0.0, 1.0], [1.0, 0.0]], (8, 8)) + 0.01 * RNG.normal(size=(16, 16))
    image[7, 9] += 2.0
    model = KernelDensity(bandwidth=0.2).fit(cut_patches(image, (3, 3)))
    found = PatchDTD(model, patch_size=(3, 3)).explain(image[None]).values[0]
    assert np.unravel_index(found.argmax(), found.shape) == (7, 9)
    hidden = PatchDTD(model, patch_size=(3, 3), training_rows=None).explain(image[None])
    assert hidden.scores[0] < PatchDTD(model, patch_size=(3, 3)).explain(image[None]).scores[0]
