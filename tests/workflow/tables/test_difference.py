"""What changed from one table to another: planted drifts found and named, none where there is none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.kinds import drift
from tellwhy.workflow import diff_tables


def table(rng, n, start="2024-01-01"):
    """Orders with numbers of several shapes, levels, gaps, text, dates and identifiers."""
    f = {f"n{j}": rng.normal(size=n) for j in range(8)}
    f["amount"] = [f"${v:,.2f}" for v in rng.lognormal(3, 1, n)]
    f["count"] = rng.poisson(2.5, n)
    f["rating"] = rng.choice([1, 2, 3, 4, 5], n, p=[0.05, 0.1, 0.2, 0.4, 0.25])
    f["zeros"] = np.where(rng.random(n) < 0.7, 0.0, rng.exponential(5, n))
    f["country"] = rng.choice(["DE", "US", "PL", "FR"], n, p=[0.4, 0.3, 0.2, 0.1])
    f["city"] = [f"city {i}" for i in rng.zipf(1.6, n).clip(max=3000)]
    f["paid"] = rng.choice(["yes", "no"], n, p=[0.9, 0.1])
    f["gaps"] = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    f["order_date"] = (
        pd.Timestamp(start) + pd.to_timedelta(np.sort(rng.integers(0, 28 * 24, n)), unit="h")
    ).strftime("%d.%m.%Y %H:%M")
    f["order_id"] = rng.permutation(10 * n)[:n]
    return pd.DataFrame(f)


def test_two_samples_of_one_source_do_not_drift():
    n_pairs = 60
    n_drifted = 0
    for seed in range(n_pairs):
        rng = np.random.default_rng(seed)
        n, m = rng.integers(80, 700, 2)
        found = diff_tables(table(rng, n), table(rng, m, "2024-02-01"))
        assert found.changed == {}
        assert list(found.ordering) == ["order_date"]
        assert found.not_compared == {"order_id": "a number of its own for every row"}
        n_drifted += bool(found.drifted)
    assert n_drifted <= 0.05 * n_pairs


PLANTED = {
    "n1": (lambda f, rng: f["n1"] + 0.5, "median "),
    "n2": (lambda f, rng: f["n2"] * 2, "9 rows in 10 lie in "),
    "amount": (lambda f, rng: f["amount"].str.replace("$", "$1", regex=False), "median "),
    "count": (lambda f, rng: rng.poisson(4, len(f)), "median "),
    "rating": (lambda f, rng: f["rating"].where(rng.random(len(f)) > 0.15, 1), "1 in "),
    "country": (lambda f, rng: f["country"].where(rng.random(len(f)) > 0.03, "KP"), "new: KP ("),
    "paid": (lambda f, rng: f["paid"].where(rng.random(len(f)) > 0.2, "no"), "True in "),
    "gaps": (lambda f, rng: f["gaps"].where(rng.random(len(f)) > 0.3), "missing: "),
}


@pytest.mark.parametrize("column", PLANTED)
def test_a_planted_drift_is_found_and_named(column):
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        old = table(rng, 900)
        new = table(rng, 1100, "2024-02-01")
        change, words = PLANTED[column]
        new[column] = change(new, rng)
        drifted = diff_tables(old, new).drifted
        assert {drift.column for drift in drifted} == {column}
        assert words in drifted[0].text


def test_the_median_is_told_in_the_users_units():
    rng = np.random.default_rng(0)
    old = pd.DataFrame({"price": rng.normal(200.0, 10.0, 2000)})
    new = pd.DataFrame({"price": rng.normal(250.0, 10.0, 2000)})
    drift = diff_tables(old, new).drifts[0]
    before, after = (float(part.split()[0]) for part in drift.text.removeprefix("median ").split(" → "))
    assert before == pytest.approx(200, abs=1)
    assert after == pytest.approx(250, abs=1)
    assert "(+2" in drift.text
    assert drift.old["50 %"] == pytest.approx(before, abs=0.1)


def test_drifts_are_sorted_by_size():
    rng = np.random.default_rng(1)
    old = pd.DataFrame(rng.normal(size=(800, 5)), columns=list("abcde"))
    shifts = np.array([0, 2, 0.5, 0, 1])
    new = pd.DataFrame(rng.normal(size=(800, 5)) + shifts, columns=list("abcde"))
    found = diff_tables(old, new)
    assert [drift.column for drift in found.drifted] == ["b", "e", "c"]
    assert [drift.drifted for drift in found.drifts] == [True] * 3 + [False] * 2


def test_columns_that_come_go_or_are_written_otherwise():
    old = pd.DataFrame({"a": ["$5", "$7", "$9"] * 30, "b": range(90), "c": ["x", "y", "z"] * 30})
    new = pd.DataFrame({"a": ["5 €", "7 €", "9 €"] * 30, "d": range(90), "c": ["x", "y", "z"] * 30})
    found = diff_tables(old, new)
    assert (found.new_columns, found.gone_columns) == (["d"], ["b"])
    assert found.changed == {"a": ("money in $", "money in €")}
    assert found.drifted == []
    new["a"] = ["cheap", "dear", "free"] * 30
    assert diff_tables(old, new).changed == {"a": ("money in $", "categories")}
    assert diff_tables(old, new).not_compared == {"a": "money in $ before, categories now"}


def test_dates_that_could_be_either_follow_the_old_table():
    old = pd.DataFrame({"day": [f"{d:02}/01/2024" for d in range(1, 29)] * 3})
    new = pd.DataFrame({"day": ["03/02/2024", "05/06/2024", "07/08/2024"] * 20})
    found = diff_tables(old, new)
    assert found.changed == {}
    assert found.ordering["day"].endswith("→ 2024-02-03 to 2024-08-07")


def test_the_hour_of_dates_that_only_tell_the_period_is_compared():
    rng = np.random.default_rng(3)
    day = pd.to_timedelta(np.arange(300) % 28, unit="D")
    hours = [pd.to_timedelta(rng.normal(mean, 2, 300), unit="h") for mean in (10, 16)]
    old = pd.DataFrame({"at": pd.Timestamp("2024-01-01") + day + hours[0]})
    new = pd.DataFrame({"at": pd.Timestamp("2024-02-01") + day + hours[1]})
    found = diff_tables(old, new)
    assert [(drift.column, drift.what) for drift in found.drifted] == [("at", "hour of day")]
    assert found.ordering["at"] == "2024-01-01 to 2024-01-28 → 2024-02-01 to 2024-02-28"


def test_a_column_that_was_constant_or_empty():
    old = pd.DataFrame({"flag": ["off"] * 300, "x": [np.nan] * 300, "y": [1.0] * 300})
    new = pd.DataFrame({"flag": ["off"] * 250 + ["on"] * 50, "x": np.arange(300.0), "y": [1.0] * 300})
    found = diff_tables(old, new)
    assert {(drift.column, drift.what) for drift in found.drifted} == {
        ("flag", "values"),
        ("x", "missing cells"),
    }
    assert next(drift for drift in found.drifted if drift.column == "flag").new_levels == {"on": 50}


def test_large_tables_are_sampled(monkeypatch):
    monkeypatch.setattr(drift, "MOST_ROWS", 500)
    rng = np.random.default_rng(0)
    found = diff_tables(
        pd.DataFrame({"a": rng.normal(size=5000)}), pd.DataFrame({"a": rng.normal(size=5000)})
    )
    assert found.n_rows == (5000, 5000)
    rare = pd.DataFrame({"a": ["x"] * 4998 + ["y"] * 2})
    assert diff_tables(rare, rare).drifts[0].gone_levels == {}
    assert found.drifts[0].p_value > 1e-3
    assert found.drifted == []


def test_kinds_told_and_columns_left_out():
    old = pd.DataFrame({"code": [1, 2, 3] * 50, "z": [1.5, 2.5, 3.5] * 50, "q": range(150)})
    found = diff_tables(old, old, number=["code"], category=["z"], exclude=["q"])
    assert found.roles == {"code": "numbers, as requested", "z": "categories, as requested"}
    assert not found.drifted
    with pytest.raises(InvalidParameter, match="no column 'cod'"):
        diff_tables(old, old, number=["cod"])


def test_mistakes():
    with pytest.raises(InvalidInput, match="no column in common"):
        diff_tables(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]}))
    with pytest.raises(InvalidParameter, match="level"):
        diff_tables(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2]}), level=0.0)
