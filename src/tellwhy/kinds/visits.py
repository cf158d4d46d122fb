"""Visits of a class that a series is often in: they are what the series does, and no passing shifts.

The search for passing shifts knows nothing of classes. Where a series goes to and fro between two levels, a
visit that is shorter than most stands out from what is around it. It is not odd for that. A column that has
times of the day or the week is another thing: what is usual at noon is odd at night.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from tellwhy.checks.in_time.spikes import around
from tellwhy.checks.mistakes import PASSING_SHIFT
from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.map_inference.field import Labels
from tellwhy.kinds.graph_input import NodeData
from tellwhy.results.result import Finding
from tellwhy.verdicts.findings import RowFindings

KNOWN = 0.05  # of all rows, that are elsewhere in the class of a visit
EXPLAINED = 0.5  # of a shift, that is there in its class anyway


def without_visits(nodes: NodeData, labels: Labels) -> NodeData:
    """Drop the passing shifts that are visits of a class which many rows are in elsewhere."""
    kept = [finding for finding in nodes.found.findings if not _is_visit(finding, nodes, labels)]
    if len(kept) == len(nodes.found.findings):
        return nodes
    return replace(nodes, found=RowFindings.of(kept, len(nodes.found.added)))


def _is_visit(finding: Finding, nodes: NodeData, labels: Labels) -> bool:
    name = finding.columns[0] if finding.columns else ""
    if finding.kind != PASSING_SHIFT.kind or name in nodes.seasonal:
        return False
    if name not in nodes.frame or not is_numeric_dtype(nodes.frame[name]):
        return False
    rows = np.array(finding.rows)
    own = int(np.bincount(labels[rows]).argmax())
    elsewhere = np.setdiff1d(np.flatnonzero(labels == own), _visit(rows, labels, own))
    if len(elsewhere) < KNOWN * len(labels):
        return False
    values = nodes.frame[name].to_numpy(dtype=np.float64)
    return _left(values, rows, elsewhere) < EXPLAINED


def _visit(rows: Integers, labels: Labels, own: int) -> Integers:
    """Rows of a stretch, and those before and after it that are in the same class without a break."""
    start = int(rows.min())
    end = int(rows.max()) + 1
    while start > 0 and labels[start - 1] == own:
        start -= 1
    while end < len(labels) and labels[end] == own:
        end += 1
    return np.arange(start, end)


def _left(values: Floats, rows: Integers, elsewhere: Integers) -> float:
    """Part of a shift that is left if the stretch is compared with its class in place of what is around."""
    level = float(pd.Series(values[rows]).mean())
    off = level - around(values, int(rows.min()), int(rows.max()) + 1)
    usual = float(pd.Series(values[elsewhere]).median())
    return abs(level - usual) / abs(off) if off else np.inf
