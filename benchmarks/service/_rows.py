"""Rows of numbers that both services are asked about."""

from __future__ import annotations

import numpy as np
import pandas as pd

COLUMNS = [f"c{k}" for k in range(8)]


def ordinary_rows(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, 8)) @ rng.normal(size=(8, 8))
    return pd.DataFrame(np.round(mixed, 3), columns=COLUMNS)
