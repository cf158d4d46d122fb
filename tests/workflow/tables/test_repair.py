"""Sure mistakes are repaired in a new file, with a list of what was changed."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.checks import check_table
from tellwhy.core.errors import CannotWrite, InvalidParameter
from tellwhy.results.result import MISSING, Finding
from tellwhy.verdicts.repair import find_sure_changes
from tellwhy.views.cli import app
from tellwhy.workflow import repair_table

CITIES = ("Lisbon", "Bergen", "Vienna")


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(CITIES, size=300), "pay": rng.normal(50, 9, size=300).round(2)})
    frame.insert(0, "code", [f"{i:05d}" for i in range(300)])
    frame.loc[[3, 77], "city"] = ["Lisbn", "Bregen"]
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def surely(monkeypatch):
    """Let misspellings be sure but for that of Bergen; the others as the checks find them."""

    def checked(*given, **told):
        quality = check_table(*given, **told)
        return replace(quality, findings=tuple(map(sure, quality.findings)))

    def sure(f):
        if f.kind != "misspelling":
            return f
        p = 0.7 if f.facts["meant"] == "Bergen" else 0.99
        return replace(f, probabilities=[p] * len(f.rows), expected=[f.facts["meant"]] * len(f.rows))

    monkeypatch.setattr("tellwhy.kinds.checked_file.check_table", checked)


def repair(*arguments, expect=0):
    result = CliRunner().invoke(app, ["repair", *map(str, arguments)])
    assert result.exit_code == expect, result.output
    return result


@pytest.mark.usefixtures("surely")
def test_a_sure_mistake_is_repaired_and_listed(file, tmp_path):
    before = file.read_text()
    text = " ".join(repair(file, "--out", tmp_path / "clean.csv").stdout.split())
    assert (tmp_path / "clean.csv").read_text() == before.replace("Lisbn", "Lisbon")
    assert file.read_text() == before
    changes = pd.read_csv(tmp_path / "clean.changes.csv")
    assert changes.columns.tolist() == ["row", "line", "column", "old", "new", "why", "probability"]
    (change,) = changes.to_dict("records")
    assert (change["row"], change["line"], change["column"]) == (3, 5, "city")
    assert (change["old"], change["new"], change["probability"]) == ("Lisbn", "Lisbon", 0.99)
    assert change["why"].startswith("city = 'Lisbn', a misspelling of 'Lisbon'")
    assert "1 cell repaired" in text
    assert "1 other cell with a finding stays as it is." in text


@pytest.mark.usefixtures("surely")
def test_a_second_run_finds_nothing_of_them_again(file, tmp_path):
    repair(file, "--out", tmp_path / "clean.csv", "--threshold", "0.6", "-q")
    told = json.loads(repair(tmp_path / "clean.csv", "--out", tmp_path / "again.csv", "--json").stdout)
    assert (told["changes"], told["n_unsure"]) == ([], 0)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "clean.csv").read_bytes()


@pytest.mark.usefixtures("surely")
def test_the_threshold_decides(file, tmp_path):
    told = json.loads(repair(file, "--out", tmp_path / "c.csv", "--threshold", "0.6", "--json").stdout)
    assert [(c["old"], c["new"]) for c in told["changes"]] == [("Lisbn", "Lisbon"), ("Bregen", "Bergen")]
    with pytest.raises(InvalidParameter, match="probability"):
        repair_table(file, threshold=95)


@pytest.mark.usefixtures("surely")
def test_nothing_of_the_users_is_replaced(file, tmp_path):
    (tmp_path / "clean.csv").write_text("mine")
    for target in ("clean.csv", "people.csv"):
        before = (tmp_path / target).read_bytes()
        repair(file, "--out", tmp_path / target, expect=1)
        assert (tmp_path / target).read_bytes() == before
    repair(file, "--out", file, "--force", expect=1)
    (tmp_path / "other.changes.csv").write_text("mine")
    repair(file, "--out", tmp_path / "other.csv", expect=1)
    assert not (tmp_path / "other.csv").exists()
    repair(file, "--out", tmp_path / "clean.csv", "--force", "-q")
    with pytest.raises(CannotWrite, match="left as it is"):
        repair_table(file).save(tmp_path / "clean.csv")


@pytest.mark.usefixtures("surely")
def test_a_frame_in_memory_and_parquet(file, tmp_path):
    frame = pd.read_csv(file, dtype={"code": str})
    kept = frame.copy()
    repaired = repair_table(frame)
    assert frame.equals(kept)
    assert repaired.frame.equals(frame.replace("Lisbn", "Lisbon"))
    repaired.save(tmp_path / "clean.parquet")
    assert pd.read_parquet(tmp_path / "clean.parquet").equals(repaired.frame)


def test_a_repair_that_is_found_wrong_again_is_taken_back(file, monkeypatch):
    def never_content(frame, *_, **__):
        quality = check_table(frame)
        wants = "Bergen" if frame["city"].iloc[0] == "Lisbon" else "Lisbon"
        found = Finding("misspelling", ["city"], [0], probabilities=[1.0], expected=[wants])
        return replace(quality, findings=(found,))

    monkeypatch.setattr("tellwhy.kinds.checked_file.check_table", never_content)
    repaired = repair_table(file)
    assert (repaired.changes, len(repaired.taken_back)) == ((), 1)
    assert repaired.frame.equals(repaired.table.frame)


def finding(column, probability, expected, kind="misspelling", **more):
    return Finding(kind, [column], [1], probabilities=[probability], expected=[expected], **more)


def test_the_most_probable_of_several_repairs_counts():
    frame = pd.DataFrame({"a": ["x", "y"], "n": [1.0, 2.0]})
    one, other = finding("a", 0.97, "u"), finding("a", 0.99, "v")
    assert [c.new for c in find_sure_changes([one, other], frame)] == ["v"]
    assert find_sure_changes([one, replace(other, probabilities=[0.97])], frame) == []  # nobody knows which
    assert (
        find_sure_changes([finding("a", 0.94, "u"), finding("n", 0.99, 2)], frame) == []
    )  # unsure; nothing to do
    assert find_sure_changes([finding("a", float("nan"), "u")], frame) == []


def test_a_placeholder_is_emptied_and_what_is_only_told_stays():
    frame = pd.DataFrame({"n": [1.0, 999.0]})
    empty = finding("n", 0.99, None, kind="placeholder", action=MISSING)
    assert [(c.old, c.new) for c in find_sure_changes([empty], frame)] == [(999.0, None)]
    assert find_sure_changes([replace(empty, action="told only")], frame) == []
    assert find_sure_changes([finding("n", 0.99, None, kind="rare_level", action=MISSING)], frame) == []


def test_what_the_checks_themselves_are_sure_of_is_repaired(file, tmp_path):
    told = json.loads(repair(file, "--out", tmp_path / "clean.csv", "--json").stdout)
    assert ("Lisbn", "Lisbon") in [(change["old"], change["new"]) for change in told["changes"]]
    again = json.loads(repair(tmp_path / "clean.csv", "--out", tmp_path / "again.csv", "--json").stdout)
    assert again["changes"] == []


def test_slips_that_an_equation_tells_and_placeholders_are_repaired(tmp_path):
    rng = np.random.default_rng(3)
    pieces, price = rng.integers(1, 9, 400), np.round(rng.gamma(3, 12, 400), 2)
    frame = pd.DataFrame({"age": rng.integers(18, 80, 400), "pieces": pieces, "price": price})
    frame["total"] = np.round(pieces * price, 2)
    right = frame.copy()
    frame.loc[[4, 90], "age"] = -999
    frame.loc[17, "total"] *= 10
    frame.loc[77, "total"] *= 100
    frame.loc[140, "total"] += 1.5  # nobody knows which of the three is wrong
    frame.to_csv(tmp_path / "orders.csv", index=False)
    repaired = repair_table(tmp_path / "orders.csv")
    told = {(change.row, change.column): change.new for change in repaired.changes}
    assert told == {
        (4, "age"): None,
        (90, "age"): None,
        (17, "total"): right.loc[17, "total"],
        (77, "total"): right.loc[77, "total"],
    }
    assert repaired.n_unsure >= 1
    assert [change.probability for change in repaired.changes] == [0.95] * 4
    assert not repair_table(tmp_path / "orders.csv", threshold=0.96).changes
