"""Segments of inputs, and neighbours over them."""

import numpy as np
import pytest

from tellwhy.data.pieces import find_present_cells, neighbours, segment
from tellwhy.explainers.surrogate.inputs import draw_neighbour_masks


@pytest.mark.parametrize("shape", [(28, 28), (1, 28, 28), (3, 16, 16), (16, 16, 3), (200,)])
def test_segments_cover_the_input_without_gaps(shape):
    label = segment(np.random.default_rng(0).random(shape), 20)
    assert label.shape == shape
    assert sorted(set(label.ravel())) == list(range(label.max() + 1))
    assert 8 <= label.max() + 1 <= 30


def test_channels_of_a_pixel_stay_together():
    first = segment(np.random.default_rng(0).random((3, 12, 12)), 9)
    assert (first == first[:1]).all()
    last = segment(np.random.default_rng(0).random((12, 12, 3)), 9)
    assert (last == last[..., :1]).all()


def test_segments_follow_edges():
    image = np.zeros((16, 16))
    image[:, 9:] = 5.0
    label = segment(image, 16)
    assert not set(label[:, :9].ravel()) & set(label[:, 9:].ravel())


def test_flat_image_is_cut_into_a_grid():
    label = segment(np.zeros((12, 12)), 9)
    sizes = np.bincount(label.ravel())
    assert len(sizes) == 9
    assert sizes.min() >= 8


def test_neighbours_keep_or_lose_whole_segments():
    rng = np.random.default_rng(0)
    x, background = rng.random((4, 4)), np.full((4, 4), -1.0)
    label = np.repeat([0, 1, 2, 3], 4).reshape(4, 4)
    masks = draw_neighbour_masks(4, 50, rng)
    made = neighbours(x, background, label, masks)
    np.testing.assert_array_equal(made[0], x)
    for mask, neighbour in zip(masks, made, strict=True):
        for s in range(4):
            expected = x[s] if mask[s] else background[s]
            np.testing.assert_allclose(neighbour[s], expected)
    assert set(masks.ravel()) == {0.0, 1.0}


def test_every_segment_and_nearly_every_pair_is_lost_equally_often():
    masks = draw_neighbour_masks(20, 1024, np.random.default_rng(3))
    np.testing.assert_allclose(masks.mean(axis=0), 0.75, atol=0.002)
    together = np.corrcoef(masks.T)[np.triu_indices(20, 1)]
    at_random = np.corrcoef((np.random.default_rng(3).random((1024, 20)) < 0.75).T)[np.triu_indices(20, 1)]
    assert np.median(np.abs(together)) < 0.2 * np.median(np.abs(at_random))
    assert (masks[0] == 1).all()
    few = draw_neighbour_masks(20, 1024, np.random.default_rng(3), kept=0.25)
    np.testing.assert_allclose(few.mean(axis=0), 0.25, atol=0.002)


def test_coefficients_are_nearer_to_those_of_many_neighbours_than_with_random_ones():
    weights = np.random.default_rng(1).normal(size=16)

    def coefficients(masks):
        y = np.tanh(masks @ weights) + 0.3 * (masks[:, :8] @ weights[:8]) ** 2
        return np.linalg.lstsq(np.column_stack([np.ones(len(masks)), masks]), y)[0][1:]

    def at_random(n, rng):
        return (rng.random((n, 16)) < 0.75).astype(float)

    truth = coefficients(at_random(200_000, np.random.default_rng(9)))
    seeds = [np.random.default_rng(s) for s in range(8)]
    mine = np.mean([(coefficients(draw_neighbour_masks(16, 4096, rng)) - truth) ** 2 for rng in seeds])
    random = np.mean([(coefficients(at_random(4096, rng)) - truth) ** 2 for rng in seeds])
    assert mine < 0.6 * random


def test_any_number_of_neighbours_and_segments():
    for n_segments, n_neighbours in ((1, 10), (0, 12), (3, 1), (5, 1000)):
        assert draw_neighbour_masks(n_segments, n_neighbours, np.random.default_rng(0)).shape == (
            n_neighbours,
            n_segments,
        )
    rng = np.random.default_rng(1)
    assert not np.array_equal(draw_neighbour_masks(6, 64, rng), draw_neighbour_masks(6, 64, rng)), (
        "draws differ"
    )


def test_every_word_that_is_there_is_a_segment():
    label = find_present_cells(np.array([0.0, 3.0, 1.0, 0.0]), np.zeros(4))
    assert label.tolist() == [2, 0, 1, 2]
    assert find_present_cells(np.ones(3), np.zeros(3)).tolist() == [0, 1, 2]
