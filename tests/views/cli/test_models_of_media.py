"""`tellwhy fit` and `tellwhy explain --model`, of pictures, series and texts."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from tellwhy.views.cli import app


def said(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refused(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 1, done.output
    return " ".join(done.stderr.split())


def save_series(path, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(600)
    level = np.sin(t / 5) + 0.05 * rng.normal(size=600)
    level[300:315] = 0.0
    pd.DataFrame({"t": t, "level": level}).to_csv(path, index=False)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for folder in ("good", "new"):
        (tmp_path / folder).mkdir()
        for k in range(3):
            pixels = 128 + 40 * np.sin(np.arange(36) / 2 + k)[None, :] + rng.normal(0, 3, size=(30, 36))
            image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
            image.save(tmp_path / folder / f"{k}.png")
    save_series("old.csv", 0)
    save_series("now.csv", 1)
    for name, word in (("old", "parcel"), ("now", "bitcoin")):
        lines = [json.dumps({"body": f"please send order {k % 7} again"}) for k in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*lines, json.dumps({"body": word})]))
    return tmp_path


WAYS = {
    "events": (["old.csv"], ["now.csv"], ["--time", "t"]),
    "pictures": (["good"], ["new"], []),
    "series": (["old.csv"], ["now.csv"], ["--time", "t", "--window", "15"]),
    "texts": (["old.jsonl"], ["now.jsonl"], ["--text", "body"]),
    "graph": (["old.csv"], ["now.csv"], ["--time", "t", "--classes", "2"]),
}


@pytest.mark.parametrize("kind", WAYS)
def test_a_saved_model_says_what_a_reference_says(place, kind):
    ordinary, new, how = WAYS[kind]
    told = said("fit", *ordinary, "--clean", "--save", "m.tellwhy", "--json", *how)
    assert told["kind"] == kind
    by_model = said("explain", *new, "--model", "m.tellwhy", "--json", "--out", "by-model")
    beside = said("explain", *new, "--reference", *ordinary, *how, "--json", "--out", "beside")
    assert beside["anomalies"]
    for name in ("anomalies", "threshold", "n_flagged", "headline"):
        assert by_model[name] == beside[name]
    assert (place / "by-model" / "report.html").is_file()


def test_options_that_do_not_go_with_it_are_refused(place):
    assert "--by does not go with pictures" in refused("fit", "good", "--by", "x", "--save", "m.tellwhy")
    with_time = ("fit", "old.csv", "--time", "t", "--save", "m.tellwhy")
    assert "--by does not go with events" in refused(*with_time, "--by", "x")
    said("fit", "good", "--save", "m.tellwhy", "--json")
    options = ("--model", "m.tellwhy", "--reference", "good")
    assert "--reference does not go with a model of pictures" in refused("explain", "new", *options)
