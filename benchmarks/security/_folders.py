"""Attacks on what is on disk: folders of others, faults at every call of the system, links, many at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from tellwhy.core.errors import CannotWrite
from tellwhy.core.explanation import Explanation
from tellwhy.storage import folders
from tellwhy.storage.folders import find_standing, new_file, new_folder
from tellwhy.storage.manifest import MANIFEST

Row = tuple[str, int, int]  # class of attack, attempts, failures
HEAD = "run.json"
NAMES = (HEAD, "table.csv", "sub/deep.csv")
CALLS = ("rename", "replace", "fsync", "link", "unlink", "rmdir", "mkdir", "open")
SYSCALLS = ("renameat2", "rename", "fsync", "write", "unlink", "linkat", "mkdir", "openat", "flock")


def write(target: Path, text: str) -> None:
    """Write a small folder whose files all hold the same text."""
    with new_folder(target, marker=HEAD) as work:
        for name in NAMES:
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text)


def is_whole(folder: Path) -> bool:
    """Whether a folder holds all files of `write`, of one version, and what the user put there."""
    try:
        texts = {(folder / name).read_text() for name in NAMES}
        return texts <= {"old", "new"} and len(texts) == 1 and (folder / "precious.txt").read_text() == "x"
    except OSError:
        return False


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder in memory, where there is one: a disk takes long to settle."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


def fresh(place: Path) -> Path:
    """An old folder with a file of the user's, and nothing else."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    write(place / "p", "old")
    (place / "p" / "precious.txt").write_text("x")
    return place / "p"


class Fault:
    """Does something at the n-th call of the system."""

    def __init__(self, at: int, kind: str):
        self.at = at
        self.kind = kind
        self.count = 0

    def wrapped(self, function: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **kwargs: object) -> object:
            self.count += 1
            if self.count == self.at:
                if self.kind == "error":
                    raise OSError(5, "Input/output error")
                os.kill(os.getpid(), {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}[self.kind])
            return function(*args, **kwargs)

        return called


def struck(function: Callable[[], None], fault: Fault) -> bool:
    """Run a function in a process of its own, with a fault; whether it came to the fault."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 71
    status = 0
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in CALLS:
            setattr(os, name, fault.wrapped(getattr(os, name)))
        folders.write_manifest = fault.wrapped(folders.write_manifest)
        function()
        status = 0 if fault.count >= fault.at else 71
    except BaseException:
        status = 1
    finally:
        os._exit(status)


def patched_faults() -> Row:
    """An error, an interrupt and a kill at every call of the system."""
    attempts = failures = 0
    with memory_folder() as made:
        for kind in ("error", "interrupt", "kill"):
            for at in range(1, 400):
                target = fresh(made / "place")
                if not struck(lambda t=target: write(t, "new"), Fault(at, kind)):
                    break
                attempts += 1
                failures += not is_whole(find_standing(target))
                write(target, "new")  # what the dead left is tidied up
                failures += not is_whole(target)
    return "6 a fault at any call of the system while a folder is replaced (patched)", attempts, failures


PROGRAM = f"""
import sys
from pathlib import Path
from tellwhy.storage.folders import new_folder
with new_folder(Path(sys.argv[1]), marker={HEAD!r}) as work:
    for name in {NAMES!r}:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("new")
