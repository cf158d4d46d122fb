"""Wrong numbers are told where they clearly are that, several of a kind; what is merely rare is no mistake."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.check import check_table
from tellwhy.checks.facts import facts_of
from tellwhy.checks.restraint import are_of_level


@pytest.fixture(params=range(2))
def rng(request):
    return np.random.default_rng([request.param, 8])


def measured(rng, n=1000):
    """Six columns that go together: three amounts, three sizes."""
    z = rng.multivariate_normal(np.zeros(6), 0.6 * np.ones((6, 6)) + 0.4 * np.eye(6), n)
    amounts = {f"amount{i}": np.exp(3 + 0.4 * z[:, i]).round(2) for i in range(3)}
    sizes = {f"size{i}": (50 + 10 * z[:, i + 3]).round(1) for i in range(3)}
    return pd.DataFrame({**amounts, **sizes})


def told(frame):
    findings = [finding for finding in check_table(frame).findings if finding.surprise > 0]
    return {
        (f.kind, f.columns[0]): {r for g in findings if g.kind == f.kind for r in g.rows} for f in findings
    }


def test_a_table_without_errors_has_no_finding(rng):
    assert told(measured(rng)) == {}


@pytest.mark.parametrize(
    ("kind", "column", "change"),
    [
        ("decimal_slip", "amount0", lambda x: x * 100),
        ("decimal_slip", "size1", lambda x: (x / 10).round(1)),
        ("sign_flip", "size2", lambda x: -x),
        ("placeholder", "amount1", lambda x: 0 * x - 999),
    ],
)
def test_ten_errors_of_a_kind_are_told_with_their_kind(rng, kind, column, change):
    frame = measured(rng)
    rows = rng.choice(1000, 10, replace=False)
    frame.loc[rows, column] = change(frame.loc[rows, column])
    found = told(frame)
    assert set(found) == {(kind, column)}
    assert found[kind, column] <= set(rows.tolist())
    assert len(found[kind, column]) >= 8


def test_swapped_cells_are_told_with_both_columns(rng):
    frame = measured(rng).assign(year=rng.integers(1950, 2020, 1000).astype(float))
    rows = rng.choice(1000, 10, replace=False)
    frame.loc[rows, ["size0", "year"]] = frame.loc[rows, ["year", "size0"]].to_numpy()
    findings = [f for f in check_table(frame).findings if f.kind == "swapped"]
    assert {frozenset(f.columns) for f in findings} == {frozenset(["size0", "year"])}
    assert {row for f in findings for row in f.rows} <= set(rows.tolist())


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_ten_large_values_without_a_common_mistake_have_no_story(rng, factor):
    frame = measured(rng)
    rows = rng.choice(1000, 10, replace=False)
    frame.loc[rows, "size0"] += factor * rng.uniform(20, 40, 10).round(1)
    assert not {kind for kind, _ in told(frame)} & {"decimal_slip", "sign_flip", "swapped", "mixed_units"}


def test_rain_of_many_stations_and_constants_of_every_magnitude_are_no_slips(rng):
    wet = rng.choice([0.2, 1.0, 8.0, 60.0], 2000)
    rain = np.where(rng.random(2000) < 0.5, 0.0, (wet * rng.gamma(0.7, 1, 2000)).round(1))
    constants = 10.0 ** rng.uniform(-30, 30, 2000)
    frame = pd.DataFrame({"rain": rain, "constant": constants, "x": rng.normal(size=2000)})
    assert told(frame) == {}


def test_rows_that_follow_each_other_or_share_a_label_are_another_kind_of_thing(rng):
    frame = measured(rng)
    frame.loc[400:409, "amount0"] *= 100
    assert told(frame) == {}
    label = np.where(np.arange(1000) % 83 == 0, "wholesale", "retail")
    frame = measured(rng).assign(trade=label)
    frame.loc[label == "wholesale", "amount0"] *= 100
    assert ("decimal_slip", "amount0") not in told(frame)
    rows = np.flatnonzero(label == "wholesale")
    assert are_of_level(facts_of(frame, None), rows).all()


def test_numbers_beyond_measure_are_far_and_nothing_else(rng):
    frame = pd.DataFrame({"x": np.r_[rng.normal(size=300), 1e300], "y": 1e-300 * rng.normal(size=301)})
    assert told(frame) == {("odd_cell", "x"): {300}}
