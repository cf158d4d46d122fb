"""Rows that are equal: told by a number for each row, and tested against chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.checks.chance import LEVEL, many

Hashes = NDArray[np.uint64]
_DIFFERENT = 0.1  # share of different rows from which rows are told apart at all


def hashed_cells(series: pd.Series) -> Hashes:
    """A number for each cell, equal for equal cells."""
    try:
        return np.asarray(pd.util.hash_pandas_object(series, index=False).to_numpy(), dtype=np.uint64)
    except TypeError:  # lists, dicts
        text = series.map(str)
        return np.asarray(pd.util.hash_pandas_object(text, index=False).to_numpy(), dtype=np.uint64)


def added_hashes(hashes: Sequence[Hashes]) -> Hashes:
    """A number for each row, equal for rows that are equal in all of these columns."""
    whole = np.zeros(len(hashes[0]), dtype=np.uint64)
    for one in hashes:
        whole += one
    return whole


def n_equal_pairs(hashes: Hashes) -> int:
    """How many pairs of rows are equal."""
    counts = np.diff(np.flatnonzero(np.r_[True, np.diff(np.sort(hashes)) != 0, True])).astype(np.float64)
    return int((counts * (counts - 1) / 2).sum())


def pairs_by_chance(hashes: Sequence[Hashes], n_pairs: int) -> float:
    """How many pairs would be equal by chance, from pairs that are equal in all columns but one.

    Pairs equal elsewhere agree in a column with its own probability c of a coincidence; so c/(1 − c) of the
    pairs that differ only there would have been equal by chance. Copies leave no pairs that nearly agree.
    """
    expected = 0.0
    whole = added_hashes(hashes)
    all_pairs = len(whole) * (len(whole) - 1) / 2
    for one in hashes:
        nearly = n_equal_pairs(whole - one) - n_pairs
        if nearly > 0:
            chance = min(n_equal_pairs(one) / all_pairs, 0.999)
            expected = max(expected, nearly * chance / (1 - chance))
    return max(expected, n_equal_pairs(whole) - n_pairs)


def first_of_copies(hashes: Sequence[Hashes]) -> np.ndarray | None:
    """Which rows are no copies of an earlier one; None where no copies are more than chance.

    Nor where hardly any rows differ: columns of few labels repeat themselves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> hashes = rng.integers(2**63, size=50).astype(np.uint64)
    >>> rows = [hashes[rng.integers(0, 50, 200)] for _ in range(4)]
    >>> first_of_copies(rows) is None, int(first_of_copies([np.tile(one, 2) for one in rows]).sum())
    (True, 200)
    """
    if not hashes:
        return None
    whole = added_hashes(hashes)
    n_pairs = n_equal_pairs(whole)
    if not n_pairs:
        return None
    _, first = np.unique(whole, return_index=True)
    is_chance = many(n_pairs, pairs_by_chance(hashes, n_pairs)) - math.log(len(hashes)) <= LEVEL
    if is_chance or len(first) < _DIFFERENT * len(whole):
        return None
    is_first = np.zeros(len(whole), dtype=np.bool_)
    is_first[first] = True
    return is_first
