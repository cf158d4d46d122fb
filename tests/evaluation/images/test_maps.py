"""Maps of scores beside masks of what is odd."""

import numpy as np
import pytest
from scipy import ndimage

from tellwhy.core.errors import InvalidInput
from tellwhy.evaluation import au_pro, pixel_auroc

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
