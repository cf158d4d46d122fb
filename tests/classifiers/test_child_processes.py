"""Ranks take no code from the working folder, and end with the process that started them."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

import tellwhy
from tellwhy.classifiers.svm.training.run import make_safe_environment, run_to_the_end

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
HOSTILE = "open({mark!r}, 'a').write(__name__ + ' ')\nraise SystemExit(77)\n"


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{i % 3 + 1} 1:{rng.normal():.3f} 2:{i % 3 + rng.normal():.3f}" for i in range(30)]
    (tmp_path / "d.svm").write_text("\n".join(lines) + "\n")
    return tmp_path / "d.svm"


def hostile_folder(place, mark):
    """A folder whose files are called like what Python and tellwhy import."""
    for name in ("mpi4py", "numpy", "scipy", "pandas", "numba", "sklearn", "typer", "rich", "joblib"):
        (place / f"{name}.py").write_text(HOSTILE.format(mark=str(mark)))
    for name in ("__future__", "typing", "json", "tempfile", "random", "sitecustomize", "usercustomize"):
        (place / f"{name}.py").write_text(HOSTILE.format(mark=str(mark)))
    (place / "mpiexec").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (place / "mpiexec").chmod(0o755)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_working_folder_is_not_imported_from(data, ranks, tmp_path_factory):
    pytest.importorskip("mpi4py")
    mark = tmp_path_factory.mktemp("mark") / "PWNED"
    hostile_folder(data.parent, mark)
    command = [sys.executable, "-m", "tellwhy", "fit-svm", data.name, "--ranks", str(ranks), "--out", "model"]
    environment = {**os.environ, "PYTHONPATH": str(Path(tellwhy.__file__).parents[1])}
    ran = subprocess.run(
        command, cwd=data.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert not mark.exists(), mark.read_text()
    assert ran.returncode == 0, ran.stderr
    assert (data.parent / "model").is_file()


def test_the_environment_of_ranks_names_no_relative_folder(monkeypatch):
    given = os.pathsep.join(["", "/absolute", ".", "lib", "/other"])
    monkeypatch.setenv("PYTHONPATH", given)
    assert make_safe_environment()["PYTHONPATH"] == os.pathsep.join(["/absolute", "/other"])
    assert make_safe_environment()["PYTHONSAFEPATH"] == "1"
    assert os.environ["PYTHONPATH"] == given
    monkeypatch.setenv("PYTHONPATH", ".")
    assert "PYTHONPATH" not in make_safe_environment()
    monkeypatch.delenv("PYTHONPATH")
    assert "PYTHONPATH" not in make_safe_environment()


def test_a_command_of_the_working_folder_does_not_start_ranks(tmp_path, monkeypatch):
    from tellwhy.classifiers.svm.training import run as training_job
    from tellwhy.core.errors import MissingExtra

    (tmp_path / "mpiexec").write_text("#!/bin/sh\ntouch PWNED\n")
    (tmp_path / "mpiexec").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    with pytest.raises(MissingExtra, match="needs mpiexec"):
        training_job.mpiexec()
    assert os.listdir() == ["mpiexec"]


def test_the_status_of_a_command_is_given():
    assert run_to_the_end([sys.executable, "-c", "raise SystemExit(5)"]) == 5
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def marked(mark):
    """Process ids whose environment carries the mark."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and place.name != str(os.getpid()):
            try:
                if mark.encode() in (place / "environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
    return found


def wait_until(condition, seconds=90):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)


@LINUX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_job_ends_its_ranks(number, data):
    pytest.importorskip("mpi4py")
    mark = uuid.uuid4().hex
    command = [sys.executable, "-P", "-m", "tellwhy", "fit-svm", data.name, "--ranks", "2", "--out", "model"]
    command += ["--tol", "1e-15", "--max-epochs", "1000000", "--checkpoint-every", "1"]
    environment = {**os.environ, "TELLWHY_TEST_MARK": mark}
    with subprocess.Popen(command, cwd=data.parent, env=environment, stderr=subprocess.PIPE) as process:
        wait_until((data.parent / "model-checkpoint").exists)
        assert len(marked(mark)) > 2
        process.send_signal(number)  # to this process alone, as a scheduler does
        process.stderr.read()
        assert process.wait(30) == (143 if number == signal.SIGTERM else 130)
    wait_until(lambda: marked(mark) == [], seconds=20)
    left = [path.name for path in data.parent.iterdir() if path.name.startswith(".model.")]
    assert left == []
