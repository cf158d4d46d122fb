"""Columns that follow from others: they do not tell rows apart that the others do not."""

from __future__ import annotations

from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.links.dependencies import dependent_columns
from tellwhy.data.quality.links.verifying import relations_of


def dependents(seen: Facts, learn: Facts) -> set[str]:
    """Names of columns that an equation, or the labels of another column, make up."""
    following: set[str] = set()
    for held in relations_of(seen, learn):
        target = held.relation.columns[0]
        if not following & set(held.relation.columns[1:]):
            following.add(target)
    for source, target in dependent_columns(seen, learn):
        if source not in following:
            following.add(target)
    return following
