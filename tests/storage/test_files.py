"""Files and folders that appear whole or not at all, as the user's own would."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tellwhy.core.errors import CannotWrite
from tellwhy.storage.documents import make_plain
from tellwhy.storage.folders import new_file, new_folder

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs modes of files")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@POSIX
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_folders_are_as_open_as_the_user_wants_them(mask, tmp_path):
    before = os.umask(mask)
    try:
        with new_folder(tmp_path / "model", marker="head.json"):
            pass
    finally:
        assert os.umask(before) == mask  # and the setting is left as it was
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~mask


def test_a_file_takes_the_place_of_an_old_one(tmp_path):
    target = tmp_path / "page.html"
    for text in ("old", "new"):
        with new_file(target) as work:
            assert work.name == target.name
            assert work.parent.stat().st_dev == target.parent.stat().st_dev
            work.write_text(text)
        assert target.read_text() == text
    assert names_in(tmp_path) == ["page.html"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_file_that_cannot_be_finished_leaves_the_old_one(error, tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    told = CannotWrite if isinstance(error, OSError) else type(error)
    with pytest.raises(told), new_file(target) as work:
        work.write_text("half of it")
        raise error
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["page.html"]


def test_what_json_cannot_hold_is_made_plain():
    given = {1: np.int64(2), "a": np.array([1.5, np.nan]), "b": (Path("x"), None, True), "c": -np.inf}
    assert make_plain(given) == {"1": 2, "a": [1.5, "nan"], "b": ["x", None, True], "c": "-inf"}


def test_everything_is_on_the_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    """A rename that outlives what it renames would leave empty files after a power cut."""
    told = []
    fsync = os.fsync
    rename = os.rename
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: told.append(os.fstat(fd).st_ino) or fsync(fd))
    monkeypatch.setattr(os, "rename", lambda *to: told.append("placed") or rename(*to))
    monkeypatch.setattr(os, "replace", lambda *to: told.append("placed") or replace(*to))
    with new_folder(tmp_path / "model", marker="head.json") as work:
        (work / "sub").mkdir()
        for name in ("head.json", "sub/array.npz"):
            (work / name).write_text("x")
    with new_file(tmp_path / "page.html") as work:
        work.write_text("x")
    folder, file = "".join("p" if each == "placed" else "." for each in told).split("p")[:2]
    settled = told[: len(folder)]
    for name in ("head.json", "sub/array.npz", "sub", "manifest.json", "."):
        assert (tmp_path / "model" / name).stat().st_ino in settled, name
    assert (tmp_path / "page.html").stat().st_ino in told[len(folder) + 1 : len(folder) + 1 + len(file)]
    assert told[-1] == tmp_path.stat().st_ino  # and the names themselves
