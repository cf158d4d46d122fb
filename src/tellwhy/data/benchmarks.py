"""Public benchmark sets, read from a folder and checked; nothing is downloaded.

Keys of the arrays: `odds_*` have X, y (1 = anomaly) and where known feature_names (lympho also X_onehot,
onehot_names, onehot_group, the source column of each one-hot column); `takeishi_splits_*` have train, valid,
test, y_test (the first half of test is normal, the second anomalous) and where known feature_names; `mc_*`
have X, y and is_train, those of text the parts of a sparse matrix with y in a file of its own; `fs_madelon`
has X and y; `covtype_93k` has X_num, X_bin, y and feature_names; `cifar10_12k`, `mnist` and `fashion` have
X_train, y_train, X_test and y_test; `adult` has train and test, tables of text whose last column is the
class; `geo_impedance_facies` has maps AI, por and facies; `seismic_facies_crosslines` has seismic_level and
facies, shape (crosslines, depth, width).
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.data.benchmark_files import FILES, PARTS, BenchmarkFile
from tellwhy.data.reading.byte_source import file_fingerprint


def data_folder() -> Path:
    """Return the folder of benchmark files: $TELLWHY_DATA, else `tellwhy` in the user's cache."""
    if given := os.environ.get("TELLWHY_DATA"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache).expanduser() if cache else Path.home() / ".cache") / "tellwhy"


def fetch(name: str) -> dict[str, NDArray]:
    """Return the arrays of a benchmark set, if its file is the one that the numbers are quoted for.

    Parameters
    ----------
    name
        One of the sets in `tellwhy.data.benchmark_files`, such as 'odds_thyroid' or 'mnist'.

    Raises
    ------
    UnreadableFile
        If the file is not there (with where it comes from and where to put it), or is another one.

    Examples
    --------
    >>> fetch("iris")
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: There is no benchmark set 'iris'. There are: odds_thyroid, ...
    """
    if name in PARTS:
        return {
            key: _read_packed(_checked(data_folder() / file, entry))
            for key, (file, entry) in PARTS[name].items()
        }
    if name not in FILES:
        raise InvalidParameter(
            f"There is no benchmark set {name!r}. There are: {', '.join([*FILES, *PARTS])}."
        )
    path = _checked(data_folder() / f"{name}.npz", FILES[name])
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise UnreadableFile(f"{path} cannot be read as arrays: {error}.") from error


def _checked(path: Path, entry: BenchmarkFile) -> Path:
    """Return the path of a file that is there and is the right one."""
    if not path.is_file():
        raise UnreadableFile(
            f"The benchmark set {path.stem} is not on this machine: there is no {path}. Its rows come from "
            f"{entry.origin}. Put them into {path.name} (arrays and their keys: see tellwhy.data.benchmarks) "
            "in that folder, or set TELLWHY_DATA to the folder that holds it."
        )
    if (found := file_fingerprint(path)) != entry.sha256:
        raise UnreadableFile(
            f"{path} is not the file that the benchmarks were run on: its SHA-256 is {found}, expected "
            f"{entry.sha256}. Its rows should come from {entry.origin}."
        )
    return path


def _read_packed(path: Path) -> NDArray:
    """Return the array of an IDX file, or the cells of a text whose lines are separated by commas."""
    try:
        content = gzip.decompress(path.read_bytes())
        if "-ubyte" in path.name:  # IDX: byte 3 counts the axes, four bytes tell the length of each
            sizes = np.frombuffer(content, dtype=">i4", count=content[3], offset=4)
            return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(sizes)
        lines = content.decode("utf-8").split("\n")
        return np.array([[cell.strip() for cell in line.split(",")] for line in lines if line.strip()])
    except (ValueError, IndexError, OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path} cannot be read: {error}.") from error
