"""Each kind of error is found in tables with random parameters: its rows, its column, its words."""

import re
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from data.quality.clean_tables import orders, series
from tellwhy.checks.check import check_table
from tellwhy.checks.mistakes import MISTAKES
from tellwhy.checks.texts import _power_of_ten
from tellwhy.data.columns.roles import read_columns

SEEDS = range(3)


@pytest.fixture(params=SEEDS)
def rng(request):
    return np.random.default_rng([request.param, 5])


def some(rng, n, k):
    return np.sort(rng.choice(n, k, replace=False))


def odd(frame, **more):
    found = check_table(frame, **more).findings
    for finding in found:
        assert set(finding.facts) <= MISTAKES[finding.kind].forms[finding.form or finding.kind]
    return [finding for finding in found if finding.surprise > 0]


def the_only(frame, kind, column, rows, **more):
    """The finding, which must be the only one, of these rows and with this guilty column."""
    findings = odd(frame, **more)
    assert [(f.kind, f.columns[0], f.rows) for f in findings] == [(kind, column, tuple(map(int, rows)))]
    return findings[0]


def test_a_total_that_is_not_price_times_quantity(rng):
    frame = orders(rng, 1200)
    rows = some(rng, 1200, 4)
    frame.loc[rows, "total"] += rng.uniform(20, 40, size=4).round(2)
    finding = the_only(frame, "broken_relation", "total", rows)
    assert finding.text == (
        "4 rows: total = price × quantity + shipping does not hold (it holds in the other 1,196 rows)."
    )
    assert set(finding.columns) == {"total", "price", "quantity", "shipping"}
    assert finding.example.startswith(f"total = {frame.loc[rows[0], 'total']:g}"[:12])


@pytest.mark.parametrize(("factor", "words"), [(100, "100 times too large"), (0.1, "10 times too small")])
def test_a_slip_of_the_decimal_point_is_told_from_the_relation(rng, factor, words):
    frame = orders(rng, 1200)
    rows = some(rng, 1200, 3)
    frame.loc[rows, "total"] *= factor
    finding = the_only(frame, "decimal_slip", "total", rows)
    assert f"3 rows: total is {words} for total = price × quantity + shipping" in finding.text


def test_a_flipped_sign_of_a_total(rng):
    frame = orders(rng, 1200)
    rows = some(rng, 1200, 2)
    frame.loc[rows, "total"] *= -1
    assert "wrong sign" in the_only(frame, "sign_flip", "total", rows).text


def test_sums_of_many_columns_and_constant_factors(rng):
    parts = pd.DataFrame(rng.gamma(2, 30, size=(900, 5)).round(2), columns=list("abcde"))
    frame = parts.assign(all=parts.sum(axis=1).round(2), half=(parts["a"] * 0.19).round(2))
    frame.loc[[3, 40], "all"] += 111.5
    frame.loc[[500], "half"] += 9.77
    found = {f.columns[0]: f for f in odd(frame)}
    assert set(found) == {"all", "half"}
    assert (found["all"].kind, found["all"].rows) == ("broken_relation", (3, 40))
    assert "half = 0.19 × a does not hold" in found["half"].text


def test_a_balance_that_does_not_follow_from_the_row_before(rng):
    amount = rng.normal(0, 100, size=800).round(2)
    frame = pd.DataFrame({"amount": amount, "balance": (5000 + np.cumsum(amount)).round(2)})
    frame.loc[[77, 400], "balance"] += 60
    finding = the_only(frame, "broken_relation", "balance", [77, 400])
    assert "balance = balance of the row before + amount does not hold" in finding.text


def test_delivered_before_ordered(rng):
    frame = orders(rng, 1500)
    rows = some(rng, 1500, 5)
    frame.loc[rows, "delivered"] = frame.loc[rows, "ordered"] - pd.Timedelta(days=9)
    finding = the_only(frame, "broken_order", "delivered", rows)
    assert "delivered is before ordered (ordered ≤ delivered in the other 1,495 rows)" in finding.text


def test_an_order_of_numbers_in_whole_steps(rng):
    low = rng.integers(0, 50, size=1500)
    frame = pd.DataFrame({"first": low, "last": low + rng.integers(1, 11, size=1500)})
    frame.loc[[9, 10], "last"] = frame.loc[[9, 10], "first"] - 8
    found = odd(frame)
    assert {f.kind for f in found} == {"broken_order"}
    assert sorted(row for f in found for row in f.rows) == [9, 10]
    assert all(set(f.columns) == {"first", "last"} for f in found)


