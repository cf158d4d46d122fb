"""How often a table errs in some way, learned from it: most hardly ever, some in one cell of a hundred.

The rate of a kind of mistake in a column has two humps: about what untouched tables have, or about one
in a hundred. How likely the second is follows from all cells of the column that the mistake would
explain, and from the other columns: where one column has a mistake, others of the table have it more
often too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tellwhy.core.score import Floats, Integers

_FEW = np.linspace(-0.9, 0.9, 7)  # decades about the rate of tables that hardly err
_MANY = np.linspace(-3.2, -1.6, 17)  # decades of the rates of tables that do
_TABLE = 2500.0  # chance that a table errs in a way, in multiples of the rate where it hardly does
_MOST_TABLES = 0.05
_COLUMN = 0.4  # chance that a column does, in a table that errs
_ALONE = 0.002  # the same in one that does not


@dataclass(frozen=True, eq=False)
class Rate:
    """The rate of a mistake in one column.

    Attributes
    ----------
    few, many
        Where the column hardly errs, and where it does.
    chance
        That it does.
    """

    few: float
    many: float
    chance: float

    def log_odds(self, gains: Floats) -> Floats:
        """Log-odds of the mistake in cells that it makes exp(gains) times as likely."""
        odds = np.array([np.log(self.few) + gains, np.log(self.many) + gains])
        wrong = np.exp(-np.logaddexp(0, -odds))
        chance = np.array([[1 - self.chance], [self.chance]])
        p = (wrong * chance).sum(axis=0)
        right = (np.exp(-np.logaddexp(0, odds)) * chance).sum(axis=0)
        return np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(right, 1e-300))


def learn_rates(
    gains: list[Floats], sizes: Integers, usual: float, *, table: float | None = None
) -> list[Rate]:
    """Learn the rate of one kind of mistake in each column.

    Parameters
    ----------
    gains
        Of each column: log of how much likelier the mistake makes those cells that it may explain. The
        other cells are taken to be impossible under it.
    sizes
        Number of cells of each column.
    usual
        Rate of the mistake in tables that hardly err.
    table
        Chance that a table errs in this way, before it is looked at.
    """
    few = np.log(usual) + np.log(10) * _FEW
    many = np.log(10) * _MANY
    quiet = [_marginal(each, int(n), few) for each, n in zip(gains, sizes, strict=True)]
    loud = [_marginal(each, int(n), many) for each, n in zip(gains, sizes, strict=True)]
    low = np.array([total for total, _ in quiet])
    high = np.array([total for total, _ in loud])
    if_errs = _mixed(low, high, _COLUMN)
    if_not = _mixed(low, high, _ALONE)
    table = min(_TABLE * usual, _MOST_TABLES) if table is None else table
    errs = np.log(table) + if_errs.sum()
    chance = np.exp(errs - np.logaddexp(errs, np.log1p(-table) + if_not.sum()))
    column = chance * np.exp(np.log(_COLUMN) + high - if_errs) + (1 - chance) * np.exp(
        np.log(_ALONE) + high - if_not
    )
    pairs = zip(quiet, loud, np.clip(column, 0, 1), strict=True)
    return [Rate(few=q[1], many=m[1], chance=float(p)) for q, m, p in pairs]


def _mixed(low: Floats, high: Floats, share: float) -> Floats:
    return np.logaddexp(np.log1p(-share) + low, np.log(share) + high)


def _marginal(gains: Floats, size: int, rates: Floats) -> tuple[float, float]:
    """Log of the mean likelihood over rates given as logarithms, and the posterior mean of the rate."""
    spare = np.log1p(-np.exp(rates))
    each = np.logaddexp(spare[:, None], rates[:, None] + gains[None, :])
    found = each.sum(axis=1) + (size - len(gains)) * spare
    total = float(logsumexp(found))
    mean = float(np.exp(logsumexp(found + rates) - total))
    return total - np.log(len(rates)), mean
