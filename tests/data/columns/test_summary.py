from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.data import describe_column


def test_numbers():
    summary = describe_column(pd.Series([*range(101), None]), "number")
    assert summary.kind == "number"
    assert summary.quantiles == (0, 5, 25, 50, 75, 95, 100)
    assert summary.labels == ()
    assert summary.shares == {}


@pytest.mark.parametrize("as_text", [False, True])
def test_dates(as_text):
    days = pd.Series(pd.date_range("2024-01-01", periods=101))
    summary = describe_column(days.dt.strftime("%d.%m.%Y") if as_text else days, "date")
    first = (np.datetime64("2024-01-01") - np.datetime64("1970-01-01")).astype(int)
    assert summary.quantiles == tuple(first + q for q in (0, 5, 25, 50, 75, 95, 100))
    assert summary.labels == (
        "2024-01-01",
        "2024-01-06",
        "2024-01-26",
        "2024-02-20",
        "2024-03-16",
        "2024-04-05",
        "2024-04-10",
    )


def test_times():
    summary = describe_column(pd.Series(pd.to_datetime(["2024-01-01 08:00", "2024-01-01 10:00"])), "date")
    assert summary.labels[0] == "2024-01-01T08:00:00"
    assert summary.labels[3] == "2024-01-01T09:00:00"


def test_categories():
    cells = [letter for i, letter in enumerate("abcdefghijkl", start=1) for _ in range(i)]
    summary = describe_column(pd.Series(cells + [None] * 22), "category")
    assert list(summary.shares) == ["(missing)", "l", "k", "j", "i", "h", "g", "f", "e", "d"]
    assert summary.shares["(missing)"] == 0.22
    assert summary.shares["l"] == 0.12


def test_booleans():
    assert describe_column(pd.Series([True, True, False, None]), "boolean").shares == {
        "True": 0.5,
        "False": 0.25,
        "(missing)": 0.25,
    }
    assert describe_column(pd.Series([0.0, 1.0, 0.0, 0.0]), "boolean").shares == {"0": 0.75, "1": 0.25}


def test_nothing_to_describe():
    assert describe_column(pd.Series([np.nan]), "number").quantiles == ()
    assert describe_column(pd.Series([pd.NaT]), "date").labels == ()
    with pytest.raises(InvalidParameter, match="Got 'colour'"):
        describe_column(pd.Series([1]), "colour")


def test_days_have_no_time_although_quantiles_lie_between_them():
    summary = describe_column(pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", None])), "date")
    assert summary.labels[3] == "2024-01-01"
    assert summary.quantiles[3] % 1 == 0.5


def test_shares_are_of_all_rows_missing_ones_among_them():
    shares = describe_column(pd.Series(["a", "b", "a", None, None]), "category").shares
    assert shares == {"a": 0.4, "(missing)": 0.4, "b": 0.2}