def test_shares_above_one_hundred(rng):
    frame = pd.DataFrame({"humidity": rng.uniform(5, 100, size=1000).round(1), "x": rng.normal(size=1000)})
    frame.loc[[4, 5], "humidity"] = [163.0, 140.0]
    assert "above 100" in the_only(frame, "broken_order", "humidity", [4, 5]).text


def test_a_rating_off_the_scale(rng):
    frame = pd.DataFrame({"q": rng.integers(1, 6, size=1000), "x": rng.normal(size=1000)})
    frame.loc[[4, 50], "q"] = [6, 12]
    assert (
        "q = 6, 12, off the scale of the others (1 to 5)" in the_only(frame, "rare_level", "q", [4, 50]).text
    )


def test_levels_against_a_reference(rng):
    levels = ["DE", "FR", "PL", "IT"]
    before = pd.DataFrame({"country": rng.choice(levels, size=2000), "x": rng.normal(size=2000)})
    after = pd.DataFrame({"country": rng.choice(levels[:3], size=1000), "x": rng.normal(size=1000)})
    after.loc[[7, 8], "country"] = "AT"
    quality = check_table(after, reference=before)
    new, gone = quality.findings
    assert (new.kind, new.rows) == ("new_level", (7, 8))
    assert new.text == "2 rows: country = 'AT', a level that the reference lacks."
    assert new.surprise > 3
    assert (gone.kind, gone.rows, gone.surprise) == ("vanished_level", (), 0)
    assert "country = 'IT' is gone" in gone.text


def test_relations_are_learned_from_the_reference(rng):
    """The checked table alone has too few rows to tell."""
    before = orders(rng, 1000)
    after = orders(rng, 12)
    after.loc[[5], "total"] += 30.0
    assert [f for f in odd(after) if f.kind == "broken_relation"] == []
    found = odd(after, reference=before)
    assert [(f.kind, f.columns[0], f.rows) for f in found] == [("broken_relation", "total", (5,))]


def test_a_single_rare_level(rng):
    frame = pd.DataFrame({"country": rng.choice(["DE", "FR", "PL"], size=5000), "x": rng.normal(size=5000)})
    frame.loc[1234, "country"] = "KP"
    assert "country = 'KP', a rare level" in the_only(frame, "rare_level", "country", [1234]).text


@pytest.mark.parametrize("wrong", ["Germny", "GERMANY", "germany ", "Gremany", "Germani"])
def test_misspellings(rng, wrong):
    frame = pd.DataFrame({"country": rng.choice(["Germany", "France", "Poland"], size=900)})
    frame["x"] = rng.normal(size=900)
    frame.loc[[3, 14], "country"] = wrong
    assert f"{wrong!r}, a misspelling of 'Germany'" in the_only(frame, "misspelling", "country", [3, 14]).text


def test_codes_of_another_pattern(rng):
    codes = [f"{a}{b}-{i:04d}" for a in "PQRS" for b in "TUV" for i in range(5)]
    frame = pd.DataFrame({"code": rng.choice(codes, size=2000), "x": rng.normal(size=2000)})
    frame.loc[[11], "code"] = "PT0001-"
    assert "not written like the others" in " ".join(f.text for f in odd(frame))
    assert {f.rows for f in odd(frame)} == {(11,)}


def test_a_city_in_the_wrong_country(rng):
    frame = orders(rng, 1500)
    rows = some(rng, 1500, 4)
    frame.loc[rows, "city"] = "Rome"
    frame.loc[rows, "country"] = "DE"
    found = odd(frame)
    assert {(f.kind, f.rows) for f in found} == {("broken_dependency", tuple(map(int, rows)))}
    assert set(found[0].columns) == {"city", "country"}
    assert "city = Rome goes with country = IT" in found[0].text
    assert set(found[0].expected) == {"IT"}
    assert min(found[0].probabilities) > 0.9


