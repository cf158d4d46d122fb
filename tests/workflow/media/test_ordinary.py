"""P-values and alarms beside things that are known to be ordinary."""

import numpy as np
import pytest

from tellwhy.verdicts.ordinary import judge_by_rank


def test_p_values_are_ranks_among_ordinary_scores():
    found = judge_by_rank(np.array([0.5, 3.0, 9.0]), np.array([1.0, 2.0, 3.0, 4.0]), fdr=None, of_what="text")
    np.testing.assert_allclose(found.p_values, [5 / 5, 3 / 5, 1 / 5])
    assert found.threshold >= 9.0
    assert found.rule == "one ordinary text in 20 would be, as 4 of them tell"


@pytest.mark.parametrize("n", [50, 400])
def test_ordinary_things_are_alarms_as_often_as_stated(n):
    rng = np.random.default_rng(n)
    rates = []
    for _ in range(300):
        found = judge_by_rank(rng.standard_t(3, 100), rng.standard_t(3, n), fdr=None, of_what="text")
        rates.append((found.p_values <= 0.05).mean())
    assert 0.6 * 0.05 < np.mean(rates) <= 1.1 * 0.05


@pytest.mark.parametrize("fdr", [None, 0.1])
def test_alarms_are_above_the_threshold_and_others_below(fdr):
    rng = np.random.default_rng(0)
    ordinary = rng.normal(size=500)
    scores = np.concatenate([rng.normal(size=80), rng.normal(6, 1, 40)])
    found = judge_by_rank(scores, ordinary, fdr=fdr, of_what="text")
    is_alarm = scores > found.threshold
    assert is_alarm[80:].all()
    assert found.p_values[is_alarm].max() < found.p_values[~is_alarm].min()
    assert is_alarm[:80].mean() <= 0.12
