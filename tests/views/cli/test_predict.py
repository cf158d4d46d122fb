"""`tellwhy fit-svm` with folds, and `tellwhy predict` with what it wrote."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris
from typer.testing import CliRunner

import tellwhy
from tellwhy.bulk import blocks
from tellwhy.views.cli.main import app

WORDS = {"autos": "engine brakes car road wheel", "space": "moon orbit rocket launch star"}


@pytest.fixture(scope="module")
def mails(tmp_path_factory):
    """A table of texts whose labels are right but for two, and the model that was trained on it."""
    rng = np.random.default_rng(0)
    labels = rng.choice(list(WORDS), 80)
    texts = [" ".join(rng.choice(WORDS[label].split(), 4)) for label in labels]
    for row in (7, 50):
        labels[row] = "space" if labels[row] == "autos" else "autos"
    folder = tmp_path_factory.mktemp("mails")
    frame = pd.DataFrame({"id": [f"m{i}" for i in range(80)], "body": texts, "topic": labels})
    frame.to_csv(folder / "mails.csv", index=False)
    out = folder / "mails-svm.tellwhy"
    done = run("fit-svm", folder / "mails.csv", "--text", "body", "--label", "topic", "--out", out, "--json")
    told = json.loads(done.stdout)
    assert (told["judged"], told["contradicted"]) == (80, 2)
    return frame, folder


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


def test_planted_labels_are_listed(mails):
    _, folder = mails
    listed = pd.read_csv(folder / "mails-svm-labels.csv")
    assert sorted(listed["row"]) == [7, 50]
    assert (listed["given"] != listed["label"]).all()
    assert (listed["probability"] > listed["probability_of_given"]).all()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_and_probabilities_of_a_file(mails, tmp_path, ending):
    frame, folder = mails
    with_gap = frame.copy()
    with_gap.loc[3, "body"] = None
    with_gap.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / f"labels.{ending}"
    model = folder / "mails-svm.tellwhy"
    done = run(
        "predict", model, tmp_path / "new.csv", "--id", "id", "--label", "topic", "--top", 2, "--out", out
    )
    found = pd.read_csv(out) if ending == "csv" else pq.read_table(out).to_pandas()
    reader = tellwhy.load(model)
    there = np.arange(80) != 3
    assert found["row"].tolist() == list(range(80))
    assert found["id"].tolist() == frame["id"].tolist()
    assert found["label"][there].tolist() == reader.predict(frame["body"][there]).tolist()
    assert pd.isna(found.loc[3, "label"])
    chances = reader.predict_proba(frame["body"][there])
    np.testing.assert_allclose(found["probability"][there], chances.max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found["probability_2"][there], chances.min(axis=1), rtol=1e-9)
    agree = int((reader.predict(frame["body"][there]) == frame["topic"][there]).sum())
    assert f"the label they came with: {agree} of 79" in done.stdout
    assert "Without a text, and so without a label: 1." in done.stdout
    again = run("predict", model, tmp_path / "new.csv", "--out", out, status=0 if ending == "csv" else 1)
    assert ("left as it is" in again.stderr) == (ending == "parquet")


def test_blocks_are_what_the_whole_file_is(mails, tmp_path, monkeypatch):
    frame, folder = mails
    frame.to_parquet(tmp_path / "new.parquet", row_group_size=9)
    model = folder / "mails-svm.tellwhy"
    whole = run("predict", model, tmp_path / "new.parquet", "--quiet").stdout
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 20)
    assert len(blocks.plan_blocks([tmp_path / "new.parquet"])) > 3
    assert run("predict", model, tmp_path / "new.parquet", "--quiet").stdout == whole
    assert whole.splitlines()[0].endswith("row,label,probability")
    assert len(whole.splitlines()) == 81


def test_numbers_by_name_and_by_place(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.columns = ["a", "b", "c", "d"]
    names = np.array(["one", "two", "three"])
    table = X.assign(kind=names[y])
    table.loc[20, "kind"] = "two"
    table.to_csv(tmp_path / "iris.csv", index=False)
    done = run(
        "fit-svm",
        tmp_path / "iris.csv",
        "--label",
        "kind",
        "--c",
        "0.001,0.1",
        "--out",
        tmp_path / "m.tellwhy",
    )
    assert "C = 0.1, the best of 0.001, 0.1 by cross-validation." in done.stdout
    assert "row 20: two → one" in done.stdout
    model = tellwhy.load(tmp_path / "m.tellwhy")
    table[["d", "c", "b", "a"]].to_csv(tmp_path / "turned.csv", index=False)
    told = run("predict", tmp_path / "m.tellwhy", tmp_path / "turned.csv", "--quiet").stdout.splitlines()
    assert [line.split(",")[1] for line in told[1:]] == model.predict(X).tolist()
    table.assign(b="wide").to_csv(tmp_path / "texts.csv", index=False)
    done = run("predict", tmp_path / "m.tellwhy", tmp_path / "texts.csv", status=1)
    assert "row 0 (counted from 0), column 'b': expected a finite number, got 'wide'" in " ".join(
        done.stderr.split()
    )
    done = run("predict", tmp_path / "m.tellwhy", tmp_path / "iris.csv", "--label", "sort", status=1)
    assert "lacks 1 column(s)" in done.stderr
    dump_svmlight_file(X, y, str(tmp_path / "iris.svm"), zero_based=False)
    run("fit-svm", tmp_path / "iris.svm", "--out", tmp_path / "s.tellwhy")
    told = run("predict", tmp_path / "s.tellwhy", tmp_path / "iris.svm", "--json")
    assert json.loads(told.stdout)["compared"] == 150
    assert "probability" not in run("predict", tmp_path / "s.tellwhy", tmp_path / "iris.svm", "-q").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--c", "much"], "--c must be a positive number"),
        (["--c", "0"], "--c must be a positive number"),
        (["--folds", "1"], "--folds 1 leaves no rows"),
        (["--folds", "3", "--held-out", "0.2", "--text", "body"], "Give one of the two"),
    ],
)
def test_what_cannot_be_asked_of_training(mails, words, told):
    done = run("fit-svm", mails[1] / "mails.csv", "--label", "topic", *words, status=1)
    assert told in " ".join(done.stderr.split())


def test_a_model_that_labels_nothing_is_refused(tmp_path):
    frame = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60.0) % 7})
    frame.to_csv(tmp_path / "t.csv", index=False)
    tellwhy.save(tellwhy.detectors.KernelDensity().fit(frame.to_numpy()), tmp_path / "d.tellwhy")
    done = run("predict", tmp_path / "d.tellwhy", tmp_path / "t.csv", status=1)
    assert "holds a KernelDensity, which labels no rows" in " ".join(done.stderr.split())
