"""One row asked again: the same verdict as in its table, and what changes when its cells do."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.kinds.one_row import ask_opinion, change_cells, find_neighbours, judge_one, list_opinions
from tellwhy.kinds.table import explain_new
from tellwhy.kinds.table_model import fit_model


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["size", "weight", "age"])
    frame["city"] = rng.choice(["Oslo", "Rome", "Bern"], 300)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, 300), unit="D")
    frame.loc[[7, 70, 170], "size"] = [9.0, 11.0, -10.0]
    return frame


@pytest.fixture(scope="module")
def model(table):
    return fit_model(table)


@pytest.fixture(scope="module")
def run(model, table):
    return explain_new(model, table)


def test_a_row_alone_is_judged_as_in_its_table(model, run, table):
    for anomaly in run.anomalies[:4]:
        one = judge_one(model, table.iloc[[anomaly.row]])
        assert one.score == pytest.approx(anomaly.score, rel=1e-9)
        assert one.p_value == pytest.approx(anomaly.p_value, rel=1e-9)
        told = one.result.anomalies[0].reasons
        assert [reason.feature for reason in told] == [reason.feature for reason in anomaly.reasons]


def test_the_row_that_it_was_made_of_is_left_out(model, table):
    inner = judge_one(model, table.iloc[[7]]).batch.fitted.score.inner
    learned = model.reference.iloc[model.sample]
    place = int(np.flatnonzero(learned.index == 7)[0])
    for text in ("9.001", "0.5"):
        one = judge_one(model, table.iloc[[7]], {"size": text}, with_checks=False)
        encoded = one.batch.fitted.known.encoded[:1]
        without = inner.value(encoded, inner.points_of(np.array([place])))
        assert one.score == pytest.approx(float(without[0]), rel=1e-12)
    near = judge_one(model, table.iloc[[7]], {"size": "9.001"}, with_checks=False).score
    assert near > model.threshold  # beside the row itself it would look like nothing special


def test_an_ordinary_cell_makes_the_row_ordinary(model, table):
    assert judge_one(model, table.iloc[[7]]).score > model.threshold
    assert judge_one(model, table.iloc[[7]], {"size": "0.1"}).score < model.threshold


def test_without_checks_the_detector_alone_judges(model, table):
    odd = {"city": "Olso"}
    alone = judge_one(model, table.iloc[[20]], odd, with_checks=False)
    checked = judge_one(model, table.iloc[[20]], odd)
    assert not any(finding.surprise for finding in alone.result.findings)
    assert any("city" in found.columns and found.surprise for found in checked.result.findings)


def test_cells_are_read_as_their_columns_are(table):
    row = table.iloc[[20]]
    changed = change_cells(row, {"size": " −2.5 ", "city": "Bonn", "day": "2024-02-03", "age": ""})
    assert changed["size"].iloc[0] == -2.5
    assert changed["city"].iloc[0] == "Bonn"
    assert changed["day"].iloc[0] == pd.Timestamp("2024-02-03")
    assert np.isnan(changed["age"].iloc[0])
    assert row["size"].iloc[0] == table["size"].iloc[20]
    with pytest.raises(InvalidParameter, match="size holds a number"):
        change_cells(row, {"size": "large"})
    with pytest.raises(InvalidParameter, match="day holds a date"):
        change_cells(row, {"day": "someday"})
    with pytest.raises(InvalidInput, match="no column"):
        change_cells(row, {"colour": "red"})


def test_neighbours_are_ordinary_near_and_others(model, run, table):
    found = find_neighbours(model, table.iloc[[7]], 5)
    assert len(found.rows) == 5
    assert (np.diff(found.distances) >= 0).all()
    assert not set(found.rows.index) & {7, 70, 170}
    scores = pd.Series(run.scores, index=run.rows)
    assert (scores[found.rows.index] <= np.quantile(run.scores, 0.85)).all()
    own = find_neighbours(model, table.iloc[[100]], 1)
    assert own.rows.index[0] != 100
    assert own.distances[0] > 0


def test_another_method_is_asked_and_tested(model, table):
    assert "Occlusion" in list_opinions(model)
    assert "CommitteeShares" not in list_opinions(model)
    found = ask_opinion(model, table.iloc[[7]], "Occlusion")
    assert found.same_first
    assert found.explanation.method == "Occlusion"
    assert found.explanation.names()[int(found.explanation.values.argmax())] == "size"
    assert found.area <= found.random_area
    assert -1 <= found.correlation <= 1
    with pytest.raises(InvalidParameter):
        ask_opinion(model, table.iloc[[7]], "Magic")
