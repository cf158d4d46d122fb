"""What is written of a run for people and programs to read: the spreadsheet, the scores, the records."""

import csv
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from zoo.anomalies import moved

from tellwhy.storage.csv_cells import neutralise
from tellwhy.verdicts.run_io import record_anomaly
from tellwhy.workflow import explain_table, load_run, save_run


@pytest.fixture(scope="module")
def run():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 3)), columns=["a", "b", "c"])
    table.loc[[4, 5], "b"] = [14.0, -15.0]
    names = [f"row {i}" for i in range(100)]
    names[4] = "=HYPERLINK(1)"
    return explain_table(table.assign(name=names), id_column="name", top=4)


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return save_run(run, tmp_path_factory.mktemp("runs") / "run")


def test_the_spreadsheet_lists_what_was_found_in_order(run, folder):
    with (folder / "anomalies.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(run.anomalies)
    for rank, (line, anomaly) in enumerate(zip(lines, run.anomalies, strict=True), start=1):
        assert int(line["rank"]) == rank
        assert int(line["row"]) == anomaly.row
        assert float(line["score"]) == anomaly.score
        assert float(line["p_value"]) == anomaly.p_value
        assert line["flagged"] == str(anomaly.above_threshold)
        assert [line[f"reason_{k + 1}"] for k in range(len(anomaly.reasons))] == [
            r.text for r in anomaly.reasons
        ]
        assert line["id"] == ("'=HYPERLINK(1)" if anomaly.row == 4 else anomaly.id)
    assert {"True", "False"} >= {line["flagged"] for line in lines}


def test_spreadsheets_are_told_the_encoding(folder):
    assert (folder / "anomalies.csv").read_bytes().startswith(b"\xef\xbb\xbf")  # else ä is read as Ã¤


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_the_spreadsheet_is_a_formula(run, tmp_path, start):
    assert neutralise(f"{start}1") == f"'{start}1"
    first = run.anomalies[0]
    hostile = [replace(reason, feature=start + reason.feature) for reason in first.reasons]
    changed = replace(run, anomalies=[replace(moved(first, name=f"{start}1"), reasons=hostile)])
    save_run(changed, tmp_path / "run")
    with (tmp_path / "run" / "anomalies.csv").open(encoding="utf-8-sig", newline="") as file:
        line = next(csv.DictReader(file))
    assert line["id"] == f"'{start}1"
    assert [line[f"reason_{k + 1}"] for k in range(len(hostile))] == [f"'{r.text}" for r in hostile]


def test_scores_are_kept_with_their_rows(run, folder):
    stored = pd.read_parquet(folder / "scores.parquet")
    np.testing.assert_array_equal(stored["row"], np.arange(100))
    np.testing.assert_array_equal(stored["score"], run.scores)


def test_records_hold_what_is_shown(run):
    for anomaly in run.anomalies:
        record = json.loads(json.dumps(record_anomaly(anomaly)))
        assert (record["row"], record["id"], record["score"]) == (anomaly.row, anomaly.id, anomaly.score)
        assert record["percentile"] == anomaly.percentile
        assert record["above_threshold"] is anomaly.above_threshold
        told = [(r["feature"], r["value"], r["typical"], r["share"]) for r in record["reasons"]]
        assert told == [(r.feature, r.value, list(r.typical), r.share) for r in anomaly.reasons]
        assert record.get("nearest_normal") == anomaly.nearest_normal
    assert any(a.nearest_normal for a in run.anomalies)


def test_all_of_a_run_comes_back(run, folder):
    again = load_run(folder)
    for name in (
        "source",
        "summary",
        "threshold",
        "anomalies",
        "column_shares",
        "fingerprint",
        "created",
        "versions",
    ):
        assert getattr(again, name) == getattr(run, name), name
    assert list(again.notices) == list(run.notices)
    assert list(again.columns) == list(run.columns)
    assert again.evidence == run.evidence
    np.testing.assert_array_equal(again.rows, run.rows)
    pd.testing.assert_frame_equal(again.table_rows, run.table_rows, check_column_type=False)
    np.testing.assert_array_equal(again.explanation.data, run.explanation.data)
