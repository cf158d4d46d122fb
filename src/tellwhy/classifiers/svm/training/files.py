"""Labelled rows from files: libsvm format, npz and tables.

A process that trains together with others may keep only some of the features. libsvm files are read some
thousand lines at a time; malformed lines are named by their number.
"""

from __future__ import annotations

import gzip
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.problem import check_entries, sum_squares_of
from tellwhy.classifiers.svm.threads.row_batches import DEALT_ENTRIES, deal_out_features
from tellwhy.core.arrays import Scaling, check_finite
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.score import Floats, Integers
from tellwhy.storage.documents import read_arrays

LINES = 20_000  # read at a time
MOST_FEATURES = 2**31 - 1
LARGEST_LABEL = 2**53
LONGEST_LINE = 2**28  # bytes
SHOWN = 40  # characters of a malformed word
_LINE = re.compile(rb"[^\s:]+(?:\s+[0-9]+:[^\s:]+)*")  # the form alone: what stands for numbers may be none


class Chunk(NamedTuple):
    """Consecutive rows of a file: their labels, CSR rows, and the number of the first."""

    y: Any
    X: Any
    first: int


def read_libsvm_chunks(path: Path) -> Iterator[Chunk]:
    """The rows of a file, some thousand lines at a time: a file may be larger than the memory."""
    try:
        with _opened(path) as file:
            row = 0
            line = 0
            # A packed file may hold a line of gigabytes.
            each = iter(partial(file.readline, LONGEST_LINE), b"")
            while lines := list(islice(each, LINES)):
                if line == 0:
                    lines[0] = lines[0].removeprefix(BOM_UTF8)
                if max(map(len, lines)) == LONGEST_LINE:
                    raise UnreadableFile(f"{path} has a line of more than {LONGEST_LINE:,} bytes.")
                y, X = _parse_lines(lines, path, line)
                if len(y):
                    yield Chunk(y, X, row)
                row += len(y)
                line += len(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path} cannot be read: {error}") from error


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _parse_lines(lines: list[bytes], path: Path, before: int) -> tuple[Any, Any]:
    """Parse many lines at once; only if that fails, one by one, to say which is malformed."""
    texts = [text for text in (line.partition(b"#")[0].strip() for line in lines) if text]
    heads = [text.split(None, 1) for text in texts]
    tokens = [head[1].replace(b":", b" ").split() if len(head) == 2 else [] for head in heads]
    counts = np.array([len(t) for t in tokens], dtype=np.int64)
    try:
        labels = np.array([head[0] for head in heads], dtype="S").astype(np.float64) if heads else np.zeros(0)
        flat = np.array([t for ts in tokens for t in ts], dtype="S").astype(np.float64)
        indices = flat[0::2]
        values = flat[1::2]
        at = np.concatenate(([0], np.cumsum(counts // 2)))
        # Features must increase inside a row; the first of a row is compared with 0, not with the row before.
        steps = np.diff(indices, prepend=0.0)
        firsts = at[:-1][counts > 0]
        steps[firsts] = indices[firsts]
        sound = (
            all(map(_LINE.fullmatch, texts))
            and np.isfinite(flat).all()
            and np.isfinite(labels).all()
            and (steps >= 1).all()
            and (indices <= MOST_FEATURES).all()
        )
    except ValueError:
        sound = False
    if not sound:
        _name_the_bad_line(lines, path, before)
    columns = indices.astype(np.int32) - 1
    width = int(columns.max()) + 1 if len(columns) else 0
    _check_labels(labels, heads, path)
    y = labels.astype(np.int64) if (labels == np.floor(labels)).all() else labels
    return y, sparse.csr_array((values, columns, at), shape=(len(texts), width))


def _check_labels(labels: Any, heads: list[list[bytes]], path: Path) -> None:
    """Refuse labels that floats cannot tell apart: two classes would become one."""
    beyond = np.flatnonzero(np.abs(labels) > LARGEST_LABEL)
    if len(beyond):
        raise UnreadableFile(
            f"{path} has the label {_shown(heads[beyond[0]][0])}; labels of more than {LARGEST_LABEL:,} "
            "cannot be told apart. Number the classes anew."
        )


def _name_the_bad_line(lines: list[bytes], path: Path, before: int) -> None:
    for number, line in enumerate(lines, start=before + 1):
        words = line.partition(b"#")[0].split()
        if words and (problem := _find_problem_with(words)):
            raise UnreadableFile(f"{path}, line {number}: {problem} Expected lines such as '3 1:0.5 7:1'.")
    raise UnreadableFile(f"{path} is malformed between lines {before + 1} and {before + len(lines)}.")


def _find_problem_with(words: list[bytes]) -> str | None:
    """What is wrong with a line of libsvm format, if anything."""
    if not _is_number(words[0]):
        return f"the label {_shown(words[0])} is not a number."
    last = 0
    for word in words[1:]:
        parts = word.partition(b":")
        index = parts[0]
        if not parts[1] or not index.isdigit() or not _is_number(parts[2]):
            return f"{_shown(word)} is not of the form feature:value with finite numbers."
        # So long a number need not be read to be refused, and Python would refuse to read a longer one.
        if len(index) > 18 or int(index) > MOST_FEATURES:
            return f"feature {_shown(index)} is too large a number; at most {MOST_FEATURES} can be counted."
        if int(index) == 0:
            return (
                "there is a feature 0; features are counted from 1 (in dump_svmlight_file: zero_based=False)."
            )
        if int(index) <= last:
            return (
                f"feature {int(index)} follows feature {last}; features are counted from 1 and must increase."
            )
        last = int(index)
    return None


def _shown(word: bytes) -> str:
    text = word[:SHOWN].decode(errors="replace")
    return repr(text if len(word) <= SHOWN else text + "…")


def _is_number(text: bytes) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


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
        dealt = deal_out_features(X.indptr, X.indices, X.shape[1])
        return Survey(whole.y, np.bincount(X.indices, minlength=X.shape[1]), dealt, whole.names)
    labels = []
    often = np.zeros(0, dtype=np.int64)
    lengths: list[Any] = []  # of the first rows, which decide how features are shared out, and their features
    features: list[Any] = []
    for chunk in read_libsvm_chunks(path):
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
    dealt = deal_out_features(ends, np.concatenate(features), len(often))
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
        return sum_squares_of(X)
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
    from tellwhy.data.spellings import keep_spellings

    whole = read_table(path)
    table = whole.frame
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
    labels = keep_spellings(whole, label).to_numpy()
    names = [str(name) for name in rows.columns]
    check_finite(numbers, names, what=str(path))
    return WholeFile(sparse.csr_array(numbers), _as_labels(labels, path), names)


def _read_libsvm(path: Path, columns: Integers | None, n_features: int | None) -> LabelledRows:
    pieces = []
    labels = []
    squares = []
    width = n_features or 0
    for chunk in read_libsvm_chunks(path):
        found = chunk.X.shape[1]
        if n_features is not None and found > n_features:
            raise UnreadableFile(f"{path} has a feature {found}, but {n_features} features were expected.")
        width = max(width, found)
        X = chunk.X
        squares.append(sum_squares_of(X))
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
