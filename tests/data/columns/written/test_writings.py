"""Numbers and dates written in many ways come back as they were, however many there are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tellwhy.data.columns.dates import WrittenDates, find_dates
from tellwhy.data.columns.numbers import CURRENCIES, UNITS, find_numbers
from tellwhy.data.columns.times import Epoch, find_epoch


def european(text):
    return text.translate(str.maketrans(",.", ".,"))


WAYS = {
    "dollars": lambda v: f"-${-v:,.2f}" if v < 0 else f"${v:,.2f}",
    "dollars in brackets": lambda v: f"(${-v:,.2f})" if v < 0 else f"${v:,.2f}",
    "a minus behind": lambda v: f"{-v:,.2f}-" if v < 0 else f"{v:,.2f}",
    "euros": lambda v: european(f"{v:,.2f} €"),
    "francs": lambda v: f"CHF {v:,.2f}".replace(",", "'"),
    "thin spaces": lambda v: f"{v:,.2f} kr".replace(",", "\u202f").replace(".", ","),
    "percent": lambda v: f"{v:.2f} %",
    "kilograms": lambda v: f"{v:.2f}kg",
    "square metres": lambda v: f"{v:.2f} m2",
    "a unit with a slash": lambda v: f"{v:.2f} km/h",
    "plain, European": lambda v: european(f"{v:,.2f}"),
    "powers": lambda v: f"{v:.10e}",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [3.0, 9.0])
def test_numbers_come_back(way, size):
    rng = np.random.default_rng(len(way))
    values = (rng.choice([-1, 1], 3000) * rng.lognormal(size, 2, 3000)).round(2)
    cells = [WAYS[way](value) for value in values]
    reading = find_numbers(cells[:500])
    assert reading is not None
    np.testing.assert_allclose(reading.read(pa.array(cells)), values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sign", [s for s in UNITS if UNITS[s].dimension not in ("percent", "counts")])
def test_every_unit_is_read_and_is_its_own(sign):
    reading = find_numbers([f"12.5 {sign}", f"3 {sign}"] * 5)
    assert reading is not None
    assert reading.words == f"{UNITS[sign].dimension} in {sign}"
    assert reading.read(pa.array([f"12.5 {sign}", "x", None])).tolist()[:1] == [12.5]
    assert np.isnan(reading.read(pa.array(["x", None]))).all()


@pytest.mark.parametrize("sign", CURRENCIES)
def test_every_currency_before_and_behind(sign):
    for cells in ([f"{sign}1,250.50", f"{sign} 3"], [f"1,250.50 {sign}", f"3 {sign}"]):
        reading = find_numbers(cells * 5)
        assert reading is not None
        assert reading.words == f"money in {CURRENCIES[sign]}"
        assert reading.read(pa.array(cells)).tolist() == [1250.5, 3.0]


FORMATS = {
    "%d.%m.%Y": "day first",
    "%m/%d/%Y %H:%M": "month first",
    "%m/%d/%y %I:%M %p": "month first",
    "%d-%b-%Y %H:%M:%S": "month by name",
    "%B %d, %Y": "month by name first",
    "%Y-%m-%dT%H:%M:%S": "year first",
    "%Y/%m/%d %H:%M:%S.%f": "year first",
    "%Y-%m-%d %H:%M:%S+00:00": "year first",
}


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("n", [300, 30_000])
def test_dates_come_back(layout, n):
    rng = np.random.default_rng(n)
    seconds = rng.integers(0, 10**9, n)
    moments = pd.Series(pd.Timestamp("1995-01-01") + pd.to_timedelta(seconds, unit="s"))
    text = moments.dt.strftime(layout)
    expected = pd.to_datetime(text, format=layout, utc=True).dt.tz_localize(None)
    reading = find_dates(text[:500].tolist())
    assert reading == WrittenDates(FORMATS[layout])
    with_gap = pa.array([*text[:-1], None])
    read = reading.read(with_gap)
    assert np.isnat(read[-1])
    np.testing.assert_array_equal(read[:-1], expected.to_numpy(dtype="datetime64[us]")[:-1])


@pytest.mark.parametrize("n", [1, 15_000])
def test_what_the_calendar_does_not_have_is_no_date(n):
    cells = ["2024-02-29 10:00", "2023-02-29 10:00", "2024-13-01 10:00", "2024-01-01 25:00", "2024-01-01 x"]
    read = WrittenDates("year first").read(pa.array(cells * n))
    np.testing.assert_array_equal(np.isnat(read), [False, True, True, True, True] * n)
    assert read[0] == np.datetime64("2024-02-29T10:00")


def test_epochs():
    seconds = np.array([1.7e9, 1.70001e9, np.nan, -1.0])
    assert find_epoch(seconds[:3]) == Epoch("seconds")
    assert find_epoch(seconds * 1e6) is None  # one in three is out of range
    read = Epoch("seconds").read(seconds)
    assert read[0] == np.datetime64("2023-11-14T22:13:20")
    assert np.isnat(read[2])
    assert read[3] == np.datetime64("1969-12-31T23:59:59")
    assert np.isnat(Epoch("seconds").read(np.array([1e300])))[0]
