"""Where relevance gathers in a picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from tellwhy.core.score import Floats

MOST = 3
HALF = 0.5  # a region is where the smoothed relevance is above this share of its highest point


@dataclass(frozen=True)
class Region:
    """A box of pixels, what share of the relevance is in it, and how many times the usual it has."""

    top: int
    left: int
    bottom: int
    right: int
    share: float
    times_usual: float


def regions_of(relevance: Floats, patch: int) -> list[Region]:
    """Return the places with most relevance, at most three, the one with most first.

    Relevance is smoothed over a patch; a place is a connected part above half of the highest point that
    stands out from the middle of the picture.

    Examples
    --------
    >>> relevance = np.ones((40, 40))
    >>> relevance[10:16, 20:26] = 30.0
    >>> [(r.top, r.left, r.bottom, r.right) for r in regions_of(relevance, 3)]
    [(10, 20, 16, 26)]
    """
    flat = relevance.sum(axis=2) if relevance.ndim == 3 else relevance
    positive = np.clip(flat, 0.0, None)
    total = positive.sum()
    if total <= 0:
        return []
    smooth = ndimage.uniform_filter(positive, size=patch, mode="nearest")
    usual = float(np.median(smooth))
    labels, _ = ndimage.label(smooth > max(HALF * smooth.max(), 1.5 * usual))
    found = []
    for k, box in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[box] == k
        share = float(positive[box][inside].sum() / total)
        level = float(smooth[box][inside].mean()) / (usual or 1.0)
        rows, columns = box
        found.append(Region(rows.start, columns.start, rows.stop, columns.stop, share, level))
    return sorted(found, key=lambda region: -region.share)[:MOST]
