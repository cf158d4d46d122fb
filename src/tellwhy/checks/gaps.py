"""Cells that are missing where hardly any is, and rows that are nearly empty."""

from __future__ import annotations

import math

import numpy as np

from tellwhy.checks.chance import LEVEL
from tellwhy.checks.facts import Facts
from tellwhy.checks.mistakes import EMPTY_ROW, GAP
from tellwhy.results.result import Finding

_FEWEST_COLUMNS = 4
_EMPTY = 0.7  # share of a row's cells
_RARE = 0.02
_SHOWN = 3  # cells of an example
_GAP = 0.2  # share of the columns between these rows and all others

_FEW_GAPS = 3  # missing cells, in a column that is filled everywhere else
_MANY_ROWS = 300


def find_gaps(seen: Facts, known: Facts) -> list[Finding]:
    """Single missing cells of columns that are always filled; they are told, but make no row odd.

    A column may lack a cell in a thousand by its nature: chance cannot be ruled out.
    """
    findings: list[Finding] = []
    if known.n < _MANY_ROWS:
        return findings
    for column in seen.frame.columns:
        is_empty = seen.frame[column].isna().to_numpy()
        if column in seen.raw:  # what stands there and could not be read is told as that
            is_empty = is_empty & seen.raw[column].isna().to_numpy()
        rows = np.flatnonzero(is_empty)
        has_gaps = known is not seen and column in known.frame and known.frame[column].hasnans
        if 0 < len(rows) <= _FEW_GAPS and not has_gaps:
            findings.append(GAP.report(seen, column, rows))
    return findings


def find_empty_rows(seen: Facts, known: Facts) -> list[Finding]:  # noqa: ARG001
    """Rows with far fewer filled cells than all others."""
    columns = [c for c in seen.frame.columns if seen.roles[c].kind not in ("identifier", "empty", "constant")]
    if len(columns) < _FEWEST_COLUMNS:
        return []
    empty = np.zeros(seen.n, dtype=np.int64)
    weight = np.zeros(seen.n)
    for column in columns:
        is_empty = seen.frame[column].isna().to_numpy()
        empty += is_empty
        weight += np.where(is_empty, -math.log(max(float(is_empty.mean()), 1 / seen.n)), 0)
    rows = np.flatnonzero(empty >= _EMPTY * len(columns))
    if not 0 < len(rows) <= max(_RARE * seen.n, 1):
        return []
    others = np.delete(empty, rows)
    evidence = float(weight[rows].min()) - math.log(seen.n)
    if evidence <= LEVEL or empty[rows].min() - others.max() < _GAP * len(columns):
        return []
    names = tuple(c for c in columns if seen.frame[c].isna().iloc[rows[0]])
    facts = {"least": int(empty[rows].min()), "n_columns": len(columns)}
    usual = {"most": int(others.max())}
    shown = dict.fromkeys(names[:_SHOWN])
    return [EMPTY_ROW.report(seen, names, rows, facts, usual, surprise=evidence, cells=shown)]
