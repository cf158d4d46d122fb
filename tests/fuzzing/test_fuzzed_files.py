"""Damaged files: read as they were meant, or refused by an error of ours that names the file; never anything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from fuzzing import mutations, sample_files
from tellwhy.classifiers.svm.training.files import read_libsvm_chunks, read_rows
from tellwhy.core.errors import TellwhyError
from tellwhy.data import parquet_batches, read_table
from tellwhy.data.graph_files import read_grid
from tellwhy.data.queries import read_query

FEW = 40  # mutations of each kind in every test run
MANY = 700


class Case(NamedTuple):
    """A sound file, a way to damage it, and who reads it."""

    name: str
    content: bytes
    damage: Callable[[bytes, np.random.Generator], bytes]
    read: Callable[[Path], Any]
    is_checked: bool = False  # by checksums: what is read then is what was written


def frame_of(path: Path) -> Any:
    return read_table(path).frame


def arrays_of(path: Path) -> Any:
    return read_grid(path).arrays


def rows_of(path: Path) -> Any:
    return [chunk.y for chunk in read_libsvm_chunks(path)]


def rows_of_query(path: Path) -> Any:
    return read_query("SELECT * FROM t", path).frame


def batches_of(path: Path) -> Any:
    return [X for X, _ in parquet_batches(path, "k", n_rows=7)]


def labelled_rows(path: Path) -> Any:
    return read_rows(path).X.shape


def cases() -> Iterator[Case]:
    """Every reader, with bytes damaged, and with the structure changed where there is one."""
    yield Case("t.csv", sample_files.csv_bytes(), mutations.damaged, frame_of)
    yield Case("t.csv", sample_files.csv_bytes(), mutations.reworded, frame_of)
    yield Case("t.jsonl", sample_files.json_lines(), mutations.damaged, frame_of)
    yield Case("t.jsonl", sample_files.json_lines(), mutations.reworded, frame_of)
    yield Case("t.json", sample_files.json_list(), mutations.damaged, frame_of)
    yield Case("t.json", sample_files.json_list(), mutations.restructured, frame_of)
    yield Case("t.parquet", sample_files.parquet(), mutations.damaged, frame_of)
    yield Case("t.parquet", sample_files.parquet(compression="none"), mutations.damaged, frame_of)
    yield Case("b.parquet", sample_files.number_parquet(), mutations.damaged, batches_of)
    yield Case("t.xlsx", sample_files.workbook(), mutations.damaged, frame_of, is_checked=True)
    yield Case("t.xlsx", sample_files.workbook(), mutations.rezipped, frame_of)
    yield Case("t.zip", sample_files.zipped(), mutations.damaged, frame_of, is_checked=True)
    yield Case("t.zip", sample_files.zipped(), mutations.rezipped, frame_of)
    yield Case("t.csv.gz", sample_files.gzipped(), mutations.damaged, frame_of, is_checked=True)
    yield Case("t.csv.gz", sample_files.gzipped(), mutations.regzipped, frame_of)
    yield Case("g.npz", sample_files.arrays(), mutations.damaged, arrays_of, is_checked=True)
    yield Case("g.npz", sample_files.arrays(), mutations.rezipped, arrays_of)
    yield Case("l.npz", sample_files.labelled_arrays(), mutations.rezipped, labelled_rows)
    yield Case("g.npz", sample_files.arrays(packed=False), mutations.rezipped, arrays_of)
    yield Case("g.npy", sample_files.one_array(), mutations.damaged, arrays_of)
    yield Case("t.db", sample_files.database(), mutations.damaged, rows_of_query)
    yield Case("t.svm", sample_files.libsvm(), mutations.damaged, rows_of)
    yield Case("t.svm", sample_files.libsvm(), mutations.reworded, rows_of)


def same(found: Any, truth: Any) -> bool:
    if isinstance(truth, pd.DataFrame):
        return truth.equals(found)
    return found.keys() == truth.keys() and all(np.array_equal(found[name], truth[name]) for name in truth)


def attack(case: Case, folder: Path, count: int, seed: int) -> int:
    """Damage a file so often; return how often it was refused. Whatever goes wrong is raised."""
    rng = np.random.default_rng(seed)
    path = folder / case.name
    path.write_bytes(case.content)
    truth = case.read(path)  # the sound file can be read
    refusals = []
    for number in range(count):
        path.write_bytes(case.damage(case.content, rng))
        try:
            found = case.read(path)
        except TellwhyError as error:
            refusals.append(str(error))
            continue
        except BaseException as error:
            raise AssertionError(f"damage {number} of seed {seed}: {error!r}") from error
        if case.is_checked:
            assert same(found, truth), f"damage {number} of seed {seed} was read as something else"
    assert all(str(path) in refusal for refusal in refusals)
    return len(refusals)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.name}-{case.damage.__name__}")
def test_damaged_files_are_refused_in_words(case, tmp_path):
    n_refused = attack(case, tmp_path, FEW, seed=int.from_bytes(case.name.encode()) % 1000)
    assert n_refused > 0


@pytest.mark.slow
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.name}-{case.damage.__name__}")
def test_many_damaged_files_are_refused_in_words(case, tmp_path):
    seed = int(os.environ.get("TELLWHY_SEED", "1"))
    assert attack(case, tmp_path, MANY, seed) > 0
