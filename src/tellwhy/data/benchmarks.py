"""Public benchmark sets, read from a folder and checked; nothing is downloaded.

Keys of the arrays: `odds_*` have X, y (1 = anomaly) and where known feature_names (lympho also X_onehot, onehot_names,
onehot_group, the source column of each one-hot column); `takeishi_splits_*` have train, valid, test, y_test (the first
half of test is normal, the second anomalous) and where known feature_names.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.data.byte_source import file_fingerprint


@dataclass(frozen=True)
class BenchmarkFile:
    """Where a benchmark set comes from, and the SHA-256 of its file."""

    origin: str
    sha256: str


_ADBENCH = "the GitHub repository Minqi824/ADBench, commit 3dac8221, adbench/datasets/Classical"
_PYOD = "the GitHub repository yzhao062/pyod, commit 34f7996e, notebooks/data"
_TAKEISHI = "the GitHub repository n-takeishi/anomaly-attribution, commit 90382c59, data/processed"

FILES = {
    "odds_thyroid": BenchmarkFile(
        f"38_thyroid.npz of {_ADBENCH}", "17c29742cce313af9e45df21a1cd88c50e79df9995f4b533ff36e2e081fe15c1"
    ),
    "odds_breastw": BenchmarkFile(
        f"4_breastw.npz of {_ADBENCH}", "9de2062a9dcf2ed8d554ad74dc166bd3af7761096526b4b627d02410580007c0"
    ),
    "odds_lympho": BenchmarkFile(
        f"lympho.mat of {_PYOD}", "fcd381f315b033d624ff6092bbce72d05707e90e25c15351416ce7e64a68f253"
    ),
    "odds_musk": BenchmarkFile(
        f"musk.mat of {_PYOD}", "84d22fecda7d59628aca9aac50bc27134c0be7b9feb49bcc424619e1c4e91dda"
    ),
    "odds_arrhythmia": BenchmarkFile(
        f"arrhythmia.mat of {_PYOD}", "aeeb60fd32fc66418e789a1962bca9ed634cfe5c8410bc4a1406b3f867a1dbee"
    ),
    "takeishi_splits_thyroid": BenchmarkFile(
        _TAKEISHI, "02f835146d1fa6888c4c559f289f4777ebd4d065bb560374af5b25a95ed106ca"
    ),
    "takeishi_splits_breastw": BenchmarkFile(
        _TAKEISHI, "90076a36b2f444f84a5b26360da22fa810cf60dd8c5b62cf67eba1948ece6dcc"
    ),
    "takeishi_splits_lympho": BenchmarkFile(
        _TAKEISHI, "e3fbb8b16bee64eac018a96aed21c847693a0e8e650c860e81836e7b270b72f5"
    ),
    "takeishi_splits_musk": BenchmarkFile(
        _TAKEISHI, "65992af851a982e71f7be58f2210cf0671b3f777170146ae049ee610d8992ff1"
    ),
    "takeishi_splits_arrhythmia": BenchmarkFile(
        _TAKEISHI, "f42fcd59b1e25403e3c404fdf3e5c5903f9d887d97bff96faa3f06e2d190e02d"
    ),
    "takeishi_splits_U2R": BenchmarkFile(_TAKEISHI, "5e4cbb134ec1b8b3e127a5f43993bd2ec0d0556b44d614185ab5a1fd65bc3a62"),
}


def data_folder() -> Path:
    """Return the folder of benchmark files: $TELLWHY_DATA, else `tellwhy` in the user's cache."""
    if given := os.environ.get("TELLWHY_DATA"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache).expanduser() if cache else Path.home() / ".cache") / "tellwhy"


def fetch(name: str) -> dict[str, NDArray]:
    """Return the arrays of a benchmark set, after checking that the file is the one the numbers are quoted for.

    Parameters
    ----------
    name
        One of `tellwhy.data.benchmarks.FILES`, such as 'odds_thyroid'.

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
    if name not in FILES:
        raise InvalidParameter(f"There is no benchmark set {name!r}. There are: {', '.join(FILES)}.")
    entry, path = FILES[name], data_folder() / f"{name}.npz"
    if not path.is_file():
        raise UnreadableFile(
            f"The benchmark set {name} is not on this machine: there is no {path}. Its rows come from {entry.origin}. "
            f"Put them as arrays into {path.name} (keys: see tellwhy.data.benchmarks) in that folder, or "
            "set TELLWHY_DATA to the folder that holds it."
        )
    if (found := file_fingerprint(path)) != entry.sha256:
        raise UnreadableFile(
            f"{path} is not the file that the benchmarks were run on: its SHA-256 is {found}, expected {entry.sha256}. "
            f"Its rows should come from {entry.origin}."
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise UnreadableFile(f"{path} cannot be read as arrays: {error}.") from error
