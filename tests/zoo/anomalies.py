"""Anomalies made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tellwhy.results.result import Anomaly, Part, Reason


def odd_row(
    row: int,
    name: str | None = None,
    score: float = 1.0,
    percentile: float = 99.0,
    is_alarm: bool = True,
    reasons: Sequence[Reason] = (),
    nearest_normal: Mapping[str, Any] | None = None,
) -> Anomaly:
    """Return a row of a table that is odd."""
    return Anomaly(
        Part("row", row=row, name=name),
        score,
        is_alarm=is_alarm,
        reasons=list(reasons),
        percentile=percentile,
        nearest_normal=nearest_normal,
    )


def moved(anomaly: Anomaly, **changes: Any) -> Anomaly:
    """Return the anomaly at another place, or with another name."""
    return replace(anomaly, part=replace(anomaly.part, **changes))
