"""`tellwhy check` as people use it."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli import app


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 95, size=400), "pay": rng.normal(50, 9, size=400).round(2)})
    frame.loc[[3, 77], "age"] = 999
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def run(*arguments, expect=0):
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    assert result.exit_code == expect, result.output
    return result


def test_findings_are_told_with_their_lines(file):
    text = " ".join(run(file).stdout.split())
    assert "2 rows: age = 999, a placeholder (other values 18–94)." in text
    assert "age = 999 5, 79 treated as missing" in text  # the header is line 1
    assert text.endswith("400 rows × 2 columns, 1 finding.")


def test_json_has_rows_and_lines(file):
    told = json.loads(run(file, "--json").stdout)
    (finding,) = told["findings"]
    assert (finding["rows"], finding["lines"], finding["columns"]) == ([3, 77], [5, 79], ["age"])
    assert (told["n_rows"], told["n_cells_set_missing"]) == (400, 2)


def test_columns_are_left_out_and_read_as_told(file):
    left = json.loads(run(file, "--ignore", "age", "--json").stdout)
    assert left["findings"] == []
    told = json.loads(run(file, "--category", "age", "--json").stdout)
    assert [f["kind"] for f in told["findings"]] != ["placeholder"]  # of numbers, that is
    assert "Did you mean 'age'?" in run(file, "--ignore", "agee", expect=1).output
    assert "at least one" in run(file, "--ignore", "age,pay", expect=1).output


def test_nothing_found_is_said(tmp_path):
    frame = pd.DataFrame({"pay": np.random.default_rng(0).normal(50, 9, size=300)})
    frame.to_csv(tmp_path / "clean.csv", index=False)
    assert "300 rows × 1 column, nothing found." in " ".join(run(tmp_path / "clean.csv").stdout.split())


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    assert "Traceback" not in run(tmp_path / "none.csv", expect=1).output
