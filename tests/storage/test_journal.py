"""Files that only grow: nothing is lost when two write at once, when one is killed, or when the disk is full."""

import multiprocessing
import os
import resource
import subprocess
import sys

import pytest

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.storage.journal import append_lines, read_lines


def append_many(path, name):
    for number in range(40):
        append_lines(path, [{"by": name, "n": number}, {"by": name, "also": number}])


def test_processes_that_append_at_once_lose_nothing(tmp_path):
    path = tmp_path / "j.jsonl"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=append_many, args=(path, name)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    found = read_lines(path)
    for name in "abc":
        own = [entry for entry in found if entry["by"] == name]
        assert [entry["n"] for entry in own[::2]] == list(range(40))
        assert [entry["also"] for entry in own[1::2]] == list(range(40))
    # entries of one call stand together
    assert all(first["by"] == then["by"] for first, then in zip(found[::2], found[1::2], strict=True))


def test_a_line_that_was_cut_short_is_passed_over_and_harms_no_other(tmp_path):
    path = tmp_path / "j.jsonl"
    append_lines(path, [{"n": 1}])
    with path.open("a") as file:
        file.write('{"n": 2, "wh')
    assert read_lines(path) == [{"n": 1}]
    append_lines(path, [{"n": 3}])
    assert read_lines(path) == [{"n": 1}, {"n": 3}]


def test_a_link_is_not_followed(tmp_path):
    other = tmp_path / "thesis.txt"
    other.write_text("mine")
    (tmp_path / "j.jsonl").symlink_to(other)
    with pytest.raises(CannotWrite, match="Nothing was added"):
        append_lines(tmp_path / "j.jsonl", [{"n": 1}])
    assert other.read_text() == "mine"


def test_a_line_that_is_no_object_is_refused(tmp_path):
    (tmp_path / "j.jsonl").write_text("[1, 2]\n")
    with pytest.raises(UnreadableFile, match="line 1"):
        read_lines(tmp_path / "j.jsonl")


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "j.jsonl"
    append_lines(path, [{"n": 1}])
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tellwhy.core.errors import CannotWrite; from tellwhy.storage.journal import append_lines\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "try:\n    append_lines(Path(sys.argv[1]), [{'long': 'x' * 500}])\n"
        "except CannotWrite as error:\n    print('refused', error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, env=os.environ
    )
    assert told.stdout.startswith("refused")
    assert read_lines(path) == [{"n": 1}]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 64
