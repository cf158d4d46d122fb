"""Values below 0 in a column that is otherwise never below 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.data.quality.chance import edge_evidence, edge_window, fit_tail
from tellwhy.data.quality.facts import decimals_of

FEW = 0.01  # more exceptions than this are part of how the column is
FEW_OF_OTHERS = 0.05  # where most cells have one value: of the others
FEWEST = 30
_HANDFUL = 10


@dataclass(frozen=True, eq=False)
class Below:
    """Rows that are below 0, and for each the evidence that none should be, in all and from an edge alone."""

    rows: Integers
    evidence: Floats
    edge: Floats
    rest: Floats  # the other values, sorted


NONE = Below(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0))


def is_usual_beside_one_value(values: Floats, rows: Integers) -> bool:
    """Whether most cells have one value, such as 0, and these rows are not few among the others.

    The one value says nothing of the others: three of fifteen are no exceptions, among however many zeros.
    What counts is how many different values they have: a placeholder is one, in however many rows.
    """
    is_other = values != np.partition(values, len(values) // 2)[len(values) // 2]
    n_others = int(is_other.sum())
    if n_others > len(values) / 2 or len(rows) <= max(FEW_OF_OTHERS * n_others, 1):
        return False
    n_exceptions = len(np.unique(values[rows]))
    return n_exceptions > max(FEW_OF_OTHERS * len(np.unique(values[is_other])), 1)


def below_zero(seen: Floats, learn: Floats, *, step: float | None = None) -> Below:
    """Find the few values below 0, and weigh whether they belong to the tail of the others.

    They do not where the others end at a hard edge at or above 0 (`edge_evidence`), or where a tail that
    falls like theirs does not reach so far.
    """
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(seen < 0)
        n_below = int((learn < 0).sum())
        if not len(rows) or max(len(rows), n_below) > max(FEW * len(seen), 1):
            return NONE  # most columns end here, before anything is sorted
        if is_usual_beside_one_value(seen, rows):
            return NONE
        rest = np.sort(learn[learn >= 0])
    if len(rest) < FEWEST:
        return NONE
    if rest[0] == rest[-1]:
        return NONE
    if step is None:
        step = 10.0 ** -decimals_of(rest[evenly_spread(len(rest), 5000)])
    is_near = seen[rows] >= rest[0] - edge_window(rest, step) - step / 2
    edge = edge_evidence(rest, beyond=int(is_near.sum()), step=step)
    # A handful of values that are asked about do not tell how the tail falls; more may be the tail itself.
    known = rest if len(rows) <= _HANDFUL else np.sort(np.concatenate([rest, seen[rows]]))
    tail = fit_tail(-known[::-1], step=step, lightest=0.0)
    far = tail.surprise(-seen[rows]) - math.log(len(rest))
    beyond = np.where(is_near, 0, edge)
    return Below(rows, np.maximum(far, beyond), beyond, rest)
