"""Prose is spelt right: README, pages, docstrings. `[tool.codespell]` in pyproject.toml says which words are meant."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROSE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "src", "examples", "benchmarks/README.md"]


def spell(*paths):
    command = [sys.executable, "-m", "codespell_lib", *paths]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout


def test_nothing_is_misspelt():
    pytest.importorskip("codespell_lib")
    assert spell(*PROSE) == ""


def test_a_slip_is_noticed(tmp_path):
    pytest.importorskip("codespell_lib")
    (tmp_path / "page.md").write_text("This is teh end.\n")
    assert "teh ==> the" in spell(str(tmp_path / "page.md"))
