"""Compiled scans of series: the nearest earlier window of each window."""

from __future__ import annotations

import math

import numpy as np

from tellwhy.core.compiled import njit


@njit(nogil=True, cache=True)
def find_nearest_earlier(windows, keys, places, apart, known):
    """Distance of each window to the nearest of those at `places` that lie at least `apart` before it.

    windows: (n, d); keys: (n,), projections on one unit vector, so that windows are never nearer to each
    other than their keys are; places: ascending. With known > 0, windows at places < known are compared
    with, on both sides. Where there is nothing to compare with, 0.

    Those compared with are kept in the order of their keys. The search goes out from the window's own key to
    both sides and ends where keys alone are farther than the nearest window found.
    """
    n, d = windows.shape
    held = np.empty(len(places))
    where = np.empty(len(places), np.int64)
    out = np.zeros(n)
    size = 0
    for i in range(n):
        while size < len(places) and (places[size] <= i - apart or known > 0):
            at = np.searchsorted(held[:size], keys[places[size]])
            for k in range(size, at, -1):
                held[k] = held[k - 1]
                where[k] = where[k - 1]
            held[at] = keys[places[size]]
            where[at] = places[size]
            size += 1
        best = np.inf
        right = np.searchsorted(held[:size], keys[i])
        left = right - 1
        while left >= 0 or right < size:
            below = keys[i] - held[left] if left >= 0 else np.inf
            above = held[right] - keys[i] if right < size else np.inf
            if min(below, above) ** 2 >= best:
                break
            if below <= above:
                j = where[left]
                left -= 1
            else:
                j = where[right]
                right += 1
            if abs(i - j) < apart:
                continue
            total = 0.0
            for k in range(d):
                total += (windows[i, k] - windows[j, k]) ** 2
                if total >= best:
                    break
            best = min(best, total)
        out[i] = math.sqrt(best) if best < np.inf else 0.0
    return out
