"""Whether relevance arrives at the inputs where the rules promise that all of it does."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from tellwhy.core.errors import TellwhyWarning
from tellwhy.core.score_function import Floats
from tellwhy.explainers.propagation.operations.operation import Operation

TOLERANCE = 0.05  # of a score that may be missing without a word
# What hands on all relevance whatever its numbers are; products, softmax, norms and constants may not.
_FAITHFUL = frozenset(("copying", "rectifier", "elementwise", "addition", "pooling"))


def is_promised(operations: Sequence[Operation]) -> bool:
    """Whether all operations, by the rules that were chosen for them, promise to hand on all relevance."""
    return all(_promises(operation) for operation in operations if not operation.merged)


def _promises(operation: Operation) -> bool:
    if operation.kind != "layer":
        return operation.kind in _FAITHFUL
    if operation.rule is None:
        return False
    if operation.rule.conserves == "without bias":
        return operation.layer is not None and operation.layer.bias is None
    return operation.rule.conserves == "always"


def warn_if_lost(method: str, scores: Floats, attributed: Floats) -> None:
    """Warn where more of the scores is missing than is said to be possible."""
    known = np.abs(scores) > 0
    if not known.any():
        return
    missing = np.abs(scores - attributed)[known] / np.abs(scores)[known]
    lost = missing > TOLERANCE
    if lost.any():
        row = int(np.flatnonzero(known)[np.argmax(missing)])
        warnings.warn(
            f"{method} promises that its values add up to the output, and in {int(lost.sum())} of "
            f"{len(scores)} rows more than {TOLERANCE:.0%} of it is missing "
            f"(row {row}: {missing.max():.0%}). An operation got relevance and had nobody to give it to: "
            "`ledger(x)` says which.",
            TellwhyWarning,
            stacklevel=2,
        )
