"""What of a score no value of an explanation accounts for."""

from __future__ import annotations

import numpy as np

from tellwhy.core.explanation import Explanation


def unattributed_share(explanation: Explanation) -> float:
    """Median over rows of |residual| / |score − base|; NaN where values are not shares of a score."""
    if explanation.residual is None:
        return float("nan")
    explained = np.abs(explanation.scores - explanation.base_values)
    known = explained > 0
    if not known.any():
        return float("nan")
    return float(np.median(np.abs(explanation.residual[known]) / explained[known]))
