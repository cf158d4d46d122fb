"""Cells that are filled where they are otherwise always empty: a closing date of an open case."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tellwhy.data.columns.values import Labels
from tellwhy.data.quality.chance import LEVEL, agreement, most
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import MISSING, Finding
from tellwhy.data.quality.words import as_rows, row_words, rows_words

_FEWEST = 20
_MOST_LEVELS = 100
_RARE = 0.03  # of a level's rows
_OFTEN = 0.5  # share of filled cells that some other level has


def find_filled_cells(seen: Facts, learn: Facts) -> list[Finding]:  # noqa: ARG001
    """Columns that are empty for a level of a label, but for a few rows."""
    labels = {name: values for name, values in seen.labels.items() if len(values.names) <= _MOST_LEVELS}
    findings: list[Finding] = []
    for column in seen.frame.columns:
        is_filled = seen.frame[column].notna().to_numpy()
        if not 0.02 * seen.n <= is_filled.sum() <= 0.98 * seen.n:
            continue
        for name, values in labels.items():
            if name != column:
                findings += _of_label(seen, column, is_filled, name, values)
    return findings


def _of_label(
    seen: Facts, column: str, is_filled: np.ndarray, name: str, labels: Labels
) -> Iterator[Finding]:
    total = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
    filled = np.bincount(labels.codes[is_filled & (labels.codes >= 0)], minlength=len(labels.names))
    share = filled / np.maximum(total, 1)
    if not (share[total >= _FEWEST] > _OFTEN).any():
        return
    tried = math.log(len(seen.frame.columns) * max(len(seen.labels), 1) * len(labels.names))
    for code in np.flatnonzero((total >= _FEWEST) & (filled > 0) & (share <= _RARE)):
        empty = int(total[code] - filled[code])
        evidence = agreement(empty, int(total[code]), 1 - float(is_filled.mean())) - tried
        if evidence <= LEVEL:
            continue
        rows = as_rows(np.flatnonzero(is_filled & (labels.codes == code)))
        text = (
            f"{rows_words(len(rows))}: {column} is filled although {name} = {labels.names[code]} "
            f"(it is empty in the other {empty:,})."
        )
        columns = (column, name)
        odd = min(evidence, most(seen.n))
        example = row_words(seen, columns, rows[0])
        yield Finding("broken_dependency", columns, rows, text, example, MISSING, odd)
