"""What the quality pass found, in the ranking, the explanation, the reasons and the findings of a run."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.results.result import Finding
from tellwhy.verdicts.findings import (
    LEAST_ADDED,
    MOST_ADDED,
    RowFindings,
    measure_addition,
    share_among_columns,
)
from tellwhy.workflow import explain_table


def orders(n=900):
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "price": rng.gamma(4.0, 10.0, n).round(2),
            "quantity": rng.integers(1, 9, n),
            "land": rng.choice(["DE", "FR", "PL"], n),
        }
    )
    table["total"] = (table["price"] * table["quantity"]).round(2)
    table.loc[:19, "age"] = 999
    table.loc[30, "total"] = 3.0
    return table


@pytest.fixture(scope="module")
def table():
    return orders()


@pytest.fixture(scope="module")
def run(table):
    return explain_table(table)


def by_row(run):
    return {anomaly.row: anomaly for anomaly in run.anomalies}


def test_a_repeated_placeholder_is_one_finding_and_twenty_alarms(run):
    found = next(f for f in run.findings if f.kind == "placeholder")
    assert found.columns == ["age"]
    assert found.rows == list(range(20))
    assert found.text.startswith("20 rows: age = 999, a placeholder")
    assert found.action == "treated as missing"
    for row in range(20):
        anomaly = by_row(run)[row]
        assert anomaly.above_threshold
        assert anomaly.reasons[0].feature == "age"
        assert anomaly.reasons[0].value == 999
        assert (anomaly.reasons[0].holds, anomaly.known_by) == (False, "rule")
        assert anomaly.reasons[0].text.startswith("age = 999, a placeholder")
        assert 18 <= anomaly.nearest_normal["age"] < 90
        assert list(anomaly.nearest_normal) == ["age"]
    assert run.n_flagged < 26


def test_a_broken_relation_names_all_its_columns(run):
    first = by_row(run)[30]
    assert first.above_threshold
    assert first.reasons[0].feature == "total"
    assert "price" in first.reasons[0].text
    assert "quantity" in first.reasons[0].text
    assert first.nearest_normal is None  # another row's total would not be price × quantity either


def test_the_explanation_adds_up_to_the_raised_scores(run):
    told = run.explanation
    np.testing.assert_allclose(
        told.base_values + told.values.sum(axis=1) + told.residual, told.scores, rtol=1e-12
    )
    np.testing.assert_allclose(told.scores, run.scores[[a.row for a in run.anomalies]], rtol=1e-12)
    age = run.columns.index("age")
    place = [a.row for a in run.anomalies].index(4)
    assert told.values[place, age] > 0.7 * told.scores[place]


def test_the_same_row_is_explained_alike_with_or_without_others_like_it(table):
    """Twenty rows with 999 do not vouch for each other."""
    alone = table.copy()
    alone.loc[1:19, "age"] = 40
    told = by_row(explain_table(alone))[0]
    assert told.above_threshold
    assert told.reasons[0].feature == "age"


def test_rows_that_are_odd_in_the_same_way_are_one_finding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    X[[5, 9, 70], 1] = [21.5, 24.0, 22.1]
    run = explain_table(X)
    found = next(f for f in run.findings if f.kind == "odd_rows" and len(f.rows) == 3)
    assert sorted(found.rows) == [5, 9, 70]
    assert found.columns == ["x1"]
    assert found.text.startswith("3 rows: x1 from 21.5 to 24, for example x1 = 24 (usually ")


def test_a_finding_adds_less_the_more_rows_it_has_and_never_too_little():
    def finding(n_rows, surprise):
        return Finding("placeholder", ("a",), tuple(range(n_rows)), surprise=surprise)

    assert measure_addition(finding(1, 100.0)) == MOST_ADDED
    assert measure_addition(finding(20, 100.0)) == pytest.approx(MOST_ADDED - np.log(20))
    assert measure_addition(finding(10**6, 100.0)) == LEAST_ADDED
    assert measure_addition(finding(5, 0.0)) == 0.0
    assert measure_addition(finding(0, 100.0)) == 0.0
    found = RowFindings.of([finding(2, 100.0), finding(1, 100.0)], 4)
    assert found.added.tolist() == pytest.approx(
        [2 * MOST_ADDED - np.log(2), MOST_ADDED - np.log(2), 0.0, 0.0]
    )


def test_rows_are_counted_anew_when_some_are_left_out():
    finding = Finding("placeholder", ("a",), (1, 4), surprise=30.0)
    gone = Finding("placeholder", ("b",), (0,), surprise=30.0)
    whole = Finding("vanished_level", ("c",), ())
    kept = RowFindings.of([finding, gone, whole], 6).without(np.array([1, 3, 4]))
    assert [f.rows for f in kept.findings] == [(0, 2), ()]
    assert len(kept.added) == 3
    assert [len(found) for found in kept.by_row(np.array([2, 1]))] == [1, 0]


def test_the_guilty_column_has_the_largest_part():
    assert share_among_columns(Finding("x", ("a",), ())) == {"a": 1.0}
    assert share_among_columns(Finding("x", ("a", "b", "c"), ())) == pytest.approx(
        {"a": 0.6, "b": 0.2, "c": 0.2}
    )


def test_rows_with_gaps_that_are_dropped_are_the_tables_own(table):
    with_gap = table.copy()
    with_gap["age"] = with_gap["age"].astype(float)
    with_gap.loc[50, "age"] = np.nan
    dropped = explain_table(with_gap, missing="drop")
    assert len(dropped.scores) == len(table) - 1
    assert any(f.kind == "placeholder" and 19 in f.rows for f in dropped.findings)


def test_nothing_of_the_users_is_changed(table):
    before = table.copy(deep=True)
    explain_table(table)
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize("columns", [["channel", "meal"], ["meal", "channel"]])
def test_a_pair_that_a_finding_tells_is_not_told_again(columns):
    rng = np.random.default_rng(0)
    channel = rng.choice(["web", "agency", "corporate"], 6000, p=[0.6, 0.33, 0.07])
    meal = rng.choice(["breakfast", "lunch", "dinner"], 6000, p=[0.6, 0.2, 0.2])
    meal[(channel == "corporate") & (meal == "lunch")] = "breakfast"
    channel[7] = "corporate"
    meal[7] = "lunch"
    table = pd.DataFrame({"channel": channel, "meal": meal})[columns].assign(x=rng.normal(size=6000))
    run = explain_table(table, top=1)
    anomaly = by_row(run)[7]
    assert [f.kind for f in run.findings if 7 in f.rows] == ["rare_pair"]
    assert sum("corporate" in reason.text for reason in anomaly.reasons) == 1
    assert sum(reason.share for reason in anomaly.reasons) <= 1.0 + 1e-9


def test_rows_with_one_and_the_same_value_are_told_without_an_example():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"bytes": rng.normal(900, 60, 800).round(), "ms": rng.normal(40, 5, 800).round(1)})
    table.loc[[3, 4, 5], "bytes"] = 5000
    (told,) = explain_table(table).findings
    assert told.text.startswith("3 rows: bytes = 5000 (usually ")


def test_a_slip_is_not_mended_by_the_value_of_another_row():
    rng = np.random.default_rng(3)
    plan = rng.choice(["basic", "business"], 1200, p=[0.9, 0.1])
    bill = (np.where(plan == "basic", 13.0, 130.0) * rng.lognormal(0, 0.1, 1200)).round(2)
    table = pd.DataFrame({"plan": plan, "bill": bill, "age": rng.integers(18, 90, 1200)})
    rows = np.flatnonzero(plan == "basic")[[4, 90, 300, 500, 700]]
    table.loc[rows, "bill"] *= 10
    anomalies = explain_table(table).anomalies[:5]
    assert {anomaly.row for anomaly in anomalies} == set(rows.tolist())
    for anomaly in anomalies:
        assert anomaly.nearest_normal is None
        assert " is 10 times too large for plan = basic (there usually 1" in anomaly.reasons[0].text
