"""The encoding of a table's columns, cell by cell."""

from __future__ import annotations

import math
import statistics
from statistics import NormalDist


def quantile(values, level):
    ranked = sorted(values)
    place = level * (len(ranked) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (place - below) * (ranked[above] - ranked[below])


def number(cells, new):
    """Encode the cells `new` of a column that was fitted on `cells`; None is missing."""
    filled = [c for c in cells if c is not None]
    centre = quantile(filled, 0.5)
    scale = (quantile(filled, 0.95) - quantile(filled, 0.05)) / 3.29
    if scale == 0:
        scale = statistics.pstdev(filled)
    return [[0.0 if c is None else tail((c - centre) / scale)] for c in new]


def tail(z):
    """Linear up to 3, like the square root beyond."""
    if abs(z) <= 3:
        return z
    return math.copysign(3 * (2 * math.sqrt(abs(z) / 3) - 1), z)


def category(cells, new, max_categories):
    """One-hot with the rarity of each label, in the order: most common first, missing, other."""
    n = len(cells)
    counts = {c: cells.count(c) for c in cells if c is not None}
    kept = sorted(counts, key=lambda c: (-counts[c], c))[:max_categories]
    labels = [*kept, None] if None in cells else kept
    shares = [cells.count(c) / (n + 0.5) for c in labels]
    shares.append((n - sum(cells.count(c) for c in labels) + 0.5) / (n + 0.5))
    scales = [NormalDist().inv_cdf(1 - p / 2) for p in shares]
    variance = sum(p * (1 - p) * s**2 for p, s in zip(shares, scales, strict=True))
    if variance > 1:
        scales = [s / math.sqrt(variance) for s in scales]
    rows = []
    for c in new:
        place = labels.index(c) if c in labels else len(labels)
        rows.append([scales[place] if i == place else 0.0 for i in range(len(labels) + 1)])
    return rows


def boolean(cells, new):
    """(x − usual) times the distance of the two labels."""
    filled = [c for c in cells if c is not None]
    share = (sum(filled) + 0.5) / (len(filled) + 1)
    usual = 1 if share > 0.5 else 0
    near, far = (NormalDist().inv_cdf(1 - p / 2) for p in (share, 1 - share))
    return [[0.0 if c is None else (c - usual) * math.hypot(near, far)] for c in new]
