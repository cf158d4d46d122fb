"""`tellwhy fit` and `tellwhy explain --model`, as a user types them."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli import app
from tellwhy.views.cli.fitting import summarise_model
from tellwhy.workflow import fit_model
from workflow.models.tables import orders


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orders")
    orders(300, bad=True).to_csv(folder / "jan.csv", index=False)
    february = orders(120, seed=1, month=2)
    february.loc[17, "qty"] = 4000
    february["price"] = february["price"] * 2
    february["total"] = (february["qty"] * february["price"]).round(2)
    february.to_csv(folder / "feb.csv", index=False)
    done = CliRunner().invoke(
        app, ["fit", str(folder / "jan.csv"), "--save", str(folder / "m.tellwhy"), "--id", "id", "--json"]
    )
    assert done.exit_code == 0, done.output
    (folder / "fit.json").write_text(done.stdout)
    return folder


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_fit_tells_what_was_learned(place):
    told = json.loads((place / "fit.json").read_text())
    assert told["n_rows"] == told["rows_kept"] == 300
    assert "total" in told["columns"]
    assert "id" not in told["columns"]
    assert told["roles"]["paid"] == "money in $"
    done = run("fit", place / "jan.csv", "--save", place / "again.tellwhy")
    assert "learned from 300 rows of jan.csv" in done.stdout
    assert "Model:" in done.stdout


def test_fit_tells_what_a_sample_cannot_show(place, monkeypatch):
    monkeypatch.setattr("tellwhy.kinds.table_model.MOST_ROWS", 200)
    done = run("fit", place / "jan.csv", "--save", place / "some.tellwhy")
    told = " ".join(done.stdout.split())
    assert "learned from 300 rows (a random 200 of them) of jan.csv" in told
    assert "relations and segments that rare are not learned" in told


def test_rows_that_were_dropped_for_gaps_are_no_random_sample():
    frame = orders(200)
    frame.loc[:9, "qty"] = None
    told = summarise_model(fit_model(frame, missing="drop"))
    assert "learned from 200 rows (190 of them, those without gaps) of" in told
    assert "not learned" not in told


def test_new_rows_are_explained_and_compared(place):
    done = run("explain", place / "feb.csv", "--model", place / "m.tellwhy", "--out", place / "run")
    assert done.exit_code == 0, done.output
    assert "Since the model was fitted:" in done.stdout
    assert "price: median" in done.stdout
    assert "A1-17" in done.stdout
    assert {"result.json", "new_data.json", "report.html", "anomalies.csv"} <= {
        path.name for path in (place / "run").iterdir()
    }
    kept = json.loads((place / "run" / "new_data.json").read_text())
    assert "price" in [drift["column"] for drift in kept["drifts"] if drift["drifted"]]
    assert json.loads((place / "run" / "result.json").read_text())["settings"]["model"].endswith("m.tellwhy")


def test_json_has_it_all(place):
    words = ["explain", place / "feb.csv", "--model", place / "m.tellwhy", "--out", place / "run2"]
    told = json.loads(run(*words, "--json").stdout)
    assert told["anomalies"][0]["id"] == "A1-17"
    assert told["threshold_rule"] == "at most 10 % false alarms expected"
    assert told["new_data"]["n_drifted"] >= 2


@pytest.mark.parametrize(
    "words",
    ["--by country", "--detector SVDD", "--columns qty", "--category qty", "--seed 3", "--missing drop"],
)
def test_what_was_decided_in_fitting_cannot_be_asked_again(place, words):
    done = run("explain", place / "feb.csv", "--model", place / "m.tellwhy", *words.split())
    assert done.exit_code == 1
    assert f"{words.split()[0]} cannot be used with --model" in done.stderr


def test_a_budget_may_be_asked(place):
    words = ["explain", place / "feb.csv", "--model", place / "m.tellwhy", "--out", place / "run3"]
    assert json.loads(run(*words, "--alarms", "5", "--json").stdout)["n_flagged"] == 5


def test_marks(place, tmp_path):
    own = tmp_path / "m.tellwhy"
    own.write_bytes((place / "m.tellwhy").read_bytes())
    words = ["explain", place / "feb.csv", "--model", own, "--out", tmp_path / "run", "--json"]
    before = json.loads(run(*words).stdout)
    row = before["anomalies"][0]["row"]
    done = run("mark", tmp_path / "run", "--row", row, "--benign", "a large customer")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Marked: ")
    after = json.loads(run(*words).stdout)
    assert row not in [each["row"] for each in after["anomalies"] if each["above_threshold"]]
    assert after["n_flagged"] < before["n_flagged"]
    assert any("held back" in text and "a large customer" in text for text in after["notices"])
    assert "1. a large customer: " in run("mark", tmp_path / "run").stdout
    n_marks = len(json.loads(run("mark", tmp_path / "run", "--json").stdout)["marks"])
    for left in reversed(range(n_marks)):
        told = json.loads(run("mark", tmp_path / "run", "--forget", "1", "--json").stdout)
        assert len(told["marks"]) == left
    assert json.loads(run(*words).stdout)["n_flagged"] == before["n_flagged"]


def test_marks_that_cannot_be(place, tmp_path):
    run("explain", place / "feb.csv", "--out", tmp_path / "run")
    done = run("mark", tmp_path / "run", "--row", "3", "--benign", "x")
    assert done.exit_code == 1
    assert "was made without a model" in done.stderr
    assert run("mark", tmp_path / "run", "--row", "3").exit_code == 1


def test_diff_with_a_model(place):
    done = run("diff", place / "m.tellwhy", place / "feb.csv")
    assert done.exit_code == 0, done.output
    assert "price" in done.stdout
    assert "beyond" in done.stdout
    assert json.loads(run("diff", place / "m.tellwhy", place / "feb.csv", "--json").stdout)["beyond"]
    assert run("diff", place / "m.tellwhy", place / "feb.csv", "--exclude", "qty").exit_code == 1


def test_a_folder_is_explained_block_by_block(place):
    (place / "year").mkdir()
    for month in (2, 3):
        orders(60, seed=month, month=month, bad=True).to_csv(place / "year" / f"{month}.csv", index=False)
    words = ["explain", place / "year", "--model", place / "m.tellwhy", "--out", place / "year-run"]
    done = run(*words, "--top", "2")
    assert done.exit_code == 0, done.output
    assert "120 rows of 2 files were judged in 1 block " in done.stdout
    assert (place / "year-run" / "run" / "report.html").exists()
    told = json.loads(run(*words, "--json").stdout)
    assert told["n_rows"] == 120
    assert told["n_resumed"] == told["n_blocks"] == 1
    assert told["n_alarms"] >= 8
    failed = run(*words, "--fail-on-alarms", str(told["n_alarms"] - 1), "--quiet")
    assert failed.exit_code == 3
    assert f"{told['n_alarms']} rows are alarms, more than the" in failed.stderr
    assert run(*words, "--fail-on-alarms", str(told["n_alarms"]), "--quiet").exit_code == 0
    for words, option in ((["--alarms", "3"], "--alarms"), (["--sheet", "2"], "--sheet")):
        wrong = run("explain", place / "year", "--model", place / "m.tellwhy", *words)
        assert wrong.exit_code == 1
        assert f"{option} cannot be used block by block" in wrong.stderr


def test_a_query_is_explained_block_by_block(place, tmp_path):
    import duckdb

    with duckdb.connect(str(tmp_path / "shop.duckdb")) as base:
        february = orders(90, seed=2, month=2, bad=True)
        base.register("february", february)
        base.execute("CREATE TABLE orders AS SELECT * FROM february")
    words = ["explain", "SELECT * FROM orders WHERE qty > 0", "--db", tmp_path / "shop.duckdb"]
    words += ["--model", place / "m.tellwhy", "--out", tmp_path / "run", "--workers", "1", "--json"]
    told = json.loads(run(*words).stdout)
    assert (told["n_rows"], told["n_resumed"]) == (90, 0)
    assert told["n_alarms"] >= 4
    assert json.loads(run(*words).stdout)["n_resumed"] == 1
    words[1] = "SELECT * FROM orders WHERE qty > 5"
    wrong = run(*words)
    assert wrong.exit_code == 1
    assert "another query" in wrong.stderr
    words[1] = "DROP TABLE orders"
    assert run(*words, "--out", tmp_path / "run2").exit_code == 1


def test_a_folder_is_fitted_in_passes(place):
    (place / "months").mkdir(exist_ok=True)
    for month in (4, 5):
        orders(80, seed=month, month=month).to_csv(place / "months" / f"{month}.csv", index=False)
    done = run("fit", place / "months", "--save", place / "months.tellwhy", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_rows"] == 160
    words = ["explain", place / "months", "--out", place / "months-run", "--id", "id"]
    assert run(*words).exit_code == 0
    assert (place / "months-run" / "model.tellwhy").exists()
    broken = place / "months" / "6.csv"
    broken.write_text("id,qty\n1,2\n")
    done = run("explain", place / "months", "--model", place / "m.tellwhy", "--out", place / "broken-run")
    assert done.exit_code == 1
    assert "could not be explained" in done.stderr


def test_what_is_no_model_is_told(place):
    done = run("explain", place / "feb.csv", "--model", place / "jan.csv")
    assert done.exit_code == 1
    assert "is no model" in done.stderr
    pd.DataFrame({"a": [1, 2]}).to_csv(place / "other.csv", index=False)
    done = run("explain", place / "other.csv", "--model", place / "m.tellwhy")
    assert done.exit_code == 1
    assert "lacks" in done.stderr
