"""Tests of drift: right on samples of one source, and sharp where sources differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tellwhy.verdicts.samples import (
    _test_only_in_one,
    adjust_p_values,
    measure_gap_of_levels,
    measure_gap_of_numbers,
    measure_gap_of_rates,
)
from tellwhy.verdicts.seen_values import SeenValues


@pytest.mark.parametrize(("n", "m"), [(30, 70), (400, 250)])
def test_numbers_as_scipy_has_them(n, m):
    rng = np.random.default_rng(n)
    old = rng.normal(size=n)
    new = rng.normal(0.3, 1.2, size=m)
    gap = measure_gap_of_numbers(old, new)
    expected = stats.ks_2samp(old, new, method="exact" if n < 100 else "asymp")
    assert gap.size == pytest.approx(expected.statistic, abs=1e-12)
    assert gap.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert abs((old <= gap.at).mean() - (new <= gap.at).mean()) == pytest.approx(gap.size)


def levels(rng, n, shares):
    found, counts = np.unique(rng.choice(len(shares), n, p=shares), return_counts=True)
    return {f"l{i}": int(k) for i, k in zip(found, counts, strict=True)}


@pytest.mark.parametrize("n_levels", [2, 5, 40, 400])
@pytest.mark.parametrize("rows", [(40, 60), (300, 2000), (12, 3000)])
def test_levels_of_one_source_rarely_differ(n_levels, rows):
    rng = np.random.default_rng(n_levels + rows[0])
    p_values = []
    for _ in range(400):
        shares = rng.dirichlet(np.full(n_levels, 0.5))
        p_values.append(
            measure_gap_of_levels(levels(rng, rows[0], shares), levels(rng, rows[1], shares)).p_value
        )
    assert np.mean(np.array(p_values) <= 0.05) <= 0.07
    assert np.mean(np.array(p_values) <= 0.01) <= 0.025


def test_rates_of_one_source_rarely_differ():
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(2000):
        share = rng.choice([0.001, 0.02, 0.3])
        n, m = rng.integers(50, 2000, 2)
        p_values.append(
            measure_gap_of_rates((rng.binomial(n, share), n), (rng.binomial(m, share), m)).p_value
        )
    assert np.mean(np.array(p_values) <= 0.01) <= 0.015
    assert measure_gap_of_rates((0, 100), (0, 50)).p_value == 1.0


def test_a_new_level_is_found_among_many():
    old = {f"l{i}": 100 for i in range(50)}
    new = {**old, "KP": 12}
    assert measure_gap_of_levels(old, new).p_value < 0.05
    assert measure_gap_of_levels(old, {**old, "KP": 1}).p_value > 0.2
    assert measure_gap_of_levels(new, old).p_value < 0.05
    assert measure_gap_of_levels({"a": 10}, {"b": 10}).size == 1.0


def test_the_correction_is_holms():
    p_values = [0.001, 0.04, 0.03, 0.2]
    assert adjust_p_values(p_values) == pytest.approx([0.004, 0.09, 0.09, 0.2])
    assert adjust_p_values([]) == []
    assert adjust_p_values([0.9, 0.8]) == [1.0, 1.0]


def test_levels_that_one_sample_lacks_by_chance_have_a_probability():
    assert _test_only_in_one(np.array([[30.0, 30.0], [0.0, 60.0]])) == pytest.approx(2 * 0.5**30)
    assert _test_only_in_one(np.array([[1.0, 40.0, 1.0], [0.0, 41.0, 1.0]])) == 1.0  # three times one half
    assert _test_only_in_one(np.array([[30.0, 30.0], [20.0, 40.0]])) == 1.0  # both have all


def test_what_was_seen_of_blocks_is_joined():
    first = SeenValues.of(pd.Series([3.0, np.nan, 7.0]), "number")
    second = SeenValues.of(pd.Series([5.0, 1.0]), "number")
    whole = first.joined(second)
    assert (first.low, first.high, first.n, first.n_missing) == (3.0, 7.0, 3, 1)
    assert (whole.low, whole.high, whole.n, whole.n_missing) == (1.0, 7.0, 5, 1)
    labels = SeenValues.of(pd.Series(["a", "b", "a"]), "category").joined(
        SeenValues.of(pd.Series(["b", "c"]), "category")
    )
    assert dict(labels.labels) == {"a": 2, "b": 2, "c": 1}
    assert dict(SeenValues("category", labels={"a": 1}).joined(SeenValues("category")).labels) == {"a": 1}
