"""When rows were taken: order, time on the clock, what is irregular."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.in_time.clock import read_stamps
from tellwhy.core.errors import InvalidInput
from tellwhy.data.table import as_table
from tellwhy.results.notice import say_all


def stamps(cells):
    return read_stamps(as_table(pd.DataFrame({"at": cells, "x": 1.0})), "at")


def test_unsorted_rows_are_put_in_order_and_it_is_said():
    times = pd.date_range("2024-01-01", periods=50, freq="h")
    order = np.random.default_rng(0).permutation(50)
    found = stamps(times[order])
    np.testing.assert_array_equal(order[found.order], np.arange(50))
    assert found.said[0].text == "Rows were sorted by at."
    np.testing.assert_array_equal(found.moments, times.to_numpy().astype("datetime64[ns]"))


def test_sorted_rows_at_a_steady_pace_have_nothing_to_tell():
    assert stamps(pd.date_range("2024-01-01", periods=50, freq="h")).said == ()


def test_gaps_and_repeated_times_are_told():
    times = pd.date_range("2024-01-01", periods=60, freq="h").delete(range(20, 40))
    times = times.insert(5, times[4])
    told = " ".join(say_all(stamps(times).said))
    assert "1 row has the at of another row" in told
    assert "one gap from 2024-01-01 19:00 to 2024-01-02 16:00" in told


def test_seconds_since_1970_are_moments_and_a_counter_is_not():
    epoch = np.arange(1_700_000_000, 1_700_000_000 + 3600 * 30, 3600)
    assert stamps(epoch).moments[0] == np.datetime64("2023-11-14T22:13:20")
    assert stamps(np.arange(40)).moments is None
    assert stamps(np.arange(40)[::-1]).order.tolist() == list(range(39, -1, -1))


def test_a_clock_that_changes_is_ordered_by_moments_and_read_as_it_shows():
    """The hour from 2 to 3 happens twice when summer time ends."""
    moments = pd.date_range("2024-10-26 22:00", periods=8, freq="30min", tz="UTC").tz_convert("Europe/Berlin")
    text = [moment.isoformat() for moment in moments]
    found = stamps(text[::-1])
    assert found.order.tolist() == list(range(7, -1, -1))
    clock = [str(m)[11:16] for m in found.moments.astype("datetime64[m]")]
    assert clock == ["00:00", "00:30", "01:00", "01:30", "02:00", "02:30", "02:00", "02:30"]
    zoned = stamps(pd.Series(moments))
    np.testing.assert_array_equal(zoned.moments, found.moments)


def test_days_come_first_where_the_column_says_so():
    found = stamps(["03.04.2024", "02.05.2024", "25.03.2024"] * 4)
    assert str(found.moments[0].astype("datetime64[D]")) == "2024-03-25"


def test_what_cannot_be_read_is_refused():
    with pytest.raises(InvalidInput, match="cannot be read as times"):
        stamps(["noon", "later"] * 10)
    with pytest.raises(InvalidInput, match="has no time in row 1"):
        stamps([1.0, np.nan, 3.0])
