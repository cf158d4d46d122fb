"""What somebody marked as no trouble is not raised again: by its cause, and not by its row."""

import numpy as np
import pandas as pd
import pytest

import tellwhy
from tellwhy.bulk.run import explain_bulk
from tellwhy.core.errors import InvalidParameter
from tellwhy.kinds.marks import add_marks, make_marks
from tellwhy.workflow import explain_new, fit_model
from workflow.models.tables import orders


@pytest.fixture(scope="module")
def model():
    return fit_model(orders(400), id_column="id")


def month(seed, **cells):
    """A clean month with some cells changed: column → {row: value}."""
    frame = orders(150, seed=seed, month=2)
    for name, changed in cells.items():
        for row, value in changed.items():
            frame.loc[row, name] = value
    return frame


def alarms(run):
    return {anomaly.row for anomaly in run.anomalies if anomaly.above_threshold}


def test_a_placeholder_is_marked_by_its_value(model):
    first = month(1, age={3: 999.0, 4: 999.0})
    run = explain_new(model, first)
    assert {3, 4} <= alarms(run)
    marked = add_marks(model, make_marks(run, 3, "unknown age"))
    # Another row, another month: the same placeholder is held back; another one is not.
    later = explain_new(marked, month(2, age={70: 999.0, 80: 999.0, 90: -999.0}))
    assert not alarms(later) & {70, 80}
    assert 90 in alarms(later)
    assert any("2 rows were held back by 1 mark: unknown age (2)." in text for text in later.notes)
    assert later.n_flagged == len(alarms(later))


def test_what_the_detector_finds_is_marked_by_columns_and_side(model):
    run = explain_new(model, month(3, price={10: 900.0}, total={10: 900.0 * 3}, qty={10: 3}))
    assert 10 in alarms(run)
    marked = add_marks(model, make_marks(run, 10, "known supplier"))
    again = explain_new(marked, month(3, price={10: 900.0}, total={10: 900.0 * 3}, qty={10: 3}))
    assert 10 not in alarms(again)
    assert again.n_flagged == run.n_flagged - 1
    assert "held back" in again.headline[-1]
    # The row that was marked is not special: the cause is.
    elsewhere = explain_new(marked, month(4, price={20: 910.0}, total={20: 910.0 * 3}, qty={20: 3}))
    assert 20 not in alarms(elsewhere)
    other = explain_new(marked, month(4, age={10: 400.0}))
    assert 10 in alarms(other)


def test_a_row_that_is_odd_for_more_than_the_mark_is_raised(model):
    run = explain_new(model, month(5, age={3: 999.0}))
    marked = add_marks(model, make_marks(run, 3, "unknown age"))
    both = explain_new(marked, month(6, age={3: 999.0}, price={3: 900.0}, qty={3: 3}, total={3: 2700.0}))
    assert 3 in alarms(both)


def test_the_explanation_is_that_of_the_rows_that_are_told(model):
    frame = month(7, price={10: 900.0, 30: 950.0}, qty={10: 3, 30: 3}, total={10: 2700.0, 30: 2850.0})
    frame.loc[50, "age"] = 400.0
    run = explain_new(model, frame)
    marked = add_marks(model, make_marks(run, 10, "known"))
    told = explain_new(marked, frame)
    assert 30 not in alarms(told)
    assert 50 in alarms(told)
    assert len(told.explanation) == len(told.anomalies) == len(told.table_rows)
    for anomaly, (_, cells) in zip(told.anomalies, told.table_rows.iterrows(), strict=True):
        assert cells["id"] == anomaly.id == frame["id"].iloc[anomaly.row]
    assert np.allclose(told.explanation.scores, [a.score for a in told.anomalies])


def test_marks_are_kept_in_the_file(model, tmp_path):
    run = explain_new(model, month(1, age={3: 999.0}))
    marked = add_marks(add_marks(model, make_marks(run, 3, "one")), make_marks(run, 3, "two"))
    assert [mark.why for mark in marked.marks] == ["two"]
    again = tellwhy.load(tellwhy.save(marked, tmp_path / "m"))
    assert again.marks == marked.marks


def test_rows_that_were_not_explained_cannot_be_marked(model):
    with pytest.raises(InvalidParameter, match="not among the explained rows"):
        make_marks(explain_new(model, month(1)), 100_000, "?")


def test_block_by_block_marks_hold_back_too(model, tmp_path):
    frame = month(8, age={3: 999.0}, price={10: 900.0}, qty={10: 3}, total={10: 2700.0})
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    run = explain_new(model, frame)
    marked = add_marks(model, [*make_marks(run, 3, "age"), *make_marks(run, 10, "price")])
    for name, one in (("plain", model), ("marked", marked)):
        tellwhy.save(one, tmp_path / name)
    before = explain_bulk(tmp_path / "t.parquet", model=tmp_path / "plain", out=tmp_path / "a")
    after = explain_bulk(tmp_path / "t.parquet", model=tmp_path / "marked", out=tmp_path / "b")
    assert (after.n_alarms, after.n_held_back) == (before.n_alarms - 2, 2)
    assert after.run.n_flagged == after.n_alarms
    scores = pd.read_parquet(tmp_path / "b" / "parts" / "00000-scores.parquet")
    assert not scores["is_alarm"].iloc[[3, 10]].any()
    assert any("2 rows were held back" in text for text in after.run.notes)
