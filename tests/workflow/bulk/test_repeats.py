"""What blocks cannot see by themselves: rows that repeat those of others, and marks by the value found."""

import json

import numpy as np
import pandas as pd
import pytest

import tellwhy
from tellwhy.bulk import blocks
from tellwhy.bulk.repeats import find_copies
from tellwhy.bulk.run import explain_bulk
from tellwhy.checks.mistakes import REPEATED_ELSEWHERE
from tellwhy.kinds.marks import add_marks, make_marks
from tellwhy.workflow import fit_model
from workflow.bulk.runs import GROUP, readings, run_here


@pytest.fixture(autouse=True)
def small_and_here(monkeypatch):
    """Small blocks, explained in this process: processes are not the matter."""
    run_here(monkeypatch)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", GROUP)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tellwhy.save(fit_model(readings(240, 0).query("b < 20")), tmp_path_factory.mktemp("m") / "m")


def elsewhere(frame, model, place):
    frame.to_parquet(place / "t.parquet", row_group_size=GROUP, index=False)
    result = explain_bulk(place / "t.parquet", model=model, out=place / "out")
    told = json.loads((place / "out" / "parts.json").read_text())["findings"]
    assert [finding.text for finding in result.run.findings] == [each["text"] for each in told]
    return [finding.text for finding in result.run.findings if finding.kind == REPEATED_ELSEWHERE.kind]


def test_rows_of_another_block_that_come_again_are_told(model, tmp_path):
    frame = readings(12 * GROUP, 1)
    again = frame.iloc[10:40]
    found = elsewhere(pd.concat([frame, again], ignore_index=True), model, tmp_path)
    assert len(found) == 1
    assert found[0].startswith("30 rows repeat a row of another block in all 5 columns")
    assert f"is row {12 * GROUP} of t.parquet, which repeats row 10 of t.parquet" in found[0]


def test_rows_that_are_equal_by_chance_are_not_told(tmp_path):
    rng = np.random.default_rng(3)

    def coarse(n):  # some 8,000 different rows: a few of hundreds are equal, in one block as in two
        return pd.DataFrame({"a": rng.integers(0, 90, n), "b": rng.integers(0, 90, n)})

    path = tellwhy.save(fit_model(coarse(300)), tmp_path / "m")
    frame = coarse(8 * GROUP)
    n_again = int(frame.duplicated().sum())
    assert 5 < n_again < 0.05 * len(frame)  # else it is for another reason that they are not told
    assert not elsewhere(frame, path, tmp_path)


def test_rows_that_are_all_different_are_not_told(model, tmp_path):
    assert not elsewhere(readings(6 * GROUP, 1), model, tmp_path)


def test_copies_against_a_plain_loop():
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 40, 60).astype(np.uint64)
    parts = np.repeat(np.arange(6), 10)
    found = find_copies(hashes, parts)
    first = [next(j for j in range(60) if hashes[j] == hashes[i]) for i in range(60)]
    rows = [i for i in range(60) if parts[i] != parts[first[i]]]
    assert found.rows.tolist() == rows
    assert found.firsts.tolist() == [first[i] for i in rows]
    pairs = [(i, j) for i in range(60) for j in range(i) if hashes[i] == hashes[j]]
    assert found.within == sum(parts[i] == parts[j] for i, j in pairs)
    assert found.across == sum(parts[i] != parts[j] for i, j in pairs)


def test_a_mark_in_a_run_of_blocks_is_of_the_value_that_was_found(tmp_path):
    """age = 999 is known; another placeholder, and another column, are raised as before."""
    rng = np.random.default_rng(0)

    def people(n, **cells):
        age = rng.integers(18, 90, n).astype(float)
        frame = pd.DataFrame({"age": age, "height": rng.normal(170, 8, n).round(1)})
        frame["weight"] = (frame["height"] - 100 + rng.normal(0, 5, n)).round(1)
        for row, value in cells.get("age", {}).items():
            frame.loc[row, "age"] = value
        return frame

    path = tellwhy.save(fit_model(people(300)), tmp_path / "m")
    first = people(3 * GROUP, age={70: 999.0, 71: 999.0, 130: 999.0})
    first.to_parquet(tmp_path / "one.parquet", row_group_size=GROUP, index=False)
    result = explain_bulk(tmp_path / "one.parquet", model=path, out=tmp_path / "a")
    assert {70, 71, 130} <= {anomaly.row for anomaly in result.run.anomalies}
    marks = make_marks(result.run, 71, "age unknown")
    assert any(mark.cause == '["placeholder", ["age"], "999"]' for mark in marks)
    tellwhy.save(add_marks(tellwhy.load(path), marks), tmp_path / "marked")
    second = people(3 * GROUP, age={5: 999.0, 100: 999.0, 150: -999.0})
    second.to_parquet(tmp_path / "two.parquet", row_group_size=GROUP, index=False)
    plain = explain_bulk(tmp_path / "two.parquet", model=path, out=tmp_path / "b")
    after = explain_bulk(tmp_path / "two.parquet", model=tmp_path / "marked", out=tmp_path / "c")
    raised = {anomaly.row for anomaly in after.run.anomalies if anomaly.above_threshold}
    assert {5, 100, 150} <= {anomaly.row for anomaly in plain.run.anomalies}
    assert 150 in raised
    assert not raised & {5, 100}
    assert after.n_held_back == 2


def test_the_oddest_alarms_are_found_without_opening_every_part(model, tmp_path, monkeypatch):
    monkeypatch.setattr("tellwhy.bulk.merge.MOST_TOLD", 4)
    frame = readings(5 * GROUP, 1)
    frame.loc[[10, 70, 71, 72, 200], "b"] = [90.0, 95.0, 92.0, 91.0, 93.0]
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=GROUP, index=False)
    result = explain_bulk(tmp_path / "t.parquet", model=model, out=tmp_path / "out")
    parts = sorted((tmp_path / "out" / "parts").glob("*-alarms.parquet"))
    alarms = pd.concat([pd.read_parquet(part) for part in parts])
    oddest = alarms.sort_values("score", ascending=False, kind="stable").head(4)
    assert [anomaly.row for anomaly in result.run.anomalies] == oddest["row"].tolist()
    assert [anomaly.score for anomaly in result.run.anomalies] == oddest["score"].tolist()
    assert len(alarms) > 4
