"""Marks beside a model: by whom, when and why; they cover what somebody saw, and survive a new fit."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tellwhy
from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.kinds.mark_file import (
    add_marks,
    carry_marks,
    count_other_marks,
    forget_marks,
    marks_beside,
    merge_marks,
    path_of_marks,
)
from tellwhy.kinds.marks import Mark, make_marks, row_at_line, row_of
from tellwhy.storage.journal import append_lines, read_lines
from tellwhy.views.cli import app
from tellwhy.workflow import explain_new, fit_model


def orders(n, seed, **cells):
    rng = np.random.default_rng(seed)
    quantity = rng.integers(1, 20, n)
    price = np.round(rng.gamma(3, 10, n), 2)
    frame = pd.DataFrame(
        {
            "id": [f"A{k}" for k in range(n)],
            "qty": quantity,
            "price": price,
            "total": np.round(quantity * price, 2),
            "status": rng.choice(["open", "paid", "shipped"], n).astype(object),
        }
    )
    for name, changed in cells.items():
        for row, value in changed.items():
            frame.loc[row, name] = value
    return frame


@pytest.fixture(scope="module")
def fitted():
    return fit_model(orders(600, 0), id_column="id")


@pytest.fixture
def place(fitted, tmp_path):
    return tellwhy.save(fitted, tmp_path / "m.tellwhy")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def alarms(found):
    return {anomaly.row for anomaly in found.anomalies if anomaly.above_threshold}


def test_a_new_level_is_held_back_whole_and_nothing_else_changes(place):
    """The detector finds a level odd that the model never saw: a mark that says it is known covers that too."""
    on_hold = dict.fromkeys(range(40, 60), "on hold")
    february = orders(300, 1, status=on_hold, total={5: 90_000.0})
    found = explain_new(tellwhy.load(place), february)
    assert set(on_hold) <= alarms(found)
    add_marks(place, make_marks(found, 41, "a new status"))
    after = explain_new(tellwhy.load(place), february)
    assert alarms(after) == alarms(found) - set(on_hold)
    notice = next(each for each in after.notices if each.kind == "held_back")
    assert (notice.facts["n"], notice.facts["marks"]) == (20, [["a new status", 20]])
    assert notice.facts["rows"] == [sorted(on_hold)]
    assert "20 rows were held back by 1 mark: a new status (20)." in after.headline[-1]
    by_row = {anomaly.row: anomaly for anomaly in found.anomalies}
    for anomaly in after.anomalies:
        if not anomaly.above_threshold:
            continue
        was = by_row[anomaly.row]
        assert (anomaly.score, anomaly.known_by) == (was.score, was.known_by)
        assert [each.text for each in anomaly.reasons] == [each.text for each in was.reasons]


def test_a_row_that_is_odd_for_more_is_counted_as_an_alarm_and_not_as_held_back(place):
    found = explain_new(tellwhy.load(place), orders(300, 1, status={40: "on hold"}))
    add_marks(place, make_marks(found, 40, "a new status"))
    both = orders(
        300, 2, status={7: "on hold", 8: "on hold"}, price={7: 4000.0}, qty={7: 1}, total={7: 4000.0}
    )
    after = explain_new(tellwhy.load(place), both)
    assert 7 in alarms(after)
    assert 8 not in alarms(after)
    assert next(n for n in after.notices if n.kind == "held_back").facts["n"] == 1


@pytest.mark.parametrize(("total", "is_raised"), [(9_000.0, False), (10_000_000.0, True)])
def test_a_mark_on_a_broken_relation_does_not_silence_one_a_thousand_times_as_far_off(
    place, total, is_raised
):
    found = explain_new(tellwhy.load(place), orders(300, 3, total={9: 5000.0}))
    add_marks(place, make_marks(found, 9, "postage"))
    assert 9 not in alarms(explain_new(tellwhy.load(place), orders(300, 3, total={9: 5000.0})))
    later = explain_new(tellwhy.load(place), orders(300, 4, total={30: total}))
    assert (30 in alarms(later)) == is_raised


def test_two_at_once_lose_no_mark(place):
    marks = [Mark(json.dumps(["odd", [["price", str(k)]]]), f"price {k}", f"known {k}") for k in range(30)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda mark: add_marks(place, [mark]), marks))
    assert {mark.cause for mark in tellwhy.load(place).marks} == {mark.cause for mark in marks}


def test_marks_are_told_with_who_when_and_why_and_what_was_forgotten_stays_in_the_file(place):
    [mark] = add_marks(place, [Mark("cause", "words", "why")], run="feb", who="Ada")
    assert mark.id
    assert (mark.who, bool(mark.when)) == ("Ada", True)
    forget_marks(place, [mark], why="a mistake", who="Grace")
    assert marks_beside(place) == []
    first, then = read_lines(path_of_marks(place))
    assert (first["what"], first["run"], first["who"], first["why"]) == ("mark", "feb", "Ada", "why")
    assert (then["what"], then["id"], then["who"], then["why"]) == ("forget", mark.id, "Grace", "a mistake")
    assert first["model"] == then["model"]


def test_marks_of_another_model_do_nothing_until_they_are_carried_over(place, fitted, tmp_path):
    [mark] = add_marks(place, [Mark("cause", "words", "why")])
    tellwhy.save(fit_model(orders(600, 0), id_column="id", random_state=1, fdr=0.05), place)
    assert tellwhy.load(place).marks == ()
    assert count_other_marks(place) == 1
    carry_marks(place, [mark])
    carry_marks(place, [mark])
    assert tellwhy.load(place).marks == (mark,)
    assert count_other_marks(place) == 0
    other = tellwhy.save(fitted, tmp_path / "other.tellwhy")
    assert merge_marks(other, path_of_marks(place)) == 1
    assert merge_marks(other, path_of_marks(place)) == 0
    assert [each.id for each in tellwhy.load(other).marks] == [mark.id]


@pytest.mark.parametrize(
    "entry",
    [{"cause": 3}, {"cause": ""}, {"reach": [1]}, {"reach": {"a": [1, 2, 3]}}, {"schema": 9}, {"why": None}],
)
def test_marks_that_cannot_be_read_are_told_and_not_passed_over(place, entry):
    add_marks(place, [Mark("cause", "words", "why")])
    [whole] = read_lines(path_of_marks(place))
    append_lines(path_of_marks(place), [whole | entry])
    with pytest.raises(UnreadableFile, match=r"marks\.jsonl"):
        tellwhy.load(place)


def test_rows_are_named_as_the_run_shows_them(place):
    found = explain_new(tellwhy.load(place), orders(300, 1, status={40: "on hold"}))
    assert row_of(found, "A40") == row_of(found, "40") == 40
    assert row_at_line(found, 42) == 40 if found.anomalies[0].part.line else True
    with pytest.raises(InvalidParameter, match="No explained row of this run is called 'B7'"):
        row_of(found, "B7")
    with pytest.raises(InvalidParameter, match="line 9999"):
        row_at_line(found, 9999)


def test_the_command_refuses_a_run_whose_model_is_another_and_fitting_again_keeps_marks(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    orders(600, 0).to_csv("jan.csv", index=False)
    orders(300, 1, status={40: "on hold"}).to_csv("feb.csv", index=False)
    fit = ["fit", "jan.csv", "--id", "id", "--save", "m.tellwhy", "-q"]
    assert run(*fit).exit_code == 0
    assert run("explain", "feb.csv", "--model", "m.tellwhy", "--out", "run", "-q").exit_code == 0
    told = run("mark", "run", "--row", "A40", "--benign", "new", "--who", "Ada")
    assert "status = 'on hold', a level that the reference lacks" in told.stdout
    listed = run("mark", "m.tellwhy").stdout
    assert "has 2 marks" in listed
    assert "Ada" in listed
    assert run(*fit, "--seed", "4").exit_code == 0
    assert "has 2 marks" in run("mark", "m.tellwhy").stdout
    before = path_of_marks("m.tellwhy").read_bytes()
    refused = run("mark", "run", "--row", "A40", "--benign", "again")
    assert refused.exit_code != 0
    assert "is not the model that run was made with" in refused.stderr
    assert path_of_marks("m.tellwhy").read_bytes() == before
    assert run("mark", "m.tellwhy", "--forget", "1").exit_code == 0
    assert "has 1 mark." in run("mark", "m.tellwhy").stdout
