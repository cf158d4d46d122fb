"""Cells that are filled where they are otherwise always empty: a closing date of an open case."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tellwhy.checks.chance import LEVEL, agreement
from tellwhy.checks.contest import Claim
from tellwhy.checks.mistakes import BROKEN_DEPENDENCY
from tellwhy.data.columns.reading import Labels

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts

_FEWEST = 20
_MOST_LEVELS = 100
_RARE = 0.03  # of a level's rows
_OFTEN = 0.5  # share of filled cells that some other level has
_STRICT = 0.01  # share of filled rows below which a level has none by its nature
_MOST = 40.0


def claim_filled(seen: Facts, known: Facts) -> list[Claim]:  # noqa: ARG001
    """Cells of columns that are empty for a level of a label, but for a few rows."""
    labels = {name: values for name, values in seen.labels.items() if len(values.names) <= _MOST_LEVELS}
    claims: list[Claim] = []
    for column in seen.frame.columns:
        is_filled = seen.frame[column].notna().to_numpy()
        if 0.02 * seen.n <= is_filled.sum() <= 0.98 * seen.n:
            for name, values in labels.items():
                if name != column:
                    claims += _of_label(seen, column, is_filled, name, values)
    return claims


def _of_label(seen: Facts, column: str, is_filled: np.ndarray, name: str, labels: Labels) -> Iterator[Claim]:
    total = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
    filled = np.bincount(labels.codes[is_filled & (labels.codes >= 0)], minlength=len(labels.names))
    share = filled / np.maximum(total, 1)
    if not (share[total >= _FEWEST] > _OFTEN).any():
        return
    tried = math.log(len(seen.frame.columns) * max(len(seen.labels), 1) * len(labels.names))
    for code in np.flatnonzero((total >= _FEWEST) & (filled > 0) & (share <= _RARE)).tolist():
        empty = int(total[code] - filled[code])
        if agreement(empty, int(total[code]), 1 - float(is_filled.mean())) - tried <= LEVEL:
            continue
        rows = np.flatnonzero(is_filled & (labels.codes == code))
        odds = math.log(min(_MOST, (_STRICT / float(share[code])) ** 3))
        yield Claim(
            BROKEN_DEPENDENCY,
            (column, name),
            rows,
            np.full(len(rows), odds),
            facts={"level": labels.names[code]},
            usual={"n": empty},
            form="filled_cell",
        )