def test_a_price_of_another_product_scale(rng):
    product = rng.choice(["pen", "book", "lamp", "desk"], size=1500)
    price = pd.Series(product).map({"pen": 1.5, "book": 12.0, "lamp": 49.9, "desk": 310.0})
    frame = pd.DataFrame({"product": product, "price": price, "x": rng.normal(size=1500)})
    frame.loc[[30, 31], "price"] *= 100
    found = odd(frame)
    assert {(finding.kind, finding.columns[0]) for finding in found} == {("decimal_slip", "price")}
    assert ("price", "product") in {finding.columns for finding in found}
    assert sorted(row for finding in found for row in finding.rows) == [30, 31]


def test_prices_a_hundred_times_too_small_are_told_where_they_are_several(rng):
    price = np.round(rng.lognormal(4.5, 0.35, 2_000), 2)
    rows = some(rng, 2_000, 5)
    price[rows] = np.round(price[rows] / 100, 2)
    frame = pd.DataFrame({"price": price, "quantity": rng.integers(1, 9, 2_000)})
    found = the_only(frame, "decimal_slip", "price", rows)
    assert found.facts["times"] == 0.01
    assert min(found.probabilities) > 0.9
    assert np.abs(np.log(np.array(found.expected) / price[rows] / 100)).max() < 1e-9


def test_one_price_alone_is_no_proof_of_a_slip(rng):
    price = np.round(rng.lognormal(4.5, 0.35, 2_000), 2)
    price[7] = np.round(price[7] / 10, 2)
    assert not odd(pd.DataFrame({"price": price, "quantity": rng.integers(1, 9, 2_000)}))


def test_minus_one_among_whole_numbers_that_thin_out_towards_zero(rng):
    days = np.round(rng.gamma(1.4, 25, 2_600)).astype(int)
    rows = some(rng, 2_600, 20)
    frame = pd.DataFrame({"lead_days": days, "x": rng.normal(size=2_600)})
    assert not odd(frame)
    frame.loc[rows, "lead_days"] = -1
    the_only(frame, "placeholder", "lead_days", rows)


def test_dates_are_not_told_as_multiples_of_each_other(rng):
    ordered = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.uniform(0, 150, 1_500), unit="D")
    delivered = (ordered + pd.to_timedelta(rng.integers(1, 12, 1_500), unit="D")).normalize()
    frame = pd.DataFrame({"ordered": ordered, "delivered": delivered, "x": rng.normal(size=1_500)})
    frame.loc[[3, 9], "delivered"] = pd.Timestamp("2024-01-02")
    finding = the_only(frame, "broken_order", "delivered", [3, 9])
    assert "delivered is before ordered" in finding.text


def test_a_date_that_is_another_one_and_a_number_of_days(rng):
    opened = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 300, 1_500), unit="D")
    days = rng.integers(1, 90, 1_500)
    frame = pd.DataFrame({"opened": opened, "days": days, "due": opened + pd.to_timedelta(days, unit="D")})
    frame.loc[[3, 9], "due"] += pd.Timedelta(days=40)
    assert "due = days + opened" in the_only(frame, "broken_relation", "due", [3, 9]).text


def test_ranges_in_texts_have_four_digits(rng):
    values = rng.uniform(20.123456789, 260.123456789, 1_500)
    values[3:6] = -999
    text = the_only(
        pd.DataFrame({"load": values, "x": rng.normal(size=1500)}), "placeholder", "load", [3, 4, 5]
    ).text
    assert re.search(r"other values [\d.]{2,5}–[\d.]{3,5}\)", text), text


def test_two_common_levels_that_do_not_go_together(rng):
    country = rng.choice(["US", "DE", "FR"], size=6000)
    payment = rng.choice(["card", "invoice", "cash"], size=6000)
    payment[(country == "US") & (payment == "invoice")] = "card"
    rows = np.flatnonzero(country == "US")[:3]
    payment[rows] = "invoice"
    finding = the_only(pd.DataFrame({"country": country, "payment": payment}), "rare_pair", "country", rows)
    assert finding.columns == ("country", "payment")
    assert "3 rows: country = US with payment = invoice" in finding.text


def test_flipped_signs_of_a_column_alone(rng):
    frame = pd.DataFrame({"paid": rng.lognormal(3, 0.6, size=1500).round(2), "x": rng.normal(size=1500)})
    rows = some(rng, 1500, 5)
    frame.loc[rows, "paid"] *= -1
    assert "negative" in the_only(frame, "sign_flip", "paid", rows).text


