"""Columns read as numbers, dates and labels: what a cell means does not depend on how it is stored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.data.columns.reading import read_dates, read_labels, read_numbers


def frame(cells: object) -> pd.DataFrame:
    return pd.DataFrame({"c": cells})


def test_durations_are_seconds_however_long() -> None:
    assert read_numbers(frame(pd.to_timedelta([1, 36], unit="h")), "c").tolist() == [3600, 129_600]


def test_the_share_of_numbers_is_that_of_the_filled_cells() -> None:
    cells = ["1"] * 9 + ["kg"] + [None] * 90
    with pytest.raises(
        InvalidInput, match=r"'kg' in row 9; expected a number, as in the other 90.0% of its cells"
    ):
        read_numbers(frame(cells), "c")
    with pytest.raises(InvalidInput, match=r"'kg' in row 0; expected a number\. "):
        read_numbers(frame(["kg", None]), "c")


@pytest.mark.parametrize("zone", ["Europe/Oslo", "America/New_York"])
def test_the_hour_is_the_one_on_the_owners_clock(zone: str) -> None:
    stamps = pd.to_datetime(["2024-05-31 08:30"]).tz_localize(zone)
    assert read_dates(frame(stamps), "c", "iso")[0] == np.datetime64("2024-05-31T08:30")


def test_one_date_in_twenty_may_be_unreadable_and_is_missing() -> None:
    days = [f"2024-05-{d:02}" for d in range(1, 20)]
    found = read_dates(frame([*days, "soon"]), "c", "iso")
    assert np.isnat(found).tolist() == [False] * 19 + [True]
    with pytest.raises(InvalidInput, match=r"'soon' in row 18; expected a date \(iso\)"):
        read_dates(frame([*days[:-1], "soon", "later"]), "c", "iso")


def test_equally_common_labels_come_in_alphabetical_order() -> None:
    assert list(read_labels(frame(["z", "b", "a", "z"]), "c").counts().items()) == [
        ("z", 2),
        ("a", 1),
        ("b", 1),
    ]


def test_cells_that_cannot_be_hashed_are_labels_and_gaps_stay_gaps() -> None:
    found = read_labels(frame([[1], None, [1], {"a": 2}]), "c")
    assert found.codes.tolist() == [0, -1, 0, 1]
    assert found.names == ("[1]", "{'a': 2}")


def test_whole_floats_and_integers_are_one_label() -> None:
    found = read_labels(frame(np.array([1.0, 1, 2.5, "1"], dtype=object)), "c")
    assert found.counts() == {"1": 3, "2.5": 1}
