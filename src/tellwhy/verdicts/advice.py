"""What else a table could be asked: in the order of its dates, or within its segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from tellwhy.core.score import Floats
from tellwhy.results.notice import Notice

LEAST_ROWS = 100
IN_ORDER = 0.95  # share of steps that do not go back
OWN_MOMENTS = 0.5  # different moments for each row: else many rows belong to one
FOLLOWS = 0.7  # correlation of a number's rank with that in the row before
MOST_LEVELS = 30
LEAST_OF_LEVEL = 30  # rows
BETWEEN = 0.5  # share of the variance of a number's ranks that lies between segments
FOLLOWS_FROM = 0.98  # above it a number follows from the segment: nothing is left to compare within


class HasKind(Protocol):
    """What says what a column is."""

    @property
    def kind(self) -> str:
        """Such as "date", "category" or "number"."""
        ...


def advise(frame: pd.DataFrame, roles: Mapping[str, HasKind]) -> list[Notice]:
    """Return what a table would be better asked: at most one way of each kind.

    Parameters
    ----------
    frame
        Its columns, read as numbers, dates and labels.
    roles
        What each column is.
    """
    if len(frame) < LEAST_ROWS:
        return []
    kinds = {name: role.kind for name, role in roles.items() if name in frame.columns}
    numbers = [n for n, kind in kinds.items() if kind == "number" and is_numeric_dtype(frame[n])]
    return [*_advise_time(frame, kinds, numbers), *_advise_segment(frame, kinds, numbers)]


def _advise_time(frame: pd.DataFrame, kinds: Mapping[str, str], numbers: list[str]) -> list[Notice]:
    """The first column of dates in whose order a number changes little from row to row."""
    for name, kind in kinds.items():
        column = frame[name]
        if kind != "date" or not is_datetime64_any_dtype(column) or column.isna().any():
            continue
        steps = np.diff(column.to_numpy().astype("datetime64[s]").astype(np.int64))
        if (steps >= 0).mean() < IN_ORDER or column.nunique() < OWN_MOMENTS * len(column):
            continue
        order = np.argsort(column.to_numpy(), kind="stable")
        following = [n for n in numbers if _is_following(frame[n].to_numpy(dtype=np.float64)[order])]
        if following:
            return [Notice("advise_time", {"column": name, "other": following[0]})]
    return []


def _is_following(values: Floats) -> bool:
    """Whether a number is near the one before; a number that only grows counts something."""
    values = values[np.isfinite(values)]
    if len(values) < LEAST_ROWS or len(np.unique(values)) < LEAST_OF_LEVEL or (np.diff(values) >= 0).all():
        return False
    ranks = pd.Series(values).rank().to_numpy()
    return bool(np.corrcoef(ranks[:-1], ranks[1:])[0, 1] >= FOLLOWS)


def _advise_segment(frame: pd.DataFrame, kinds: Mapping[str, str], numbers: list[str]) -> list[Notice]:
    """The labels by which most numbers differ, though they do not follow from them."""
    best: tuple[int, float] = (0, 0.0)
    found: list[Notice] = []
    ranks = {name: frame[name].rank() for name in numbers}
    for name, kind in kinds.items():
        labels = frame[name]
        counts = labels.value_counts()
        if kind not in ("category", "boolean") or not 2 <= len(counts) <= MOST_LEVELS:
            continue
        if counts.min() < LEAST_OF_LEVEL:
            continue
        shares = {other: _measure_between(ranks[other], labels) for other in numbers if other != name}
        differing = {n: share for n, share in shares.items() if BETWEEN <= share < FOLLOWS_FROM}
        told = (len(differing), max(differing.values(), default=0.0))
        if told > best:
            best = told
            other = max(differing, key=lambda n: differing[n])
            found = [Notice("advise_by", {"column": name, "other": other})]
    return found


def _measure_between(ranks: pd.Series, labels: pd.Series) -> float:
    """Share of the variance of ranks that lies between segments."""
    whole = float(ranks.var())
    if not whole > 0:
        return 0.0
    within = ranks - ranks.groupby(labels, observed=True).transform("mean")
    return 1.0 - float(within.var()) / whole
