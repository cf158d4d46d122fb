"""A model that was fitted once: what it keeps, and what it says of other tables."""

import hashlib

import numpy as np
import pandas as pd
import pytest

import tellwhy
from tellwhy.checks import check_table
from tellwhy.checks.facts import facts_of
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.data import as_table
from tellwhy.data.columns.roles import read_columns
from tellwhy.detectors import KernelDensity
from tellwhy.kinds import table_model
from tellwhy.kinds.new_data import compare_with_model
from tellwhy.kinds.table import change_request, judge
from tellwhy.kinds.table_model import load_table_model
from tellwhy.workflow import explain_new, explain_table, fit_model
from workflow.models.tables import orders


@pytest.fixture(scope="module")
def model():
    return fit_model(orders(bad=True), id_column="id")


def again(model, tmp_path):
    return tellwhy.load(tellwhy.save(model, tmp_path / "m.tellwhy"))


def told(run):
    return [(a.row, a.id, a.score, [r.text for r in a.reasons], a.note) for a in run.anomalies]


SETTINGS = [
    {},
    {"detector": "KernelDensity"},
    {"detector": "PCADetector"},
    {"detector": "NearestNeighbours"},
    {"by": ["country"]},
    {"by": ["country", "is_new"], "exclude": ["is_new"]},
    {"missing": "drop"},
    {"normal": "is_new=False"},
    {"columns": ["qty", "price", "born"]},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_model_that_was_read_says_what_the_fitted_one_says_bit_for_bit(settings, tmp_path):
    fitted = fit_model(orders(300, bad=True), **settings)
    new = orders(80, seed=1, month=3, bad=True)
    new.loc[7, "qty"] = 4000
    before = explain_new(fitted, new)
    after = explain_new(again(fitted, tmp_path), new)
    assert np.array_equal(before.scores, after.scores)
    assert told(before) == told(after)
    assert before.threshold == after.threshold
    assert before.notices == after.notices


def test_the_same_table_and_seed_give_the_same_bytes(tmp_path):
    digests = set()
    for name in ("a", "b"):
        path = tellwhy.save(fit_model(orders(200)), tmp_path / name)
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
        tellwhy.save(tellwhy.load(path), tmp_path / f"{name}2")
        digests.add(hashlib.sha256((tmp_path / f"{name}2").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_planted_rows_are_found_with_their_reasons(model, tmp_path):
    new = orders(300, seed=2, month=2, bad=True)
    new.loc[40, "country"] = "ZZZ"
    new.loc[41, "total"] = round(new.loc[41, "qty"] * new.loc[41, "price"] * 10, 2)
    run = explain_new(again(model, tmp_path), new, top=20)
    why = {a.row: " ".join(r.text for r in a.reasons) for a in run.anomalies if a.above_threshold}
    assert {3, 4, 5, 12, 40, 41} <= set(why)
    assert "age = 999, a placeholder" in why[3]
    assert "price = 5000" in why[12]
    assert "country" in why[40]
    assert "qty × price" in why[41]
    assert next(a.id for a in run.anomalies if a.row == 12) == "A2-12"


def test_scores_and_reasons_are_of_a_row_and_alarms_of_a_list(model):
    """Whatever stands beside a row, its score, p-value and reasons are the same."""
    new = orders(200, seed=3, month=2, bad=True).drop(index=[3, 4, 5]).reset_index(drop=True)
    whole = explain_new(model, new, top=200)
    half = explain_new(model, new.iloc[:100], top=100)
    assert np.array_equal(whole.scores[:100], half.scores)
    known = {anomaly.row: anomaly for anomaly in whole.anomalies}
    for anomaly in half.anomalies:
        assert anomaly.p_value == known[anomaly.row].p_value
        if anomaly.above_threshold and known[anomaly.row].above_threshold:
            assert anomaly.reasons == known[anomaly.row].reasons


def test_rows_that_are_part_of_many_are_alarms_above_the_line_of_the_fitting(model):
    new = as_table(orders(200, seed=3, month=2, bad=True))
    judged = judge(model, new, change_request(model, {}), is_part=True)
    assert judged.ranking.threshold == model.threshold
    assert judged.ranking.alarms.over == "fit"
    assert judge(model, new, change_request(model, {})).ranking.alarms.over == "these rows"


def test_the_rule_of_the_fitting_holds_until_another_is_asked_for():
    fitted = fit_model(orders(300), contamination=0.1)
    new = orders(100, seed=5, month=2)
    assert explain_new(fitted, new).n_flagged == 10
    assert explain_new(fitted, new, alarms=3).n_flagged == 3
    assert explain_new(fitted, new, alarms=None).n_flagged == 10


def test_clean_months_have_few_alarms(model):
    found = [explain_new(model, orders(600, seed=s, month=2)).n_flagged for s in range(10, 14)]
    # The line was drawn at 6 alarms or so in 600 rows, of which a tenth are false.
    assert sum(found) <= 6


def daily(first, n_days, seed):
    """Orders of some days, each day alike; dates without an hour have seven places in the week."""
    rng = np.random.default_rng(seed)
    days = np.datetime64(first) + rng.integers(0, n_days, 1000)
    quantity = rng.integers(1, 20, 1000)
    return pd.DataFrame({"date": days, "quantity": quantity, "price": rng.gamma(3, 10, 1000).round(2)})


def test_rows_of_the_next_month_are_as_ordinary_as_those_of_the_last():
    model = fit_model(daily("2026-01-01", 30, 0))
    later = explain_new(model, daily("2026-02-01", 30, 1))
    again = explain_new(model, daily("2026-01-01", 30, 1))  # the same rows, on days that were seen
    assert later.n_flagged == again.n_flagged == 0
    assert np.median(later.scores) < np.median(again.scores) + 0.3
    assert np.quantile(later.scores, 0.99) < np.quantile(again.scores, 0.99) + 0.5


def test_later_dates_are_no_oddity(model):
    run = explain_new(model, orders(200, seed=4, month=9))
    assert run.n_flagged <= 1
    late = orders(200, seed=4, month=9)
    late["born"] += pd.Timedelta(days=20_000)
    assert explain_new(model, late).n_flagged <= 1
    assert any(
        "born: " in text and "later than those that the model" in text
        for text in explain_new(model, late).notes
    )


def test_alarms_may_be_drawn_among_the_new_rows(model):
    new = orders(200, seed=5, month=2)
    assert explain_new(model, new, alarms=7).n_flagged == 7
    with pytest.raises(InvalidParameter, match="detector cannot be changed after fitting"):
        explain_new(model, new, detector="SVDD")


def test_a_reference_is_a_model_of_it():
    """The same rows, scores, alarms, findings and reasons as with `reference=`."""
    train = orders(600, seed=6, bad=True)
    new = orders(200, seed=7, month=1, bad=True)
    new.loc[9, "qty"] = 3000
    by_model = explain_new(fit_model(train, clean=True), new)
    by_table = explain_table(new, reference=train)
    assert np.array_equal(by_model.scores, by_table.scores)
    assert by_model.threshold == by_table.threshold
    assert told(by_model) == told(by_table)
    assert [f.rows for f in by_model.findings] == [f.rows for f in by_table.findings]
    assert {3, 4, 5, 9, 12} <= {a.row for a in by_model.anomalies if a.above_threshold}


def test_text_and_identifiers_are_not_kept(tmp_path):
    frame = orders(200)
    frame["note"] = [f"a secret of customer {i} that is long and different" for i in range(200)]
    path = tellwhy.save(fit_model(frame), tmp_path / "m.tellwhy")
    content = path.read_bytes()
    assert b"secret of customer" not in content
    assert b"A0-17" not in content


def test_renamed_columns_are_told(model):
    new = orders(50, seed=1).rename(columns={"qty": "quantity"})
    with pytest.raises(InvalidInput, match="Was 'qty' renamed to 'quantity'"):
        explain_new(model, new)


def test_a_column_that_was_not_used_may_be_absent(model):
    run = explain_new(model, orders(50, seed=1).drop(columns="id"), id_column=None)
    assert len(run.scores) == 50


def test_numbers_that_arrive_as_text_are_read_or_told(model):
    new = orders(100, seed=1, month=2)
    new["age"] = new["age"].map(str)
    assert np.array_equal(
        explain_new(model, new).scores, explain_new(model, orders(100, seed=1, month=2)).scores
    )
    new.loc[3, "age"] = "about forty"
    assert any("age" in text and "missing" in text for text in explain_new(model, new).notes)


def test_drift_schema_and_ranges():
    model = fit_model(orders(400), id_column="id")
    new = orders(400, seed=8, month=2)
    new["price"] *= 3
    new["total"] = np.round(new["qty"] * new["price"], 2)
    new.loc[:20, "country"] = "PL"
    new["extra"] = 1
    found = compare_with_model(model, new.drop(columns="id"))
    assert {drift.column for drift in found.difference.drifted} == {"price", "total", "country"}
    assert found.difference.new_columns == ["extra"]
    assert found.difference.gone_columns == ["id"]
    beyond = {each.column: each for each in found.beyond}
    assert beyond["price"].n == int((new.price > orders(400).price.max()).sum()) > 0
    assert beyond["country"].n == 21
    assert "PL (21)" in beyond["country"].text


def test_the_same_source_does_not_drift(model):
    for seed in range(20, 26):
        assert not compare_with_model(model, orders(300, seed=seed, month=1)).difference.drifted


def test_many_rows_are_sampled_and_their_ranges_are_not(monkeypatch):
    monkeypatch.setattr(table_model, "MOST_ROWS", 200)
    frame = orders(1000, seed=9)
    frame.loc[777, "qty"] = 19
    frame.loc[778, "age"] = 101.0
    fitted = fit_model(frame)
    assert len(fitted.reference) == 200
    assert fitted.n_rows == 1000
    assert fitted.seen["age"].high == 101.0
    assert fitted.seen["country"].labels == frame["country"].value_counts().to_dict()


def test_other_models_are_no_models_of_tables(tmp_path):
    path = tellwhy.save(KernelDensity().fit(np.random.default_rng(0).normal(size=(30, 2))), tmp_path / "d")
    with pytest.raises(UnreadableFile, match="expected a model of a table"):
        load_table_model(path)


def test_what_cannot_be_saved_is_told(tmp_path):
    with pytest.raises(tellwhy.core.errors.CannotWrite, match="dict cannot be saved"):
        tellwhy.save({}, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_what_a_model_remembers_changes_nothing(tmp_path):
    """The second table is judged with what the first one left behind: as if it were the first."""
    fitted = fit_model(orders(300, bad=True), id_column="id")
    path = tellwhy.save(fitted, tmp_path / "m")
    tables = [orders(90, seed=s, month=2, bad=True) for s in (31, 32, 33)]
    model = tellwhy.load(path)
    in_turn = [explain_new(model, table) for table in tables]
    afresh = [explain_new(tellwhy.load(path), table) for table in tables]
    for one, other in zip(in_turn, afresh, strict=True):
        assert np.array_equal(one.scores, other.scores)
        assert told(one) == told(other)
        assert [f.text for f in one.findings] == [f.text for f in other.findings]


def test_facts_of_a_reference_say_what_the_reference_says():
    read = read_columns(orders(300, bad=True))
    new = read_columns(orders(90, seed=31, month=2, bad=True), roles=read.roles)
    by_table = check_table(new.frame, read.roles, reference=read.frame)
    facts = facts_of(read.frame, read.roles)
    for _ in range(2):
        by_facts = check_table(new.frame, read.roles, reference=facts)
        assert by_facts.findings == by_table.findings
