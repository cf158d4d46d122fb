"""The dual problem of a multi-class SVM as arrays: rows without empty ones, labels, and the cap of each row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import not_finite


@dataclass(frozen=True)
class Labels:
    """Ragged labels: those of row i are `owned[at[i]:at[i + 1]]`, as class numbers."""

    at: Integers
    owned: Integers

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
        return Labels(at, self.owned[np.repeat(self.at[rows], counts) + inside])


@dataclass(frozen=True)
class Problem:
    """Examples of a dual problem.

    An example is a row with one label to defend (`labels`), the labels that are no rivals of it (`owned`,
    among them its own) and a cap C_i. One-vs-rest and Lee–Lin–Wahba have one example per row and no single
    label to defend. `constant` is the loss of empty rows, which no weights can change.
    """

    loss: str
    n_classes: int
    n_features: int
    indptr: Integers
    indices: Any
    values: Any
    norms: Floats  # of each example
    rows: Integers  # of each example
    labels: Integers
    caps: Floats
    owned: Labels
    constant: float
    source: Integers  # which row of X each example came from

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.rows)


def make_problem(X: Any, labels: Labels, caps: Floats, *, n_classes: int, loss: str, dtype: Any) -> Problem:
    """Bring CSR rows, their labels and caps C_i into the arrays that the sweeps read."""
    norms = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    full = np.flatnonzero(norms > 0)
    losing = {"ww": n_classes - 1, "llw": n_classes - 1, "cs": 1, "ovr": n_classes}[loss]
    constant = float(losing * caps[norms == 0].sum())
    kept = X if len(full) == len(norms) else X[full]
    if len(full) < len(norms):
        labels, caps, norms = labels.take(full), caps[full], norms[full]
    return Problem(
        loss,
        n_classes,
        X.shape[1],
        kept.indptr.astype(np.int64, copy=False),
        kept.indices,
        kept.data.astype(dtype, copy=False),
        norms,
        np.arange(len(norms)),
        labels.owned if loss in ("ww", "cs") else np.zeros(len(norms), dtype=np.int64),
        np.asarray(caps, dtype=np.float64),
        labels,
        constant,
        full,
    )


def make_multilabel_problem(X: Any, labels: Labels, caps: Floats, *, n_classes: int, dtype: Any) -> Problem:
    """Weston–Watkins over label sets: every label of a row against every class that is none of its labels.

    The last class is a threshold: each label should rank above it and it above every other class. With |Y|
    labels and |Ȳ| others, the cap of each pair is C_i / (|Y| |Ȳ|).
    """
    n, threshold, counts = len(labels), n_classes - 1, labels.counts
    pair_caps = caps / (np.maximum(counts, 1) * np.maximum(threshold - counts, 1))
    rows = np.concatenate((np.repeat(np.arange(n), counts), np.arange(n)))
    defended = np.concatenate((labels.owned, np.full(n, threshold)))
    with_threshold = Labels(
        labels.at + np.arange(n + 1), np.insert(labels.owned, labels.at[1:], np.full(n, threshold))
    )
    barred = labels.take(
        rows[: len(labels.owned)]
    )  # the threshold is a rival of each label, but not of itself
    own = with_threshold.take(np.arange(n))
    owned = Labels(
        np.concatenate((barred.at, barred.at[-1] + own.at[1:])), np.concatenate((barred.owned, own.owned))
    )
    norms = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()[rows]
    full = np.flatnonzero(norms > 0)
    rivals = n_classes - owned.counts
    lost = np.setdiff1d(np.arange(len(rows)), full)
    return Problem(
        "ww",
        n_classes,
        X.shape[1],
        X.indptr.astype(np.int64, copy=False),
        X.indices,
        X.data.astype(dtype, copy=False),
        norms[full],
        rows[full],
        defended[full],
        pair_caps[rows][full],
        owned.take(full),
        float((pair_caps[rows] * rivals)[lost].sum()),
        rows[full],
    )


def with_intercept(X: Any, scale: float) -> Any:
    """Append a constant feature."""
    return sparse.hstack([X, sparse.csr_array(np.full((X.shape[0], 1), scale, dtype=X.dtype))], format="csr")


def feasible(duals: Any, problem: Problem) -> Any:
    """Dual variables of other labels made fit for this problem: only one-vs-rest has any for a row's own labels."""
    if problem.loss == "ovr":
        return duals
    kept, n = sparse.coo_array(duals), problem.n_classes
    at, classes = (axis.astype(np.int64) for axis in kept.coords)
    own = np.repeat(np.arange(problem.n_examples), problem.owned.counts) * n + problem.owned.owned
    free = ~np.isin(at * n + classes, own)
    return sparse.csr_array((kept.data[free], (at[free], classes[free])), shape=kept.shape)


@contextmanager
def memory_for(problem: Problem) -> Iterator[None]:
    """Say what the weights of a problem need where there is no such room."""
    try:
        yield
    except MemoryError as error:
        size = problem.n_features * problem.n_classes * problem.values.dtype.itemsize
        raise InvalidInput(
            f"There is no memory for the weights of {problem.n_features:,} features and {problem.n_classes:,} classes "
            f"({size / 2**30:,.1f} GiB). Leave out features that no row has, take single precision (dtype float32) or "
            "train over several ranks."
        ) from error


def check_entries(rows: Any, names: list[str] | None = None, *, what: str = "X") -> None:
    """Raise with the first stored entry of sparse rows that is NaN or infinite, named by row and column."""
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad) == 0:
        return
    at = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1, int(rows.indices[bad[0]])
    raise not_finite(what, rows.data[bad[0]], at, len(bad), names)
