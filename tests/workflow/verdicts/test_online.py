"""Rules of alarms over endless streams: their levels by slow obvious code, and what they promise."""

import math

import numpy as np
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.verdicts.online import OnlineRule, turn_into_e_values, weigh_ages


def weight(j):
    return 0.07720838 * math.log(max(j, 2)) / (j * math.exp(math.sqrt(math.log(j))))


def lord_by_hand(p_values, level):
    """LORD++ as the paper writes it, one event after the other."""
    found = []
    start = level / 2
    alarms = []
    for t, p in enumerate(p_values, start=1):
        allowed = start * weight(t)
        for k, tau in enumerate(found):
            allowed += (level - start if k == 0 else level) * weight(t - tau)
        alarms.append(p <= allowed)
        if p <= allowed:
            found.append(t)
    return alarms


def elond_by_hand(p_values, level):
    n = 0
    alarms = []
    for t, p in enumerate(p_values, start=1):
        e = 0.5 if p == 1 else (1 - p + p * math.log(p)) / (p * math.log(p) ** 2)
        alarms.append(e >= 1 / (level * weight(t) * (n + 1)))
        n += alarms[-1]
    return alarms


def a_stream(n=3_000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    p[rng.choice(n, n // 20, replace=False)] = 10.0 ** rng.uniform(-12, -3, n // 20)
    return p


@pytest.mark.parametrize(("kind", "oracle"), [("lord", lord_by_hand), ("elond", elond_by_hand)])
def test_alarms_are_those_of_slow_obvious_code(kind, oracle):
    p = a_stream()
    alarms, rule = OnlineRule(kind, 0.1).decide(p)
    assert alarms.tolist() == oracle(p, 0.1)
    assert alarms.sum() > 50
    assert rule.n_found == alarms.sum()


@pytest.mark.parametrize("kind", ["lord", "elond", "rate"])
def test_the_pieces_that_a_stream_comes_in_change_nothing(kind):
    p = a_stream(seed=1)
    whole, _ = OnlineRule(kind, 0.1).decide(p)
    rule = OnlineRule(kind, 0.1)
    parts = []
    for piece in np.array_split(p, 137):
        alarms, rule = rule.decide(piece)
        rule = OnlineRule.of_record(rule.record())
        parts.append(alarms)
    assert np.array_equal(np.concatenate(parts), whole)


def test_weights_add_up_to_one_at_most():
    far = 10**6
    near = weigh_ages(np.arange(1.0, far + 1)).sum()
    root = math.sqrt(math.log(far))
    # ∫ log x / (x e^√log x) dx, with s = √log x: what is behind a million
    rest = 0.07720838 * 2 * (root**3 + 3 * root**2 + 6 * root + 6) * math.exp(-root)
    assert 0.9 < near + rest <= 1.0


def test_e_values_of_uniform_p_values_are_at_most_one_on_average():
    edges = np.logspace(-250, 0, 400_000)  # below lies another 1 / log 10^250
    mean = float((turn_into_e_values(np.sqrt(edges[1:]) * np.sqrt(edges[:-1])) * np.diff(edges)).sum())
    assert mean + 1 / (250 * math.log(10)) == pytest.approx(1.0, abs=1e-3)
    assert np.all(np.diff(turn_into_e_values(np.linspace(1e-6, 1, 10_001))) <= 1e-12)


@pytest.mark.parametrize("kind", ["lord", "elond"])
def test_a_stream_of_ordinary_events_seldom_raises_any_alarm(kind):
    n_streams = 100
    any_alarm = 0
    for seed in range(n_streams):
        p = np.random.default_rng(seed).uniform(size=5_000)
        any_alarm += bool(OnlineRule(kind, 0.1).decide(p)[0].any())
    assert any_alarm <= 0.1 * n_streams + 3 * math.sqrt(n_streams * 0.1 * 0.9)


def test_the_share_of_false_alarms_stays_as_stated():
    shares = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=4_000)
        odd = rng.uniform(size=4_000) < 0.02
        p[odd] = 10.0 ** -rng.uniform(3, 8, odd.sum())
        alarms, _ = OnlineRule("lord", 0.1).decide(p)
        shares.append((alarms & ~odd).sum() / max(alarms.sum(), 1))
    assert np.mean(shares) <= 0.1
    assert np.mean(shares) > 0.001  # it spends what it may


def test_rules_and_levels_that_mean_nothing_are_refused():
    with pytest.raises(InvalidParameter, match="lord"):
        OnlineRule("bonferroni")
    with pytest.raises(InvalidParameter, match="between 0 and 1"):
        OnlineRule(level=1.5)
