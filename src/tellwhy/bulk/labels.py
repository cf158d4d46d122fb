"""Labels of the rows of files by a saved classifier, block by block: never more than a block in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from tellwhy.bulk.blocks import plan_blocks, read_block
from tellwhy.classifiers.svm.training.files import is_table, read_libsvm_chunks, read_rows
from tellwhy.classifiers.text_classifier import TextClassifier
from tellwhy.core.errors import InvalidInput, UnreadableFile, UnsupportedModel
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats
from tellwhy.storage.csv_cells import write_rows
from tellwhy.storage.folders import new_file
from tellwhy.storage.model_file import load
from tellwhy.storage.overwriting import NEVER

CSV_SIGN = b"row,"  # the header of a list of labels
MOST_NAMED = 12  # columns in an error


@dataclass(frozen=True)
class LabelsAsked:
    """What is asked of a file.

    Attributes
    ----------
    text
        Column of texts, for a model of texts; by default the one that it was trained on.
    label
        Column of labels to compare with; never a feature.
    id_column
        Column that names rows.
    top
        Labels to give each row, the most probable first.
    """

    text: str | None = None
    label: str | None = None
    id_column: str | None = None
    top: int = 1


@dataclass
class LabelCounts:
    """What came of all rows.

    Attributes
    ----------
    rows, without
        Rows that were read, and those that have no text to label.
    labels
        How many rows got each label.
    compared, agree
        Rows that came with a label, and those that got the same one.
    """

    rows: int = 0
    without: int = 0
    compared: int = 0
    agree: int = 0
    labels: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of a file: what the model takes, and what is written beside the labels."""

    first: int
    rows: Any
    ids: NDArray[Any] | None
    given: NDArray[Any] | None
    there: NDArray[np.bool_]


def load_classifier(path: str | Path) -> Any:
    """Read a saved model that labels rows."""
    model = load(path)
    if not isinstance(model, ClassifierMixin):
        raise UnsupportedModel(
            f"{path} holds a {type(model).__name__}, which labels no rows; expected a classifier, such as "
            "`tellwhy fit-svm` writes. A model of what is ordinary is asked by `tellwhy explain --model`."
        )
    return model


def label_file(model: Any, path: Path, asked: LabelsAsked, counts: LabelCounts) -> Iterator[pd.DataFrame]:
    """Yield the labels of a file, block by block: row, id, label, probability, …; counts are kept up.

    A row has its 0-based number. Probabilities are there where the model is calibrated; with `top` labels
    each, the second stands in `label_2`, and so on.
    """
    first = 0
    for part in _read_parts(model, path, asked):
        table = _make_table(model, part, asked, first)
        _count(table, part, counts)
        first += len(table)
        yield table
    if counts.rows == 0:
        raise InvalidInput(f"{path} holds no rows; expected one at least.")


def _read_parts(model: Any, path: Path, asked: LabelsAsked) -> Iterator[_Part]:
    if is_table(path):
        yield from _read_table_parts(model, path, asked)
        return
    for name, column in (("--text", asked.text), ("--label", asked.label), ("--id", asked.id_column)):
        if column is not None:
            raise InvalidInput(
                f"{name} names a column of a table (CSV, Parquet, …). Got {path}: leave it out."
            )
    if isinstance(model, TextClassifier):
        raise InvalidInput(f"The model labels texts; expected a table with a column of texts. Got {path}.")
    if path.suffix.lower() == ".npz":
        whole = read_rows(path, n_features=model.n_features_in_)
        yield _Part(0, _fit_width(whole.X, model, path), None, whole.y, np.ones(len(whole.y), dtype=bool))
        return
    for chunk in read_libsvm_chunks(path):
        there = np.ones(len(chunk.y), dtype=bool)
        yield _Part(chunk.first, _fit_width(chunk.X, model, path), None, chunk.y, there)


def _fit_width(X: Any, model: Any, path: Path) -> Any:
    """Rows with as many features as the model has: the last ones may be in no row of the file."""
    n = model.n_features_in_
    if X.shape[1] > n:
        raise InvalidInput(
            f"{path} has feature {X.shape[1]}, the model was trained on {n:,}. Number the features as the "
            "training file does."
        )
    return type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], n))


def _read_table_parts(model: Any, path: Path, asked: LabelsAsked) -> Iterator[_Part]:
    of_texts = isinstance(model, TextClassifier)
    features = [_name_text(model, asked)] if of_texts else _name_features(model, path)
    wanted = [*features, *(name for name in (asked.label, asked.id_column) if name is not None)]
    first = 0
    for block in plan_blocks([path]):
        read = read_block(block)
        if read.table is None:
            raise UnreadableFile(f"{path} cannot be read: {read.failed[0][1]}")
        frame = read.table.frame
        _check_columns(frame, wanted, path)
        rows: Any
        there = np.ones(len(frame), dtype=bool)
        if of_texts:
            there = frame[features[0]].notna().to_numpy()
            rows = [str(cell) for cell in frame[features[0]].to_numpy()[there]]
        else:
            rows = _read_numbers(frame, features, path, first)
        ids = None if asked.id_column is None else frame[asked.id_column].to_numpy()
        given = None if asked.label is None else frame[asked.label].to_numpy()
        yield _Part(first, rows, ids, given, there)
        first += len(frame)


def _name_text(model: Any, asked: LabelsAsked) -> str:
    kept = getattr(model, "trained_on_", None)
    name = asked.text if asked.text is not None or kept is None else kept.text
    if name is None:
        raise InvalidInput("The model was trained on a list of texts. Name the column of texts with --text.")
    return str(name)


