"""Rows of a Parquet file in batches: all of them, in order, and an error that names the column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tellwhy.core import progress
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.data import parquet_batches


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    columns = {"x": [1.5, None, 3.5], "flag": [True, False, True], "k": [1, 2, 3], "label": ["a", "b", "a"]}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("n_rows", [1, 2, 3, 100])
def test_batches_hold_every_row_once(rows: Path, n_rows: int) -> None:
    batches = list(parquet_batches(rows, "label", n_rows=n_rows))
    assert max(len(X) for X, _ in batches) <= n_rows
    X = np.concatenate([X for X, _ in batches])
    np.testing.assert_array_equal(X, [[1.5, 1, 1], [np.nan, 0, 2], [3.5, 1, 3]])
    assert np.concatenate([y for _, y in batches]).tolist() == ["a", "b", "a"]


def test_progress_ends_with_the_last_batch(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
    told: list[tuple[int, int]] = []
    with progress.show_with(lambda label, done, total: told.append((done, total))):
        list(parquet_batches(rows, "label", n_rows=2))
    assert told[-1] == (2, 2)


def test_columns_that_hold_no_numbers_are_named(rows: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"Column 'label' of .*rows\.parquet holds string; expected numbers"
    ):
        next(parquet_batches(rows))
    with pytest.raises(InvalidInput, match=r"no column 'weight'\. It has: x, flag, k, label"):
        next(parquet_batches(rows, "weight"))


def test_without_a_target_there_are_no_labels(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "x.parquet")
    assert [(X.tolist(), y) for X, y in parquet_batches(tmp_path / "x.parquet")] == [([[1.0], [2.0]], None)]


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(UnreadableFile, match=r"x\.parquet cannot be read as Parquet"):
        next(parquet_batches(tmp_path / "x.parquet"))
