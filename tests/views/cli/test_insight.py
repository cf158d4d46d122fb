"""`tellwhy insight` as people use it."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tellwhy
from tellwhy.detectors import PCADetector
from tellwhy.explainers import Insight
from tellwhy.explainers.surrogate.chains import Convergence
from tellwhy.kinds.insight import InsightRun
from tellwhy.views.cli import app
from tellwhy.views.cli.models import show_insights

MODELS = """
import numpy as np

def score(X):
    return 3 * np.asarray(X)[:, 0] - np.asarray(X)[:, 2]

def noise(X):
    return np.random.default_rng(0).normal(size=len(X))

def odds(X):
    p = 1 / (1 + np.exp(-np.asarray(X).reshape(len(X), -1)[:, 5]))
    return np.column_stack([1 - p, p])
"""
SHORT = ("--sweeps", "60", "--components", "2", "--chains", "2", "--minutes", "0")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_models_of_test.py").write_text(MODELS)
    X = np.random.default_rng(0).normal(size=(120, 3))
    pd.DataFrame(X, columns=["a", "b", "c"]).to_csv("rows.csv", index=False)
    np.savez("images.npz", X=np.random.default_rng(0).normal(size=(80, 4, 3)))
    return tmp_path


def run(*arguments, expect=0):
    result = CliRunner().invoke(app, ["insight", *arguments])
    assert result.exit_code == expect, result.output
    return result


def test_table(folder):
    result = run("own_models_of_test:score", "rows.csv", "--top", "3", *SHORT)
    line = next(line for line in result.stdout.splitlines() if line.strip().startswith("score"))
    assert "a 3" in line
    assert " b " not in line, "its interval holds 0"
    assert "[" in line, "intervals are shown"
    assert "1 that may be 0" in " ".join(result.stdout.split())
    assert "effective draws" in " ".join(result.stdout.split())
    assert (folder / "tellwhy-insight-rows" / "insights.html").read_text(encoding="utf-8").count(
        "article"
    ) > 0
    stored = json.loads((folder / "tellwhy-insight-rows" / "insights.json").read_text())
    assert stored["insights"][0]["features"][0]["feature"] == "a"


def test_images_and_json(folder):
    result = run(
        "own_models_of_test:odds", "images.npz", "--top", "3", "--json", "--quiet", "--out", "here", *SHORT
    )
    found = json.loads(result.stdout)
    assert {i["target"] for i in found["insights"]} == {"0", "1"}
    assert found["insights"][0]["features"][0]["feature"] == "x1_2"
    assert found["out"] == "here"
    assert (folder / "here" / "insights.html").is_file()


def test_checkpoint_is_gone_on_from(folder):
    runs = [
        json.loads(run("own_models_of_test:score", "rows.csv", "--json", *SHORT, *more).stdout)["insights"]
        for more in ((), ("--checkpoint", "chains"), ("--checkpoint", "chains"))
    ]
    assert runs[0] == runs[1] == runs[2]
    assert (folder / "chains" / "target-0" / "chains.json").is_file()
    refused = run(
        "own_models_of_test:score", "rows.csv", "--checkpoint", "chains", "--seed", "1", *SHORT, expect=1
    )
    assert "another seed" in " ".join(refused.stderr.split())


def test_nothing_that_surely_matters_and_what_to_do(folder):
    result = run(
        "own_models_of_test:noise", "rows.csv", "--sweeps", "8", "--components", "6", "--minutes", "0"
    )
    assert "all may be 0" in " ".join(result.stdout.split())
    assert "Raise --minutes or --sweeps, or lower --components" in " ".join(result.stderr.split())


def test_a_folder_of_others_is_refused_before_the_model_is_asked(folder):
    (folder / "theirs").mkdir()
    (folder / "theirs" / "letter.txt").write_text("dear")
    refused = run("no_such_module:f", "rows.csv", "--out", "theirs", *SHORT, expect=1)
    assert "was not written by tellwhy" in " ".join(refused.stderr.split())
    assert [path.name for path in (folder / "theirs").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("model", "data", "words"),
    [
        ("own_models_of_test", "rows.csv", "module:name"),
        ("no_such_module:f", "rows.csv", "cannot be imported: ModuleNotFoundError"),
        ("broken_model_of_test:f", "rows.csv", "cannot be imported: ZeroDivisionError"),
        ("own_models_of_test:missing", "rows.csv", "has no 'missing'"),
        ("own_models_of_test:score", "absent.csv", "absent.csv"),
        ("own_models_of_test:score", "text.csv", "do not hold numbers"),
        ("own_models_of_test:score", "bad.npz", "bad.npz is missing or damaged"),
        ("own_models_of_test:score", "alone.npz", "holds one array"),
        ("own_models_of_test:score", "words.npz", "does not hold numbers"),
        ("own_models_of_test:score", "none.npz", "name the inputs X"),
        ("own_models_of_test:score", "two.npz", "name the inputs X"),
    ],
)
def test_refusals(folder, model, data, words):
    (folder / "text.csv").write_text("a,b\n1,red\n2,blue\n")
    (folder / "bad.npz").write_bytes(b"no zip")
    (folder / "broken_model_of_test.py").write_text("f = 1 / 0")
    np.savez("two.npz", a=np.ones(3), b=np.ones(3))
    np.savez("words.npz", X=np.array(["a", "b"]))
    np.savez("none.npz")
    with open("alone.npz", "wb") as file:
        np.save(file, np.ones((3, 2)))
    result = run(model, data, *SHORT, expect=1)
    assert words in " ".join(result.stderr.split())
    assert not (folder / "tellwhy-insight-rows").exists()


def pattern(slopes, limits, **changes):
    n = len(slopes)
    made = {"target": "cat", "component": 0, "share": 0.4, "share_interval": (0.3, 0.5), "credibility": 0.9}
    made |= {"coefficients": np.array(slopes), "interval": np.array(limits), "effects": np.array(slopes)}
    made |= {"top": np.arange(n), "names": tuple(f"f{k}" for k in range(n)), "rows": np.arange(4)}
    made |= {"centre": np.zeros(n), "applies": (), "examples": np.zeros((1, n)), "others": np.zeros((1, n))}
    return Insight(**made | changes)


def told(capsys, insights, **convergence):
    show_insights(InsightRun(insights, convergence, "m:f", "[t].csv", 120))
    return " ".join(capsys.readouterr().out.split())


SURE = Convergence({"a": 1.01, "b": 1.0}, {"a": 500.0, "b": 90.0})
UNSURE = Convergence({"a": 1.0, "b": 1.34}, {"a": 41.0, "b": 300.0})


def test_features_that_surely_matter_are_named_whatever_their_sign(capsys):
    slopes = [2.0, -1.5, 1.0]
    found = pattern(slopes, [[1, 3], [-2, -1], [-1, 3]], target="[cat]", applies=(("f1", -1.0, 2.0),))
    text = told(capsys, [found], one=SURE)
    assert "[cat] 40 % f0 2 [1, 3], f1 −1.5 [−2, −1] (1 that may be 0) f1 −1 to 2" in text
    assert "with 90 % credible intervals, from 120 rows of [t].csv." in text
    assert text.endswith("Chains: R̂ ≤ 1.01, effective draws ≥ 90.")


def test_features_that_are_not_named_are_counted(capsys):
    n = 12
    limits = [[1, 3]] * 10 + [[-1, 3]] * 2
    text = told(capsys, [pattern([2.0] * n, limits)], one=SURE)
    assert "f7 2" in text
    assert "f8 2" not in text
    assert "(2 more, 2 that may be 0)" in text
    text = told(capsys, [pattern([2.0, 1.0], [[-1, 3], [-1, 3]])], one=SURE)
    assert "f0 2 [−1, 3] (all may be 0)" in text
    assert "f1" not in text


def test_a_time_limit_that_ended_the_chains_is_told(capsys):
    limited = Convergence(
        {"a": 1.2}, {"a": 41.0}, {"a": 30.0}, "ended by the time limit of 300 s, after 900 sweeps"
    )
    text = told(capsys, [pattern([1.0], [[0.5, 2]])], one=limited)
    assert "R̂ ≤ 1.20, effective draws ≥ 30; ended by the time limit of 300 s, after 900 sweeps." in text


def test_chains_are_told_of_the_class_where_they_agree_least(capsys):
    for classes in ({"cat": SURE, "dog": UNSURE}, {"dog": UNSURE, "cat": SURE}):
        text = told(capsys, [pattern([1.0], [[0.5, 2]])], **classes)
        words = "Chains: R̂ ≤ 1.34, effective draws ≥ 41 (class dog; the other classes agree better)."
        assert text.endswith(words)


def test_a_kept_model_is_asked_about_other_rows(folder):
    rows = pd.read_csv(folder / "rows.csv")
    detector = PCADetector(1).fit(rows.to_numpy())
    model = tellwhy.fit(detector, kind="insight", n_sweeps=60, n_components=2)
    model.save(folder / "m.tellwhy")
    done = CliRunner().invoke(
        app, ["explain", "rows.csv", "--model", "m.tellwhy", "--top", "2", "--out", "o"]
    )
    assert done.exit_code == 0, done.output
    assert "stand in for what the model has learned" in " ".join(done.stdout.split())
    page = (folder / "o" / "report.html").read_text(encoding="utf-8")
    assert "What was learned: PCADetector on rows.csv" in page
    again = CliRunner().invoke(app, ["report", "o", "--out", "again.html"])
    assert again.exit_code == 0, again.output
    assert (folder / "again.html").read_text(encoding="utf-8") == page
