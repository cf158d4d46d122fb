"""`explain_graph(time=…)`: what happens in a series is told as events, beside the latent classes."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.workflow import explain_graph

EVENTS = ("spike", "passing_shift", "level_shift", "drift", "stuck")


def sensor(seed=0, weeks=5):
    rng = np.random.default_rng(seed)
    times = pd.date_range("2024-01-29", periods=weeks * 7 * 24, freq="h")
    hour = times.hour.to_numpy()
    noise = rng.normal(size=len(times))
    is_work = (times.day_of_week < 5) & (hour >= 8) & (hour < 18)
    return pd.DataFrame(
        {
            "time": times,
            "temperature": (20 + 5 * np.sin(2 * np.pi * (hour - 9) / 24) + 3 * is_work + noise / 2).round(2),
            "load": (100 + 40 * is_work + 5 * rng.normal(size=len(times))).round(1),
        }
    )


def events(frame, **settings):
    run = explain_graph(frame, time="time", n_classes=2, **settings).run
    return run, [finding for finding in run.findings if finding.kind in EVENTS]


@pytest.fixture(scope="module")
def broken():
    frame = sensor()
    at = int(np.flatnonzero(frame["time"] == "2024-02-12 02:00")[0])  # a Monday
    frame.loc[at : at + 3, "temperature"] += 8.3
    frame.loc[500, "load"] = 300.0
    return frame, at


def test_an_event_is_one_finding(broken):
    frame, at = broken
    run, found = events(frame)
    shift = next(finding for finding in found if finding.kind == "passing_shift")
    assert list(shift.rows) == [at, at + 1, at + 2, at + 3]
    words = "4 rows: 2024-02-12 from 02:00 to 05:00: temperature is "
    assert shift.text.startswith(words)
    size, _, rest = shift.text.removeprefix(words).partition(" ")
    assert float(size) == pytest.approx(8.3, abs=0.8)
    assert rest == "above what is usual for Monday nights."
    spike = next(finding for finding in found if finding.kind == "spike")
    assert list(spike.rows) == [500]
    assert len(found) == 2
    flagged = {a.row for a in run.anomalies if a.above_threshold}
    assert {at, at + 1, at + 2, at + 3, 500} <= flagged
    first = next(a for a in run.anomalies if a.row == 500)
    assert first.reasons[0].feature == "load"
    assert first.reasons[0].text.startswith("load = 300: 2024-02-18 20:00: load ")


def test_order_does_not_matter(broken):
    frame, _ = broken
    order = np.random.default_rng(0).permutation(len(frame))
    _, sorted_ = events(frame)
    _, shuffled = events(frame.iloc[order].reset_index(drop=True))
    assert [finding.text for finding in sorted_] == [finding.text for finding in shuffled]
    assert [sorted(order[list(f.rows)]) for f in shuffled] == [sorted(f.rows) for f in sorted_]


@pytest.mark.parametrize("seed", range(4))
def test_nothing_happens(seed):
    run, found = events(sensor(20 + seed))
    assert found == []
    assert run.n_flagged <= 1
    assert any("Compared with the same hour of the week" in text for text in run.notes)


def test_stuck_readings_are_missing_afterwards():
    frame = sensor(1)
    frame.loc[300:325, "load"] = frame.loc[300, "load"]
    _, found = events(frame)
    assert [finding.kind for finding in found] == ["stuck"]
    assert found[0].action == "treated as missing"
    assert list(found[0].rows) == list(range(301, 326))


def test_a_new_level_is_told_and_no_alarm():
    frame = sensor(3)
    frame.loc[500:, "temperature"] += 4
    run, found = events(frame)
    assert [finding.kind for finding in found] == ["level_shift"]
    assert abs(found[0].rows[0] - 500) <= 2
    assert "from here on temperature is " in found[0].text
    assert " higher than before (" in found[0].text
    assert run.n_flagged <= 1


def test_gaps_missing_cells_and_a_time_that_is_a_number():
    frame = sensor(2).drop(index=range(100, 130)).reset_index(drop=True)
    frame.loc[[5, 50, 51], "load"] = np.nan
    frame.loc[400, "load"] = 300.0
    _, found = events(frame)
    assert [(finding.kind, list(finding.rows)) for finding in found] == [("spike", [400])]
    _, counted = events(frame.assign(time=np.arange(len(frame)) * 10))
    told = [finding.text for finding in counted if finding.kind == "spike"]
    assert told[0].startswith("1 row: at 4000: load ")
    assert told[0].endswith(" above the readings around it.")
