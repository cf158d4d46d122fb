"""How well scores separate rows that a label column marks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.kinds.request import cell_text, split_label
from tellwhy.results.result import Detection

# A label by one of these names means what is odd, even if it is the more common of two.
POSITIVE_WORDS = frozenset(
    {"1", "true", "yes", "anomaly", "anomalous", "outlier", "abnormal", "fraud", "attack"}
)


def detection_of(
    table: Table, label: str | None, rows: Integers, scores: Floats, threshold: float
) -> Detection | None:
    """Compare scores with the label 'COLUMN', 'COLUMN=VALUE' or 'COLUMN!=VALUE'; None without a label."""
    if label is None:
        return None
    from sklearn.metrics import average_precision_score, roc_auc_score

    marker = split_label(table, label)
    column = table.frame[marker.column].iloc[rows]
    if marker.negated:  # a row without a label is not known to be odd
        scores = scores[column.notna().to_numpy()]
        column = column.dropna()
    cells = column.map(cell_text).to_numpy()
    positive = _positive_value(marker.column, cells) if marker.value is None else marker.value
    truth = (cells == positive) != marker.negated
    if truth.all() or not truth.any():
        sign = "!=" if marker.negated else "="
        raise InvalidInput(
            f"The label {marker.column} {sign} {positive!r} marks {int(truth.sum())} of {len(truth)} rows; "
            "both kinds are needed."
        )
    alarms = scores > threshold
    n_alarms = int(alarms.sum())
    return Detection(
        label=marker.column,
        positive=positive,
        n_positive=int(truth.sum()),
        auroc=float(roc_auc_score(truth, scores)),
        average_precision=float(average_precision_score(truth, scores)),
        n_alarms=n_alarms,
        precision=float(truth[alarms].mean()) if n_alarms else None,
        recall=float(alarms[truth].mean()),
        negated=marker.negated,
    )


def _positive_value(column: str, cells: NDArray[np.object_]) -> str:
    """Return the value that means 'anomaly': by its name, else the rarer of two."""
    values, counts = np.unique(cells.astype(str), return_counts=True)
    named = [v for v in values if v.lower() in POSITIVE_WORDS]
    if len(named) == 1:
        return str(named[0])
    if len(values) != 2:
        shown = ", ".join(repr(str(v)) for v in values[:6])
        raise InvalidInput(
            f"The label column {column!r} has the values {shown}: say which marks anomalies, {column}=VALUE."
        )
    return str(values[np.argmin(counts)])
