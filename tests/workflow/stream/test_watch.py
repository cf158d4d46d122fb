"""Streams: what is found does not depend on how events come, nor on where a watch was killed."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.bulk.stream.journal import Journal, Outlet, State
from tellwhy.bulk.stream.one import OneByOne
from tellwhy.bulk.stream.sources import Lines
from tellwhy.bulk.stream.watch import Settings, Watch
from tellwhy.core.errors import CannotWrite, InvalidParameter, UnreadableFile
from tellwhy.views.cli import app

from .conftest import ODD, rows_of


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_time(lines):
    return [{name: value for name, value in line.items() if name != "time"} for line in lines]


def watched(model, folder, source, *, name="orders", most=None, **settings):
    """Watch to the end; return the watch's state and the lines."""
    outlet = Outlet(folder / "alarms.jsonl")
    with closing(source):
        watch = Watch(name, source, model=model, folder=folder, outlet=outlet, settings=Settings(**settings))
        try:
            state = watch.run(most=most)
        finally:
            watch.close()
    return state, lines_of(folder / "alarms.jsonl")


@pytest.fixture(scope="module")
def csv(tmp_path_factory, stream):
    path = tmp_path_factory.mktemp("stream") / "orders.csv"
    stream.to_csv(path, index=False)
    return path


def test_odd_events_are_told_with_their_reasons(model, csv, tmp_path):
    state, lines = watched(model, tmp_path / "w", Lines(str(csv), follow=False), id_column="order")
    alarms = [line for line in lines if line["event"] == "alarm"]
    assert {f"A{k}" for k in ODD} <= {line["id"] for line in alarms}
    assert len(alarms) <= len(ODD) + 1
    first = alarms[0]
    assert (first["n"], first["number"], first["id"]) == (1, 121, "A120")
    assert first["reasons"][0]["feature"] == "size"
    assert first["cells"]["size"] == "61.2"
    assert first["p_value"] < 1e-4
    assert (state.n_events, state.n_lines) == (700, len(lines))


def test_every_form_of_a_stream_is_judged_alike(model, csv, stream, tmp_path):
    jsonl = tmp_path / "orders.jsonl"
    stream.to_json(jsonl, orient="records", lines=True)
    _, by_text = watched(model, tmp_path / "a", Lines(str(csv), follow=False))
    _, by_json = watched(model, tmp_path / "b", Lines(str(jsonl), follow=False))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(jsonl.read_bytes()))
    writer.start()
    _, by_pipe = watched(model, tmp_path / "c", Lines(str(pipe)))
    writer.join()
    assert [line["number"] for line in by_text] == [line["number"] for line in by_json]
    assert [line["score"] for line in by_json] == [line["score"] for line in by_text]
    assert [line["score"] for line in by_pipe] == [line["score"] for line in by_text]


def test_a_file_that_grows_is_followed_line_by_line(model, stream, tmp_path):
    path = tmp_path / "grows.csv"
    path.write_text("order,size,price,shop\n")
    told = []
    outlet = Outlet(io.StringIO())
    outlet.tell = lambda lines: told.extend((time.monotonic(), line) for line in lines)
    watch = Watch(
        "grows",
        Lines(str(path)),
        model=model,
        folder=tmp_path / "w",
        outlet=outlet,
        settings=Settings(rule="rate", level=1e-4),
    )
    written = []
    thread = threading.Thread(target=write_slowly, args=(path, written))
    thread.start()
    watch.run(most=22)
    thread.join(20)
    watch.close()
    assert len(told) == 1
    assert json.loads(told[0][1])["number"] == 21
    assert told[0][0] - written[20] < 5  # the benchmark measures it; this machine may be busy


def write_slowly(path, written):
    """Write lines in two halves; the 21st is odd."""
    with path.open("a") as file:
        for k in range(22):
            line = f"A{k},{70 if k == 20 else 20},5,north\n"
            for half in (line[:4], line[4:]):
                file.write(half)
                file.flush()
                time.sleep(0.002)
            written.append(time.monotonic())


