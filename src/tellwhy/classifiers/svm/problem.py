"""The dual problem of a multi-class SVM as arrays: rows that are not empty, their labels and caps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from tellwhy.classifiers.svm.records import Entries
from tellwhy.core.arrays import not_finite
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers

PAIR_LOSSES = ("ww", "cs")  # those that compare each class with the label


@dataclass(frozen=True)
class Labels:
    """Ragged labels: those of row i are `classes[at[i]:at[i + 1]]`, as class numbers."""

    at: Integers
    classes: Integers

    @classmethod
    def of_classes(cls, y: Any) -> Labels:
        """One label a row."""
        return cls(np.arange(len(y) + 1), np.asarray(y, dtype=np.int64))

    @classmethod
    def of_indicator(cls, Y: Any) -> Labels:
        """The columns of a row's nonzero entries."""
        table = sparse.csr_array(Y != 0)
        table.sort_indices()
        return cls(table.indptr.astype(np.int64), table.indices.astype(np.int64))

    def __len__(self) -> int:
        return len(self.at) - 1

    @property
    def counts(self) -> Integers:
        """Number of labels of each row."""
        return np.diff(self.at)

    def take(self, rows: Integers) -> Labels:
        """Labels of some rows, in their order."""
        counts = self.counts[rows]
        at = np.concatenate(([0], np.cumsum(counts)))
        inside = np.arange(at[-1]) - np.repeat(at[:-1], counts)
        return Labels(at, self.classes[np.repeat(self.at[rows], counts) + inside])


@dataclass(frozen=True)
class Problem:
    """Examples of a dual problem.

    An example is a row with one label to defend (`labels`), all labels that are no rivals of it (`own`, among
    them that one) and a cap C_i. One-vs-rest and Lee–Lin–Wahba have one example per row, with no single label
    to defend. `constant` is the loss of empty rows, which no weights can change.
    """

    loss: str
    n_classes: int
    n_features: int
    entries: Entries
    squares: Floats  # ‖x‖² of each example
    rows: Integers  # of each example
    labels: Integers
    caps: Floats
    own: Labels
    constant: float
    source: Integers  # which row of X each example came from

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.rows)

    @property
    def dtype(self) -> Any:
        """Precision of the entries, and so of weights and variables."""
        return self.entries.values.dtype


def _entries(X: Any, dtype: DTypeLike) -> Entries:
    with np.errstate(over="ignore"):
        values = X.data.astype(dtype, copy=False)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        raise InvalidInput(
            f"The value {X.data[bad[0]]:.6g} of row {row}, feature {X.indices[bad[0]]} (both counted from 0) "
            f"is beyond {np.dtype(dtype)}, whose largest is {np.finfo(dtype).max:.3g}. Scale the columns, or "
            "compute in float64."
        )
    return Entries(X.indptr.astype(np.int64, copy=False), X.indices, values)


def sum_squares_of(X: Any) -> Floats:
    """‖x‖² of each row."""
    with np.errstate(over="ignore"):
        squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    bad = np.flatnonzero(~np.isfinite(squares))
    if len(bad):
        raise InvalidInput(
            f"The squared length of row {bad[0]} (counted from 0) is beyond what numbers can hold. Scale the "
            "columns."
        )
    return squares


def make_problem(
    X: Any,
    labels: Labels,
    caps: Floats,
    *,
    n_classes: int,
    loss: str,
    dtype: DTypeLike,
    squares: Floats | None = None,
) -> Problem:
    """Bring CSR rows, their labels and caps C_i into the arrays that the sweeps read.

    `squares` are ‖x‖² of whole rows, where X has only some of their features.
    """
    squares = sum_squares_of(X) if squares is None else squares
    full = np.flatnonzero(squares > 0)
    # All scores of an empty row are 0, so that each class it is compared with costs 1.
    n_lost = {"ww": n_classes - 1, "llw": n_classes - 1, "cs": 1, "ovr": n_classes}[loss]
    constant = float(n_lost * caps[squares == 0].sum())
    if len(full) < len(squares):
        X = X[full]
        labels = labels.take(full)
        caps = caps[full]
    is_pair = loss in ("ww", "cs")
    return Problem(
        loss=loss,
        n_classes=n_classes,
        n_features=X.shape[1],
        entries=_entries(X, dtype),
        squares=squares[full],
        rows=np.arange(len(full)),
        labels=labels.classes if is_pair else np.zeros(len(full), dtype=np.int64),
        caps=np.asarray(caps, dtype=np.float64),
        own=labels,
        constant=constant,
        source=full,
    )


