"""How likely two samples of one distribution differ this much: numbers, levels, rates; many tests at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tellwhy.core.score import Floats

_EXACT = 100  # rows up to which the distribution of a statistic is counted out
_LEAST_EXPECTED = 5.0  # rows that a level must be expected to have for the chi-square approximation


@dataclass(frozen=True)
class Gap:
    """How far two samples lie apart, and how likely chance puts them so far or farther.

    Attributes
    ----------
    size
        From 0 (alike) to 1 (nothing in common).
    p_value
        Probability of such a size, or a larger one, between two samples of one distribution.
    at
        For numbers: the value up to which the shares of rows differ most.
    """

    size: float
    p_value: float
    at: float = float("nan")


def measure_gap_of_numbers(old: Floats, new: Floats) -> Gap:
    """Kolmogorov–Smirnov: the largest difference between the shares of rows up to a value.

    Equal values make the p-value larger than it is, never smaller.

    Examples
    --------
    >>> gap = measure_gap_of_numbers(np.arange(100.0), np.arange(100.0) + 50)
    >>> gap.size, gap.p_value < 1e-9, gap.at
    (0.5, True, 49.0)
    """
    old = np.sort(old)
    new = np.sort(new)
    values = np.concatenate([old, new])
    shares = np.searchsorted(old, values, side="right") / len(old)
    differences = np.abs(shares - np.searchsorted(new, values, side="right") / len(new))
    at = int(np.argmax(differences))
    size = float(differences[at])
    if max(len(old), len(new)) <= _EXACT:
        p_value = float(stats.ks_2samp(old, new, method="exact").pvalue)
    else:
        p_value = float(stats.kstwo.sf(size, round(len(old) * len(new) / len(values))))
    return Gap(size, min(p_value, 1.0), float(values[at]))


def measure_gap_of_levels(old: Mapping[str, int], new: Mapping[str, int]) -> Gap:
    """Half of the summed differences of shares; chi-square over the levels, and levels that one sample lacks.

    Levels too rare for the chi-square approximation are one group there. A level that only one sample has is
    judged by the chance that all of its rows fall into that sample. The smaller of the two p-values counts,
    doubled.

    Examples
    --------
    >>> measure_gap_of_levels({"a": 50, "b": 50}, {"a": 50, "b": 50}).size
    0.0
    >>> measure_gap_of_levels({"a": 500}, {"a": 480, "new": 20}).p_value < 1e-4
    True
    """
    levels = sorted({*old, *new})
    counts = np.array([[table.get(level, 0) for level in levels] for table in (old, new)], dtype=np.float64)
    shares = counts / counts.sum(axis=1, keepdims=True)
    size = float(np.abs(shares[0] - shares[1]).sum() / 2)
    p_value = min(1.0, 2 * min(_test_chi_square(counts), _test_only_in_one(counts)))
    return Gap(size, p_value)


def _test_chi_square(counts: Floats) -> float:
    total = counts.sum(axis=0)
    is_rare = total * counts.sum(axis=1).min() / counts.sum() < _LEAST_EXPECTED
    groups = counts[:, ~is_rare]
    if is_rare.any():
        groups = np.column_stack([groups, counts[:, is_rare].sum(axis=1)])
    if groups.shape[1] < 2:
        return 1.0
    if groups.shape[1] == 2:
        return _test_two_by_two(groups)
    return float(stats.chi2_contingency(groups, correction=False).pvalue)


def _test_two_by_two(counts: Floats) -> float:
    total = counts.sum()
    expected = counts.sum(axis=0) * counts.sum(axis=1)[:, None] / total
    if expected.min() == 0:
        return 1.0
    if expected.min() < 2 * _LEAST_EXPECTED:  # rare enough to be counted out exactly
        return float(stats.fisher_exact(counts.astype(np.int64)).pvalue)
    return float(stats.chi2_contingency(counts, correction=False).pvalue)


def _test_only_in_one(counts: Floats) -> float:
    """Chance of the least likely level that one sample lacks, corrected for the number of levels."""
    share = counts.sum(axis=1) / counts.sum()
    total = counts.sum(axis=0)
    chances = [
        float(share[side] ** total[k]) for side in (0, 1) for k in np.flatnonzero(counts[1 - side] == 0)
    ]
    # Drawn without replacement the chance is smaller still: the true p-value is at most this one.
    return min(1.0, len(total) * min(chances)) if chances else 1.0


def measure_gap_of_rates(old: tuple[int, int], new: tuple[int, int]) -> Gap:
    """The difference of two shares, each given as (rows, of how many).

    Examples
    --------
    >>> measure_gap_of_rates((2, 1000), (60, 1000)).p_value < 1e-9
    True
    """
    counts = np.array([[part, whole - part] for part, whole in (old, new)], dtype=np.float64)
    size = abs(old[0] / old[1] - new[0] / new[1])
    return Gap(size, _test_two_by_two(counts) if size > 0 else 1.0)


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the chance that any of the tests says 'differs' though none does.

    References
    ----------
    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    Examples
    --------
    >>> adjust_p_values([0.01, 0.5, 0.02])
    [0.03, 0.5, 0.04]
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.array(p_values)[order] * np.arange(len(order), 0, -1)
    found = np.empty(len(order))
    found[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else []
    return [float(value) for value in found]
