"""How similar two explanations of the same rows are: one number per row, 1 for the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.ndimage import uniform_filter
from scipy.stats import rankdata

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats

_WINDOW = 7  # pixels along each side of the window that means are taken over
# Small constants that keep the quotients finite where windows are even; the paper's, for values that span 1.
_C1 = 0.01**2
_C2 = 0.03**2


def rank_correlation(a: Floats, b: Floats) -> Floats:
    """Spearman's correlation of the values of each row; NaN where all values of a row are the same.

    Examples
    --------
    >>> rank_correlation(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 4.0, 9.0]]))
    array([1.])
    """
    ranks = [rankdata(values.reshape(len(values), -1), axis=1) for values in (a, b)]
    centred = [rank - rank.mean(axis=1, keepdims=True) for rank in ranks]
    lengths = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    products = (centred[0] * centred[1]).sum(axis=1)
    return np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1.0), np.nan)


def absolute_rank_correlation(a: Floats, b: Floats) -> Floats:
    """Spearman's correlation of the absolute values of each row."""
    return rank_correlation(np.abs(a), np.abs(b))


def structural_similarity(a: Floats, b: Floats) -> Floats:
    """Mean structural similarity of images (n, height, width) or (n, channels, height, width).

    Channels are summed. Each image is scaled to a largest absolute value of ½, so that values span 1. Windows
    have 7 × 7 pixels, or the whole of smaller images. Wang, Bovik, Sheikh, Simoncelli, IEEE TIP 13 (2004).
    """
    if a.ndim not in (3, 4):
        raise InvalidInput(
            "'ssim' compares images of shape (height, width) or (channels, height, width). Got "
            f"{a.shape[1:]}; 'rank' compares values of any shape."
        )
    a = _scaled(a)
    b = _scaled(b)
    window = (1, min(_WINDOW, a.shape[1]), min(_WINDOW, a.shape[2]))

    def mean(values: Floats) -> Floats:
        return np.asarray(uniform_filter(values, window, mode="reflect"))

    mean_a = mean(a)
    mean_b = mean(b)
    variance_a = mean(a * a) - mean_a**2
    variance_b = mean(b * b) - mean_b**2
    covariance = mean(a * b) - mean_a * mean_b
    nearness = (2 * mean_a * mean_b + _C1) / (mean_a**2 + mean_b**2 + _C1)
    structure = (2 * covariance + _C2) / (variance_a + variance_b + _C2)
    return np.asarray((nearness * structure).mean(axis=(1, 2)))


def _scaled(images: Floats) -> Floats:
    """Images with their channels summed and a largest absolute value of ½; an even one stays as it is."""
    images = images.sum(axis=1) if images.ndim == 4 else images
    largest = np.abs(images).max(axis=(1, 2), keepdims=True)
    return np.asarray(images / np.where(largest > 0, 2 * largest, 1.0))


SIMILARITIES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "rank": rank_correlation,
    "rank_abs": absolute_rank_correlation,
    "ssim": structural_similarity,
}
