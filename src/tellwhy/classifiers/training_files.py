"""Labelled rows from files: libsvm format, npz and tables.

A process that trains together with others may keep only some of the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tellwhy.classifiers.libsvm_format import libsvm_chunks
from tellwhy.classifiers.svm.problem import check_entries, squares_of
from tellwhy.classifiers.svm.threads.row_batches import DEALT_ENTRIES, dealt_features
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.rows.scaling import Scaling
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import check_finite
from tellwhy.storage.documents import read_arrays

TABLES = (".parquet", ".pq", ".csv", ".tsv", ".tab", ".xlsx", ".xlsm", ".json", ".jsonl", ".ndjson")


class ColumnScaling(Scaling):
    """Mean and standard deviation of each column of a table (1 for a constant one)."""

    def applied(self, X: Any, *, centred: bool) -> Any:
        """Columns of unit variance, with mean zero where they are centred."""
        return self.apply(X) if centred else X / self.scale

    def undone(self, weights: Any, *, centred: bool) -> Any:
        """Weights for the columns as they came; where these were centred, the last one is the intercept's."""
        table = sparse.csr_array(weights)
        if not centred:
            return sparse.csr_array(table / self.scale)
        own = sparse.csr_array(table[:, :-1] / self.scale)
        return sparse.hstack([own, table[:, [-1]] - (own @ self.centre)[:, None]], format="csr")


@dataclass(frozen=True)
class LabelledRows:
    """Rows, their labels, ‖x‖² of the whole rows, and how their columns were scaled, if at all."""

    X: Any  # the features that were asked for
    y: Any
    squares: Floats
    scaling: ColumnScaling | None = None


@dataclass(frozen=True)
class Survey:
    """What a file holds: all labels, in how many rows each feature is, and where known their names.

    `dealt` shares out the features among as many parts as ranks may cut them in.
    """

    y: Any
    often: Integers
    dealt: Integers
    names: list[str] | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.often)


class WholeFile(NamedTuple):
    """All rows of a file, their labels, and where known the names of the features."""

    X: Any
    y: Any
    names: list[str] | None = None


def survey(path: Path, label: str | None = None) -> Survey:
    """Read all labels and count in how many rows each feature is, without keeping any row."""
    check_is_file(path)
    if _kind(path) != "libsvm":
        whole = _read_whole(path, label)
        X = whole.X
        dealt = dealt_features(X.indptr, X.indices, X.shape[1])
        return Survey(whole.y, np.bincount(X.indices, minlength=X.shape[1]), dealt, whole.names)
    labels = []
    often = np.zeros(0, dtype=np.int64)
    lengths: list[Any] = []  # of the first rows, which decide how features are shared out, and their features
    features: list[Any] = []
    for chunk in libsvm_chunks(path):
        labels.append(chunk.y)
        if sum(map(len, features)) < DEALT_ENTRIES:
            lengths.append(np.diff(chunk.X.indptr))
            features.append(chunk.X.indices)
        found = np.bincount(chunk.X.indices, minlength=max(chunk.X.shape[1], len(often)))
        found[: len(often)] += often
        often = found
    if not labels:
        raise UnreadableFile(f"{path} holds no rows; expected lines such as '3 1:0.5 7:1'.")
    ends = np.concatenate([[0], *lengths]).cumsum()
    dealt = dealt_features(ends, np.concatenate(features), len(often))
    return Survey(np.concatenate(labels), often, dealt)


def read_rows(
    path: Path,
    *,
    label: str | None = None,
    columns: Integers | None = None,
    n_features: int | None = None,
    scale: str | None = None,
) -> LabelledRows:
    """Read labelled rows; with `columns`, only these of their features.

    Parameters
    ----------
    path
        `.npz`: arrays `y` and either `X` or the parts of a CSR matrix as scipy saves it (`data`, `indices`,
        `indptr`, `shape`). A table of numbers (Parquet, CSV, Excel, JSON lines) with a column of labels. Else
        libsvm format, also gzipped.
    label
        Name of the column of labels of a table.
    columns
        Numbers of the features to keep, ascending.
    n_features
        Number of features, where the file may not show the last ones.
    scale
        Of a table: 'centred' gives columns mean zero and unit variance, over all rows, 'plain' unit variance
        alone.
    """
    kind = _kind(path)
    check_is_file(path)
    if kind == "libsvm":
        return _read_libsvm(path, columns, n_features)
    whole = _read_whole(path, label)
    X = whole.X
    scaling = None
    if scale is not None and kind == "table":
        scaling = ColumnScaling.of(X.toarray(), constant=1.0)
        X = sparse.csr_array(scaling.applied(X.toarray(), centred=scale == "centred"))
    return LabelledRows(_cut(X, columns), whole.y, _squares(path, X), scaling)


def _squares(path: Path, X: Any) -> Floats:
    try:
        return squares_of(X)
    except InvalidInput as error:
        raise UnreadableFile(f"{path}: {error}") from error


def _cut(X: Any, columns: Integers | None) -> Any:
    return X if columns is None else sparse.csr_array(X[:, columns])


def check_is_file(path: Path) -> None:
    """Say that a file is not there, or is a folder."""
    if path.is_dir():
        raise UnreadableFile(f"{path} is a folder; expected a file of labelled rows.")
    if not path.is_file():
        raise UnreadableFile(f"There is no file {path}. Check the name and the folder.")


