"""A run on columns as people write them: read once, said, and no alarm for what only tells the period."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.kinds.request import Request
from tellwhy.kinds.table_rows import read_new_rows, read_source, select
from tellwhy.workflow import explain_graph, explain_table, fit_model


def orders(start, n, seed, periods=28):
    """Orders of about a month, with money and dates in American writing and a status code."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp(start) + pd.to_timedelta(np.sort(rng.uniform(0, periods, n)), unit="D")
    price = rng.lognormal(3, 0.5, n)
    return pd.DataFrame(
        {
            "order_date": days.strftime("%m/%d/%Y %H:%M"),
            "price": [f"${v:,.2f}" for v in price],
            "weight": [f"{v:.1f} kg" for v in rng.normal(5, 0.5, n)],
            "status": rng.choice([200, 200, 200, 301, 404], n),
            "country": rng.choice(["DE", "US", "FR"], n),
        }
    )


def test_a_later_month_is_no_anomaly(tmp_path):
    january = tmp_path / "jan.csv"
    february = tmp_path / "feb.csv"
    orders("2024-01-01", 600, 0).to_csv(january, index=False)
    table = orders("2024-02-01", 600, 1)
    table.loc[17, "price"] = "$9,000.00"
    table.to_csv(february, index=False)
    run = explain_table(february, reference=january, top=10)
    assert run.anomalies[0].row == 17
    assert run.anomalies[0].reasons[0].feature == "price"
    assert np.mean(run.scores > run.threshold) < 0.03
    assert all(anomaly.reasons[0].feature != "order_date" for anomaly in run.anomalies)
    assert "order_date only tells in which order the rows came; its hour of day is compared" in " ".join(
        run.notes
    )


def test_the_same_month_is_compared_by_its_dates():
    january = orders("2024-01-01", 500, 0).sample(frac=1, random_state=0)
    again = orders("2024-01-01", 500, 1).sample(frac=1, random_state=1)
    assert "order_date" in explain_table(again, reference=january).columns
    assert not select(read_source(again), Request()).roles["order_date"].orders


def test_sorted_dates_only_tell_the_order():
    found = select(read_source(orders("2024-01-01", 500, 0)), Request())
    assert found.roles["order_date"].orders == "in which order the rows came"


def test_both_tables_are_read_alike_and_said_once():
    january = read_source(orders("2024-01-01", 300, 0))
    february = read_source(orders("2024-02-01", 300, 1))
    model = fit_model(january, clean=True)
    found = read_new_rows(model, february)
    assert model.roles["price"].words == "money in $"
    assert model.roles["status"].kind == "category"
    for frame in (found.frame, model.reference):
        assert frame["price"].dtype == np.float64
        assert frame["order_date"].dtype.kind == "M"
    assert sum(notice.facts.get("column") == "price" for notice in found.said) == 1
    run = explain_table(february, reference=january)
    assert sum(text.startswith("price:") for text in run.notes) == 1


def test_a_table_that_could_be_read_in_two_ways_is_read_like_its_reference():
    january = read_source(pd.DataFrame({"day": ["31/01/2024", "05/01/2024"] * 20, "x": np.arange(40) % 7}))
    february = read_source(pd.DataFrame({"day": ["03/02/2024", "05/06/2024"] * 20, "x": np.arange(40) % 7}))
    found = read_new_rows(fit_model(january, clean=True), february)
    assert found.frame["day"][0] == pd.Timestamp("2024-02-03")
    assert select(february, Request()).frame["day"][0] != pd.Timestamp("2024-02-03")


def test_what_the_user_tells_of_columns():
    table = orders("2024-01-01", 300, 0).assign(note="a", ref=np.arange(300) * 7 % 300)
    found = select(
        read_source(table),
        Request(number=["status"], category=["weight"], text=["country"], exclude=["note"], date=["note"]),
    )
    kinds = {name: role.kind for name, role in found.roles.items()}
    assert (kinds["status"], kinds["weight"], kinds["country"]) == ("number", "category", "text")
    assert "note" not in kinds
    with pytest.raises(InvalidInput, match="no column 'pricy'"):
        select(read_source(table), Request(number=["pricy"]))


def test_text_that_was_told_is_no_feature():
    run = explain_table(orders("2024-01-01", 200, 0), text=["country"], top=3)
    assert "country" not in run.columns
    assert {"price", "weight", "status"} <= set(run.columns)


def test_a_word_among_numbers_is_missing_and_said():
    table = orders("2024-01-01", 200, 0)
    table["size"] = [f"{v:.2f}" for v in np.random.default_rng(3).normal(10, 1, 200)]
    table.loc[5, "size"] = "broken"
    table.loc[6, "size"] = "99"
    run = explain_table(table, top=3)
    assert run.anomalies[0].row == 6
    assert "size: read as numbers; one cell, 'broken', is not written so" in " ".join(run.notes)


def test_whole_numbers_that_were_named_are_used_though_they_look_like_names():
    table = pd.DataFrame({"id": np.arange(100) * 3 + 7, "x": np.random.default_rng(0).normal(size=100)})
    assert select(read_source(table), Request()).roles["id"].kind == "identifier"
    assert select(read_source(table), Request(columns=["id", "x"])).roles["id"].kind == "number"
    assert explain_table(table, columns=["id", "x"], top=1).columns == ["id", "x"]


def test_a_sequence_is_read_as_people_write_it_too():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "time": pd.date_range("2024-01-01", periods=150, freq="h").strftime("%d.%m.%Y %H:%M"),
            "cost": [f"${v:,.2f}" for v in rng.lognormal(5, 0.1, 150)],
            "flow": [f"{v:.1f} l" for v in rng.normal(20, 1, 150)],
        }
    )
    table.loc[70, "cost"] = "$9,999.00"
    table.loc[20, "flow"] = "offline"
    found = explain_graph(table, time="time", n_classes=1, top=3)
    assert found.run.anomalies[0].row == 70
    assert found.run.anomalies[0].reasons[0].feature == "cost"
    assert any(text.startswith("flow: volumes in l, read as numbers; one cell") for text in found.run.notes)


def office(start, n, seed):
    """Sorted visits in office hours, about every half hour of some weeks."""
    rng = np.random.default_rng(seed)
    days = np.sort(rng.integers(0, 28, n))
    hours = rng.normal(13, 1.5, n)
    moments = pd.Timestamp(start) + pd.to_timedelta(days * 24 + hours, unit="h")
    return pd.DataFrame({"at": moments.sort_values(), "size": rng.normal(size=n), "cost": rng.normal(size=n)})


def test_an_odd_hour_is_found_though_the_date_only_tells_the_order():
    table = office("2024-02-01", 400, 0)
    table.loc[200, "at"] = table.loc[200, "at"].normalize() + pd.Timedelta(hours=3)
    alone = explain_table(table, top=3)
    beside = explain_table(table, reference=office("2024-01-01", 400, 1), top=3)
    for run in (alone, beside):
        assert (run.anomalies[0].row, run.anomalies[0].reasons[0].feature) == (200, "at")
        assert run.anomalies[0].reasons[0].text.startswith("at = 03:00 (usually 1")
        assert "its hour of day is compared." in " ".join(run.notes)


def test_days_without_hours_are_left_out():
    table = office("2024-01-01", 300, 0)
    table["at"] = table["at"].dt.normalize()
    run = explain_table(table, top=1)
    assert "at" not in run.columns
    assert "Left out 'at': it only tells in which order the rows came." in run.notes
