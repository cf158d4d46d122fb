"""From where on a row is an alarm, and what share of alarms chance alone raises."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.kinds.request import Request
from tellwhy.scoring.surprise import Surprise
from tellwhy.verdicts.alarms import FALSE_DISCOVERIES, Calibration, draw_alarms


def alarms_by_definition(p_values, share):
    """Benjamini and Hochberg, one p-value after the other."""
    n = len(p_values)
    ordered = sorted(p_values)
    largest = max((k for k in range(1, n + 1) if ordered[k - 1] <= share * k / n), default=0)
    return set() if largest == 0 else {i for i, p in enumerate(p_values) if p <= ordered[largest - 1]}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_alarms_are_those_of_benjamini_and_hochberg(seed, share):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.uniform(size=200), rng.uniform(size=rng.integers(0, 20)) * 1e-3])
    surprises = -np.log(p)
    found = draw_alarms(surprises, fdr=share)
    expected = alarms_by_definition(p.tolist(), share)
    assert set(np.flatnonzero(surprises > found.level).tolist()) == expected
    assert found.expected_false == pytest.approx(share * max(1, len(expected)))


def test_ten_per_cent_by_default():
    surprises = -np.log(np.random.default_rng(0).uniform(size=500))
    assert FALSE_DISCOVERIES == 0.1
    assert draw_alarms(surprises) == draw_alarms(surprises, fdr=0.1)
    assert draw_alarms(surprises).rule == "at most 10 % false alarms expected"


def test_without_an_alarm_the_level_is_where_the_first_would_be():
    found = draw_alarms(np.zeros(100), fdr=0.1)
    assert found.level == pytest.approx(np.log(100 / 0.1))
    assert found.expected_false == pytest.approx(0.1)  # as chance would have raised at this level


def test_a_budget_is_kept_and_rows_that_tie_for_the_last_place_are_left_out():
    surprises = np.array([1.0, 5.0, 5.0, 5.0, 2.0, 9.0])
    assert (surprises > draw_alarms(surprises, alarms=1).level).sum() == 1
    assert (surprises > draw_alarms(surprises, alarms=2).level).sum() == 1
    assert (surprises > draw_alarms(surprises, alarms=4).level).sum() == 4
    assert (surprises > draw_alarms(surprises, alarms=60).level).sum() == 6
    assert draw_alarms(surprises, alarms=1).rule == "a budget of 1 alarm"
    assert draw_alarms(surprises, alarms=1_000).rule == "a budget of 1,000 alarms"


def test_a_share_of_the_rows():
    surprises = np.random.default_rng(0).exponential(size=1_000)
    found = draw_alarms(surprises, contamination=0.03)
    assert (surprises > found.level).sum() == 30
    assert found.rule == "the highest 3 % of scores"


def test_what_chance_raises_at_a_level():
    """Of 1,000 ordinary rows, p-values are uniform: about n·p of them are beyond a level."""
    surprises = -np.log(np.random.default_rng(0).uniform(size=1_000))
    found = draw_alarms(surprises, alarms=50)
    assert found.expected_false == pytest.approx(50, rel=0.35)
    odd = np.concatenate([surprises, np.full(50, 40.0)])
    assert draw_alarms(odd, alarms=50).expected_false == pytest.approx(1050 * np.exp(-surprises.max()))


def test_one_rule_at_a_time():
    with pytest.raises(
        InvalidParameter, match=r"Give one of alarms, contamination and fdr\. Got alarms and fdr"
    ):
        Request(alarms=5, fdr=0.1)
    with pytest.raises(InvalidParameter, match="alarms"):
        Request(alarms=0)
    with pytest.raises(InvalidParameter, match="fdr"):
        Request(fdr=0.0)


def test_scores_in_other_units_are_raised_by_so_much_surprise():
    scores = np.random.default_rng(0).lognormal(size=1_000)
    law = Surprise.learn(scores)
    by = np.zeros(1_000)
    by[3] = 12.0
    raised = Calibration(law).raised(scores, by)
    assert (raised[by == 0] == scores[by == 0]).all()
    assert law.value(raised[[3]])[0] == pytest.approx(law.value(scores[[3]])[0] + 12.0)
    assert (Calibration().raised(scores, by) == scores + by).all()