def test_a_cell_may_hold_line_ends_and_lines_may_be_broken(model, tmp_path):
    path = tmp_path / "bad.csv"
    text = 'order,size,price,shop\nA1,20,5,"no\nrth"\nA2,20\n\nA3,20,5,north\nA4,20,5,north'
    path.write_text(text)
    source = Lines(str(path), follow=False)
    state, lines = watched(model, tmp_path / "w", source, rule="rate", level=1e-9)
    assert (state.n_events, state.n_unreadable) == (2, 1)  # the last line has no end yet
    assert [line["why"] for line in lines if line["event"] == "unreadable"] == [
        "ValueError: 2 cells instead of 4"
    ]
    with path.open("a") as file:
        file.write("\nA5,20,5,north\n")
    again, _ = watched(model, tmp_path / "w", Lines(str(path), follow=False), rule="rate", level=1e-9)
    assert again.n_events == 4


@pytest.mark.parametrize("most", [120, 350])
def test_what_is_found_does_not_depend_on_where_it_was_stopped(model, csv, tmp_path, most):
    _, whole = watched(model, tmp_path / "a", Small(str(csv), 50))
    _, begun = watched(model, tmp_path / "b", Small(str(csv), 50), most=most)
    _, ended = watched(model, tmp_path / "b", Small(str(csv), 7))
    assert without_time(ended) == without_time(whole)
    assert ended[: len(begun)] == begun


class Small(Lines):
    """Lines that come a few at a time."""

    def __init__(self, name, most):
        super().__init__(name, follow=False)
        self.most = most

    def read(self, most, seconds):
        return super().read(min(most, self.most), seconds)


@pytest.mark.parametrize("moment", ["before", "between", "half"])
def test_a_kill_loses_and_doubles_nothing(model, csv, tmp_path, monkeypatch, moment):
    _, whole = watched(model, tmp_path / "a", Small(str(csv), 50))
    calls = []

    def die(self, *args, keep=Journal.keep):
        calls.append(args)
        if moment == "before" and len(calls) == 3:
            raise KeyboardInterrupt
        return keep(self, *args)

    def tell(self, lines, tell=Outlet.tell):
        if lines and moment == "between":
            raise KeyboardInterrupt
        if lines and moment == "half":
            self._file.write(lines[0][:20])
            self._file.flush()
            raise KeyboardInterrupt
        tell(self, lines)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", die)
        patch.setattr(Outlet, "tell", tell)
        with pytest.raises(KeyboardInterrupt):
            watched(model, tmp_path / "b", Small(str(csv), 50))
    _, ended = watched(model, tmp_path / "b", Small(str(csv), 50))
    assert without_time(ended) == without_time(whole)


def test_what_was_not_printed_before_a_kill_is_printed_after_it(model, csv, tmp_path, monkeypatch):
    def watch_and_print(most=None):
        printed = io.StringIO()
        with closing(Small(str(csv), 50)) as source:
            how = {"model": model, "folder": tmp_path, "outlet": Outlet(printed), "settings": Settings()}
            watch = Watch("orders", source, **how)
            try:
                watch.run(most=most)
            except KeyboardInterrupt:
                pass
            finally:
                watch.close()
        return [json.loads(line)["n"] for line in printed.getvalue().splitlines()]

    def die(self, lines, tell=Outlet.tell):
        if any('"n": 2' in line for line in lines):
            raise KeyboardInterrupt
        tell(self, lines)

    with monkeypatch.context() as patch:
        patch.setattr(Outlet, "tell", die)
        before = watch_and_print()
    after = watch_and_print()
    assert before == [1]
    assert after == list(range(2, len(after) + 2))
    assert watch_and_print() == []


