"""How many classes a run finds, whatever else the columns hold, and which stretches of a series are its classes."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.workflow import explain_graph


@pytest.mark.parametrize("gap", [8, 12])
def test_one_column_tells_the_classes_and_others_do_not(gap, tmp_path):
    """Beside columns of noise, the one that tells three classes has hardly any spread within them."""
    rng = np.random.default_rng(gap)
    classes = np.repeat([[0, 1, 2]], 40, axis=0).repeat([20, 6, 20], axis=1)
    level = gap * classes + rng.normal(size=classes.shape)
    level[10, 5] = gap + 0.3
    level[30, 40] = gap - 0.2
    noise = {f"noise {i}": rng.normal(size=classes.shape) for i in range(2)}
    np.savez(tmp_path / "cube.npz", level=level, **noise)
    run = explain_graph(tmp_path / "cube.npz", top=2).run
    assert run.settings["n_classes"] == 3
    assert {a.row for a in run.anomalies[:2]} == {10 * 46 + 5, 30 * 46 + 40}


def to_and_fro(lengths, seed, gap=6.0):
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(lengths)) % 2, lengths)
    frame = pd.DataFrame(
        {
            "second": np.arange(len(classes)),
            "flow": gap * classes + rng.normal(size=len(classes)),
            "load": rng.normal(size=len(classes)),
        }
    )
    return frame, classes


VISITS = (52, 101, 68, 26, 104, 61, 50, 119)


@pytest.mark.parametrize("seed", range(4))
def test_short_visits_of_a_usual_class_are_no_shifts(seed):
    frame, _ = to_and_fro(VISITS, seed)
    run = explain_graph(frame, time="second").run
    assert run.settings["n_classes"] == 2
    assert [f.kind for f in run.findings if f.kind == "passing_shift"] == []
    assert sum(a.above_threshold for a in run.anomalies) <= 1


def test_among_visits_the_planted_rows_are_the_highest():
    frame, classes = to_and_fro(VISITS, 7, gap=8.0)
    frame.loc[[80, 300], "flow"] = [8.0 * (1 - classes[80]), 8.0 * (1 - classes[300])]
    frame.loc[500, "load"] = -16.0
    run = explain_graph(frame, time="second").run
    assert {a.row for a in run.anomalies[:3]} == {80, 300, 500}


@pytest.mark.parametrize("starts", [(300,), (150, 420)])
def test_what_happens_once_or_twice_is_still_told(starts):
    """Stretches that no usual class has are passing shifts, though they may be a class of their own."""
    rng = np.random.default_rng(len(starts))
    flow = rng.normal(size=600)
    for start in starts:
        flow[start : start + 15] += 8.0
    frame = pd.DataFrame({"second": np.arange(600), "flow": flow, "load": rng.normal(size=600)})
    run = explain_graph(frame, time="second").run
    told = [set(f.rows) for f in run.findings if f.kind == "passing_shift"]
    assert sorted(min(rows) for rows in told) == pytest.approx(starts, abs=1)


def test_a_shift_within_a_class_is_still_told():
    """Two thirds of the way to the other class, amid a long visit of its own."""
    frame, classes = to_and_fro((200, 200, 200, 200), 3, gap=12.0)
    frame.loc[500:519, "flow"] = 5.0 + np.random.default_rng(0).normal(size=20)
    assert classes[500] == 0
    run = explain_graph(frame, time="second").run
    assert any(f.kind == "passing_shift" and set(range(502, 518)) <= set(f.rows) for f in run.findings)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_usual_by_day_is_a_shift_at_night(seed):
    """The class of the working hours is usual, but not at three in the morning."""
    times = pd.date_range("2024-01-29", periods=5 * 7 * 24, freq="h")
    is_work = (times.day_of_week < 5) & (times.hour >= 8) & (times.hour < 18)
    load = 100 + 40 * is_work + np.random.default_rng(seed).normal(0, 3, len(times))
    load[339:343] += 40
    run = explain_graph(pd.DataFrame({"time": times, "load": load}), time="time").run
    assert [set(f.rows) for f in run.findings if f.kind == "passing_shift"] == [{339, 340, 341, 342}]
