"""What a result says of single rows: which others are odd like them, and which of their cells are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tellwhy.results.result import Anomaly, Finding, Result

LEAST_LIKE = 0.5  # likeness below which two rows are odd for different reasons


def similar_anomalies(result: Result, place: int, most: int) -> list[tuple[Anomaly, float]]:
    """Return the explained rows that are odd for the same columns as one of them, the most alike first.

    The likeness of two rows is the cosine of what their columns add to their scores.

    Parameters
    ----------
    result
        The result.
    place
        The row's place among the anomalies.
    most
        How many to return at most.
    """
    values = np.asarray(result.explanation.values, dtype=np.float64)
    if not len(values):
        return []
    values = values.reshape(len(values), -1)
    lengths = np.linalg.norm(values, axis=1)
    products = values @ values[place]
    likeness = products / np.maximum(lengths * lengths[place], np.finfo(np.float64).tiny)
    likeness[place] = -np.inf
    order = np.argsort(-likeness, kind="stable")[:most]
    return [(result.anomalies[at], float(likeness[at])) for at in order if likeness[at] >= LEAST_LIKE]


def list_suspect_cells(findings: Sequence[Finding]) -> dict[int, set[str]]:
    """By row: columns that a finding blames, whether or not it says how probably they are wrong.

    Examples
    --------
    >>> list_suspect_cells([Finding("broken_relation", ["total", "price"], [3], surprise=12.0)])
    {3: {'total'}}
    """
    known: dict[int, set[str]] = {}
    for finding in findings:
        if finding.surprise > 0 and finding.columns:
            for row in finding.rows:
                known.setdefault(int(row), set()).add(str(finding.columns[0]))
    return known


def wrong_cells(findings: Sequence[Finding]) -> dict[int, dict[str, tuple[float, Any]]]:
    """By row and column: how probable it is that a cell is wrong, and what it should hold.

    Examples
    --------
    >>> found = Finding("misspelling", ["city"], [1], probabilities=[0.99], expected=["Oslo"])
    >>> wrong_cells([found])
    {1: {'city': (0.99, 'Oslo')}}
    """
    known: dict[int, dict[str, tuple[float, Any]]] = {}
    for finding in findings:
        for place, probability in enumerate(finding.probabilities):
            expected = finding.expected[place] if finding.expected else None
            cells = known.setdefault(int(finding.rows[place]), {})
            name = str(finding.columns[0])
            if name not in cells or probability > cells[name][0]:
                cells[name] = (float(probability), expected)
    return known
