"""What columns are, as told on the command line and as said there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli import app
from tellwhy.workflow import load_run

RUNNER = CliRunner()


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 120
    table = pd.DataFrame(
        {
            "day": [f"{d}|3|2024" for d in rng.integers(1, 29, n)],
            "price": [f"${v:,.2f}" for v in rng.lognormal(6, 1, n)],
            "status": rng.choice([1, 2, 3], n),
            "grade": rng.integers(1, 6, n),
            "note": rng.choice(["a", "b"], n),
            "size": rng.normal(size=n).round(3),
        }
    )
    table.loc[7, "price"] = "ask"
    table.to_csv("orders.csv", index=False)
    return tmp_path / "orders.csv"


def told(*arguments):
    result = RUNNER.invoke(app, ["explain", "orders.csv", "--json", *arguments])
    assert result.exit_code == 0, result.output
    columns = pd.read_parquet("tellwhy-orders/explanation/data.parquet")
    return json.loads(result.stdout), columns


@pytest.mark.usefixtures("file")
def test_how_columns_were_read_is_said():
    found, columns = told()
    notices = " ".join(found["notices"])
    assert "price: money in $, read as numbers; one cell, 'ask', is not written so" in notices
    assert "status: codes, used as categories." in notices
    assert columns["price"].dtype == np.float64


@pytest.mark.usefixtures("file")
def test_options_overrule():
    found, columns = told(
        *("--date", "day=%d|%m|%Y", "--number", "status", "--category", "grade"),
        *("--text", "note", "--ignore", "size", "--exclude", "price"),
    )
    assert load_run(Path("tellwhy-orders")).columns == ["day", "status", "grade"]
    assert columns["day"].dtype.kind == "M"
    assert found["date"] == ["day=%d|%m|%Y"]
    assert "status: " not in " ".join(found["notices"])


@pytest.mark.usefixtures("file")
def test_a_wrong_name_is_refused():
    result = RUNNER.invoke(app, ["explain", "orders.csv", "--number", "prise"])
    assert result.exit_code == 1
    assert "Did you mean 'price'" in " ".join(result.stderr.split())
    result = RUNNER.invoke(app, ["explain", "orders.csv", "--time", "day", "--category", "status"])
    assert result.exit_code == 1
    assert "--category does not go with events" in " ".join(result.stderr.split())
