"""Patches of many inputs: cut in pieces, drawn at random, put back where they were."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.data.pieces import PatchRows, Piece, Windows, cut_patches

RNG = np.random.default_rng(0)
SHAPES = [((3, 11), (4,)), ((3, 11, 2), (4,)), ((2, 7, 8), (3, 2)), ((2, 7, 8, 3), (3, 2))]


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("most", [1, 7, 1000])
@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_pieces_hold_every_patch_once_and_in_order(shape, size, most, stride):
    X = RNG.normal(size=shape)
    windows = Windows(size, stride)
    cut = np.vstack([windows.cut(X, piece) for piece in windows.pieces(X.shape, most)])
    np.testing.assert_array_equal(cut, np.vstack([cut_patches(x, size, stride) for x in X]))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_places_hold_one_position_of_every_input(shape, size, stride):
    X = RNG.normal(size=shape)
    windows = Windows(size, stride)
    expected = np.stack([cut_patches(x, size, stride) for x in X], axis=1)
    places = windows.places(X.shape)
    assert len(places) == len(expected)
    for piece, rows in zip(places, expected, strict=True):
        np.testing.assert_array_equal(windows.cut(X, piece), rows)


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("most", [1, 5, 1000])
@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_folding_is_the_transpose_of_cutting(shape, size, most, stride):
    X = RNG.normal(size=shape)
    windows = Windows(size, stride)
    total = np.zeros(shape)
    products = 0.0
    for piece in windows.pieces(shape, most):
        rows = windows.cut(X, piece)
        weights = RNG.normal(size=rows.shape)
        products += (rows * weights).sum()
        windows.fold(total, weights, piece)
    assert products == pytest.approx((X * total).sum())


@pytest.mark.parametrize("weight", [0.0, 2.0])
@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_drawn_patches_are_those_of_their_numbers(shape, size, weight):
    X = RNG.normal(size=shape)
    rules = PatchRows(Windows(size, 2), np.ones(1), weight)
    everything = np.vstack([rules.cut(X, piece) for piece in rules.windows.pieces(X.shape, 5)])
    chosen = RNG.permutation(len(everything))[:9]
    np.testing.assert_array_equal(rules.sample(X, chosen), everything[chosen])


def test_the_place_of_a_patch_is_a_share_of_the_axes_and_belongs_to_no_cell():
    rules = PatchRows(Windows((3, 3), 1), np.ones(1), 10.0)
    X = RNG.normal(size=(1, 5, 8))
    whole = Piece(slice(0, 1), (slice(0, 3), slice(0, 6)))
    rows = rules.cut(X, whole)
    np.testing.assert_allclose(rows[0, 9:], [0.0, 0.0])
    np.testing.assert_allclose(rows[-1, 9:], [10.0, 10.0])
    np.testing.assert_allclose(rows[6 + 3, 9:], [5.0, 6.0])
    total = np.zeros(X.shape)
    rules.fold(total, np.hstack([np.zeros((18, 9)), np.full((18, 2), 99.0)]), whole)
    assert not total.any()


def test_channels_are_divided_by_their_lengths():
    rules = PatchRows(Windows((2,), 1), np.array([1.0, 10.0]))
    np.testing.assert_allclose(rules.prepared(np.ones((1, 4, 2)))[0, 0], [1.0, 0.1])


def test_a_patch_that_does_not_fit_is_told():
    with pytest.raises(InvalidInput, match=r"patch of \(9, 9\) does not fit"):
        Windows((9, 9), 1).pieces((2, 8, 20))