def test_a_new_model_is_learned_on_the_way(model, tmp_path):
    path = tmp_path / "moved.csv"
    moved = rows_of(900, seed=2)
    moved["price"] += 20.0  # a new price list
    pd.concat([rows_of(500, seed=3), moved]).to_csv(path, index=False)
    source = Small(str(path), 100)
    watch = Watch(
        "moved",
        source,
        model=model,
        folder=tmp_path / "w",
        outlet=Outlet(tmp_path / "alarms.jsonl"),
        settings=Settings(rule="rate", level=1e-4, drift_every=400, refits_on_drift=True, window=1_000),
    )
    step = watch.step

    def step_and_wait(events):
        step(events)
        if watch._learning is not None:
            watch._learning.result()

    watch.step = step_and_wait
    state = watch.run()
    watch.close()
    kinds = [line["event"] for line in lines_of(tmp_path / "alarms.jsonl")]
    assert "drift" in kinds
    assert "model" in kinds
    assert state.model != str(model)
    again = Journal(tmp_path / "w")
    assert again.read().model == state.model
    again.close()


def test_what_cannot_be_watched_is_refused(model, csv, tmp_path):
    watched(model, tmp_path / "w", Lines(str(csv), follow=False))
    with pytest.raises(InvalidParameter, match="journal of orders"):
        watched(model, tmp_path / "w", Lines(str(csv), follow=False), name="others")
    with pytest.raises(InvalidParameter, match="--rule lord"):
        watched(model, tmp_path / "w", Lines(str(csv), follow=False), level=0.2)
    held = Journal(tmp_path / "held")
    with pytest.raises(CannotWrite, match="Another process"):
        Journal(tmp_path / "held")
    held.keep(State("x", "y"))
    held.close()
    short = tmp_path / "short.csv"
    short.write_text("order,size,price,shop\n")
    source = Lines(str(short))
    with pytest.raises(UnreadableFile, match="shorter"):
        source.start(10_000)
    source.close()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "watch.sqlite").write_bytes(b"no database" * 500)
    with pytest.raises(UnreadableFile, match="no journal"):
        Journal(tmp_path / "broken")


def test_the_command_prints_alarms_or_adds_them_to_a_file(model, csv, tmp_path):
    words = ["watch", str(csv), "--model", str(model), "--once", "--id", "order"]
    done = CliRunner().invoke(app, [*words, "--state", str(tmp_path / "a")], catch_exceptions=False)
    assert done.exit_code == 0
    printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert {f"A{k}" for k in ODD} <= {line["id"] for line in printed}
    assert "700 events" in done.output


def test_events_one_by_one_as_river_takes_them(stream):
    detector = OneByOne(refit_every=300, window=300)
    rows = stream.drop(columns=["order"]).to_dict("records")
    assert detector.score_one(rows[0]) == 0.0
    for row in rows[:300]:
        assert detector.learn_one(row) is None
    scores = [detector.score_one(row) for row in rows[320:340]]
    assert max(range(20), key=scores.__getitem__) == 13  # event 333
    with pytest.raises(InvalidParameter):
        OneByOne(window=3)


@pytest.mark.slow
def test_a_process_that_is_killed_three_times_tells_what_one_tells(model, tmp_path):
    path = tmp_path / "long.csv"
    rows = rows_of(20_000, seed=7)
    rows.loc[rows.index % 500 == 250, "size"] = 75.0
    rows.to_csv(path, index=False)
    _, whole = watched(model, tmp_path / "a", Lines(str(path), follow=False), name=str(path))
    words = ["-m", "tellwhy", "watch", str(path), "--model", str(model), "--once"]
    words += ["--state", str(tmp_path / "b"), "--alarms", str(tmp_path / "b.jsonl")]
    for _ in range(3):
        n_before = len((tmp_path / "b.jsonl").read_bytes()) if (tmp_path / "b.jsonl").exists() else 0
        process = subprocess.Popen([sys.executable, *words], env=dict(os.environ))
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if (tmp_path / "b.jsonl").exists() and len((tmp_path / "b.jsonl").read_bytes()) > n_before:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, *words], check=True)
    ended = lines_of(tmp_path / "b.jsonl")
    assert [line["n"] for line in ended] == list(range(1, len(ended) + 1))
    assert without_time(ended) == without_time(whole)