def is_table(path: Path) -> bool:
    """Whether a file is read as a table, by its name."""
    return _kind(path) == "table"


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz").removesuffix(".zip")
    if name.endswith(".npz"):
        return "npz"
    return "table" if name.endswith(TABLES) else "libsvm"


def _read_whole(path: Path, label: str | None) -> WholeFile:
    """Read a file that is no libsvm file."""
    found = _read_npz(path) if _kind(path) == "npz" else _read_table(path, label)
    if found.X.shape[0] != len(found.y):
        raise UnreadableFile(f"{path} holds {found.X.shape[0]} rows, but {len(found.y)} labels.")
    return found


def _read_npz(path: Path) -> WholeFile:
    arrays = read_arrays(path)
    parts = ("X",) if "X" in arrays else ("data", "indices", "indptr", "shape")
    missing = [name for name in ("y", *parts) if name not in arrays]
    if missing:
        held = ", ".join(list(arrays)[:8]) or "nothing"
        raise UnreadableFile(
            f"{path} lacks {', '.join(missing)}; expected arrays y and X, or y, data, indices, indptr and "
            f"shape. It holds {held}."
        )
    values = arrays[parts[0]]
    if values.dtype.kind not in "biuf" or (parts == ("X",) and values.ndim != 2):
        expected = "real numbers, rows × features" if parts == ("X",) else "real numbers"
        raise UnreadableFile(
            f"{path} holds an array {parts[0]} of shape {values.shape} and type {values.dtype}; expected "
            f"{expected}."
        )
    try:
        if parts == ("X",):
            rows = sparse.csr_array(values.astype(np.float64))
        else:
            inside = (values.astype(np.float64), arrays["indices"], arrays["indptr"])
            rows = sparse.csr_array(inside, shape=tuple(arrays["shape"]))
        rows.check_format(full_check=True)
    except (TypeError, ValueError) as error:
        raise UnreadableFile(f"{path} cannot be read as labelled rows: {error}.") from error
    check_entries(rows, what=str(path))
    return WholeFile(rows, _as_labels(arrays["y"], path))


def _as_labels(y: Any, path: Path) -> Any:
    """Labels as truths, whole numbers or text; what is not whole stays as it is, to be refused as classes."""
    if y.ndim != 1:
        raise UnreadableFile(f"{path} holds labels of shape {y.shape}; expected one label per row.")
    if y.dtype.kind == "f":
        without = np.flatnonzero(~np.isfinite(y))
        if len(without):
            raise InvalidInput(
                f"{path} has no label in row {without[0]} ({len(without)} such rows in all). Drop them first."
            )
        # Floats count up to 2^53 without gaps: above, a whole number need not be the one that was meant.
        is_whole = (np.abs(y) < 2**53).all() and (y == np.round(y)).all()
        return y.astype(np.int64) if is_whole else y
    return y if y.dtype.kind in "biu" else y.astype(str)


def _read_table(path: Path, label: str | None) -> WholeFile:
    from tellwhy.data import read_table

    table = read_table(path).frame
    if label is None or label not in table.columns:
        listed = ", ".join(map(str, table.columns[:12])) + ("" if len(table.columns) <= 12 else ", …")
        got = "none" if label is None else repr(label)
        raise InvalidInput(f"--label must name a column of {path}: {listed}. Got {got}.")
    without = np.flatnonzero(table[label].isna())
    if len(without):
        raise InvalidInput(
            f"{path} has no label in row {without[0]} ({len(without)} such rows in all). Drop them first."
        )
    rows = table.drop(columns=label)
    text = [str(name) for name in rows.columns if rows[name].dtype.kind not in "biuf"]
    if text:
        raise InvalidInput(
            f"{path} has columns that are not numbers: {', '.join(text[:5])}. Encode or drop them first, or "
            "train on one column of texts with --text."
        )
    numbers = rows.to_numpy(dtype=np.float64)
    labels = table[label].to_numpy()
    names = [str(name) for name in rows.columns]
    check_finite(numbers, names, what=str(path))
    return WholeFile(sparse.csr_array(numbers), _as_labels(labels, path), names)


def _read_libsvm(path: Path, columns: Integers | None, n_features: int | None) -> LabelledRows:
    pieces = []
    labels = []
    squares = []
    width = n_features or 0
    for chunk in libsvm_chunks(path):
        found = chunk.X.shape[1]
        if n_features is not None and found > n_features:
            raise UnreadableFile(f"{path} has a feature {found}, but {n_features} features were expected.")
        width = max(width, found)
        X = chunk.X
        squares.append(squares_of(X))
        if columns is not None:
            X.resize((X.shape[0], width))
            X = _cut(X, columns)
        pieces.append(X)
        labels.append(chunk.y)
    if not pieces:
        raise UnreadableFile(f"{path} holds no rows; expected lines such as '3 1:0.5 7:1'.")
    for piece in pieces:
        piece.resize((piece.shape[0], width if columns is None else len(columns)))
    return LabelledRows(sparse.vstack(pieces, format="csr"), np.concatenate(labels), np.concatenate(squares))
