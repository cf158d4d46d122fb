"""Events of a series, as people meet them: what is told, what is not, and how each view says it."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.kinds.events import RECORD
from tellwhy.views.cli import app
from tellwhy.workflow import explain_events


def frame(x, freq=None):
    when = np.arange(len(x)) if freq is None else pd.date_range("2024-01-01", periods=len(x), freq=freq)
    columns = {"x": x} if np.ndim(x) == 1 else {f"x{k}": x[:, k] for k in range(x.shape[1])}
    return pd.DataFrame({"when": when, **columns})


def events(x, freq=None, **more):
    found = explain_events(frame(x, freq), time="when", **more).anomalies
    return [(event.reasons[0].facts["what"], event.row, event.is_alarm) for event in found]


def first_of(x, freq=None):
    return explain_events(frame(x, freq), time="when").anomalies[0]


def test_a_trend_hides_no_shift():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000) + 0.005 * np.arange(2000)
    x[1200:1210] += 8.0
    event = first_of(x)
    assert event.is_alarm
    assert abs(event.row - 1200) <= 2
    assert event.reasons[0].facts["what"] == "passing_up"


@pytest.mark.parametrize("seed", range(3))
def test_a_switch_at_the_same_minute_each_day_is_no_event(seed):
    rng = np.random.default_rng(seed)
    minute = np.arange(288 * 14) % 288 * 5
    x = 20.0 + 10.0 * ((minute >= 520) & (minute < 1050)) + 0.5 * rng.normal(size=len(minute))
    assert not any(is_told for *_, is_told in events(x, "5min"))


def test_noise_five_times_as_large_is_called_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    x[2000:2150] *= 5.0
    event = first_of(x)
    reason = event.reasons[0]
    assert event.is_alarm
    assert reason.facts["what"] == "noise_up"
    assert 3.5 < reason.facts["size"] < 7.0
    assert "times as noisy" in reason.text


def test_a_storm_of_a_day_is_a_passing_shift_and_nothing_is_removed():
    rng = np.random.default_rng(0)
    hour = np.arange(24 * 90)
    x = 60.0 + 15.0 * np.sin(2 * np.pi * hour / 24) + 2.0 * rng.normal(size=len(hour))
    x[24 * 60 : 24 * 61] -= 55.0
    found = explain_events(frame(x, "h"), time="when")
    event = found.anomalies[0]
    assert event.is_alarm
    assert event.reasons[0].facts["what"] == "passing_down"
    assert abs(event.row - 24 * 60) <= 1
    assert not found.findings
    assert "decimal" not in tellwhy.tell(found)


def test_single_steps_of_a_meter_that_counts_are_no_events():
    rng = np.random.default_rng(0)
    flow = 12 + (rng.random(3000) < 0.01).astype(float)
    assert not any(is_told for *_, is_told in events(flow))


def test_a_flat_series_is_told_as_one_that_never_changes():
    found = explain_events(frame(np.full(300, 7.0)), time="when")
    assert not found.anomalies
    assert "Never changes: x." in found.notes
    assert tellwhy.tell(found).startswith("Nothing happened in 300 moments")
    assert "<svg" in tellwhy.tell(found, "html")


def test_one_event_is_told_once():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    x[1500:1900] = 4.2
    spans = [event.reasons[0].part.box[:2] for event in explain_events(frame(x), time="when").anomalies]
    touching = [(a, b) for a, b in spans if a < 1900 and b > 1500]
    assert len(touching) == 1


def test_one_cause_in_several_channels_is_one_event():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    X[1000:1030] += [6.0, 0.0, 5.0]
    found = explain_events(frame(X), time="when").anomalies
    told = [event.reasons[0] for event in found if event.is_alarm]
    assert len(told) == 1
    assert {told[0].feature, *told[0].facts["others"]} == {"x0", "x2"}


def test_events_of_two_channels_shortly_after_each_other_are_two():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    X[650:680, 0] = 4.0
    X[850:, 1] += 4.0
    found = explain_events(frame(X), time="when").anomalies
    told = {(event.reasons[0].feature, event.reasons[0].facts["what"]) for event in found if event.is_alarm}
    assert told == {("x0", "stuck"), ("x1", "shift_up")}


def test_every_view_has_the_record(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    x[700] = 15.0
    frame(x, "h").to_csv(tmp_path / "s.csv", index=False)
    words = ["explain", str(tmp_path / "s.csv"), "--time", "when", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    event = json.loads(done.stdout)["anomalies"][0]
    assert (event["kind"], event["row"], event["start"]) == ("spike", 700, "2024-01-30 04:00")
    assert event["size"] == pytest.approx(15.0, abs=2.5)
    assert event["told"]
    assert event["expected_false"] < 1 / 3
    lines = pd.read_csv(tmp_path / "run" / "anomalies.csv")
    assert set(RECORD) <= set(lines.columns)
    assert lines["kind"][0] == "spike"
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert page.index("zoomable") < page.index("The event")
    assert "reasons that hold" not in page
    assert "style=" not in page
    again = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "again.html")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page
    shown = CliRunner().invoke(app, words)
    assert "quiet series" in shown.stdout


def test_next_week_is_judged_beside_the_weeks_before(tmp_path):
    rng = np.random.default_rng(0)
    hour = np.arange(24 * 35)
    x = 10.0 * np.sin(2 * np.pi * hour / 24) + rng.normal(size=len(hour))
    whole = frame(x, "h")
    before = whole[: 24 * 28]
    after = whole[24 * 28 :].copy()
    after.loc[24 * 30, "x"] += 15.0
    model = tellwhy.load(tellwhy.fit(before, time="when").save(tmp_path / "m.tellwhy"))
    found = tellwhy.judge(model, after)
    assert found.anomalies[0].row == 48
    assert found.anomalies[0].is_alarm
    assert len(found.scores) == len(after)
    quiet = tellwhy.judge(model, whole[24 * 28 :])
    assert not any(event.is_alarm for event in quiet.anomalies)


def test_a_short_or_drifting_reference_promises_nothing():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.cumsum(rng.normal(size=900)), rng.normal(size=900)])
    found = explain_events(frame(X[400:]), time="when", reference=frame(X[:400]))
    assert any("cannot be promised: x0 drifts slowly" in note for note in found.notes)
    short = explain_events(frame(X[400:, 1]), time="when", reference=frame(X[:400, 1]))
    assert any("the reference has 400 moments" in note for note in short.notes)


def test_a_state_that_lasts_is_told_beside_a_reference():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    X[2000:, 2] += 2.0
    found = explain_events(frame(X[1200:]), time="when", reference=frame(X[:1200]))
    event = found.anomalies[0]
    assert event.is_alarm
    assert event.reasons[0].feature == "x2"
    assert abs(event.row - 800) < 40


def test_too_short_a_series_is_refused():
    with pytest.raises(InvalidInput, match="has 20 moments; events can be told from 50 on"):
        explain_events(frame(np.arange(20.0)), time="when")
