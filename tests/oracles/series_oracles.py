"""Slow, obvious twins of what detectors of events compute."""

import math
from itertools import pairwise

import numpy as np


def nearest_earlier(windows, places, apart, known):
    found = []
    for i in range(len(windows)):
        if known > 0:
            others = [j for j in places if j < known and abs(i - j) >= apart]
        else:
            others = [j for j in places if j <= i - apart]
        away = [math.sqrt(sum((windows[i] - windows[j]) ** 2)) for j in others]
        found.append(min(away, default=0.0))
    return np.array(found)


def run_lengths(values):
    found = []
    for i in range(len(values)):
        start = i
        while start > 0 and values[start - 1] == values[i]:
            start -= 1
        found.append(i - start + 1)
    return np.array(found, dtype=float)


def mean_until(x, width):
    return np.array([np.mean(x[max(0, i - width + 1) : i + 1]) for i in range(len(x))])


def window_means(x, width, parts):
    """Means of the parts of each window that is whole."""
    cuts = [round(k * width / parts) for k in range(parts + 1)]
    rows = []
    for i in range(width - 1, len(x)):
        window = x[i - width + 1 : i + 1]
        rows.append([np.mean(window[a:b]) for a, b in pairwise(cuts)])
    return np.array(rows)


def two_windows(x, width):
    found = np.zeros(len(x))
    for i in range(width, len(x) - width + 1):
        found[i] = np.mean(x[i : i + width]) - np.mean(x[i - width : i])
    return found


def expected_false(surprise, blocks, n_blocks, prior):
    """How many of so many blocks have as large a surprise: a Pareto tail above the median of the blocks.

    Its scale is the mean excess of the blocks up to the 80th hundredth, with those above counted as censored
    there, and `prior` blocks of a known mean excess.
    """
    low = np.quantile(blocks, 0.5)
    high = np.quantile(blocks, 0.8)
    excesses = [b - low for b in blocks if low < b <= high]
    n_above = sum(b > high for b in blocks)
    count = max(len(excesses), 3) + prior[0]
    scale = (sum(excesses) + n_above * (high - low) + prior[0] * prior[1]) / count
    return 0.5 * n_blocks * (1 + max(surprise - low, 0) / (count * scale)) ** -count
