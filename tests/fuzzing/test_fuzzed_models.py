"""Model files that somebody changed: refused, or used without harm to the process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FEW = 160
MANY = 2_000
PARTS = 10


def attacked(folder, seed, count):
    """Try so many changes in a process of its own; what it says, or what it was doing when it died."""
    report = folder / "at"
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "fuzzing.model_attacks", str(seed), str(count), str(report)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode} at {report.read_text()}\n{done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def test_a_changed_model_never_ends_the_process(tmp_path):
    found = attacked(tmp_path, 0, FEW)
    assert found["refused"] > FEW / 10
    assert found["used"] > FEW / 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_changed_model_of_many_ends_the_process(part, tmp_path):
    assert attacked(tmp_path, 10_000 + part * MANY, MANY)["used"] > MANY / 10
