"""A column as codes that mean the same in the table and in its reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.checks.facts import Facts
from tellwhy.core.score import Integers
from tellwhy.data.columns.reading import Labels


@dataclass(frozen=True, eq=False)
class Coded:
    """`names[seen[i]]` is what row i of the table holds, code −1 where it is missing; `learn` alike."""

    seen: Integers
    learn: Integers
    names: tuple[Any, ...]  # texts; of numbers themselves

    def counts(self) -> Integers:
        """How often each level occurs in the rows to learn from."""
        return np.bincount(self.learn[self.learn >= 0], minlength=len(self.names))


def coded_labels(seen: Facts, learn: Facts, column: str) -> Coded:
    """Labels of a column, coded alike in both tables."""
    labels = seen.labels[column]
    if seen is learn:
        return Coded(labels.codes, labels.codes, labels.names)
    other = learn.labels[column]
    names = tuple(dict.fromkeys([*other.names, *labels.names]))
    place = {name: i for i, name in enumerate(names)}
    return Coded(_recoded(labels, place), _recoded(other, place), names)


def _recoded(labels: Labels, place: dict[str, int]) -> Integers:
    lookup = np.array([*(place[name] for name in labels.names), -1], dtype=np.int64)
    return lookup[labels.codes]


def coded_numbers(seen: Facts, learn: Facts, column: str) -> Coded:
    """Different values of a column of numbers or dates, as levels."""
    values = seen.measured()[column].values
    both = values if seen is learn else np.concatenate([values, learn.measured()[column].values])
    codes, found = pd.factorize(both)
    codes = codes.astype(np.int64)
    names = tuple(seen.value(column, float(value)) for value in found)
    return Coded(codes[: len(values)], codes if seen is learn else codes[len(values) :], names)
