"""Where benchmarks write, and how a script starts itself again."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
IMAGES = ROOT / "docs" / "images"
TESTS = ROOT / "tests"


def running() -> str:
    """Name of the module that `python -m` was asked to run."""
    spec = sys.modules["__main__"].__spec__
    return spec.name if spec is not None else Path(sys.argv[0]).stem


def started_again(*words: str) -> list[str]:
    """The command of a child process that runs this script with other words."""
    return [sys.executable, "-m", running(), *words]
