"""Labelled rows from files: libsvm format, npz and tables; a process may keep only the rows of some classes."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.files import stored_arrays
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import check_finite

LINES = 20_000  # read at a time
TABLES = (".parquet", ".pq", ".csv", ".tsv", ".tab", ".xlsx", ".xlsm", ".json", ".jsonl", ".ndjson")
Keep = Callable[[Any], Any]  # labels -> which of them to keep


@dataclass(frozen=True)
class ColumnScaling:
    """Mean and standard deviation of each column of a table (1 for a constant one)."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, X: Any) -> ColumnScaling:
        """Measure the columns."""
        spread = X.std(axis=0)
        return cls(X.mean(axis=0), np.where(spread > 0, spread, 1.0))

    def applied(self, X: Any, *, centred: bool) -> Any:
        """Columns of unit variance, with mean zero where they are centred."""
        return (X - self.mean) / self.spread if centred else X / self.spread

    def undone(self, weights: Any, *, centred: bool) -> Any:
        """Weights for the columns as they came; where these were centred, the last one is the intercept's."""
        table = sparse.csr_array(weights)
        if not centred:
            return sparse.csr_array(table / self.spread)
        own = sparse.csr_array(table[:, :-1] / self.spread)
        return sparse.hstack([own, table[:, [-1]] - (own @ self.mean)[:, None]], format="csr")


@dataclass(frozen=True)
class LabelledRows:
    """Rows, their labels, which rows of the file they are, and how their columns were scaled, if at all."""

    X: Any
    y: Any
    numbers: Integers
    scaling: ColumnScaling | None = None


@dataclass(frozen=True)
class Survey:
    """What a file holds: all labels, the number of features, and where known their names."""

    y: Any
    n_features: int
    names: list[str] | None = None


def survey(path: Path, label: str | None = None) -> Survey:
    """Read all labels and count the features, without keeping any row."""
    check_is_file(path)
    if _kind(path) != "libsvm":
        rows = read_rows(path, label=label)
        names = [n for n in _table(path).columns if n != label] if _kind(path) == "table" else None
        return Survey(rows.y, rows.X.shape[1], names)
    labels, most = [], 0
    for y, X, _ in _libsvm_chunks(path):
        labels.append(y)
        most = max(most, X.shape[1])
    if not labels:
        raise UnreadableFile(f"{path} holds no rows; expected lines such as '3 1:0.5 7:1'.")
    return Survey(np.concatenate(labels), most)


def read_rows(
    path: Path,
    *,
    label: str | None = None,
    keep: Keep | None = None,
    n_features: int | None = None,
    scale: str | None = None,
) -> LabelledRows:
    """Read labelled rows; with `keep`, only those whose labels it selects.

    Parameters
    ----------
    path
        `.npz`: arrays `y` and either `X` or the parts of a CSR matrix as scipy saves it (`data`, `indices`, `indptr`,
        `shape`). A table of numbers (Parquet, CSV, Excel, JSON lines) with a column of labels. Else libsvm format, also
        gzipped.
    label
        Name of the column of labels of a table.
    keep
        Function of an array of labels that returns which of them to keep.
    n_features
        Number of features, where the file may not show the last ones.
    scale
        Of a table: 'centred' gives columns mean zero and unit variance, over all rows, 'plain' unit variance alone.
    """
    kind = _kind(path)
    check_is_file(path)
    if kind == "libsvm":
        return _read_libsvm(path, keep, n_features)
    X, y = _read_npz(path) if kind == "npz" else _read_table(path, label)
    if X.shape[0] != len(y):
        raise UnreadableFile(f"{path} holds {X.shape[0]} rows, but {len(y)} labels.")
    chosen = np.arange(len(y)) if keep is None else np.flatnonzero(keep(y))
    if scale is None or kind != "table":
        return LabelledRows(X[chosen], y[chosen], chosen)
    scaling = ColumnScaling.of(X.toarray())
    scaled = sparse.csr_array(scaling.applied(X[chosen].toarray(), centred=scale == "centred"))
    return LabelledRows(scaled, y[chosen], chosen, scaling)


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


def _read_npz(path: Path) -> tuple[Any, Any]:
    arrays = stored_arrays(path)
    try:
        if "X" in arrays:
            return sparse.csr_array(arrays["X"].astype(np.float64)), arrays["y"]
        parts = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
        matrix = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
        matrix.check_format(full_check=True)
        return matrix, arrays["y"]
    except (TypeError, ValueError, KeyError) as error:
        raise UnreadableFile(
            f"{path} cannot be read as labelled rows ({error}); expected arrays y and X, or y, data, indices, indptr "
            "and shape."
        ) from error


def _table(path: Path) -> Any:
    from tellwhy.data import read_table

    return read_table(path).frame


