"""Odd stretches of a series, and the channels that make them so."""

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from tellwhy.core.errors import InvalidInput
from tellwhy.kinds.windows import explain_series, find_peaks
from tellwhy.workflow import load_run, save_run

FAST = {"time": "t", "window": 20, "n_windows": 3000}


def readings(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n) + 1  # a square wave is 0 at 0 alone, which would be odd
    waves = {"a": np.sin(t / 5), "b": 100 * np.sin(t / 7), "c": np.sign(np.sin(t / 9))}
    return pd.DataFrame(
        {"t": t, **{name: w + 0.1 * np.std(w) * rng.normal(size=n) for name, w in waves.items()}}
    )


def planted(seed=0):
    frame = readings(seed=seed)
    frame.loc[1500:1519, "c"] = np.sin(np.arange(20) / 2)
    return frame


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_motif_is_the_first_alarm_and_its_channel_is_named(seed):
    run = explain_series(planted(seed), top=3, **FAST)
    first = run.anomalies[0]
    assert abs(first.row - 1500) < 12
    assert first.is_alarm
    assert first.reasons[0].feature == "c"
    assert first.reasons[0].share > 0.8
    assert run.n_flagged <= 2
    start, stop, channel = first.reasons[0].part.box
    assert (stop - start, channel) == (20, 2)
    assert run.array_of("data", 0).shape == run.array_of("relevance", 0).shape == (100, 3)


def test_an_ordinary_series_has_no_alarm():
    quick = FAST | {"n_windows": 1000}
    runs = [explain_series(readings(seed=seed), top=2, **quick) for seed in (5, 6, 7)]
    assert sum(run.n_flagged for run in runs) == 0
    assert runs[0].headline[0].startswith("No stretch is odd beyond chance")


def test_a_reference_of_an_ordinary_time_is_learned_from():
    run = explain_series(planted(), reference=readings(seed=3), top=2, **FAST)
    assert abs(run.anomalies[0].row - 1500) < 12
    assert run.anomalies[0].is_alarm
    with pytest.raises(InvalidInput, match="lacks the columns c"):
        explain_series(planted(), reference=readings().drop(columns="c"), **FAST)


def test_rows_out_of_order_and_rows_of_the_same_time_are_told_and_dealt_with():
    frame = planted()
    straight = explain_series(frame, top=1, **FAST)
    twice = pd.concat([frame, frame.iloc[100:110]]).sample(frac=1.0, random_state=0)
    run = explain_series(twice.reset_index(drop=True), top=1, **FAST)
    assert run.anomalies[0].id == straight.anomalies[0].id
    assert "Rows were sorted by t." in run.notes
    assert "Rows with the same time were averaged." in run.notes
    np.testing.assert_allclose(run.scores, straight.scores, rtol=1e-6)


def test_missing_readings_are_filled_in_and_texts_left_out():
    frame = planted().assign(note="x", empty=np.nan)
    frame.loc[100:104, "a"] = np.nan
    frame.loc[200, "b"] = np.inf
    run = explain_series(frame, top=1, **FAST)
    assert any("6 missing readings were filled in" in notice for notice in run.notes)
    assert any("note, empty" in notice for notice in run.notes)
    assert abs(run.anomalies[0].row - 1500) < 12


def test_times_are_told_as_the_table_has_them():
    frame = planted()
    frame["t"] = pd.date_range("2024-03-01", periods=3000, freq="min").astype(str)
    run = explain_series(frame, top=1, **FAST)
    assert run.anomalies[0].id.startswith("2024-03-02 0")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"time": "when"}, "no column 'when'"),
        ({"window": 2000}, "fewer than two windows"),
        ({"columns": ["x"]}, "no column 'x'"),
        ({"exclude": ["a", "b", "c"]}, "No column holds readings"),
    ],
)
def test_what_cannot_be_judged_is_told(change, match):
    with pytest.raises(InvalidInput, match=match):
        explain_series(planted(), **(FAST | change))


def test_runs_are_saved_and_read_again(tmp_path):
    run = explain_series(planted(), top=2, **FAST)
    again = load_run(save_run(run, tmp_path / "run"))
    np.testing.assert_array_equal(again.scores, run.scores)
    assert again.anomalies[1].reasons == run.anomalies[1].reasons
    assert again.n_flagged == run.n_flagged


def test_peaks_share_no_reading():
    scores = np.random.default_rng(0).normal(size=500)
    found = find_peaks(scores, 7)
    assert (np.diff(np.sort(found)) >= 7).all()
    assert (np.diff(scores[found]) <= 0).all()
    assert found[0] == scores.argmax()


