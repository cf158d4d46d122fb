"""A process that dies, is interrupted or is refused at any moment leaves the old folder or the new one, whole."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tellwhy.core.errors import CannotWrite
from tellwhy.storage import folders
from tellwhy.storage.folders import find_standing, new_file, new_folder, remove_folder, sweep
from tellwhy.storage.manifest import MANIFEST

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes of POSIX")
HEAD = "run.json"
NAMES = ("table.csv", "sub/deep.csv")
CALLS = ("rename", "replace", "fsync", "link", "unlink", "rmdir", "mkdir", "open")
MOST = 400  # calls of the system that one replacement may take


def write(target, text):
    with new_folder(target, marker=HEAD) as work:
        for name in (HEAD, *NAMES):
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text)


def written(folder):
    """What a folder of `write` holds; fails unless all its files are there, of one version."""
    texts = {(folder / name).read_text() for name in (HEAD, *NAMES)}
    assert len(texts) == 1, "a mixture"
    assert set(json.loads((folder / MANIFEST).read_text())["files"]) >= {HEAD, *NAMES}
    return texts.pop()


class Fault:
    """Does something at the n-th call of the system, once."""

    def __init__(self, at, kind):
        self.at = at
        self.kind = kind
        self.count = 0

    def wrapped(self, function):
        def called(*args, **kwargs):
            self.count += 1
            if self.count == self.at:
                self.strike()
            return function(*args, **kwargs)

        return called

    def strike(self):
        if self.kind == "error":
            raise OSError(errno.EIO, "Input/output error")
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}[self.kind])


def in_child(function, fault):
    """Run a function in a process of its own, with a fault; returns how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in CALLS:
            setattr(os, name, fault.wrapped(getattr(os, name)))
        folders.write_manifest = fault.wrapped(folders.write_manifest)
        function()
        status = 0 if fault.count >= fault.at else 71  # 71: there are not so many calls
    except (CannotWrite, KeyboardInterrupt):
        status = 1
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(status)


@pytest.fixture
def place():
    """A folder in memory, where there is one: every fault is tried, and a disk takes long to settle."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made) / "place"


def strikes(function, kind, place, prepare, check):
    """Strike at each call in turn until there are no more; returns how often."""
    for at in range(1, MOST):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        prepare()
        status = in_child(function, Fault(at, kind))
        assert status != 70, f"{kind} at call {at}: another error than CannotWrite"
        if status == 71:
            return at
        check(at, status)
    raise AssertionError("it never ends")


@pytest.mark.parametrize("kind", ["error", "interrupt", "kill"])
def test_replacing_a_folder(kind, place):
    target = place / "p"

    def prepare():
        write(target, "old")
        (target / "precious.txt").write_text("x")

    def check(at, status):
        found = find_standing(target)
        assert written(found) in ("old", "new"), at
        assert (found / "precious.txt").read_text() == "x", at
        if kind == "error" and status == 0:  # one that could be passed over
            assert written(found) == "new"
        write(target, "newer")  # tidies up what the dead left
        assert written(target) == "newer"
        assert (target / "precious.txt").read_text() == "x", at
        assert set(os.listdir(target)) == {HEAD, MANIFEST, "table.csv", "sub", "precious.txt"}, at
        left = [name for name in os.listdir(place) if name != "p"]
        # A folder without a lock is left alone for an hour: another process may be about to lock it.
        assert all(os.listdir(place / name) == [] for name in left), (at, left)

    assert strikes(lambda: write(target, "new"), kind, place, prepare, check) > 30


@pytest.mark.parametrize("kind", ["error", "interrupt", "kill"])
def test_a_folder_that_was_not_there(kind, place):
    target = place / "p"

    def check(at, status):
        if target.exists():
            assert written(target) == "new", at

    assert strikes(lambda: write(target, "new"), kind, place, lambda: None, check) > 20


@pytest.mark.parametrize("kind", ["error", "interrupt", "kill"])
def test_replacing_a_file(kind, place):
    target = place / "page.html"

    def function():
        with new_file(target) as work:
            work.write_text("new")

    def check(at, status):
        assert target.read_text() in ("old", "new"), at

    assert strikes(function, kind, place, lambda: target.write_text("old"), check) > 5


@pytest.mark.parametrize("kind", ["error", "interrupt", "kill"])
def test_removing_a_folder(kind, place):
    """What is removed is there, whole, or gone; what is not ours is there."""
    target = place / "p"

    def prepare():
        write(target, "old")
        (target / "precious.txt").write_text("x")

    def check(at, status):
        if (target / HEAD).exists():
            assert written(target) == "old", at
        found = [path.read_text() for path in place.rglob("precious.txt")]
        assert found == ["x"], at
        sweep(target)
        assert (target / "precious.txt").read_text() == "x", at

    assert strikes(lambda: remove_folder(target, marker=HEAD), kind, place, prepare, check) > 10


def test_two_interrupts(place):
    """The second comes while the first is being dealt with."""
    target = place / "p"
    write(target, "old")
    rename = os.rename

    def impatient(source, to):
        rename(source, to)
        os.kill(os.getpid(), signal.SIGINT)

    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.rename = impatient
        try:
            write(target, "new")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert written(find_standing(target)) == "old"


STRACE = shutil.which("strace")
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from test_faults import write
from pathlib import Path
write(Path(sys.argv[2]), "new")
"""
SYSCALLS = {"rename": 2, "fsync": 6, "write": 4, "unlink": 6, "linkat": 1, "mkdir": 2}


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize("what", ["signal=KILL", "signal=INT", "error=EIO"])
@pytest.mark.parametrize(("call", "times"), SYSCALLS.items())
def test_the_system_itself(call, times, what, place):
    """The same from outside, at calls that Python makes by itself."""
    target = place / "p"
    write(target, "old")
    (target / "precious.txt").write_text("x")
    for n in (1, times):
        command = [STRACE, "-f", "-qq", "--seccomp-bpf", "-o", os.devnull]
        command += ["-e", f"trace={call}", "-e", f"inject={call}:{what}:when={n}"]
        ran = subprocess.run(
            [*command, sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(target)],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # files of Python's own are no concern here
        )
        if b"not permitted" in ran.stderr:
            pytest.skip("strace may not be used here")
        found = find_standing(target)
        assert written(found) in ("old", "new")
        assert (found / "precious.txt").read_text() == "x"
    write(target, "newer")
    assert written(target) == "newer"
