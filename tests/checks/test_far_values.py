"""Values far from all others of their column: by the definition, and what is told of them."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.check import check_table
from tellwhy.checks.outer_values import far_values, without_far


def far_by_definition(known, x):
    """Whether a number above all that are known is far from them: a wide gap on both scales, beyond their tail."""
    known = np.sort(known)
    low, high = known[int(0.05 * (len(known) - 1))], known[int(0.95 * (len(known) - 1))]
    gaps = [(x - known[-1]) / (high - low)]
    if known[0] >= 0:
        scale = np.median(known[known > 0])
        bent = np.arcsinh(np.array([low, high, known[-1], x]) / scale)
        gaps.append((bent[3] - bent[2]) / (bent[1] - bent[0]))
    m = max(8, len(known) // 10)
    middle, start = known[len(known) // 2], known[-m - 1]
    usual = np.mean([np.log((value - middle) / (start - middle)) for value in known[-m:]])
    farther = np.log((x - middle) / (known[-1] - middle))
    return min(gaps) >= 0.75 and (1 + farther / (m * usual)) ** -m <= np.exp(
        -np.clip(2 + 3 * (usual - 0.25) / 0.2, 2, 5)
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_number_is_far_by_the_definition(seed):
    rng = np.random.default_rng(seed)
    known = np.sort([rng.normal(0, 1, 300), rng.lognormal(0, 1, 300), rng.standard_t(2, 300)][seed % 3])
    for x in known[-1] + np.ptp(known) * rng.uniform(0.01, 3, 20):
        found = list(far_values(np.array([x]), known, 0.0))
        assert bool(found) == far_by_definition(known, x)


def test_a_few_far_values_do_not_hide_each_other():
    values = np.r_[np.random.default_rng(0).normal(0, 1, 200), 60.0, 75.0, -80.0]
    found = [
        (far.rows.tolist(), far.rest[0], far.rest[-1]) for far in far_values(values, np.sort(values), 0.0)
    ]
    assert [rows for rows, _, _ in found] == [[200, 201], [202]]
    assert found[0][2] == values[:200].max()
    assert (without_far(np.sort(values)) == np.sort(values[:200])).all()


@pytest.mark.parametrize("factor", [0.001, 3.0, 1e6])
def test_units_and_order_change_nothing(factor):
    rng = np.random.default_rng(1)
    values = np.r_[rng.gamma(3, 1, 400), 600.0]
    order = rng.permutation(401)
    rows = [np.flatnonzero(order == 400).tolist()]
    assert [
        far.rows.tolist() for far in far_values(values[order] * factor, np.sort(values * factor), 0.0)
    ] == rows


def table_with(values, row=7, n=400, seed=0):
    rng = np.random.default_rng(seed)
    horsepower = np.round(46 + rng.gamma(2, 25, n))
    horsepower[row] = values
    return pd.DataFrame({"horsepower": horsepower, "weight": rng.normal(3000, 400, n).round()})


def findings_of(frame, **more):
    return [
        (each.columns[0], each.rows, each.text)
        for each in check_table(frame, **more).findings
        if each.form == "far_value"
    ]


def test_a_zero_among_numbers_that_stay_away_from_it_is_told():
    told = findings_of(table_with(0))
    assert told == [("horsepower", (7,), "1 row: horsepower is far from all the others (49–259).")]
    assert not findings_of(table_with(20))


def test_nothing_is_set_missing_and_nothing_is_told_twice():
    frame = table_with(-90)
    quality = check_table(frame)
    assert len([each for each in quality.findings if 7 in each.rows and each.surprise > 0]) == 1
    assert quality.frame["weight"].equals(frame["weight"])


def test_heavy_tails_groups_and_wide_tables_are_left_alone():
    rng = np.random.default_rng(3)
    incomes = pd.DataFrame({"income": rng.lognormal(10, 1.2, 3000), "age": rng.integers(18, 80, 3000)})
    assert not findings_of(incomes)
    group = pd.DataFrame(
        {"a": np.r_[rng.normal(0, 1, 380), rng.normal(40, 1, 20)], "b": rng.normal(size=400)}
    )
    assert not findings_of(group)
    wide = pd.DataFrame(rng.standard_cauchy((60, 12)))
    assert not findings_of(wide.rename(columns=str))


def test_rows_are_judged_by_a_reference():
    reference = table_with(100)
    new = pd.DataFrame({"horsepower": [80.0, 900.0, 120.0], "weight": [2900.0, 3100.0, 3000.0]})
    assert [(column, rows) for column, rows, _ in findings_of(new, reference=reference)] == [
        ("horsepower", (1,))
    ]


def test_what_is_usual_leaves_out_other_far_values():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 65, 400).astype(float), "size": rng.normal(size=400)})
    frame.loc[[3, 50, 90, 200], "age"] = 999
    frame.loc[17, "age"] = 5000
    texts = [each.text for each in check_table(frame).findings]
    assert "4 rows: age = 999, a placeholder (other values 18–64), > 99 % sure." in texts