"""


def traced_faults(most: int = 6) -> Row:
    """The same from outside, by strace."""
    strace = shutil.which("strace")
    attempts = failures = 0
    if strace is None:
        return "6 the same, injected by strace (not installed here)", 0, 0
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with memory_folder() as made:
        for call in SYSCALLS:
            for what in ("signal=KILL", "signal=INT", "error=EIO"):
                for when in range(1, most + 1):
                    target = fresh(made / "place")
                    inject = ["-e", f"trace={call}", "-e", f"inject={call}:{what}:when={when}"]
                    command = [strace, "-f", "-qq", "--seccomp-bpf", "-o", os.devnull, *inject]
                    program = [sys.executable, "-c", PROGRAM, str(target)]
                    subprocess.run([*command, *program], capture_output=True, check=False, env=environment)
                    attempts += 1
                    failures += not is_whole(find_standing(target))
    return "6 the same, injected by strace", attempts, failures


FOREIGN = {
    "a head alone": {},
    "a schema": {HEAD: '{"schema": 2}'},
    "an empty list": {MANIFEST: "{}"},
    "a list of something else": {MANIFEST: '{"manifest_version": 3, "files": {"run.json": 1}}'},
    "a cut list": {MANIFEST: '{"schema": 1, "written_by": "tellwhy", "head"'},
    "another version": {MANIFEST: '{"schema": 9, "written_by": "tellwhy"}'},
    "a deep list": {MANIFEST: "[" * 100_000},
    "a list with another head": {
        MANIFEST: '{"schema": 1, "written_by": "tellwhy", "head": "x", "files": {}, "reserved": []}'
    },
}


def _writers() -> dict[str, Callable[[Path], object]]:
    X = np.random.default_rng(0).normal(size=(20, 2))
    explanation = Explanation(
        values=X, scores=X.sum(axis=1), base_values=np.zeros(20), method="m", kind="attribution"
    )
    return {
        HEAD: lambda place: write(place, "new"),
        "explanation.json": explanation.save,
    }


def foreign_folders() -> Row:
    """Folders that look like ours, and folders of ours with files of the user's."""
    attempts = failures = 0
    for head, writer in _writers().items():
        for contents in FOREIGN.values():
            with memory_folder() as made:
                place = made / "p"
                place.mkdir()
                held = {head: "{}", "precious.txt": "x", **contents}
                for name, text in held.items():
                    (place / name).write_text(text)
                with suppress(CannotWrite):
                    writer(place)
                attempts += 1
                failures += any((place / name).read_text() != text for name, text in held.items())
    more, lost = _own_folders_with_guests()
    return "2 folders of others, and files of the user's in ours", attempts + more, failures + lost


def _own_folders_with_guests() -> tuple[int, int]:
    """Files, edited files, links, empty folders and files in the way, all of which must be there afterwards."""
    attempts = failures = 0
    for head, writer in _writers().items():
        for guest in (
            "precious.txt",
            head,
            "sub/deeper/notes.txt",
            MANIFEST + ".bak",
            "table.csv",
            "arrays.npz",
        ):
            with memory_folder() as made, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                writer(made / "p")
                (made / "p" / guest).parent.mkdir(parents=True, exist_ok=True)
                (made / "p" / guest).write_text("the user's")
                writer(made / "p")
                attempts += 1
                held = [path.read_bytes() for path in (made / "p").rglob("*") if path.is_file()]
                failures += b"the user's" not in held
    return attempts, failures


def links() -> Row:
    """Links in the place of what is written: nothing that they lead to is changed."""
    attempts = failures = 0
    for name in ("report.html", "run", ".run.tellwhy-evil", ".report.html.tellwhy-evil"):
        for leads_to in ("precious.txt", "folder", "nothing"):
            with memory_folder() as made:
                (made / "precious.txt").write_text("x")
                (made / "folder").mkdir()
                (made / "folder" / "thesis.txt").write_text("x")
                (made / name).symlink_to(made / leads_to)
                with suppress(CannotWrite):
                    write(made / "run", "new")
                with suppress(CannotWrite), new_file(made / "report.html") as work:
                    work.write_text("page")
                attempts += 1
                kept = (made / "precious.txt").read_text() + (made / "folder" / "thesis.txt").read_text()
                failures += kept != "xx" or os.listdir(made / "folder") != ["thesis.txt"]
    return "6 links in the place of what is written", attempts, failures


def many_at_once(n: int = 200) -> Row:
    """Processes and threads that replace the same folder: one of them is there in the end, whole."""
    failures = 0
    with memory_folder() as made:
        target = fresh(made / "place")

        def attempt(i: int) -> None:
            with suppress(CannotWrite):
                write(target, "new" if i % 2 else "old")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(attempt, range(n)))
        failures += not is_whole(target)
        failures += sorted(os.listdir(target.parent)) != ["p"]
        failures += set(json.loads((target / MANIFEST).read_text())["files"]) != set(NAMES)
    return "6 many that replace the same folder at once", n, failures


def rows() -> list[Row]:
    """All attacks of this file."""
    return [foreign_folders(), patched_faults(), traced_faults(), links(), many_at_once()]
