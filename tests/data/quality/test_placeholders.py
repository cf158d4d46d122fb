"""Placeholders are found wherever they stand, and ordinary values are left alone."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.check import check_table

N = 1500
COLUMNS = {
    "ages": lambda rng: rng.integers(18, 95, size=N),
    "prices": lambda rng: rng.lognormal(3, rng.uniform(0.3, 0.9), size=N).round(2),
    "readings": lambda rng: rng.normal(rng.uniform(-5, 50), rng.uniform(0.5, 5), size=N),
    "ratings": lambda rng: rng.integers(1, 6, size=N),
    "counts": lambda rng: rng.poisson(rng.uniform(2, 30), size=N),
}


def found(frame, kind="placeholder"):
    return [finding for finding in check_table(frame).findings if finding.kind == kind]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("value", [-999, 9999, -9999])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_placeholder_is_told_with_its_rows(name, value, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": COLUMNS[name](rng), "other": rng.normal(size=N)})
    rows = np.sort(rng.choice(N, rng.integers(1, 40), replace=False))
    frame.loc[rows, "x"] = value
    before = frame.copy()
    quality = check_table(frame)
    (finding,) = [f for f in quality.findings if f.surprise > 0]
    assert (finding.kind, finding.columns, finding.rows) == ("placeholder", ("x",), tuple(rows))
    assert finding.text.startswith(f"{len(rows)} row")
    assert f"x = {value}".replace("-", "−") in finding.text
    assert quality.explained["x"].nonzero()[0].tolist() == rows.tolist()
    assert quality.frame["x"].isna().to_numpy().nonzero()[0].tolist() == rows.tolist()
    assert quality.frame["other"].equals(frame["other"])
    pd.testing.assert_frame_equal(frame, before)


def test_zero_weights_and_minus_one_counts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"weight": rng.normal(70, 8, size=N).round(1), "visits": rng.poisson(12, size=N)})
    frame.loc[:9, "weight"] = 0
    frame.loc[20:44, "visits"] = -1
    texts = sorted(f.text for f in found(frame))
    assert texts[0].startswith("10 rows: weight = 0, a placeholder")
    assert texts[1].startswith("25 rows: visits = −1, a placeholder")


def test_dates_and_words():
    rng = np.random.default_rng(1)
    dates = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, size=N), unit="D")
    frame = pd.DataFrame({"born": dates, "job": rng.choice(["clerk", "nurse", "cook"], size=N)})
    frame.loc[:4, "born"] = pd.Timestamp("1900-01-01")
    frame.loc[7:9, "job"] = "Unknown"
    born, job = sorted(found(frame), key=lambda f: f.columns)
    assert born.text.startswith("5 rows: born = 1900-01-01, a placeholder")
    assert born.rows == tuple(range(5))
    assert job.text.startswith("3 rows: job = 'Unknown', a placeholder")
    assert check_table(frame).frame["born"].isna().sum() == 5


def test_a_habit_of_the_table_makes_no_row_odd():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(50, 5, size=N)})
    frame.loc[rng.choice(N, 300, replace=False), "x"] = -999
    (finding,) = found(frame)
    assert len(finding.rows) == 300
    assert finding.surprise == 0


@pytest.mark.parametrize("seed", range(3))
def test_zeros_far_below_a_bell(seed):
    rng = np.random.default_rng([seed, 8])
    weight = rng.normal(np.where(rng.random(1500) < 0.5, 82, 69), 12).round(1)
    weight[[3, 77, 500, 901]] = 0
    assert found(pd.DataFrame({"weight": weight}))[0].rows == (3, 77, 500, 901)


def test_a_flood_is_no_habit_where_earlier_rows_had_none():
    rng = np.random.default_rng(0)
    known = pd.DataFrame(
        {"size": rng.normal(20, 2, 5000).round(2), "shop": rng.choice(["north", "south"], 5000)}
    )
    block = known.iloc[:300].copy()
    block.loc[:99, "size"] = 90.0
    block.loc[200:, "shop"] = "unknown"
    told = {(f.columns[0], len(f.rows)): f.surprise for f in check_table(block, reference=known).findings}
    assert told[("size", 100)] > 0
    assert told[("shop", 100)] > 0
    known.loc[known.index[::10], "size"] = 90.0
    habits = [f.surprise for f in check_table(block, reference=known).findings if f.columns == ("size",)]
    assert habits in ([], [0.0])
