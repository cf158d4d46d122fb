"""Numbers with the few digits that people are shown, chosen so that the row is still normal with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.counterfactuals.choices import Mask

_BATCH_BYTES = 64 * 2**20
_MOST_DECIMALS = 300  # 10³⁰⁰ is still a number


class Rung(NamedTuple):
    """One way to write numbers: so many digits, rounded away from the row's number, some units further."""

    digits: int | None  # None: all that the number has
    further: int  # units of the last digit; −1 is the neighbour on the row's side of what was found


# The first ways are those in which people are shown numbers; the others are for a row that needs more digits.
SHOWN = (Rung(4, -1), Rung(4, 0), Rung(4, 1), Rung(4, 2), Rung(4, 4), Rung(4, 8))
LADDER = (*SHOWN, Rung(7, 0), Rung(7, 1), Rung(10, 0), Rung(10, 1), Rung(None, 0))


@dataclass(frozen=True)
class Limits:
    """What the cells of each column may be.

    Attributes
    ----------
    is_number
        Mask of the columns whose cells may be rounded.
    steps
        Distance between the values that a column may have, counted from 0; 0 where every number will do.
    low, high
        Smallest and largest value that was seen.
    """

    is_number: Mask
    steps: Floats
    low: Floats
    high: Floats


class Written(NamedTuple):
    """Rows whose changed numbers were written; NaN where no way to write them is normal."""

    points: Floats
    as_shown: Mask  # whether four digits were enough


def written(X: Floats, Y: Floats, limits: Limits, is_normal: Callable[[Floats, Integers], Mask]) -> Written:
    """Write the numbers that differ between rows X and their normal versions Y with as few digits as will do.

    Numbers are rounded away from what the row had, since that is where normal values are. Each way to write
    them is scored; the first that is normal is taken.

    Parameters
    ----------
    is_normal
        Takes points and, for each, the number of the row in X that it was made from; tells which are normal.

    Examples
    --------
    >>> limits = Limits(np.array([True]), np.zeros(1), np.array([-9.0]), np.array([9.0]))
    >>> below = lambda points, rows: points[:, 0] <= np.pi
    >>> written(np.array([[8.0]]), np.array([[np.pi]]), limits, below)
    Written(points=array([[3.141]]), as_shown=array([ True]))
    """
    points = np.empty_like(Y)
    as_shown = np.empty(len(Y), dtype=bool)
    for some in cut_batches(len(Y), 32 * len(LADDER) * Y.shape[1], _BATCH_BYTES):
        trials = np.stack([_on_rung(X[some], Y[some], limits, rung) for rung in LADDER])
        way, row = np.nonzero(~np.isnan(trials).any(axis=2))
        good = np.zeros(trials.shape[:2], dtype=bool)  # (ways, rows)
        if len(way):
            good[way, row] = is_normal(trials[way, row], some.start + row)
        first = good.argmax(axis=0)
        found = np.asarray(good.any(axis=0))
        points[some] = np.where(found[:, None], trials[first, np.arange(len(found))], np.nan)
        as_shown[some] = found & (first < len(SHOWN))
    return Written(points, as_shown)


def _on_rung(X: Floats, Y: Floats, limits: Limits, rung: Rung) -> Floats:
    """Write the changed numbers in one way; NaN where that is out of range or reads like the row's number."""
    changed = (X != Y) & limits.is_number
    away = np.sign(Y - X)
    units = _units(Y, limits.steps, rung.digits)
    value = _scaled(_rounded_away(_in_units(Y, units), away) + rung.further * away, units)
    before = _scaled(np.round(_in_units(X, units)), units)
    exact = (limits.steps == 0) & (rung.digits is None)
    value = np.where(exact, Y, value)
    wrong = (value < limits.low) | (value > limits.high) | (~exact & (value == before))
    return np.where(changed, np.where(wrong, np.nan, value), Y)


class _Units(NamedTuple):
    """The unit of the last digit of each cell: a step, or a power of ten."""

    steps: Floats  # 0 where it is a power of ten
    decimals: Floats


def _units(Y: Floats, steps: Floats, digits: int | None) -> _Units:
    """Count digits from the first that is not 0; the part before the decimal point is kept whole."""
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(Y)))
    size = np.where(np.isfinite(size), size, 0.0)
    decimals = (digits or 1) - 1 - size
    decimals = np.where((size >= 0) & (size < 7), np.maximum(decimals, 0.0), decimals)
    return _Units(np.broadcast_to(steps, Y.shape), np.clip(decimals, -_MOST_DECIMALS, _MOST_DECIMALS))


def _in_units(values: Floats, units: _Units) -> Floats:
    power = 10.0 ** np.abs(units.decimals)
    by_power = np.where(units.decimals >= 0, values * power, values / power)
    return np.where(units.steps > 0, values / np.where(units.steps > 0, units.steps, 1.0), by_power)


def _scaled(counts: Floats, units: _Units) -> Floats:
    """Undo `_in_units`."""
    power = 10.0 ** np.abs(units.decimals)
    # A division, since multiples of 0.001 are not: 3142 / 1000 is the float that "3.142" is read as.
    by_power = np.where(units.decimals >= 0, counts / power, counts * power)
    return np.where(units.steps > 0, counts * units.steps, by_power)


def _rounded_away(counts: Floats, away: Floats) -> Floats:
    return np.where(away > 0, np.ceil(counts), np.floor(counts))
