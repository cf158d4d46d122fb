"""One cause, one entry: sixty rows with a new status are told once."""

import numpy as np
import pandas as pd
from zoo.anomalies import odd_row

from tellwhy.results.result import Finding, Reason, Typical
from tellwhy.verdicts.headline import count_causes, group_entries
from tellwhy.workflow import explain_table

USUAL = {"size": Typical("size", "number", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])}


def size(value, *, holds=True):
    return Reason("size", value, [1.0, 5.0], 0.9, holds, facts={"column": "number"})


def by_rule(value, n):
    finding = Finding("placeholder", ["age"], [], {"value": value}, n=n)
    return Reason("age", value, [], 0.9, kind="finding", finding=finding)


def rows_of(entries):
    return [[anomaly.row for anomaly in entry.anomalies] for entry in entries]


def test_rows_with_one_cause_are_one_entry_at_the_place_of_the_oddest():
    reasons = [size(99.0), by_rule(999, 70), size(7.0), size(-3.0), by_rule(999, 70), by_rule(0, 1)]
    anomalies = [odd_row(row, reasons=[reason]) for row, reason in enumerate(reasons)]
    entries = group_entries(anomalies, USUAL)
    assert rows_of(entries) == [[0, 2], [1, 4], [3], [5]]  # high, 999, low, 0
    assert [entry.n_rows for entry in entries] == [2, 70, 1, 1]
    assert count_causes(anomalies, USUAL) == 4


def test_verified_and_unverified_rows_and_rows_below_the_line_are_apart():
    anomalies = [odd_row(0, reasons=[size(9.0)]), odd_row(1, reasons=[size(9.0, holds=False)])]
    anomalies += [odd_row(row, is_alarm=False, reasons=[size(9.0)]) for row in (2, 3)]
    assert rows_of(group_entries(anomalies, USUAL)) == [[0], [1], [2], [3]]
    assert count_causes(anomalies, USUAL) == 2


def test_sixty_rows_with_a_new_status_are_one_entry():
    rng = np.random.default_rng(0)
    orders = pd.DataFrame(
        {"status": rng.choice(["open", "paid"], 1060), "total": rng.normal(50, 5, 1060).round(2)}
    )
    orders.loc[1000:, "status"] = "on hold"
    run = explain_table(orders.iloc[1000:], reference=orders.iloc[:1000], top=60)
    (entry,) = group_entries([a for a in run.anomalies if a.is_alarm], run.usual)
    assert (entry.n_rows, len(entry.anomalies)) == (60, 60)
    assert run.headline[0].startswith("60 of 60 rows are alarms, all with one cause (")


def test_rows_of_one_finding_crowd_nobody_out():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal([40, 50, 60], 5, size=(9000, 3)), columns=list("abc"))
    table.loc[:299, "a"] = -999.0
    table.loc[8000:8004, "b"] = [80.0, 80.5, 81.0, 81.5, 82.0]
    run = explain_table(table)
    assert run.n_flagged >= 305
    told = {anomaly.row for anomaly in run.anomalies}
    assert len(told) == 200
    assert told >= set(range(8000, 8005))
    scores = [anomaly.score for anomaly in run.anomalies]
    assert scores == sorted(scores, reverse=True)
    counts = {
        entry.first.reasons[0].feature: entry.n_rows for entry in group_entries(run.anomalies, run.usual)
    }
    assert counts["a"] == 300