def _read_table(path: Path, label: str | None) -> tuple[Any, Any]:
    table = _table(path)
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
            f"{path} has columns that are not numbers: {', '.join(text[:5])}. Encode or drop them first, or train on "
            "one column of texts with --text."
        )
    numbers, labels = rows.to_numpy(dtype=np.float64), table[label].to_numpy()
    check_finite(numbers, [str(name) for name in rows.columns], what=str(path))
    return sparse.csr_array(numbers), labels if labels.dtype.kind in "biuf" else labels.astype(str)


def _read_libsvm(path: Path, keep: Keep | None, n_features: int | None) -> LabelledRows:
    pieces, labels, numbers, width = [], [], [], n_features or 0
    for y, X, first in _libsvm_chunks(path):
        chosen = np.arange(len(y)) if keep is None else np.flatnonzero(keep(y))
        if n_features is not None and X.shape[1] > n_features:
            raise UnreadableFile(f"{path} has a feature {X.shape[1]}, but {n_features} features were expected.")
        pieces.append(X[chosen])
        labels.append(y[chosen])
        numbers.append(first + chosen)
        width = max(width, X.shape[1])
    if not pieces:
        raise UnreadableFile(f"{path} holds no rows; expected lines such as '3 1:0.5 7:1'.")
    for piece in pieces:
        piece.resize((piece.shape[0], width))
    return LabelledRows(sparse.vstack(pieces, format="csr"), np.concatenate(labels), np.concatenate(numbers))


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _libsvm_chunks(path: Path) -> Iterator[tuple[Any, Any, int]]:
    """Labels, CSR rows and the number of the first row, some thousand lines at a time."""
    try:
        with _opened(path) as file:
            row, line = 0, 0
            while lines := list(islice(file, LINES)):
                y, X = _parsed(lines, path, line)
                if len(y):
                    yield y, X, row
                row += len(y)
                line += len(lines)
    except (OSError, EOFError) as error:
        raise UnreadableFile(f"{path} cannot be read: {error}") from error


def _parsed(lines: list[bytes], path: Path, before: int) -> tuple[Any, Any]:
    """Parse many lines at once; only if that fails, one by one, to say which is malformed."""
    texts = [text for text in (line.partition(b"#")[0].strip() for line in lines) if text]
    heads = [text.split(None, 1) for text in texts]
    tokens = [head[1].replace(b":", b" ").split() if len(head) == 2 else [] for head in heads]
    counts = np.array([len(t) for t in tokens], dtype=np.int64)
    colons = np.array([text.count(b":") for text in texts], dtype=np.int64)
    try:
        labels = np.array([head[0] for head in heads], dtype="S").astype(np.float64) if heads else np.zeros(0)
        flat = np.array([t for ts in tokens for t in ts], dtype="S").astype(np.float64)
        indices, values = flat[0::2], flat[1::2]
        at = np.concatenate(([0], np.cumsum(counts // 2)))
        steps = np.diff(indices, prepend=0.0)
        steps[at[:-1][counts > 0]] = indices[at[:-1][counts > 0]]
        sound = (
            (2 * colons == counts).all()
            and np.isfinite(flat).all()
            and np.isfinite(labels).all()
            and (indices == np.floor(indices)).all()
            and (steps >= 1).all()
        )
    except ValueError:
        sound = False
    if not sound:
        _name_the_bad_line(lines, path, before)
    columns = indices.astype(np.int32) - 1
    width = int(columns.max()) + 1 if len(columns) else 0
    y = labels.astype(np.int64) if (labels == np.floor(labels)).all() else labels
    return y, sparse.csr_array((values, columns, at), shape=(len(texts), width))


def _name_the_bad_line(lines: list[bytes], path: Path, before: int) -> None:
    for number, line in enumerate(lines, start=before + 1):
        words = line.partition(b"#")[0].split()
        if words and (problem := _problem_with(words)):
            raise UnreadableFile(f"{path}, line {number}: {problem} Expected lines such as '3 1:0.5 7:1'.")
    raise UnreadableFile(f"{path} is malformed between lines {before + 1} and {before + len(lines)}.")


def _problem_with(words: list[bytes]) -> str | None:
    """What is wrong with a line of libsvm format, if anything."""
    if not _is_number(words[0]):
        return f"the label {words[0].decode(errors='replace')!r} is not a number."
    last = 0
    for word in words[1:]:
        index, colon, value = word.partition(b":")
        shown = word.decode(errors="replace")
        if not colon or not index.isdigit() or not _is_number(value):
            return f"{shown!r} is not of the form feature:value with finite numbers."
        if int(index) <= last:
            return f"feature {int(index)} follows feature {last}; features are counted from 1 and must increase."
        last = int(index)
    return None


def _is_number(text: bytes) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
