"""How well maps of scores show where pictures are odd: pixel AUROC and AU-PRO, as of MVTec's benchmark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage
from sklearn.metrics import roc_auc_score

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats

LIMIT = 0.3  # false positives up to which AU-PRO is integrated, as published


def pixel_auroc(maps: Sequence[ArrayLike], masks: Sequence[ArrayLike]) -> float:
    """Area under the ROC curve of all pixels of all pictures, by their scores.

    Parameters
    ----------
    maps
        Score of each pixel, one array per picture.
    masks
        True where a pixel is odd; pictures without an odd pixel count as ordinary.

    Examples
    --------
    >>> pixel_auroc([np.array([[0.1, 0.9], [0.2, 0.3]])], [np.array([[False, True], [False, False]])])
    1.0
    """
    scores, truth = _flat(maps, masks)
    return float(roc_auc_score(truth, scores))


def au_pro(maps: Sequence[ArrayLike], masks: Sequence[ArrayLike], *, limit: float = LIMIT) -> float:
    """Area under the curve of per-region overlap against false positives, up to a limit, divided by it.

    For each threshold, the share of every odd region that is above it, averaged over regions: a small defect
    counts as much as a large one (Bergmann, Fauser, Sattlegger, Steger, CVPR 2019).

    Examples
    --------
    >>> mask = np.zeros((8, 8), dtype=bool)
    >>> mask[2:4, 2:4] = True
    >>> round(au_pro([mask.astype(float)], [mask]), 6)
    1.0
    """
    scores, truth = _flat(maps, masks)
    weights = np.concatenate([_region_weights(np.asarray(mask, dtype=bool)).ravel() for mask in masks])
    weights = weights / weights.sum()
    order = np.argsort(-scores, kind="stable")
    overlap = np.cumsum(weights[order])
    false = np.cumsum(~truth[order]) / max(int((~truth).sum()), 1)
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # ties are passed together
    x = np.append(0.0, false[ends])
    y = np.append(0.0, overlap[ends])
    inside = np.append(x[x < limit], limit)
    return float(np.trapezoid(np.interp(inside, x, y) if len(x) > 1 else y, inside) / limit)


def _region_weights(mask: np.ndarray) -> Floats:
    """Weight of each odd pixel: one over the size of its region."""
    labels, _ = ndimage.label(mask, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel())
    return np.where(mask, 1.0 / sizes[labels], 0.0)


def _flat(maps: Sequence[ArrayLike], masks: Sequence[ArrayLike]) -> tuple[Floats, np.ndarray]:
    """All pixels in a line, with whether they are odd."""
    if len(maps) != len(masks) or not len(maps):
        raise InvalidInput(f"There are {len(maps)} maps and {len(masks)} masks; expected one mask per map.")
    for k, (one, mask) in enumerate(zip(maps, masks, strict=True)):
        if np.shape(one) != np.shape(mask):
            raise InvalidInput(f"Map {k} has the shape {np.shape(one)}, its mask {np.shape(mask)}.")
    scores = np.concatenate([np.asarray(one, dtype=np.float64).ravel() for one in maps])
    truth = np.concatenate([np.asarray(mask, dtype=bool).ravel() for mask in masks])
    if not truth.any() or truth.all():
        raise InvalidInput("The masks mark all pixels, or none: nothing can be told apart.")
    return scores, truth