def test_pounds_among_kilograms(rng):
    frame = pd.DataFrame({"weight": rng.normal(75, 5, size=2000).round(1), "x": rng.normal(size=2000)})
    rows = some(rng, 2000, 15)
    frame.loc[rows, "weight"] = (frame.loc[rows, "weight"] * 2.2046).round(1)
    (finding,) = odd(frame)
    assert (finding.kind, finding.columns) == ("mixed_units", ("weight",))
    assert set(finding.rows) <= set(rows.tolist())
    assert len(finding.rows) >= 13


def test_fahrenheit_among_celsius(rng):
    frame = pd.DataFrame({"body": rng.normal(37, 0.6, size=1500).round(1), "x": rng.normal(size=1500)})
    rows = some(rng, 1500, 6)
    frame.loc[rows, "body"] = (frame.loc[rows, "body"] * 1.8 + 32).round(1)
    assert "°F" in the_only(frame, "mixed_units", "body", rows).text


def numbered_orders(rng, n=1000):
    return orders(rng, n).assign(order_id=np.arange(n) + 5000)


def test_copies_of_rows_under_other_numbers(rng):
    frame = numbered_orders(rng)
    take = np.arange(1000)
    take[[100, 200]] = [50, 60]
    frame = frame.iloc[take].reset_index(drop=True).assign(order_id=frame["order_id"])
    assert the_only(frame, "duplicate", "ordered", [100, 200]).action == "told only"


def test_a_burst_of_equal_rows(rng):
    frame = numbered_orders(rng)
    take = np.arange(1000)
    take[300:321] = 300
    frame = frame.iloc[take].reset_index(drop=True).assign(order_id=frame["order_id"])
    assert "21 rows are equal" in the_only(frame, "burst", "ordered", range(301, 321)).text


def test_an_identifier_used_twice(rng):
    frame = numbered_orders(rng)
    frame.loc[700, "order_id"] = 5001
    assert [(f.kind, f.columns, f.rows) for f in odd(frame)] == [("duplicate", ("order_id",), (700,))]


def test_equal_rows_of_few_labels_or_made_of_each_other_are_no_copies(rng):
    frame = pd.DataFrame({"b": rng.gamma(2, 10, size=900).round(1), "c": rng.integers(2, 5, size=900)})
    frame["a"] = (frame["b"] * frame["c"]).round(2)
    assert frame.duplicated().any()
    assert odd(frame) == []


def test_stuck_readings(rng):
    frame = series(rng, 1500)
    frame.loc[400:430, "temperature"] = frame.loc[400, "temperature"]
    finding = the_only(frame, "stuck", "temperature", range(401, 431))
    assert "31 rows: temperature is stuck" in finding.text


def test_nearly_empty_rows(rng):
    frame = orders(rng, 800)
    frame.loc[[5, 6], frame.columns[1:]] = None
    assert "almost empty" in the_only(frame, "empty_row", "delivered", [5, 6]).text


def test_dates_that_do_not_exist_and_words_among_numbers(rng):
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, size=600), unit="D")
    raw = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "x": rng.normal(size=600).round(3).astype(str)})
    raw.loc[3, "day"] = "2024-02-31"
    raw.loc[9, "x"] = "broken"
    read = read_columns(raw)
    found = {f.kind: f for f in odd(read.frame, roles=read.roles, raw=raw, now=datetime(2025, 1, 1))}
    assert found["impossible_date"].rows == (3,)
    assert "'2024-02-31': there is no such date" in found["impossible_date"].text
    assert (found["placeholder"].columns, found["placeholder"].rows) == (("x",), (9,))


def test_dates_in_the_future(rng):
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 900, size=900), unit="D")
    frame = pd.DataFrame({"day": days, "x": rng.normal(size=900)})
    frame.loc[[5, 6], "day"] = [pd.Timestamp("2031-05-05"), pd.Timestamp("2029-01-09")]
    finding = the_only(frame, "future_date", "day", [5, 6], now=datetime(2024, 8, 1))
    assert "lies in the future" in finding.text
    due = pd.DataFrame({"due": days, "x": rng.normal(size=900)})
    assert odd(due, now=datetime(2023, 6, 1)) == []  # a third of them: due dates


