"""Help is fast and true: it loads nothing heavy, and names what there is. Commands load what they use."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner
from views.example_run import example_run

from tellwhy.core.registry import cards
from tellwhy.views.cli import app
from tellwhy.views.cli.options import DETECTORS
from tellwhy.workflow import save_run

COMMANDS = [
    "explain",
    "fit",
    "mark",
    "check",
    "repair",
    "diff",
    "compare",
    "app",
    "report",
    "methods",
    "network",
    "insight",
    "fit-svm",
    "predict",
    "watch",
    "serve",
    "mcp",
]
HEAVY = ("numpy", "pandas", "scipy", "sklearn", "numba", "torch", "plotly", "pyarrow", "jinja2")


def loaded_by(*arguments: str, cwd: Path | None = None) -> set[str]:
    """Heavy modules that one command loads, in a process of its own."""
    code = f"""
        import sys
        from tellwhy.views.cli import app
        try:
            app({list(arguments)!r})
        except SystemExit as done:
            assert not done.code, done.code
        print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules))
    """
    call = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=cwd, timeout=120)
    return set(done.stdout.split("loaded:")[-1].split())


def test_the_commands_are_listed_in_order() -> None:
    assert list(get_command(app).commands) == COMMANDS  # type: ignore[attr-defined]
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f" {name} " in text for name in COMMANDS)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)], ids=" ".join
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(*arguments) == set()


def test_every_detector_is_named() -> None:
    assert tuple(card.name for card in cards("detector")) == DETECTORS
    text = " ".join(CliRunner().invoke(app, ["explain", "--help"]).stdout.replace("│", "").split())
    assert f"auto, {', '.join(DETECTORS)}." in text


def test_a_page_is_built_without_models_and_figures(tmp_path: Path) -> None:
    save_run(example_run(60, top=3), tmp_path / "run")
    loaded = loaded_by("report", "run", cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()
    assert not loaded & {"torch", "plotly", "numba", "sklearn"}


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_described(name: str) -> None:
    for option in get_command(app).commands[name].params:  # type: ignore[attr-defined]
        assert option.help, f"{name} {option.name}"
        assert option.help.endswith((".", "`"))