def test_relevance_is_what_is_beyond_the_usual_of_the_channel():
    """Noise is relevant in every window: what is shown is what the stretch has more, on its channel and time."""
    for seed in range(2):
        run = explain_series(planted(seed), top=1, **FAST | {"n_windows": 1000})
        first = run.anomalies[0]
        relevance = run.array_of("relevance", 0)
        low = first.row - first.reasons[0].part.box[0]
        around = relevance[1490 - low : 1530 - low]
        inside = relevance[1500 - low : 1520 - low, 2]
        assert inside.sum() > 0.75 * around.sum()
        assert (relevance >= 0).all()
        assert np.median(relevance[:, :2]) < 0.1 * inside.mean()


def test_where_all_of_a_series_is_odd_the_channel_is_still_named():
    """What is usual is asked of the reference, not of the series itself."""
    good = readings(seed=1)
    bad = readings(seed=2)
    bad["a"] = 2.0 * bad["a"][::-1].to_numpy()
    run = explain_series(bad, reference=good, top=1, **FAST | {"n_windows": 600})
    assert run.anomalies[0].reasons[0].feature == "a"
    assert run.anomalies[0].is_alarm


def test_a_reference_is_judged_by_parts_that_were_not_learned_from():
    """Windows that overlap those learned from score low: new ordinary windows would all be alarms."""
    rng = np.random.default_rng(0)
    n_alarms = 0
    for _ in range(6):
        waves = (lfilter([1.0], [1.0, -0.9], rng.normal(size=700)) for _ in range(2))
        own, other = (pd.DataFrame({"t": np.arange(700), "x": wave}) for wave in waves)
        run = explain_series(own, reference=other, top=1, time="t", window=20, n_windows=700)
        n_alarms += run.anomalies[0].is_alarm
    assert n_alarms <= 2


@pytest.mark.parametrize("seed", [2, 13])
def test_what_only_a_fitted_tail_calls_odd_is_no_alarm(seed):
    """Clean heavy-tailed series: a tail fitted to forty stretches of the reference calls both of them odd."""
    rng = np.random.default_rng(seed)
    waves = (rng.standard_t(3, size=1500) for _ in range(2))
    own, other = (pd.DataFrame({"t": np.arange(1500), "x": wave}) for wave in waves)
    run = explain_series(own, reference=other, top=1, time="t", window=20, n_windows=500)
    assert run.threshold is not None
    assert not run.anomalies[0].is_alarm


def test_too_few_stretches_are_ranked_and_nothing_is_an_alarm():
    own = readings(300, seed=4)
    own.loc[150:169, "c"] = 3.0
    run = explain_series(own, reference=readings(110, seed=5), top=2, **FAST)
    assert run.threshold is None
    assert not run.anomalies[0].is_alarm
    assert "too few stretches to tell" in run.headline[0]
    assert "too few to tell (10 are needed)" in run.summary


def test_a_channel_that_rests_is_told_and_the_others_are_judged():
    rng = np.random.default_rng(0)
    n = 900
    resting = pd.DataFrame(
        {"t": np.arange(n), "v": np.sin(np.arange(n) / 5) + 0.1 * rng.normal(size=n), "c": 3.0}
    )
    run = explain_series(resting, time="t", window=20, top=1)
    assert "Never changes: c." in run.notes
    assert not run.anomalies[0].is_alarm
    moved = resting.copy()
    moved.loc[400:419, "c"] = 4.0
    for reference in (None, resting):
        first = explain_series(moved, time="t", window=20, top=1, reference=reference).anomalies[0]
        assert first.is_alarm
        assert first.reasons[0].feature == "c"
        assert abs(first.row - 400) < 20


def test_a_channel_that_moves_once_in_a_long_series_is_judged():
    """Hardly any window that is drawn to learn from differs from the others."""
    rng = np.random.default_rng(1)
    n = 3000
    frame = pd.DataFrame({"t": np.arange(n), "v": rng.normal(size=n), "c": 0.0})
    frame.loc[2000:2009, "c"] = 7.0
    first = explain_series(frame, time="t", window=10, top=1, n_windows=40).anomalies[0]
    assert first.reasons[0].feature == "c"
    assert abs(first.row - 2000) < 10


def test_readings_that_never_change_are_an_error():
    frame = pd.DataFrame({"t": np.arange(100), "v": 1.0, "w": 2.0})
    with pytest.raises(InvalidInput, match=r"No channel ever changes \(v, w\)"):
        explain_series(frame, time="t", window=10)
