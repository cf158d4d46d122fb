"""Input that is valid and rare: no command fails on it, and the report of every run can be drawn again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli.main import app

N = 60


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=N), "y": rng.normal(size=N), "k": rng.choice(list("abc"), N)})
    table.loc[7, "x"] = 30.0
    return table


def done(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def explain_and_report(file, *words):
    out = file.parent / "run"
    done("explain", file, "--out", out, "--top", 3, *words)
    done("report", out)


LEFT_OUT = {
    "constant": [1.0] * N,
    "empty": [None] * N,
    "identifier": [f"row-{i}" for i in range(N)],
    "free text": [f"some text of row {i * 7919} as people write it" for i in range(N)],
}
NETWORKS = [pytest.param(name, marks=pytest.mark.slow) for name in ("DAGMM", "VAE")]


@pytest.mark.parametrize("detector", ["GaussianMixture", "PCADetector", *NETWORKS])
@pytest.mark.parametrize(
    "words", [[], ["--exclude", "y"], ["--reference", "r.csv"]], ids=["as it is", "told", "beside"]
)
def test_detectors_where_columns_are_left_out(frame, tmp_path, monkeypatch, detector, words):
    monkeypatch.chdir(tmp_path)
    table = frame.assign(**LEFT_OUT)
    table.to_csv("t.csv", index=False)
    table.to_csv("r.csv", index=False)
    explain_and_report(tmp_path / "t.csv", "--detector", detector, *words)


@pytest.mark.parametrize("detector", ["auto", "OneClassSVM"])
def test_the_method_that_others_are_compared_with_can_be_asked_for(frame, tmp_path, detector):
    frame.to_csv(tmp_path / "t.csv", index=False)
    explain_and_report(tmp_path / "t.csv", "--method", "RandomAttribution", "--detector", detector)


def test_runs_with_missing_cells_and_figures_that_are_none(frame, tmp_path):
    table = frame.copy()
    table.loc[3:20, "x"] = np.nan
    table.loc[3:40, "k"] = None
    table["wrong"] = table.index == 7
    table.to_csv(tmp_path / "t.csv", index=False)
    explain_and_report(tmp_path / "t.csv", "--label", "wrong")
    explain_and_report(tmp_path / "t.csv", "--top", 1, "--method", "Sensitivity", "--detector", "OneClassSVM")


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_durations(frame, tmp_path, unit):
    spans = pa.array([None if i == 3 else i * 7 for i in range(N)], pa.duration(unit))
    pq.write_table(pa.table({"span": spans, "x": frame["x"]}), tmp_path / "t.parquet")
    explain_and_report(tmp_path / "t.parquet")
    done("check", tmp_path / "t.parquet")
    done("diff", tmp_path / "t.parquet", tmp_path / "t.parquet")


def test_a_single_array_as_a_grid(tmp_path):
    values = np.random.default_rng(0).normal(size=(12, 12))
    values[5, 5] = 9.0
    np.save(tmp_path / "heat.npy", values)
    explain_and_report(tmp_path / "heat.npy", "--grid")


def test_times_in_a_zone_that_nobody_knows(frame, tmp_path):
    times = pa.array(range(N), pa.timestamp("us", tz="Mars/Phobos"))
    pq.write_table(pa.table({"when": times, "x": frame["x"]}), tmp_path / "t.parquet")
    explain_and_report(tmp_path / "t.parquet")
    explain_and_report(tmp_path / "t.parquet", "--time", "when")
