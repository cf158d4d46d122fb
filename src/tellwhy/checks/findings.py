"""What the quality pass says: findings, and the table with the explained cells set missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.core.score import Integers
from tellwhy.results.result import Finding


@dataclass(frozen=True, eq=False)
class Quality:
    """What `check_table` found.

    Attributes
    ----------
    findings
        The most important first.
    frame
        The table with the explained cells set missing; untouched columns are shared with the original.
    explained
        For each column that has any, which of its cells were set missing.
    """

    findings: tuple[Finding, ...]
    frame: pd.DataFrame
    explained: dict[str, NDArray[np.bool_]]


def as_rows(positions: Integers) -> tuple[int, ...]:
    """Positions as a finding holds them."""
    return tuple(int(i) for i in positions)
