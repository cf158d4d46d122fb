"""Mixtures of single rows, over the segments that differ from the background."""

import numpy as np
import pytest

from tellwhy.explainers import DMMMEN

SHORT = {"features": "segments", "replacement": 0.0, "n_components": 1, "n_sweeps": 100, "n_burn": 50}


def bright(images):
    """Sum of the left half, and a product of two corners of the right half."""
    flat = images.reshape(len(images), 8, 8)
    return flat[:, :, :4].sum(axis=(1, 2)) + flat[:, 0, 7] * flat[:, 7, 7]


@pytest.fixture(scope="module")
def image():
    x = np.zeros((1, 8, 8))
    x[0, :, :4] = np.random.default_rng(0).uniform(0.5, 1.0, size=(8, 4))
    return x


def test_segments_that_show_the_background_get_nothing_and_cost_no_question(image):
    asked = []

    def model(images):
        asked.append(np.array(images))
        return bright(images)

    explanation = DMMMEN(model, n_segments=16, n_neighbours=64, **SHORT).fit(image).explain(image)
    right = image[0] == 0
    assert (explanation.values[0][right] == 0).all()
    assert (explanation.stderr[0][right] == 0).all()
    assert (explanation.extras["interval"][0][right] == 0).all()
    label = explanation.extras["segments"][0]
    lost = (asked[-1][1:] != image).any(axis=2).any(axis=1)
    assert lost.mean() > 0.9, "neighbours differ from the row although half of its segments cannot"
    truth = np.bincount(label.ravel(), image[0].ravel())
    found = np.bincount(label.ravel(), explanation.values[0].ravel())
    np.testing.assert_allclose(found, truth, atol=0.1)


def test_row_that_is_the_background_itself(image):
    explanation = DMMMEN(bright, n_segments=16, n_neighbours=64, **SHORT).fit(image).explain(0.0 * image)
    assert (explanation.values == 0).all()
    np.testing.assert_allclose(explanation.base_values + explanation.residual, explanation.scores)


def test_few_kept_segments_tell_what_is_enough_by_itself():
    """Each of two segments is enough: near the row neither matters, alone both do."""
    x = np.array([[1.0, 1.0, 1.0, 1.0]])

    def model(rows):
        return np.maximum(rows[:, 0], rows[:, 1])

    near, alone = (
        DMMMEN(model, n_neighbours=256, kept=kept, **SHORT).fit(x).explain(x).values[0] for kept in (0.9, 0.1)
    )
    assert np.abs(near[:2]).max() < 0.2
    assert alone[:2].min() > 0.7
    assert np.abs(alone[2:]).max() < 0.1
