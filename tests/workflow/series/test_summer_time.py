"""Times that a file wrote with an offset, of which only the moment is left."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.workflow import explain_graph


def plant(zone, seed=0, days=16):
    """A load that starts at seven on the clock, over a change to summer time."""
    start = "2024-03-23" if zone.startswith("Europe") else "2024-03-02"
    times = pd.date_range(start, periods=24 * days, freq="h", tz=zone)
    load = (
        100
        + 40 * ((times.hour >= 7) & (times.hour < 16))
        + np.random.default_rng(seed).normal(0, 3, len(times))
    )
    return pd.DataFrame({"time": times.tz_convert("UTC"), "load": load.round(1)})


@pytest.mark.parametrize(("zone", "rule"), [("Europe/Paris", "Europe"), ("America/Chicago", "North America")])
def test_the_change_of_the_clock_is_no_event(zone, rule):
    run = explain_graph(plant(zone), time="time", n_classes=2).run
    assert any(f"the summer time of {rule}" in text for text in run.notes)
    assert [finding.text for finding in run.findings if finding.kind == "passing_shift"] == []


def test_without_a_change_nothing_is_told():
    frame = plant("Europe/Paris")
    still = frame.assign(time=frame["time"] + pd.Timedelta(days=60))
    run = explain_graph(still, time="time", n_classes=2).run
    assert not any("summer time" in text for text in run.notes)


def test_events_are_told_by_the_times_of_the_table():
    frame = plant("Europe/Paris")
    frame.loc[300, "load"] = 300.0
    run = explain_graph(frame, time="time", n_classes=2).run
    (spike,) = [finding for finding in run.findings if finding.kind == "spike"]
    assert spike.text.startswith(f"1 row: {frame['time'][300]:%Y-%m-%d %H:%M}: load ")