def _name_features(model: Any, path: Path) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise InvalidInput(
            f"The model does not know the names of its {model.n_features_in_:,} features: it was trained on "
            f"a file without names. Give rows in that form (libsvm or .npz). Got {path}."
        )
    return [str(name) for name in names]


def _check_columns(frame: pd.DataFrame, wanted: Sequence[str], path: Path) -> None:
    absent = [name for name in wanted if name not in frame.columns]
    if absent:
        listed = ", ".join(map(repr, list(frame.columns)[:MOST_NAMED]))
        raise InvalidInput(
            f"{path} lacks {len(absent)} column(s) that are needed: {', '.join(map(repr, absent[:5]))}. It "
            f"has {listed}."
        )


def _read_numbers(frame: pd.DataFrame, features: Sequence[str], path: Path, first: int) -> pd.DataFrame:
    """Cells as numbers, or an error that names the first that is none."""
    cells = frame[list(features)]
    numbers = cells.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row, column = (int(at[0]) for at in np.nonzero(bad))
        raise InvalidInput(
            f"{path}, row {first + row} (counted from 0), column {features[column]!r}: expected a finite "
            f"number, got {cells.iat[row, column]!r} ({int(bad.sum()):,} such cells in this part of the "
            "file). Fill or drop such rows."
        )
    return pd.DataFrame(numbers, columns=list(features))


def find_top_k(model: Any, rows: Any, k: int) -> tuple[NDArray[Any], Floats | None]:
    """The k first labels of rows, and their probabilities where the model has any."""
    if isinstance(model, TextClassifier):
        return find_top_k(model.classifier_, model.transform(rows), k)
    if hasattr(model, "find_top_k"):
        found: tuple[NDArray[Any], Floats] = model.find_top_k(rows, k)
        return found
    if hasattr(model, "predict_proba"):
        chances = np.asarray(model.predict_proba(rows))
        best = np.argsort(-chances, axis=1, kind="stable")[:, :k]
        return np.asarray(model.classes_)[best], np.take_along_axis(chances, best, axis=1)
    if hasattr(model, "predict_top_k"):
        return model.predict_top_k(rows, k), None
    if k > 1:
        raise UnsupportedModel(
            f"A {type(model).__name__} tells no more than the first label. Ask for --top 1."
        )
    return np.asarray(model.predict(rows))[:, None], None


def _make_table(model: Any, part: _Part, asked: LabelsAsked, first: int) -> pd.DataFrame:
    n = len(part.there)
    k = asked.top
    labels = np.full((n, k), None, dtype=object)
    chances = None
    at = np.flatnonzero(part.there)
    for batch in cut_batches(len(at), 32 * len(model.classes_)):
        best, own = find_top_k(model, part.rows[batch], k)
        labels[at[batch]] = best.astype(object)
        if own is not None:
            chances = np.full((n, k), np.nan) if chances is None else chances
            chances[at[batch]] = own
    columns: dict[str, Any] = {"row": np.arange(first, first + n)}
    if part.ids is not None:
        columns["id"] = part.ids
    for rank in range(k):
        ending = "" if rank == 0 else f"_{rank + 1}"
        columns[f"label{ending}"] = labels[:, rank]
        if chances is not None:
            columns[f"probability{ending}"] = chances[:, rank]
    if part.given is not None:
        columns["given"] = part.given
    return pd.DataFrame(columns)


def _count(table: pd.DataFrame, part: _Part, counts: LabelCounts) -> None:
    counts.rows += len(table)
    counts.without += int((~part.there).sum())
    counts.labels.update(str(name) for name in table["label"][part.there])
    if "given" in table:
        known = table["given"].notna() & part.there
        counts.compared += int(known.sum())
        same = [
            str(a) == _write_label(b)
            for a, b in zip(table["label"][known], table["given"][known], strict=True)
        ]
        counts.agree += sum(same)


def _write_label(label: Any) -> str:
    """A label as it is written: whole numbers beside gaps were read as floats."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def write_labels(path: Path, tables: Iterator[pd.DataFrame]) -> None:
    """Write blocks of labels to a file as they come, whole or not at all: .csv, or .parquet."""
    if path.suffix.lower() in (".parquet", ".pq"):
        _write_parquet(path, tables)
        return
    if path.suffix.lower() != ".csv":
        raise InvalidInput(f"--out is a .csv or .parquet file. Got {path}.")
    with (
        new_file(path, sign=CSV_SIGN) as work,
        work.open("w", newline="", encoding="utf-8-sig", errors="backslashreplace") as file,
    ):
        for number, table in enumerate(tables):
            append_csv(file, table, has_header=number == 0)


def append_csv(file: Any, table: pd.DataFrame, *, has_header: bool) -> None:
    """Add a block as comma-separated text; cells that a spreadsheet would run as a formula are made text."""
    rows = table.astype(object).where(table.notna(), None).itertuples(index=False)
    write_rows(file, list(table.columns) if has_header else None, rows)


def _write_parquet(path: Path, tables: Iterator[pd.DataFrame]) -> None:
    with new_file(path, sign=NEVER) as work:
        writer: pq.ParquetWriter | None = None
        try:
            for table in tables:
                block = pa.Table.from_pandas(_as_texts(table), preserve_index=False)
                writer = pq.ParquetWriter(work, block.schema) if writer is None else writer
                writer.write_table(block.cast(writer.schema))
        finally:
            if writer is not None:
                writer.close()


def _as_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Labels and ids as texts, so that every block has the same columns."""
    texts = [name for name in table if table[name].dtype == object or name in ("id", "given")]
    kept: Mapping[Any, Any] = {
        name: [None if pd.isna(cell) else _write_label(cell) for cell in table[name]] for name in texts
    }
    return table.assign(**kept)
