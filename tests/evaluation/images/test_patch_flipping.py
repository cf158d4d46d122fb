"""Flipping of whole pictures through their patches."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.detectors import GaussianMixture, KernelDensity, NearestNeighbours, OneClassSVM, PatchModel
from tellwhy.evaluation import patch_flipping
from tellwhy.explainers import PatchRelevance

RNG = np.random.default_rng(0)


def explained(values, X):
    return Explanation(values=values, scores=np.zeros(len(X)), method="Example", data=X, kind="ranking")


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("kernel", ["exponential", "student_t"])
def test_curves_are_those_of_a_plain_loop(kernel, q):
    X = RNG.normal(size=(2, 5, 6, 2))
    detector = KernelDensity(kernel, q=q, bandwidth=1.5)
    model = PatchModel(detector, (2, 3), n_train_patches=12).fit(RNG.normal(size=(3, 5, 6, 2)))
    values = RNG.normal(size=X.shape)
    found = patch_flipping(model, explained(values, X), n_steps=5)
    points = model.detectors_[0].expansion_.points
    score = model.detectors_[0].to_score()
    for x, v, curve in zip(X, values, found.curves, strict=True):
        order = np.argsort(-v.sum(axis=-1).ravel(), kind="stable")
        expected = []
        for step in range(6):
            there = np.ones(30)
            there[order[: round(step * 30 / 5)]] = 0.0
            mask = there.reshape(5, 6, 1)
            total = 0.0
            for i in range(4):
                for j in range(4):
                    patch = x[i : i + 2, j : j + 3].ravel()
                    kept = np.broadcast_to(mask[i : i + 2, j : j + 3], (2, 3, 2)).ravel()
                    s = (kept * (patch - points) ** 2).sum(axis=1) / 1.5**2
                    if kernel == "exponential":
                        total += -np.log(np.mean(np.exp(-(s ** (q / 2)) / q)))
                    else:
                        total += len(points) / np.mean(1 / (1.0 + s ** (q / 2)))
            expected.append(total)
        above = np.array(expected) - expected[-1]
        np.testing.assert_allclose(curve, above / above[0], rtol=1e-9, atol=1e-12)
    assert score.feature_shape == (12,)


@pytest.mark.parametrize("detector", [OneClassSVM(nu=0.3), NearestNeighbours(3)], ids=["svm", "neighbours"])
def test_curves_begin_at_the_score_and_relevance_falls_faster_than_its_reverse(detector):
    X = RNG.normal(size=(3, 12, 12))
    model = PatchModel(detector, (3, 3), n_train_patches=200).fit(X)
    odd = X.copy()
    odd[:, 4:6, 5:8] += 4.0
    relevance = PatchRelevance(model).explain(odd)
    good = patch_flipping(model, relevance)
    bad = patch_flipping(model, explained(-relevance.values, odd))
    assert good.area < 0.8 * bad.area
    np.testing.assert_allclose(good.curves[:, [0, -1]], [[1.0, 0.0]] * 3)
    assert good.curves.shape == (3, 21)


def test_what_cannot_be_flipped_is_told():
    X = RNG.normal(size=(3, 9))
    values = np.zeros_like(X)
    mixture = PatchModel(GaussianMixture(1), 3).fit(X)
    with pytest.raises(UnsupportedModel, match="made of distances"):
        patch_flipping(mixture, explained(values, X))
    with pytest.raises(UnsupportedModel, match="has no patches"):
        patch_flipping(KernelDensity().fit(X), explained(values, X))
    model = PatchModel(KernelDensity(), 3).fit(X)
    with pytest.raises(InvalidParameter, match="'n_steps' parameter"):
        patch_flipping(model, explained(values, X), n_steps=0)
    with pytest.raises(InvalidInput, match="holds no data"):
        patch_flipping(model, Explanation(values=values, scores=np.zeros(3), method="Example"))
