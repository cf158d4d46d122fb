"""What commands can be given to read: sheets, several files, a pipe, a query."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli import app


@pytest.fixture(autouse=True)
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"age": rng.integers(18, 95, size=200), "pay": rng.normal(50, 9, size=200).round(2)})
    found.loc[[3, 150], "age"] = 999
    return found


def told(command, *arguments, given=None):
    result = CliRunner().invoke(app, [command, *map(str, arguments), "--json"], input=given)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def lines(found):
    (finding,) = found["findings"]
    return finding["lines"]


def test_check_takes_all_of_them(frame):
    frame.iloc[:100].to_csv("a.csv", index=False)
    frame.iloc[100:].to_csv("b.csv", index=False)
    with pd.ExcelWriter("book.xlsx") as book:
        frame.iloc[:50].to_excel(book, sheet_name="other", index=False)
        frame.to_excel(book, sheet_name="all", index=False)
    with closing(sqlite3.connect("s.db")) as connection:
        frame.to_sql("people", connection, index=False)
    assert lines(told("check", "a.csv", "b.csv")) == [5, 52]  # each in its own file
    assert told("check", "a.csv", "b.csv")["findings"][0]["files"] == ["a.csv", "b.csv"]
    shown = CliRunner().invoke(app, ["check", "a.csv", "b.csv"]).stdout
    assert "a.csv:5, b.csv:52" in " ".join(shown.split())
    assert lines(told("check", "-", given=frame.to_csv(index=False))) == [5, 152]
    assert lines(told("check", "book.xlsx", "--sheet", "2")) == [5, 152]
    found = told("check", "SELECT * FROM people", "--db", "s.db")
    assert (found["findings"][0]["rows"], lines(found)) == ([3, 150], [])


@pytest.mark.parametrize(
    ("arguments", "given", "folder"),
    [
        (["a.csv", "b.csv"], None, "tellwhy-a"),
        (["-"], "a.csv", "tellwhy-stdin"),
        (["SELECT * FROM people", "--db", "s.db"], None, "tellwhy-s"),
    ],
    ids=["files", "pipe", "query"],
)
def test_explain_writes_a_folder_named_after_them(frame, arguments, given, folder, tmp_path):
    frame.to_csv("a.csv", index=False)
    frame.to_csv("b.csv", index=False)
    with closing(sqlite3.connect("s.db")) as connection:
        frame.to_sql("people", connection, index=False)
    found = told("explain", *arguments, given=None if given is None else (tmp_path / given).read_bytes())
    assert found["out"] == folder
    assert (tmp_path / folder / "report.html").exists()


def test_mistakes_are_said(frame):
    frame.to_csv("a.csv", index=False)
    for arguments in (
        ["a.csv", "--sheet", "1"],
        ["SELECT 1"],
        ["DROP TABLE x", "--db", "a.csv"],
        ["a.csv", "no.csv"],
    ):
        result = CliRunner().invoke(app, ["explain", *arguments])
        assert result.exit_code == 1
        assert result.stderr.startswith("error:")


def test_too_many_alarms_have_a_status_of_their_own(frame, tmp_path):
    frame.loc[50, "pay"] = 5000
    frame.to_csv("a.csv", index=False)
    alarms = ["explain", "a.csv", "--contamination", "0.02", "--json"]
    result = CliRunner().invoke(app, [*alarms, "--fail-on-alarms", "3"])
    assert result.exit_code == 3
    assert "4 rows are alarms, more than the 3" in result.stderr
    assert json.loads(result.stdout)["anomalies"]  # everything is written all the same
    assert (tmp_path / "tellwhy-a" / "report.html").exists()
    assert CliRunner().invoke(app, [*alarms, "--fail-on-alarms", "4"]).exit_code == 0
