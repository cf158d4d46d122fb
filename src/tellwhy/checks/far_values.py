"""Values far from all the others of their column, of which nothing more is known: odd, without a story.

What is far stands in `outer_values`. How rarely a column has such a value was counted on real tables.
"""

from __future__ import annotations

import math

import numpy as np

from tellwhy.checks.facts import Facts
from tellwhy.checks.mistakes import FAR, ODD_CELL
from tellwhy.checks.outer_values import GAP, MOST_FAR, Far, far_values
from tellwhy.checks.restraint import are_next
from tellwhy.results.result import Finding

_MOST_COLUMNS = (3, 15)  # that have far values; more are what this table's columns are like
_MOST_OF_COLUMNS = 0.25
# In .02 of the columns of the tables that this was developed on, a value is .75 spreads away from the others;
# that is one cell of n. Gaps twice as wide are 2^1.5 times as rare.
_RATE = 0.02
_FALL = 1.5
_WIDEST = 1e4
_SEVERAL = 3  # rows


def find_far_values(seen: Facts, known: Facts) -> list[Finding]:
    """Numbers far from all others of their column, unless many columns of the table are like that."""
    names = [name for name in seen.numbers if not seen.is_clock(name)]
    # Among very many columns, chance alone makes one: it must be farther out.
    least = GAP * max(_RATE * len(names), 1) ** (1 / _FALL)
    found = []
    for name in names:
        there = known.numbers[name]
        found += [
            (name, far)
            for far in far_values(seen.numbers[name].values, there.filled, there.step)
            if (least <= GAP or far.gap >= least) and not _are_others(far, seen.n)
        ]
    fewest, most = _MOST_COLUMNS
    if len({name for name, _ in found}) > np.clip(_MOST_OF_COLUMNS * len(names), fewest, most):
        return []
    return [_finding(seen, name, far) for name, far in found]


def _are_others(far: Far, n: int) -> bool:
    """Whether these are other things: many of the rows, or several that follow each other."""
    if len(far.rows) > max(_SEVERAL, MOST_FAR * n):
        return True
    return len(far.rows) >= _SEVERAL and bool(are_next(far.rows, n).all())


def _finding(seen: Facts, name: str, far: Far) -> Finding:
    share = _RATE * (GAP / np.clip(far.gap, GAP, _WIDEST)) ** _FALL
    n = np.isfinite(seen.numbers[name].values).sum()
    surprise = math.log(max(n / len(far.rows), 1) / share)
    usual = seen.ends(name, far.rest)
    return ODD_CELL.report(seen, name, far.rows, {}, usual, form=FAR, surprise=surprise)
