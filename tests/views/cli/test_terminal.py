"""What strangers wrote is shown on a terminal, never obeyed; any stream takes what is printed."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from rich.table import Table
from typer.testing import CliRunner

from tellwhy.core.progress import stage
from tellwhy.views.cli import screen, terminal
from tellwhy.views.cli.main import app

EVIL = "evil\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e\u2028x"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 80
    frame = pd.DataFrame(
        {"x": rng.normal(size=n), EVIL: rng.normal(size=n), "new\nline[red]": rng.normal(size=n)}
    )
    frame["label"] = rng.choice([EVIL, "[bold]b"], n)
    frame["id"] = [f"r{EVIL}{i}" for i in range(n)]
    frame.iloc[3, 1] = 50.0
    frame.iloc[5, 2] = 80.0
    place = tmp_path_factory.mktemp("terminal")
    frame.to_csv(place / f"{EVIL}.csv", index=False)
    frame.to_csv(place / "t.csv", index=False)
    return place


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "{}", "--id", "id", "--out", "o"],
        ["explain", "{}", "--id", "id", "--out", "o", "--json"],
        ["check", "{}"],
        ["diff", "{}", "t.csv"],
        ["explain", "{}", "--columns", EVIL + "!", "--out", "o"],
        ["explain", f"no{EVIL}.csv"],
        ["explain", "{}", "--sheet", EVIL],
        ["report", f"no{EVIL}"],
    ],
    ids=lambda command: " ".join(command[:1] + command[2:3]),
)
def test_nothing_that_a_terminal_obeys_is_printed(folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, [part.format(f"{EVIL}.csv") for part in command])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.output
    assert not CONTROLS.search(result.output), repr(CONTROLS.search(result.output))
    if "--json" in command:
        assert json.loads(result.stdout)["anomalies"][0]["id"].startswith("r" + EVIL[:9])


def test_the_console_shows_controls_wherever_they_come_from():
    file = io.StringIO()
    console = terminal.SafeConsole(file=file, width=200)
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    console.print(table)
    console.print(f"[bold]{EVIL}[/]")
    assert not CONTROLS.search(file.getvalue())
    assert file.getvalue().count("\\x1b]0;pwned\\x07") >= 4


def test_line_ends_of_strangers_make_no_lines():
    assert terminal.escape("a\nerror: [red]b") == "a\\nerror: \\[red]b"
    assert terminal.make_visible("a\nb", lines=True) == "a\nb"


def test_what_is_being_done_is_shown_without_controls(monkeypatch):
    shown = []
    monkeypatch.setattr(screen.Progress, "update", lambda *_, description, **__: shown.append(description))
    with screen.progress_bar():
        stage(f"reading {EVIL}[red]")
    assert shown
    assert not any(map(CONTROLS.search, shown))


def command_line(*words, cwd, **settings):
    code = "import sys; sys.argv[0] = 'tellwhy'; from tellwhy.views.cli import main; main()"
    environment = {**os.environ, **settings.pop("env", {})}
    words = [sys.executable, "-c", code, *words]
    return subprocess.run(words, cwd=cwd, env=environment, check=False, **settings)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("options", [[], ["--json", "--quiet"]], ids=["words", "JSON"])
def test_any_encoding_of_stdout_will_do(folder, encoding, options):
    words = ["explain", "t.csv", "--id", "id", "--out", "o", "--top", "3", *options]
    done = command_line(*words, cwd=folder, capture_output=True, env={"PYTHONIOENCODING": encoding})
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    told = done.stdout.decode(encoding)
    assert json.loads(told)["n_flagged"] >= 1 if options else "Report: o" in told


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("redirection", "status"),
    [
        (">&-", 0),
        (">&- 2>&-", 0),
        (">/dev/full", 1),
        ("2>/dev/full", 0),
        (">/dev/full 2>&1", 1),
        ("| true", 1),
    ],
)
def test_streams_that_take_nothing_make_no_traceback(folder, redirection, status):
    code = "import sys; sys.argv[0] = 'tellwhy'; from tellwhy.views.cli import main; main()"
    shell = f'"$PY" -c "$CODE" methods {redirection}; echo "status ${{PIPESTATUS[0]}}" >&3'
    done = subprocess.run(
        ["bash", "-c", f"{{ {shell}; }} 3>&2"],
        cwd=folder,
        capture_output=True,
        env={**os.environ, "PY": sys.executable, "CODE": code},
        check=False,
    )
    told = done.stderr.decode()
    assert "Traceback" not in told
    assert "Exception ignored" not in told
    # Whoever reads a pipe may be gone before or after the last character: both are right.
    assert f"status {status}" in told or (redirection == "| true" and "status 0" in told)


def test_too_little_memory_is_told(monkeypatch, folder):
    def hungry(*_, **__):
        raise MemoryError

    monkeypatch.setattr("tellwhy.one_liner.explain.methods", hungry)
    result = CliRunner().invoke(app, ["methods"])
    assert result.exit_code == 1
    assert "not enough memory" in result.output
