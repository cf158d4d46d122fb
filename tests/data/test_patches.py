"""Patches: cut out where they are, and added up where they were."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.data.pieces import Windows, cut_patches, patch_grid

CASES = [
    ((7,), (3,), 1),
    ((7,), (3,), 2),
    ((5, 6), (2, 3), 1),
    ((5, 7), (2, 3), 2),
    ((5, 6, 3), (2, 2), 1),
    ((6, 6, 2), (3, 2), 3),
]


@pytest.mark.parametrize(("shape", "patch", "stride"), CASES, ids=str)
def test_each_patch_holds_the_cells_at_its_position(
    shape: tuple[int, ...], patch: tuple[int, ...], stride: int
) -> None:
    X = np.random.default_rng(0).normal(size=shape)
    found = cut_patches(X, patch, stride)
    grid = patch_grid(shape, patch, stride)
    assert len(found) == np.prod(grid)
    for row, position in zip(found, np.ndindex(*grid), strict=True):
        corner = [stride * p for p in position]
        cells = X[tuple(slice(c, c + p) for c, p in zip(corner, patch, strict=True))]
        np.testing.assert_array_equal(row, cells.ravel())


@pytest.mark.parametrize(("shape", "patch", "stride"), CASES, ids=str)
def test_adding_up_is_the_transpose_of_cutting(
    shape: tuple[int, ...], patch: tuple[int, ...], stride: int
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    patches = cut_patches(X, patch, stride)
    values = rng.normal(size=patches.shape)
    windows = Windows(patch, stride)
    total = np.zeros((1, *shape))
    windows.fold(total, values, *windows.pieces(total.shape))
    assert (values * patches).sum() == pytest.approx((total[0] * X).sum())


@pytest.mark.parametrize("patch", [(6,), (0,), (2, 2, 2)])
def test_patches_that_do_not_fit_are_refused(patch: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="does not fit"):
        cut_patches(np.zeros((5, 5)), patch)
