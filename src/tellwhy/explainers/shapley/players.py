"""Who shares the score: columns, the raw columns that encoded ones were made from, or groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.base import Rows
from tellwhy.explainers.column_groups import Groups, group_numbers, groups_rule

__all__ = ["Players", "groups_rule", "players_of"]


@dataclass(frozen=True)
class Players:
    """Groups of the user's columns; those of which the score sees no column take no part.

    `of_column[t]` is the player that score column t belongs to; `group[c]` is the group of the user's column
    c, and `playing` lists the groups that play, in the order of the players.
    """

    of_column: Integers
    group: Integers
    playing: Integers

    @property
    def n(self) -> int:
        """How many take part."""
        return len(self.playing)

    def group_values(self, values: Floats) -> Floats:
        """Values per group from values per player: 0 for a group that takes no part."""
        found = np.zeros((len(values), int(self.group.max()) + 1))
        found[:, self.playing] = values
        return found

    def per_column(self, values: Floats) -> Floats:
        """Values per user's column: a group's value in equal parts."""
        sizes = np.bincount(self.group)
        return np.asarray((self.group_values(values) / sizes)[:, self.group])


def players_of(rows: Rows, groups: Groups | None, names: Sequence[str] | None) -> Players:
    """Return the players among some rows: one per user's column, or one per group of them."""
    group = np.arange(rows.n_owners) if groups is None else group_numbers(groups, rows.n_owners, names)
    # Groups none of whose columns the score sees, such as dropped ones, get no player and the value 0.
    playing, of_column = np.unique(group[rows.owner], return_inverse=True)
    return Players(of_column.reshape(-1), group, playing)