def make_multilabel_problem(
    X: Any, labels: Labels, caps: Floats, *, n_classes: int, dtype: DTypeLike
) -> Problem:
    """Weston–Watkins over label sets: every label of a row against every class that is none of its labels.

    The last class is a threshold: each label should rank above it and it above every other class. With |Y|
    labels and |Ȳ| others, the cap of each pair is C_i / (|Y| |Ȳ|).
    """
    n = len(labels)
    threshold = n_classes - 1
    counts = labels.counts
    pair_caps = caps / (np.maximum(counts, 1) * np.maximum(threshold - counts, 1))
    # First one example per label of a row, then one per row that defends the threshold.
    rows = np.concatenate((np.repeat(np.arange(n), counts), np.arange(n)))
    defended = np.concatenate((labels.classes, np.full(n, threshold)))
    own = _collect_own_labels(labels, rows[: len(labels.classes)], threshold)
    squares = sum_squares_of(X)[rows]
    full = np.flatnonzero(squares > 0)
    losses_at_zero = pair_caps[rows] * (n_classes - own.counts)
    return Problem(
        loss="ww",
        n_classes=n_classes,
        n_features=X.shape[1],
        entries=_entries(X, dtype),
        squares=squares[full],
        rows=rows[full],
        labels=defended[full],
        caps=pair_caps[rows][full],
        own=own.take(full),
        constant=float(losses_at_zero[squares == 0].sum()),
        source=rows[full],
    )


def _collect_own_labels(labels: Labels, rows: Integers, threshold: int) -> Labels:
    """Classes that are no rivals: of a label the row's labels, of the threshold itself and these too."""
    of_labels = labels.take(rows)
    everywhere = np.full(len(labels), threshold)
    with_threshold = Labels(
        labels.at + np.arange(len(labels) + 1), np.insert(labels.classes, labels.at[1:], everywhere)
    )
    at = np.concatenate((of_labels.at, of_labels.at[-1] + with_threshold.at[1:]))
    return Labels(at, np.concatenate((of_labels.classes, with_threshold.classes)))


def add_intercept(X: Any, scale: float) -> Any:
    """Append a constant feature."""
    return sparse.hstack([X, sparse.csr_array(np.full((X.shape[0], 1), scale, dtype=X.dtype))], format="csr")


def rescaled(duals: Any, before: Floats, now: Floats) -> Any:
    """Dual variables moved from old caps of their rows to new ones: what was feasible stays so."""
    factor = np.divide(now, before, out=np.zeros_like(now), where=before > 0)
    return sparse.csr_array(sparse.diags_array(factor) @ duals)


def feasible(duals: Any, problem: Problem) -> Any:
    """Dual variables of other labels made fit for this problem, by dropping those of a row's own labels.

    Only one-vs-rest has any of these.
    """
    if problem.loss == "ovr":
        return duals
    kept = sparse.coo_array(duals)
    at, classes = (axis.astype(np.int64) for axis in kept.coords)
    own_rows = np.repeat(np.arange(problem.n_examples), problem.own.counts)
    # A pair (row, class) as one number, so that sets of pairs can be compared.
    own = own_rows * problem.n_classes + problem.own.classes
    free = ~np.isin(at * problem.n_classes + classes, own)
    return sparse.csr_array((kept.data[free], (at[free], classes[free])), shape=kept.shape)


def tell_why_infeasible(duals: Any, problem: Problem) -> str | None:
    """Say what keeps dual variables, examples × classes, from being those of a problem; None: nothing does.

    Only variables within their bounds bound the optimum: of others a certificate would be false.
    """
    table = sparse.coo_array(duals)
    at = table.coords[0]
    caps = problem.caps * (1.0 + 1e-6)  # single precision rounds
    if not np.isfinite(table.data).all() or (table.data < 0).any():
        return "some are negative, or no numbers"
    if (table.data > caps[at]).any():
        return "some are above their bound, C times the weight of the row"
    if (
        problem.loss == "cs"
        and (np.bincount(at, table.data, minlength=problem.n_examples) > caps * 1.0001).any()
    ):
        return "those of some rows sum to more than their bound, C times the weight of the row"
    if feasible(duals, problem).nnz != table.nnz:
        return "some belong to a row's own class"
    return None


@contextmanager
def describe_memory_for(problem: Problem) -> Iterator[None]:
    """Say what the weights of a problem need where there is no such room."""
    try:
        yield
    except MemoryError as error:
        size = problem.n_features * problem.n_classes * problem.dtype.itemsize
        raise InvalidInput(
            f"There is no memory for the weights of {problem.n_features:,} features and "
            f"{problem.n_classes:,} classes ({size / 2**30:,.1f} GiB). Leave out features that no row has, "
            "take single precision (dtype float32) or train over several ranks."
        ) from error


def check_entries(rows: Any, names: list[str] | None = None, *, what: str = "X") -> None:
    """Raise with the first stored entry of sparse rows that is NaN or infinite, named by row and column."""
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad) == 0:
        return
    row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
    column = int(rows.indices[bad[0]])
    raise not_finite(what, rows.data[bad[0]], (row, column), len(bad), names)
