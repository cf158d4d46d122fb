"""What lies beside a target while it is written: tidied up after the dead, never through links."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tellwhy.core.errors import CannotWrite
from tellwhy.storage.folders import (
    LOCK,
    check_new_folder,
    list_hidden,
    new_file,
    new_folder,
    private_folder,
)

HEAD = "run.json"


def write(target, text="{}"):
    with new_folder(target, marker=HEAD) as work:
        (work / HEAD).write_text(text)
        (work / "twin.json").write_text(text)


def others(folder, *known):
    return sorted(set(os.listdir(folder)) - set(known))


SLOW = """
import sys, time
from pathlib import Path
from tellwhy.storage.folders import new_folder
with new_folder(Path(sys.argv[1]), marker="run.json") as work:
    (work / "run.json").write_text("{}")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_folders_of_the_dead_are_removed_and_those_of_the_living_not(tmp_path):
    target = tmp_path / "p"
    with subprocess.Popen([sys.executable, "-c", SLOW, str(target)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"writing\n"
        (hidden,) = others(tmp_path)
        write(target)
        check_new_folder(target, marker=HEAD)
        assert others(tmp_path, "p") == [hidden]  # it lives
        process.kill()
    assert others(tmp_path, "p") == [hidden]
    check_new_folder(target, marker=HEAD)
    assert others(tmp_path, "p") == []


def test_folders_that_were_never_locked_are_removed_after_an_hour(tmp_path):
    hidden = tmp_path / ".p.tellwhy-abcdefgh"
    hidden.mkdir()
    write(tmp_path / "p")
    assert hidden.exists()
    os.utime(hidden, (time.time() - 4000, time.time() - 4000))
    write(tmp_path / "p")
    assert not hidden.exists()


def test_links_that_look_like_ours_are_not_followed(tmp_path):
    precious = tmp_path / "precious"
    (precious / "new").mkdir(parents=True)
    (precious / "new" / "thesis.txt").write_text("x")
    for name in (LOCK, "writing"):
        (precious / name).touch()
    (tmp_path / ".p.tellwhy-evil").symlink_to(precious)
    write(tmp_path / "p")
    assert (precious / "new" / "thesis.txt").read_text() == "x"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs files of other users")
def test_folders_of_others_are_not_believed(tmp_path):
    (tmp_path / ".p.tellwhy-evil").mkdir()
    os.chown(tmp_path / ".p.tellwhy-evil", 12345, 12345)
    assert list_hidden(tmp_path / "p") == []


def test_a_link_to_a_folder_is_written_through(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "p"
    link.symlink_to(tmp_path / "disk" / "p")
    for text in ("1", "2"):
        write(link, text)
        assert link.is_symlink()
        assert (tmp_path / "disk" / "p" / HEAD).read_text() == text
    assert others(tmp_path, "p", "disk") == others(tmp_path / "disk", "p") == []


def test_a_link_to_a_folder_of_others_or_to_itself_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    (tmp_path / "p").symlink_to(tmp_path / "mine")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for name in ("p", "round"):
        with pytest.raises(CannotWrite):
            write(tmp_path / name)
        with pytest.raises(CannotWrite):
            check_new_folder(tmp_path / name, marker=HEAD)
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]


def refused(kind, path):
    make = {
        "link": lambda: path.symlink_to(path.with_name("precious.txt")),
        "link to nothing": lambda: path.symlink_to(path.with_name("nothing")),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    make[kind]()


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "folder"])
def test_a_page_is_written_to_files_only(kind, tmp_path):
    """A run that somebody sends may hold a link report.html to a file of the reader's."""
    (tmp_path / "precious.txt").write_text("x")
    target = tmp_path / "report.html"
    refused(kind, target)
    with pytest.raises(CannotWrite, match="expected a file, or nothing yet"), new_file(target) as work:
        work.write_text("page")
    assert (tmp_path / "precious.txt").read_text() == "x"
    assert others(tmp_path, "precious.txt", "report.html") == []


def test_errors_name_the_place_and_not_where_it_was_prepared(tmp_path):
    with (
        pytest.raises(CannotWrite, match=f"Cannot write {tmp_path / 'p' / 'page.html'}: it is a folder"),
        new_folder(tmp_path / "p", marker=HEAD) as work,
    ):
        (work / "page.html").mkdir()
        with new_file(work / "page.html"):
            pass


def test_a_name_as_long_as_the_disk_allows(tmp_path):
    for name in ("x" * 255, "ü" * 127):
        write(tmp_path / name)
        write(tmp_path / name)
        with new_file(tmp_path / name / name) as work:
            work.write_text("x")
    assert len(os.listdir(tmp_path)) == 2


def test_many_at_once(tmp_path):
    """One of them is there in the end, whole, and nothing else."""

    def attempt(i):
        with suppress(CannotWrite):
            write(tmp_path / "p", str(i))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt, range(64)))
    assert (tmp_path / "p" / HEAD).read_text() == (tmp_path / "p" / "twin.json").read_text()
    assert others(tmp_path, "p") == []


def test_a_private_folder_is_gone_afterwards(tmp_path):
    with private_folder(tmp_path / "p") as folder:
        (folder / "job.json").write_text("{}")
        assert folder.parent.stat().st_mode & 0o077 == 0
    assert os.listdir(tmp_path) == []