def test_a_closing_date_of_an_open_case(rng):
    state = rng.choice(["open", "closed"], size=1000)
    hours = np.where(state == "closed", rng.gamma(2, 20, size=1000).round(1), np.nan)
    frame = pd.DataFrame({"state": state, "hours": hours, "x": rng.normal(size=1000)})
    rows = np.flatnonzero(state == "open")[[3, 8]]
    frame.loc[rows, "hours"] = 12.5
    finding = the_only(frame, "broken_dependency", "hours", rows)
    assert "hours is filled although state = open" in finding.text


def test_a_single_gap_is_told_and_makes_no_row_odd(rng):
    frame = pd.DataFrame({"site": rng.choice(list("abc"), 500).astype(object), "x": rng.normal(size=500)})
    frame.loc[17, "site"] = None
    frame.loc[:99, "x"] = np.nan  # a column that is often empty has no gaps to tell
    found = check_table(frame).findings
    assert [(f.kind, f.columns, f.rows, f.surprise) for f in found] == [("gap", ("site",), (17,), 0.0)]
    assert found[0].text == "1 row: site is missing (it is filled in all others)."
    assert not check_table(frame.iloc[:200]).findings  # of few rows, one in two hundred tells nothing
    same = frame.assign(site=frame["site"].fillna("a"))
    assert [f.kind for f in check_table(frame, reference=same).findings] == ["gap"]
    assert not [f for f in check_table(frame, reference=frame).findings if f.kind == "gap"]


def test_signs_tell_labels_apart_and_a_second_spelling_of_many_rows_keeps_its_cells(rng):
    income = pd.DataFrame(
        {"income": rng.choice(["<=50K", ">50K"], 800, p=[0.76, 0.24]), "x": rng.normal(size=800)}
    )
    assert not check_table(income).findings
    land = pd.DataFrame({"land": rng.choice(["Germany", "GERMANY", "France"], 800, p=[0.6, 0.1, 0.3])})
    land["x"] = rng.normal(size=800)
    found = check_table(land)
    assert [(f.kind, f.action, f.surprise) for f in found.findings] == [("misspelling", "told only", 0.0)]
    assert not found.explained


def test_a_label_beside_a_number_that_it_never_has(rng):
    fuel = rng.choice(["petrol", "diesel", "electric"], size=1400, p=[0.45, 0.1, 0.45])
    size = np.where(fuel == "electric", 0, rng.choice([999, 1395, 1598, 1968], size=1400))
    rows = some(rng, 1400, 2)
    fuel[rows] = "petrol"
    size[rows] = 0
    told = the_only(pd.DataFrame({"fuel": fuel, "ccm": size}), "rare_pair", "fuel", rows)
    assert told.text.startswith("2 rows: fuel = petrol with ccm = 0 (")


@pytest.mark.parametrize("town", ["Zürich", "Genève", "São Paulo"])
def test_letters_in_the_wrong_encoding_are_a_misspelling(rng, town):
    frame = pd.DataFrame({"town": rng.choice([town, "Berlin", "Lyon"], size=600)})
    rows = some(rng, 600, 3)
    frame.loc[rows, "town"] = town.encode("utf-8").decode("cp1252")
    assert f"a misspelling of '{town}'" in the_only(frame, "misspelling", "town", rows).text


def test_a_slip_is_told_before_the_fraction_that_it_makes(rng):
    price = np.exp(rng.normal(12.5, 0.3, size=1200)).round(-2)
    rows = some(rng, 1200, 3)
    price[rows] /= 1000
    assert (
        "1000 times too small" in the_only(pd.DataFrame({"price": price}), "decimal_slip", "price", rows).text
    )


def discounted(rng, n=1500):
    """Small amounts with a discount in percent, and so few pieces that amount / price rounds to them."""
    price = rng.choice([4.95, 12.5, 34.0, 59.9, 3.2], size=n)
    pieces = 1 + rng.poisson(0.8, size=n)
    discount = rng.choice([0, 0, 5, 10, 15], size=n)
    net = (price * pieces * (1 - discount / 100)).round(2)
    return pd.DataFrame({"price": price, "pieces": pieces, "discount": discount, "net": net})


def test_an_amount_with_a_discount_in_percent(rng):
    frame = discounted(rng)
    assert not odd(frame)
    rows = some(rng, 1500, 3)
    frame.loc[rows, "net"] += 7.3
    told = the_only(frame, "broken_relation", "net", rows)
    assert "net = price × pieces × (1 − discount/100) does not hold" in told.text


