"""Options of every command: logs without data, a limit of time, a plan; and models that are expected."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tellwhy
from tellwhy.core.errors import UnreadableFile
from tellwhy.storage.signature import check_expected, fingerprint_of, path_of_signature, sign_model
from tellwhy.views.cli import app
from tellwhy.views.cli.main import OUT_OF_TIME
from tellwhy.views.cli.observe import JsonLines, TookTooLong, limited


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"secret_column": rng.normal(size=120), "b": rng.normal(size=120)})
    frame.loc[7, "secret_column"] = 987654.25
    frame.to_csv("patients.csv", index=False)
    return tmp_path


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_log_tells_stages_times_and_memory_and_nothing_of_the_data(here):
    assert run("explain", "patients.csv", "--log-json", "log.jsonl", "-q").exit_code == 0
    assert run("check", "missing.csv", "--log-json", "log.jsonl", "-q").exit_code == 1
    found = lines(here / "log.jsonl")
    first = [line for line in found if line["run"] == found[0]["run"]]
    events = [line["event"] for line in first]
    assert (events[0], events[-1]) == ("started", "done")
    assert {"reading", "fitting the detector", "checking the explanation"} <= set(events)
    seconds = [line["seconds"] for line in first]
    assert seconds == sorted(seconds)
    assert all(line["memory_mb"] > 1 for line in first)
    last = found[-1]
    assert (last["event"], last["level"], last["error"]) == ("failed", "error", "UnreadableFile")
    assert last["run"] != first[0]["run"]
    text = (here / "log.jsonl").read_text()
    assert not any(word in text for word in ("patients", "secret_column", "987654", "missing.csv"))


def test_a_log_may_be_asked_for_arguments(here):
    assert run("check", "patients.csv", "--log-json", "log.jsonl", "--log-data", "-q").exit_code == 0
    assert "arguments" in lines(here / "log.jsonl")[0]


def test_a_log_that_cannot_be_written_stops_before_the_work(here):
    told = run("explain", "patients.csv", "--log-json", "nowhere/log.jsonl", "-q")
    assert told.exit_code == 1
    assert "Cannot write the log nowhere/log.jsonl" in told.stderr
    assert not (here / "tellwhy-patients").exists()


def test_a_full_disk_ends_the_log_and_not_the_work(tmp_path, monkeypatch):
    handler = JsonLines(tmp_path / "log", "explain")
    monkeypatch.setattr("os.write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    monkeypatch.setattr("logging.raiseExceptions", False)
    handler.emit(__import__("logging").makeLogRecord({"msg": "reading", "levelname": "INFO"}))


def test_what_takes_too_long_is_stopped_and_writes_nothing(here):
    code = "import sys; from tellwhy.views.cli import main; sys.argv = ['tellwhy', *sys.argv[1:]]; main()"
    words = ["explain", "patients.csv", "--timeout", "0.01", "-q"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == OUT_OF_TIME
    assert "Stopped: it took longer than the 0.01 s of --timeout" in done.stderr
    assert sorted(os.listdir(here)) == ["patients.csv"]


def test_a_limit_that_is_not_reached_does_nothing():
    with limited(60.0):
        pass
    with pytest.raises(KeyboardInterrupt), limited(60.0):  # Ctrl-C is not a limit
        raise KeyboardInterrupt
    with pytest.raises(TookTooLong), limited(0.02):
        while True:
            pass


def test_a_plan_reads_and_writes_nothing(here):
    told = run("explain", "patients.csv", "--dry-run")
    assert told.exit_code == 0
    size = os.path.getsize("patients.csv")
    assert told.stdout.splitlines() == [
        f"read      patients.csv ({size:,} bytes)",
        "as        rows of a table",
        "beside    the rows themselves, each beside all others",
        "write     tellwhy-patients",
    ]
    assert run("fit", "patients.csv", "--save", "m.tellwhy", "--dry-run").exit_code == 0
    refused = run("fit", "patients.csv", "--save", "patients.csv", "--dry-run")
    assert refused.exit_code == 1
    assert "it is what is to be read" in refused.stderr
    assert sorted(os.listdir(here)) == ["patients.csv"]


def test_a_model_may_be_held_to_its_fingerprint_or_its_signature(here):
    (here / "key").write_text("a secret that both of us know")
    assert run("fit", "patients.csv", "--save", "m.tellwhy", "--sign", "key", "-q").exit_code == 0
    explain = ["explain", "patients.csv", "--model", "m.tellwhy", "-q", "--expect"]
    assert run(*explain, "key").exit_code == 0
    assert run(*explain, fingerprint_of("m.tellwhy")).exit_code == 0
    other = run(*explain, "0" * 64)
    assert "is another model" in other.stderr
    model = tellwhy.fit(pd.read_csv("patients.csv"), fdr=0.5)
    tellwhy.save(model, "m.tellwhy")  # somebody else's, who does not know the secret
    changed = run(*explain, "key")
    assert changed.exit_code == 1
    assert "was changed after it was signed" in changed.stderr
    assert "give --model with it" in run("explain", "patients.csv", "--expect", "key").stderr


def test_signatures_that_cannot_be(here):
    (here / "key").write_text("short")
    told = run("fit", "patients.csv", "--save", "m.tellwhy", "--sign", "key", "-q")
    assert "a secret needs at least 16" in told.stderr
    assert not (here / "m.tellwhy").exists()
    (here / "key").write_text("x" * 40)
    (here / "m").write_bytes(b"model")
    with pytest.raises(UnreadableFile, match="is not signed"):
        check_expected("m", "key")
    sign_model("m", "key")
    check_expected("m", "key")
    path_of_signature("m").write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableFile, match="is not signed"):
        check_expected("m", "key")
