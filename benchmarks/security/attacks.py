"""Claim: nothing is lost, nothing is run and nothing is certified that is not so, whatever the attempt.

Each line is a class of attacks; its number is that of the page on security. A failure is a file of the user's that was lost
or changed, code that was run, a claim that is false, or a traceback.

    python -m benchmarks.security.attacks            # all, six minutes
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import tellwhy
from benchmarks.security import (
    _files as _attacks_files,
    _folders as _attacks_folders,
    _numbers as _attacks_numbers,
)
from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.workflow import load_run

Row = tuple[str, int, int]
PACKAGE = Path(tellwhy.__file__).parents[1]
COMMAND = ["explain", "data.csv", "--out", "run", "--top", "3"]
STARTS = (["-P", "-m", "tellwhy"], ["-m", "tellwhy"])
HOSTILE = "open({mark!r}, 'a').write(__name__ + ' ')\n"


def table(place: Path) -> None:
    """A table and a file of labelled rows."""
    rng = np.random.default_rng(0)
    rows = [f"日本-{i},{rng.normal():.3f},{rng.normal():.3f}" for i in range(60)]
    (place / "data.csv").write_text("id,größe,weight\n" + "\n".join(rows) + "\n", encoding="utf-8")
    labelled = [f"{i % 3 + 1} 1:{rng.normal():.3f} 2:{i % 3 + rng.normal():.3f}" for i in range(30)]
    (place / "d.svm").write_text("\n".join(labelled) + "\n")


def run(
    place: Path, command: Sequence[str], limit: tuple[int, int] | None = None, **environment: str | None
) -> object:
    """Run a command in a folder."""
    given = {**os.environ, "PYTHONPATH": str(PACKAGE), **environment}
    return subprocess.run(
        command,
        cwd=place,
        env={name: value for name, value in given.items() if value is not None},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=None if limit is None else lambda: resource.setrlimit(limit[0], (limit[1], limit[1])),
        check=False,
    )


def imported_names() -> list[str]:
    """What the commands import, by the names that files of the working folder could have."""
    code = (
        "import sys, runpy; sys.argv = ['tellwhy', 'explain', 'data.csv', '--out', 'run']\n"
        "try: runpy.run_module('tellwhy', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('names:', *{name.split('.')[0] for name in sys.modules})"
    )
    with tempfile.TemporaryDirectory() as made:
        table(Path(made))
        done = run(Path(made), [sys.executable, "-P", "-c", code])
    found = set(done.stdout.decode().split("names:")[-1].split()) - {"__main__", "sys", "builtins", "tellwhy"}
    return sorted(found | {"mpi4py", "yaml", "openpyxl", "sitecustomize", "usercustomize", "torch", "polars"})


def pythons_own() -> set[str]:
    """What `python -m` imports from the folder before any code of a package is run: nobody can keep it from that."""
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "nothing.py").write_text("import sys; print(*sys.modules)")
        done = run(Path(made), [sys.executable, "-m", "nothing"])
    return {name.split(".")[0] for name in done.stdout.decode().split()}


def code_of_the_folder() -> Row:
    """Every name that is imported as a file of the working folder, with each way to start, and with ranks."""
    names = imported_names()
    before_us = pythons_own()
    ways = [[*start, *COMMAND] for start in STARTS]
    if importlib.util.find_spec("mpi4py"):
        ways += [[*start, "fit-svm", "d.svm", "--ranks", "2", "--out", "m"] for start in STARTS]
    attempts = failures = 0
    for way in ways:
        used = [name for name in names if way[0] == "-P" or name not in before_us]
        attempts += len(used)
        with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as aside:
            mark = Path(aside) / "PWNED"
            table(Path(made))
            for name in used:
                (Path(made) / f"{name}.py").write_text(HOSTILE.format(mark=str(mark)))
            done = run(Path(made), [sys.executable, *way])
            failures += len(set(mark.read_text().split())) if mark.exists() else 0
            failures += done.returncode != 0
    return "1 code of the working folder", attempts, failures


ENVIRONMENTS: dict[str, dict[str, str | None]] = {
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "unknown locale": {"LC_ALL": "xx_XX.nonsense", "PYTHONUTF8": "0"},
    "narrow": {"COLUMNS": "1", "TERM": "dumb"},
    "no home": {"HOME": None, "XDG_CACHE_HOME": None},
    "read-only home": {"HOME": os.devnull, "XDG_CACHE_HOME": f"{os.devnull}/cache"},
    "no TMPDIR": {"TMPDIR": "/nonexistent"},
}
CLOSED = (">&-", "2>&-", "<&-", ">&- 2>&- <&-")


def environments() -> Row:
    """Streams, encodings, homes and limits: a whole run, or an error in words."""
    start = [sys.executable, "-P", "-m", "tellwhy", *COMMAND]
    tries = [(start, None, environment) for environment in ENVIRONMENTS.values()]
    tries += [(["sh", "-c", f'exec "$@" {closed}', "sh", *start], None, {}) for closed in CLOSED]
    tries += [(start, (resource.RLIMIT_AS, size * 2**30), {}) for size in (2, 3)]
    tries += [(start, (resource.RLIMIT_FSIZE, size), {}) for size in (0, 100, 10_000)]
    failures = 0
    for command, limit, environment in tries:
        with tempfile.TemporaryDirectory() as made:
            table(Path(made))
            done = run(Path(made), command, limit, **environment)
            whole = done.returncode == 0 and len(load_run(Path(made) / "run").anomalies) == 3
            told = done.returncode == 1 and b"error: " in done.stderr and not (Path(made) / "run").exists()
            failures += not (whole or told) or b"Traceback" in done.stderr
    return "7 environments: streams, encodings, homes, limits", len(tries), failures


def main() -> None:
    """Run all attacks and write the table."""
    found = [code_of_the_folder(), environments(), *_attacks_folders.rows(), *_attacks_numbers.rows()]
    found += _attacks_files.rows()
    found.sort(key=lambda row: int(row[0].split()[0]))
    lines = pd.DataFrame(found, columns=["class of attack", "attempts", "failures"])
    text = "A failure is a file that was lost or changed, code that was run, a false claim, or a traceback:"
    publish("attacks", "Attacks", [(text, lines)])


if __name__ == "__main__":
    arguments(__doc__)
    main()
