"""The command where it is not at home: the result is whole, or an error is told; never a traceback."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tellwhy
from tellwhy.workflow import load_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and folders of Linux")
PACKAGE = Path(tellwhy.__file__).parent
COMMAND = [sys.executable, "-P", "-m", "tellwhy", "explain", "data.csv", "--out", "run", "--top", "3"]
HOSTILE = "open({mark!r}, 'a').write(__name__ + ' ')\nraise SystemExit(77)\n"
WITHOUT_TEMPORARY = """
import sys, tempfile
def nowhere():
    raise FileNotFoundError("No usable temporary directory found")
tempfile._get_default_tempdir = nowhere
sys.argv = sys.argv[1:]
from tellwhy.views.cli import main
main()
"""


@pytest.fixture
def here(tmp_path):
    """A folder with a table whose cells and names no old encoding has."""
    rng = np.random.default_rng(0)
    rows = [f"日本-{i},{rng.normal():.3f},{rng.normal():.3f},grün" for i in range(60)]
    rows[7] = "Ω → 7,40.0,0.1,grün"
    place = tmp_path / "here"
    place.mkdir()
    (place / "data.csv").write_text("id,größe,weight,colour\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return place


def ran(place, command=COMMAND, limits=(), **environment):
    """Run in a folder, with limits of the system; returns the status, after looking for tracebacks."""

    def limited():
        for what, amount in limits:
            resource.setrlimit(what, (amount, amount))

    given = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    done = subprocess.run(
        command,
        cwd=place,
        env={name: value for name, value in given.items() if value is not None},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=limited,
        check=False,
        timeout=300,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")[-2000:]
    assert done.returncode in (0, 1, 2, 3), (done.returncode, done.stderr[-500:])
    return done


def is_whole(place):
    run = load_run(place / "run")
    return len(run.anomalies) == 3 and (place / "run" / "report.html").stat().st_size > 1000


ENCODINGS = {
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ASCII": {"PYTHONIOENCODING": "ascii:strict"},
    "C locale": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "no locale": {"LC_ALL": "xx_XX.nonsense", "PYTHONUTF8": "0"},
    "narrow terminal": {"COLUMNS": "1", "TERM": "dumb"},
    "no home": {"HOME": None, "XDG_CACHE_HOME": None},
    "a home that cannot be written": {"HOME": os.devnull, "XDG_CACHE_HOME": f"{os.devnull}/cache"},
    "a temporary folder that is not there": {"TMPDIR": "/nonexistent"},
}


def some(values, names, fast):
    """Parameters of which only some are tried in every run of the tests: each takes seconds."""
    marks = {name: () if name in fast else pytest.mark.slow for name in names}
    return [
        pytest.param(value, id=name, marks=marks[name]) for value, name in zip(values, names, strict=True)
    ]


FAST = ("latin-1", "ASCII", "a home that cannot be written")


@pytest.mark.parametrize("environment", some(ENCODINGS.values(), ENCODINGS, FAST))
def test_settings_of_the_environment(environment, here):
    assert ran(here, **environment).returncode == 0
    assert is_whole(here)


CLOSED = [">&-", "2>&-", "<&-", ">&- 2>&- <&-"]


@pytest.mark.parametrize("closed", some(CLOSED, CLOSED, CLOSED[-1:]))
def test_closed_streams(closed, here):
    done = ran(here, ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND])
    assert done.returncode == 0
    assert is_whole(here)


def test_a_reader_who_goes_away(here):
    """`tellwhy explain … | head -0`."""
    done = ran(here, ["sh", "-c", '"$@" | true', "sh", *COMMAND])
    assert done.returncode == 0
    assert is_whole(here)


def test_no_temporary_folder_at_all(here):
    done = ran(here, [sys.executable, "-P", "-c", WITHOUT_TEMPORARY, *COMMAND[3:]])
    assert done.returncode == 0, done.stderr
    assert is_whole(here)


def test_two_gigabytes_of_addresses(here):
    done = ran(here, limits=[(resource.RLIMIT_AS, 2 * 2**30)], OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr[-1000:]
    assert is_whole(here)


@pytest.mark.parametrize("size", some([0, 1000, 20_000], ["0", "1000", "20000"], ["1000"]))
def test_files_that_cannot_grow(size, here):
    """As on a full disk: an error, and nothing that is half written."""
    ran(here)
    before = (here / "run" / "result.json").read_bytes()
    done = ran(here, limits=[(resource.RLIMIT_FSIZE, size)], HOME=os.devnull)
    assert done.returncode == 1
    assert b"Cannot write" in done.stderr
    assert (here / "run" / "result.json").read_bytes() == before
    assert is_whole(here)
    assert sorted(os.listdir(here)) == ["data.csv", "run"]


def test_a_hostile_folder(here, tmp_path):
    """Files called like what the command imports, settings of numba's, and folders called like ours."""
    mark = tmp_path / "PWNED"
    names = [
        "numpy",
        "pandas",
        "numba",
        "openpyxl",
        "yaml",
        "typer",
        "json",
        "typing",
        "plotly",
        "jinja2",
        "mpi4py",
    ]
    for name in [*names, "sitecustomize", "usercustomize", "duckdb", "polars", "torch", "sklearn"]:
        (here / f"{name}.py").write_text(HOSTILE.format(mark=str(mark)))
    (here / ".numba_config.yaml").write_text("cache_dir: .\n")
    (here / ".run.tellwhy-evil").symlink_to(here)
    for start in (COMMAND, [sys.executable, "-m", *COMMAND[3:]]):
        assert ran(here, start).returncode == 0
        assert is_whole(here)
    assert not mark.exists(), mark.read_text()
    assert not list(here.glob("*.nbi"))


def test_a_folder_that_was_removed(here, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && exec "$@"'
    command = [*COMMAND[:5], str(here / "data.csv"), "--out", str(here / "run"), "--top", "3"]
    done = ran(here, ["sh", "-c", script, "sh", *command])
    assert done.returncode == 0, done.stderr
    assert is_whole(here)


def test_a_folder_of_somebody_else(here):
    """The reproduction: any run.json marked a folder as ours."""
    (here / "run").mkdir()
    (here / "run" / "result.json").write_text("{}\n")
    (here / "run" / "precious.txt").write_text("x\n")
    done = ran(here)
    assert done.returncode == 1
    assert b"was not written by tellwhy" in done.stderr
    assert sorted(os.listdir(here / "run")) == ["precious.txt", "result.json"]


@pytest.mark.slow
def test_a_package_that_cannot_be_written(here, tmp_path):
    """Neither home nor install can be written: nothing that was compiled is kept."""
    copy = tmp_path / "site" / "tellwhy"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("a file, so that no folder can be made there")
    done = ran(here, HOME=os.devnull, XDG_CACHE_HOME=f"{os.devnull}/cache", PYTHONPATH=str(copy.parent))
    assert done.returncode == 0, done.stderr[-1000:]
    assert is_whole(here)
