"""Patches cut out and put back, and the sum over patches explained pixel by pixel."""

import numpy as np
import pytest
from oracles import one_class as oracle

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data.pieces import cut_patches, patch_grid, put_back
from tellwhy.detectors import KernelDensity
from tellwhy.explainers import PatchDTD

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("shape", "patch"), [((9,), (4,)), ((9, 2), (4,)), ((6, 7), (3, 2)), ((6, 7, 3), (3, 2))]
)
def test_patches_are_cut_and_put_back(shape, patch, stride):
    x = RNG.normal(size=shape)
    patches = cut_patches(x, patch, stride)
    corners = list(np.ndindex(*patch_grid(shape, patch, stride)))
    for row, corner in zip(patches, corners, strict=True):
        window = tuple(slice(c * stride, c * stride + p) for c, p in zip(corner, patch, strict=True))
        np.testing.assert_array_equal(row, x[window].ravel())
    weights = RNG.normal(size=patches.shape)
    # put_back is the transpose: ⟨cut(x), w⟩ = ⟨x, put_back(w)⟩
    assert (patches * weights).sum() == pytest.approx((x * put_back(weights, shape, patch, stride)).sum())


def test_relevance_of_pixels_adds_up_over_patches():
    images = RNG.normal(size=(2, 5, 6))
    points = RNG.normal(size=(12, 6))
    model = KernelDensity(bandwidth=1.5).fit(points)
    explanation = PatchDTD(model, patch=(2, 3)).explain(images)
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
    found = PatchDTD(model, patch=(3, 3)).explain(image[None]).values[0]
    assert np.unravel_index(found.argmax(), found.shape) == (7, 9)
    hidden = PatchDTD(model, patch=(3, 3), training_rows=None).explain(image[None])
    assert hidden.scores[0] < PatchDTD(model, patch=(3, 3)).explain(image[None]).scores[0]


def test_wrong_patches_and_inputs():
    model = KernelDensity(bandwidth=1.0).fit(RNG.normal(size=(10, 4)))
    with pytest.raises(InvalidInput, match="does not fit"):
        PatchDTD(model, patch=(9,)).explain(np.ones((1, 5)))
    with pytest.raises(InvalidInput, match="at least one"):
        PatchDTD(model, patch=(2,)).explain(np.ones(5))
    with pytest.raises(InvalidParameter, match="'patch' parameter of PatchDTD"):
        PatchDTD(model, patch=()).explain(np.ones((1, 5)))
    with pytest.raises(InvalidParameter, match="'stride'"):
        PatchDTD(model, patch=(2,), stride=0).explain(np.ones((1, 5)))
