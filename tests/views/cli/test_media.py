"""Pictures and windows of series from the command line, and their page."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.kinds.choose_kind import find_kind
from tellwhy.views.cli.main import app

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pixels = 128 + 80 * np.sin(np.arange(32) / 2)[:, None] + 5 * rng.normal(size=(32, 32))
    pixels[12:20, 12:20] = pixels[12:20, 12:20].T.copy()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save("odd<b>.png")
    t = np.arange(800) + 1
    wave = np.sin(t / 5) + 0.05 * rng.normal(size=800)
    wave[400:420] = 0.0
    pd.DataFrame({"t": t, "<b>wave": wave, "other": rng.normal(size=800)}).to_csv("s.csv", index=False)
    return tmp_path


def explain(*words):
    return CliRunner().invoke(app, ["explain", *words])


def test_a_picture(place):
    done = explain("odd<b>.png", "--out", "run")
    assert done.exit_code == 0, done.output
    assert "The picture is oddest at x" in done.stdout
    page = (place / "run" / "report.html").read_text()
    assert page.count("data:image/png") == 7  # the picture and six views of its relevance
    assert "odd<b>" not in page
    assert "odd&lt;b&gt;" in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    listed = pd.read_csv(place / "run" / "anomalies.csv")
    assert listed[["rank", "id", "flagged"]].iloc[0].tolist() == [1, "odd<b>.png", False]
    assert listed["reason_1"][0].startswith("x ")
    again = CliRunner().invoke(app, ["report", "run", "--out", "again.html"])
    assert again.exit_code == 0, again.output
    assert (place / "again.html").read_text() == page


def test_stretches_of_a_series(place):
    done = explain("s.csv", "--time", "t", "--window", "20", "--top", "2", "--json", "--out", "run")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    first = told["anomalies"][0]
    assert abs(first["row"] - 400) < 10
    assert first["above_threshold"]
    assert first["places"][0]["where"] == "<b>wave"
    assert told["kind"] == "series"
    page = (place / "run" / "report.html").read_text()
    assert "<b>wave" not in page
    assert page.count("<figcaption>") == 1 + 2 * 2


def test_jobs_fail_on_alarms(place):
    words = ("s.csv", "--time", "t", "--window", "20", "--out", "run")
    assert explain(*words, "--fail-on-alarms", "0").exit_code == 3
    assert explain(*words, "--fail-on-alarms", "5", "--quiet").exit_code == 0


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("s.csv --window 20", "--window needs the column of the time"),
        ("odd<b>.png s.csv", "s.csv is no picture"),
        ("odd<b>.png --label x", "--label does not go with pictures"),
        ("odd<b>.png --columns a", "--columns does not go with pictures"),
        ("s.csv --time t --window 20 --by other", "--by does not go with series"),
        ("none.png", "none.png does not exist"),
    ],
)
def test_what_does_not_go_together_is_told(place, words, match):
    done = explain(*words.split())
    assert done.exit_code == 1
    assert match in done.stderr


def test_tables_stay_tables(place):
    assert find_kind(["s.csv"], time=None, window=None) is None
    assert find_kind(["-"], time=None, window=None) is None
    assert find_kind([str(place)], time=None, window=None) == "pictures"
    (place / "parts").mkdir()
    (place / "parts" / "1.csv").write_text("a,b\n1,2\n")
    assert find_kind([str(place / "parts")], time=None, window=None) is None
