"""What the quality pass says: findings, and the table with the explained cells set missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MISSING = "treated as missing"
TOLD = "told only"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a table, told in a line.

    Attributes
    ----------
    kind
        "placeholder", "duplicate", "burst", "impossible_date", "future_date", "sign_flip", "stuck",
        "empty_row", "gap", "new_level", "vanished_level", "rare_level", "misspelling", "mixed_units",
        "decimal_slip", "broken_relation", "broken_order", "broken_dependency" or "rare_pair".
    columns
        The columns it is about, the guilty one first.
    rows
        Positions (from 0) of the rows in the checked table; empty for what is true of a whole column.
    text
        The finding in one line, with its count.
    example
        One cell or row of it.
    action
        "treated as missing": the cells of the first column in these rows; or "told only".
    surprise
        −log of the probability that chance alone makes such a row in an ordinary table, corrected for how
        many candidates were tried; 0 where the finding does not make a row odd.
    """

    kind: str
    columns: tuple[str, ...]
    rows: tuple[int, ...]
    text: str
    example: str
    action: str = TOLD
    surprise: float = 0.0


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
