"""Any table, in any format, with any options: a status that is declared, never a traceback, and a report."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from typer.testing import CliRunner

from fuzzing.random_tables import FORMATS, tables, write
from tellwhy.one_liner.explain import methods
from tellwhy.views.cli.main import app
from tellwhy.views.cli.options import DETECTORS

STATUSES = (0, 1, 2, 3)
FINISHED = (0, 3)
SLOW = ("DAGMM", "VAE")  # networks, which are trained for seconds
METHODS = ("auto", *methods()["name"])
ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
FEW = settings(max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=ANY)
MANY = settings(FEW, max_examples=150)


def run(*words: object) -> int:
    """Run a command in this process; whatever it lets through is raised with its traceback."""
    with warnings.catch_warnings():
        # Numbers at the edge of what floats hold overflow on the way; what is told of them is checked elsewhere.
        warnings.simplefilter("ignore", RuntimeWarning)
        result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        told = "".join(traceback.format_exception(result.exception))
        raise AssertionError(f"{words}\n{told}")
    assert result.exit_code in STATUSES, result.output
    return result.exit_code


@st.composite
def options(draw, columns, *, detectors):
    """Draw options of `explain` that may or may not go together with the columns."""
    column = st.sampled_from([*columns, *columns, "nothing"])
    words = [
        "--detector",
        draw(st.sampled_from(["auto", *detectors])),
        "--method",
        draw(st.sampled_from(METHODS)),
    ]
    if draw(st.booleans()):  # most often as most people call it
        words = []
    for name in (
        "--id",
        "--exclude",
        "--label",
        "--category",
        "--number",
        "--date",
        "--text",
        "--time",
        "--normal",
    ):
        if draw(st.integers(0, 19)) == 19:
            value = draw(column).replace(",", "")
            words += [name, f"{value}=7" if name in ("--normal",) else value]
    extras = [["--missing", "drop"], ["--missing", "error"], ["--alarms", "2"], ["--fdr", "0.2"], ["--json"]]
    extras += [
        ["--contamination", "0.1"],
        ["--top", "1"],
        ["--fail-on-alarms", "0"],
        ["--quiet"],
        ["--seed", "3"],
    ]
    for extra in draw(st.lists(st.sampled_from(extras), max_size=2, unique_by=lambda e: e[0])):
        words += extra
    return words


def explain_and_report(data, detectors):
    table = data.draw(tables())
    words = data.draw(options(list(table.columns), detectors=detectors))
    with tempfile.TemporaryDirectory() as place:
        file = write(table, Path(place), data.draw(st.sampled_from(FORMATS)))
        status = run("explain", file, "--out", Path(place) / "run", *words)
        if status in FINISHED:
            assert run("report", Path(place) / "run") == 0
            assert (Path(place) / "run" / "anomalies.csv").exists()


FAST = [name for name in DETECTORS if name not in SLOW]


@given(data=st.data())
@FEW
def test_some_tables_are_explained_or_refused(data):
    explain_and_report(data, FAST)


@pytest.mark.slow
@given(data=st.data())
@MANY
def test_tables_are_explained_or_refused(data):
    explain_and_report(data, FAST)


@pytest.mark.slow
@given(data=st.data())
@settings(FEW, max_examples=12)
def test_tables_are_explained_or_refused_with_networks(data):
    explain_and_report(data, SLOW)


@pytest.mark.slow
@given(data=st.data())
@settings(FEW, max_examples=60)
def test_tables_are_checked_compared_and_told_apart(data):
    table = data.draw(tables())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = write(table, folder, data.draw(st.sampled_from(FORMATS)))
        other = write(table.iloc[::2], folder, data.draw(st.sampled_from(FORMATS)))
        run("check", file, *data.draw(st.sampled_from([[], ["--json"]])))
        run("diff", file, other, *data.draw(st.sampled_from([[], ["--json"]])))
        if data.draw(st.integers(0, 9)) == 0:
            run("compare", file)
