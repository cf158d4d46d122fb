"""Maps of scores beside masks of what is odd, and whole pictures flipped through their patches."""

import numpy as np
import pytest
from scipy import ndimage

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.detectors import GaussianMixture, KernelDensity, NearestNeighbours, OneClassSVM, PatchModel
from tellwhy.evaluation import au_pro, patch_flipping, pixel_auroc
from tellwhy.explainers import PatchRelevance

RNG = np.random.default_rng(0)


def slow_au_pro(maps, masks, limit=0.3):
    """Every threshold in turn, every region in turn."""
    thresholds = np.unique(np.concatenate([m.ravel() for m in maps]))[::-1]
    x, y = [0.0], [0.0]
    for t in thresholds:
        overlaps = []
        n_false = n_ordinary = 0
        for m, mask in zip(maps, masks, strict=True):
            labels, n = ndimage.label(mask, structure=np.ones((3, 3)))
            overlaps += [(m[labels == k] >= t).mean() for k in range(1, n + 1)]
            n_false += (m[~mask] >= t).sum()
            n_ordinary += (~mask).sum()
        x.append(n_false / n_ordinary)
        y.append(np.mean(overlaps))
    inside = np.append([v for v in x if v < limit], limit)
    return np.trapezoid(np.interp(inside, x, y), inside) / limit


def pictures(levels):
    masks = [np.zeros((12, 14), dtype=bool) for _ in range(3)]
    masks[0][2:4, 2:5] = masks[0][8:11, 9:13] = masks[1][5, 5] = True
    maps = [RNG.integers(0, levels, size=(12, 14)).astype(float) + mask for mask in masks]
    return maps, masks


@pytest.mark.parametrize("levels", [4, 10_000])  # with many ties, and with none
def test_au_pro_is_that_of_all_thresholds(levels):
    maps, masks = pictures(levels)
    assert au_pro(maps, masks) == pytest.approx(slow_au_pro(maps, masks))


def test_a_small_region_counts_as_much_as_a_large_one():
    mask = np.zeros((40, 40), dtype=bool)
    mask[:10, :10] = mask[30, 30] = True
    only_large = np.zeros((40, 40))
    only_large[:10, :10] = 1.0
    assert pixel_auroc([only_large], [mask]) > 0.99
    assert au_pro([only_large], [mask]) < 0.62


def test_right_maps_have_one_and_even_maps_the_diagonal():
    maps, masks = pictures(5)
    assert au_pro([mask.astype(float) for mask in masks], masks) == pytest.approx(1.0)
    assert pixel_auroc([np.zeros(mask.shape) for mask in masks], masks) == pytest.approx(0.5)
    assert au_pro([np.zeros(mask.shape) for mask in masks], masks) == pytest.approx(0.15)
    del maps


def test_what_cannot_be_compared_is_told():
    with pytest.raises(InvalidInput, match="1 maps and 2 masks"):
        pixel_auroc([np.zeros((2, 2))], [np.zeros((2, 2))] * 2)
    with pytest.raises(InvalidInput, match="Map 0 has the shape"):
        au_pro([np.zeros((2, 3))], [np.zeros((2, 2))])
    with pytest.raises(InvalidInput, match="all pixels, or none"):
        au_pro([np.zeros((2, 2))], [np.zeros((2, 2))])


def explained(values, X):
    return Explanation(values=values, scores=np.zeros(len(X)), method="Example", data=X, kind="ranking")


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("kernel", ["exponential", "student_t"])
def test_curves_are_those_of_a_plain_loop(kernel, q):
    X = RNG.normal(size=(2, 5, 6, 2))
    detector = KernelDensity(kernel, q=q, bandwidth=1.5)
    model = PatchModel(detector, (2, 3), n_train_patches=12).fit(RNG.normal(size=(3, 5, 6, 2)))
    values = RNG.normal(size=X.shape)
    found = patch_flipping(explained(values, X), model, n_steps=5)
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
    good = patch_flipping(relevance, model)
    bad = patch_flipping(explained(-relevance.values, odd), model)
    assert good.area < 0.8 * bad.area
    np.testing.assert_allclose(good.curves[:, [0, -1]], [[1.0, 0.0]] * 3)
    assert good.curves.shape == (3, 21)


def test_what_cannot_be_flipped_is_told():
    X = RNG.normal(size=(3, 9))
    values = np.zeros_like(X)
    mixture = PatchModel(GaussianMixture(1), 3).fit(X)
    with pytest.raises(UnsupportedModel, match="made of distances"):
        patch_flipping(explained(values, X), mixture)
    with pytest.raises(UnsupportedModel, match="has no patches"):
        patch_flipping(explained(values, X), KernelDensity().fit(X))
    model = PatchModel(KernelDensity(), 3).fit(X)
    with pytest.raises(InvalidParameter, match="'n_steps' parameter"):
        patch_flipping(explained(values, X), model, n_steps=0)
    with pytest.raises(InvalidInput, match="holds no data"):
        patch_flipping(Explanation(values=values, scores=np.zeros(3), method="Example"), model)