def invoices(rng, n=900):
    """Prices times pieces, less a discount, with tax and postage; most orders have neither discount nor postage."""
    price = np.exp(rng.normal(3, 0.6, size=n)).round(2)
    pieces = rng.integers(1, 8, size=n)
    discount = rng.choice([0, 0, 0, 0.05, 0.1, 0.2], size=n)
    net = price * pieces * (1 - discount)
    postage = np.where(net > 60, 0, rng.choice([3.9, 5.9], size=n))
    frame = {"price": price, "pieces": pieces, "discount": discount, "postage": postage}
    return pd.DataFrame({**frame, "total": (net + postage).round(2)})


@pytest.mark.parametrize("has_tax", [False, True])
def test_an_invoice_of_five_or_six_columns(rng, has_tax):
    frame = invoices(rng)
    equation = "total = price × pieces × (1 − discount) + postage"
    if has_tax:
        tax = rng.choice([7, 19], size=len(frame))
        gross = frame["price"] * frame["pieces"] * (1 - frame["discount"]) * (1 + tax / 100)
        frame = frame.assign(tax=tax, total=(gross + frame["postage"]).round(2))
        equation = "total = price × pieces × (1 − discount) × (1 + tax/100) + postage"
    assert not odd(frame)
    frame.loc[7, "price"] *= 100
    frame.loc[33, "total"] += 12.5
    found = {finding.rows: finding for finding in odd(frame)}
    assert set(found) == {(7,), (33,)}
    assert (found[7,].kind, found[7,].columns[0]) == ("decimal_slip", "price")
    assert f"{equation} does not hold" in found[33,].text


def test_the_cell_that_broke_an_equation_is_named(rng):
    frame = discounted(rng)
    rows = some(rng, 1500, 3)
    frame.loc[rows, "pieces"] = 0
    told = the_only(frame, "broken_relation", "pieces", rows)
    assert "does not hold, probably because of pieces (it holds in" in told.text


def test_degrees_fahrenheit_are_told_beside_a_value_that_is_farther_out(rng):
    frame = pd.DataFrame({"temp_in": rng.normal(18, 2.5, size=1500).round(2)})
    rows = np.sort(some(rng, 1500, 13))
    frame.loc[rows[:12], "temp_in"] = (frame.loc[rows[:12], "temp_in"] * 1.8 + 32).round(2)
    frame.loc[rows[12], "temp_in"] = 185.0
    units = [finding for finding in odd(frame) if finding.kind == "mixed_units"]
    assert [finding.rows for finding in units] == [tuple(map(int, rows[:12]))]
    assert "read as °F" in units[0].text


def test_a_measure_has_units_of_its_own_kind(rng):
    power = rng.normal(120, 4, size=1500)
    power[some(rng, 1500, 5)] *= 1.6093  # miles among kilometres, but these are watts
    frame = pd.DataFrame({"power_w": power.round(1)})
    assert [finding.form for finding in odd(frame)] == ["far_value"]
    assert [finding.kind for finding in odd(frame.rename(columns={"power_w": "distance_km"}))] == [
        "mixed_units"
    ]


@pytest.mark.parametrize("off", [1, 2])
def test_whole_days_that_are_off_by_a_day_or_two(rng, off):
    arrival = pd.Timestamp("2024-02-01") + pd.to_timedelta(rng.integers(0, 300, size=1500), unit="D")
    nights = 1 + rng.poisson(1.6, size=1500)
    departure = arrival + pd.to_timedelta(nights, unit="D")
    frame = pd.DataFrame({"arrival": arrival, "departure": departure, "nights": nights})
    assert not odd(frame)
    rows = some(rng, 1500, 3)
    frame.loc[rows, "nights"] += off
    found = [finding for finding in odd(frame) if finding.kind == "broken_relation"]
    assert {row for finding in found for row in finding.rows} == set(map(int, rows))


@pytest.mark.parametrize(
    ("written", "places"),
    [("578", 1), ("5.78", -1), ("57.8", 0), ("300", 0), ("-578", 0), ("0", 0), ("x", 0)],
)
def test_a_slip_is_ten_a_hundred_or_a_thousand_times_what_is_usual(written, places):
    assert _power_of_ten(written, "57.8") == places
