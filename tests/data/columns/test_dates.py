from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tellwhy.data.columns.dates import (
    days_since_1970,
    describe_order,
    find_dates,
    find_layout,
    hours_of_day,
    make_dates,
    parse_dates,
    write_iso,
)

WRITINGS = {
    "2024-05-31": "iso",
    "2024-5-31": "iso",
    "2024-05": "iso",
    "2024-05-31 08:30": "iso",
    "2024-05-31T08:30:15.25": "iso",
    "2024-05-31T08:30:00+02:00": "iso",
    "2024/05/31": "year/month/day",
    "31.5.2024": "day.month.year",
    "31.05.2024 08:30": "day.month.year",
    "31/05/2024": "day/month/year",
    "05/31/2024 08:30:00": "month/day/year",
    "31-05-2024": "day/month/year",
}


@pytest.mark.parametrize(("text", "layout"), WRITINGS.items())
def test_layouts(text, layout):
    column = pd.Series([text, None, text])
    assert find_layout(column) == layout
    day = parse_dates(column, layout)[0].astype("datetime64[D]")
    assert day == np.datetime64("2024-05-01" if text == "2024-05" else "2024-05-31")


@pytest.mark.parametrize(
    "text", ["05/06/2024", "12", "20240531", "2024", "1.2.3", "v2024-05-31", "2024-05-31x", "2024-13-01"]
)
def test_no_dates(text):
    assert find_layout(pd.Series([text, text])) is None


def test_one_cell_in_twenty_may_be_something_else():
    assert find_layout(pd.Series(["2024-05-31"] * 19 + ["soon"])) == "iso"
    assert find_layout(pd.Series(["2024-05-31"] * 18 + ["soon", "later"])) is None
    assert find_layout(pd.Series([None, None], dtype="str")) is None


def test_offsets_are_put_into_utc():
    text = pd.Series(["2024-05-31T08:30:00+02:00", "2024-05-31T08:30:00Z"])
    assert write_iso(parse_dates(text, "iso")) == ["2024-05-31T06:30:00", "2024-05-31T08:30:00"]


def test_days_and_back():
    dates = np.array(["1970-01-02", "1969-12-31T12:00", "2300-01-01T00:00:01"], dtype="datetime64[us]")
    assert days_since_1970(dates)[:2].tolist() == [1.0, -0.5]
    np.testing.assert_array_equal(make_dates(days_since_1970(dates)), dates)
    assert np.isnan(days_since_1970(np.array(["NaT"], dtype="datetime64[us]")))[0]


def test_texts_have_a_time_only_where_it_says_something():
    assert write_iso(np.array(["2024-05-31"], dtype="datetime64[us]")) == ["2024-05-31"]
    assert write_iso(np.array(["2024-05-31T08:00"], dtype="datetime64[us]")) == ["2024-05-31T08:00:00"]


def test_a_column_may_begin_with_something_else():
    assert find_layout(pd.Series(["soon"] + ["2024-05-31"] * 300)) == "iso"
    assert find_layout(pd.Series(["?"] * 9 + ["31.05.2024"] * 300)) == "day.month.year"


def test_seconds_survive_the_way_through_days():
    seconds = np.random.default_rng(0).integers(-(10**9), 4 * 10**9, 2000)
    dates = np.datetime64("1970-01-01", "us") + seconds.astype("timedelta64[s]")
    np.testing.assert_array_equal(make_dates(days_since_1970(dates)), dates)


def days(start, n, seed=0, span=30.0):
    hours = np.random.default_rng(seed).uniform(0, span * 24, n).astype("timedelta64[h]")
    return np.datetime64(start, "us") + hours


def test_a_period_that_the_reference_lacks_is_told():
    january = days("2024-01-01", 1000)
    assert (
        describe_order(days("2024-02-01", 500, 1), january) == "that these rows are later than the reference"
    )
    assert (
        describe_order(days("2023-11-01", 9, 1), january) == "that these rows are earlier than the reference"
    )
    assert (
        describe_order(days("2024-01-10", 500, 1), january) == "that these rows are later than the reference"
    )
    assert describe_order(days("2024-01-01", 500, 1), january) == ""
    assert describe_order(days("2024-01-10", 500, 1, span=10), january) == ""


def test_one_mistyped_year_does_not_stretch_a_reference():
    january = days("2024-01-01", 1000)
    january[17] = np.datetime64("2099-01-01")
    january[18] = np.datetime64("NaT")
    assert (
        describe_order(days("2024-02-01", 500, 1), january) == "that these rows are later than the reference"
    )


def test_few_dates_beyond_a_reference_are_chance():
    wrong = [
        describe_order(days("2024-01-01", 12, 2 * i), days("2024-01-01", 40, 2 * i + 1)) for i in range(300)
    ]
    assert sum(map(bool, wrong)) <= 1


def test_sorted_dates_with_a_slip():
    dates = np.sort(days("2024-01-01", 500))
    assert describe_order(dates) == describe_order(dates[::-1]) == "in which order the rows came"
    dates[250] = np.datetime64("1970-01-01")
    assert describe_order(dates) == "in which order the rows came"
    assert describe_order(days("2024-01-01", 500)) == ""
    assert describe_order(np.full(50, np.datetime64("2024-01-01", "us"))) == ""


def test_hours_only_where_they_tell_something():
    at = np.array(["2024-01-01T08:00", "2024-01-05T20:30", "NaT"], dtype="datetime64[us]")
    np.testing.assert_array_equal(hours_of_day(at), [8.0, 20.5, np.nan])
    assert hours_of_day(at.astype("datetime64[D]").astype("datetime64[us]")) is None  # midnight everywhere
    assert hours_of_day(at[[0, 0, 2]]) is None  # one day
    assert hours_of_day(np.array(["2024-01-01T08", "2024-01-09T08"], dtype="datetime64[us]")) is None
    assert hours_of_day(at[2:]) is None


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["Jun-70", "Jul-70", "Jan-71"], "1970-06-01"),
        (["June 1958", "July 1958", "Mai 1959"], "1958-06-01"),
        (["31.12.48", "01.02.55", "15.06.62"], "1948-12-31"),
        (["1936-05-17", "1969-12-31"], "1936-05-17"),
    ],
)
def test_months_years_of_two_digits_and_dates_before_1970_are_read_as_people_mean_them(cells, first):
    layout = find_dates(cells)
    assert layout is not None
    assert str(layout.read(pa.array(cells))[0])[:10] == first


def test_a_month_and_a_day_is_no_month_of_a_year():
    assert find_dates(["Dec 24", "Dec 25", "Dec 31"]) is None
