"""The law of a number: it sums to 1, leaves each row out, and weighs mistakes as enumeration does."""

import numpy as np
import pandas as pd
import pytest
from oracles import number_oracles as oracle

from data.quality.clean_tables import orders
from tellwhy.checks import level_law, wrong_numbers as rates
from tellwhy.checks.column_mass import learn_column, log_digits
from tellwhy.checks.density import learn_density
from tellwhy.checks.facts import facts_of
from tellwhy.checks.row_law import expected_scores, learn_row_law
from tellwhy.checks.wrong_numbers import Rate, learn_rates


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("draw", ["standard_normal", "standard_cauchy", "exponential", "uniform"])
def test_a_density_sums_to_one_and_its_tails_to_their_shares(draw, rng):
    density = learn_density(getattr(rng, draw)(size=1500))
    ends = density.ends + np.array([-1, 1]) * 1e7 * density.width
    places = np.unique(np.r_[np.sinh(np.linspace(-20, 20, 400_001)), np.linspace(*density.ends, 20_001)])
    places = places[(places > ends[0]) & (places < ends[1])]
    total = np.trapezoid(np.exp(density.log_density(places)), places)
    assert total == pytest.approx(1, abs=0.05)
    assert np.exp(density.log_tail(density.ends + np.array([-1e-9, 1e-9]))) == pytest.approx(
        density.shares, rel=1e-3
    )
    assert np.all(np.diff(density.normal_score(np.sort(places))) >= -0.3)


def test_a_density_is_a_mean_of_kernels_that_leaves_each_value_out(rng):
    values = np.sort(rng.normal(size=300))
    density = learn_density(values)
    for row in (100, 150, 200):
        slow = oracle.kernel_density(values, values[row], density.bandwidth, without=row)
        floor = 0.3 / 300 / (density.ends[1] - density.ends[0])
        fast = np.exp(density.log_density(values[row : row + 1], own=True))[0] - floor
        assert fast == pytest.approx(slow, rel=0.02)


@pytest.mark.parametrize("kind", ["prices", "ages", "list", "counts"])
def test_the_probabilities_of_a_column_sum_to_one(kind, rng):
    values = {
        "prices": rng.lognormal(3, 0.5, 1500).round(2),
        "ages": rng.integers(18, 95, 800).astype(float),
        "list": rng.choice([1.5, 4.99, 12.0, 49.9], 900),
        "counts": rng.poisson(2, 900).astype(float),
    }[kind]
    step = {"prices": 0.01, "list": 0.01}.get(kind, 1.0)
    places = np.round(np.arange(-20_000, 60_000) * step, 2)
    total = np.exp(learn_column(values).log_mass(places)).sum()
    assert total == pytest.approx(1, abs=0.06)


def test_numbers_from_nowhere_have_probabilities_that_sum_to_one_in_each_order_of_magnitude():
    total = np.exp(log_digits(np.arange(10_000, 100_000).astype(float))).sum()
    assert total == pytest.approx(1 - 0.06 - 0.03 - 0.03, abs=1e-9)  # those of more digits lie between these


def test_what_the_others_say_is_the_regression_on_them(rng):
    half = rng.normal(size=(4, 6))
    covariance = half @ half.T + 0.3 * np.eye(4)
    rows = rng.normal(size=(5, 4))
    found = expected_scores(np.linalg.inv(covariance), rows[:, :3], rows[:, 3:])
    for column in range(3):
        others = [c for c in range(4) if c != column]
        slopes = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, column])
        assert found[:, column] == pytest.approx(rows[:, others] @ slopes, rel=1e-9)


def test_a_level_leaves_each_row_out(rng):
    label = rng.choice(["a", "b"], 60)
    values = np.where(label == "a", 1.0, 5.0) + 0.1 * rng.uniform(-1, 1, 60)
    facts = facts_of(pd.DataFrame({"label": label, "x": values}), None)
    law = level_law.learn_levels(facts, values, np.arange(60), (1.0, 0.0))
    mean, spread = law.of(law.codes(facts), values)
    for row in (0, 17, 59):
        others = [v for i, v in enumerate(values) if label[i] == label[row] and i != row]
        assert (mean[row], spread[row]) == pytest.approx(
            oracle.mean_and_spread(others, level_law._PRIOR_ROWS, law.spread), rel=1e-9
        )


def test_rates_are_those_of_every_way_in_which_columns_may_err(rng):
    columns = [(np.array([9.0, 7.5, 8.0, 2.0]), 400), (np.array([3.0]), 300), (np.zeros(0), 350)]
    usual = 8e-6
    found = learn_rates([gains for gains, _ in columns], np.array([size for _, size in columns]), usual)
    few = usual * 10.0**rates._FEW
    priors = (rates._TABLE * usual, rates._COLUMN, rates._ALONE)
    slow = oracle.chances_of_erring(columns, few, 10.0**rates._MANY, priors)
    assert [rate.chance for rate in found] == pytest.approx(slow, rel=1e-6)
    assert found[0].chance > 0.5 > found[2].chance > found[2].few


def test_log_odds_are_those_of_the_two_humps():
    rate = Rate(few=1e-5, many=1e-2, chance=0.25)
    gain = 6.0
    humps = [(0.75, 1e-5), (0.25, 1e-2)]
    wrong = sum(share * r * np.exp(gain) / (r * np.exp(gain) + 1) for share, r in humps)
    assert rate.log_odds(np.array([gain]))[0] == pytest.approx(np.log(wrong / (1 - wrong)), rel=1e-9)


def test_a_law_does_not_hang_on_the_order_of_columns(rng):
    frame = orders(rng, 400)[["price", "quantity", "total"]]
    one = learn_row_law(facts_of(frame, None))[0]
    other = learn_row_law(facts_of(frame[["total", "price", "quantity"]], None))[0]
    for name in frame:
        here = one.columns[one.names.index(name)]
        there = other.columns[other.names.index(name)]
        assert here.parts == pytest.approx(there.parts, abs=1e-6)
        assert here.mass.lattices == pytest.approx(there.mass.lattices)
