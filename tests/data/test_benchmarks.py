from __future__ import annotations

import gzip
import hashlib

import numpy as np
import pytest

from tellwhy.core.errors import UnreadableFile
from tellwhy.data import benchmarks, fetch
from tellwhy.data.benchmarks import BenchmarkFile, data_folder


def put(folder, **arrays):
    path = folder / "odds_thyroid.npz"
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("from_cache", [False, True])
def test_arrays_are_read_and_checked(tmp_path, monkeypatch, from_cache):
    monkeypatch.delenv("TELLWHY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "tellwhy"
    if not from_cache:
        folder = tmp_path / "mine"
        monkeypatch.setenv("TELLWHY_DATA", str(folder))
    sha256 = put(folder, X=np.eye(3), y=np.array([0, 0, 1]))
    monkeypatch.setitem(benchmarks.FILES, "odds_thyroid", BenchmarkFile("nowhere", sha256))
    arrays = fetch("odds_thyroid")
    assert set(arrays) == {"X", "y"}
    np.testing.assert_array_equal(arrays["X"], np.eye(3))


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("TELLWHY_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "tellwhy"


def test_a_missing_file_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("TELLWHY_DATA", str(tmp_path))
    with pytest.raises(
        UnreadableFile, match=r"38_thyroid\.npz of the GitHub repository Minqi824/ADBench.*TELLWHY_DATA"
    ):
        fetch("odds_thyroid")


def test_another_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TELLWHY_DATA", str(tmp_path))
    put(tmp_path, X=np.zeros(1))
    with pytest.raises(UnreadableFile, match="its SHA-256 is"):
        fetch("odds_thyroid")


def test_pickled_arrays_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TELLWHY_DATA", str(tmp_path))
    sha256 = put(tmp_path, X=np.array([{"a": 1}], dtype=object))
    monkeypatch.setitem(benchmarks.FILES, "odds_thyroid", BenchmarkFile("nowhere", sha256))
    with pytest.raises(UnreadableFile, match="cannot be read as arrays"):
        fetch("odds_thyroid")


def packed(folder, monkeypatch, name, content):
    (folder / name).write_bytes(gzip.compress(content))
    entry = BenchmarkFile("nowhere", hashlib.sha256((folder / name).read_bytes()).hexdigest())
    monkeypatch.setitem(benchmarks.PARTS, "adult", {"part": (name, entry)})


def test_images_and_text_are_read_from_packed_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TELLWHY_DATA", str(tmp_path))
    images = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    head = bytes([0, 0, 8, 3]) + np.array(images.shape, dtype=">i4").tobytes()
    packed(tmp_path, monkeypatch, "images-idx3-ubyte.gz", head + images.tobytes())
    np.testing.assert_array_equal(fetch("adult")["part"], images)
    labels = np.array([7, 0, 255, 1], dtype=np.uint8)  # one axis: a shorter head
    short = bytes([0, 0, 8, 1]) + np.array([4], dtype=">i4").tobytes()
    packed(tmp_path, monkeypatch, "labels-idx1-ubyte.gz", short + labels.tobytes())
    np.testing.assert_array_equal(fetch("adult")["part"], labels)
    packed(tmp_path, monkeypatch, "rows.gz", b"1, a\n2, b\n\n")
    assert fetch("adult")["part"].tolist() == [["1", "a"], ["2", "b"]]
    packed(tmp_path, monkeypatch, "images-idx3-ubyte.gz", head + images.tobytes()[:-1])
    with pytest.raises(UnreadableFile, match="cannot be read"):
        fetch("adult")
    (tmp_path / "images-idx3-ubyte.gz").write_bytes(b"other")
    with pytest.raises(UnreadableFile, match="its SHA-256 is"):
        fetch("adult")
    (tmp_path / "images-idx3-ubyte.gz").unlink()
    with pytest.raises(UnreadableFile, match="not on this machine"):
        fetch("adult")
