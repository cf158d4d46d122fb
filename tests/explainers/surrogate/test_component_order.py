"""Moves that exchange the numbers of components: frequencies of orders, what moves along, and Geweke's test."""

from itertools import permutations

import numpy as np
from oracles.mixture_calibration import OWN, expected_statistics, geweke, geweke_data
from oracles.mixture_oracles import prior_draw, simulate, steps_with
from scipy import special

from tellwhy.explainers.surrogate import _compiled_sweep as _compiled, _compiled_sweep as order
from tellwhy.explainers.surrogate._compiled_conditionals import update_grams


def log_sizes(counts, alpha):
    """log E[Π u_j^n_j (1 − u_j)^(rows beyond)]."""
    beyond = counts[::-1].cumsum()[::-1][1:]
    return special.betaln(1 + counts[:-1], alpha + beyond).sum()


def test_orders_are_as_frequent_as_their_sizes_are_likely():
    counts, alpha, rng = np.array([3, 0, 1]), 0.8, np.random.default_rng(0)
    orders = [np.array(one) for one in permutations(range(3))]
    expected = special.softmax([log_sizes(counts[one], alpha) for one in orders])
    assert expected.max() > 3 * expected.min(), "orders differ"
    seen = np.zeros(len(orders))
    at = np.arange(3)
    for _ in range(20_000):
        at = at[order.propose_order(counts[at], alpha, rng)]
        seen[[np.array_equal(at, one) for one in orders]] += 1
    np.testing.assert_allclose(seen / seen.sum(), expected, atol=0.015)


def described(state, data):
    """What each row belongs to, whatever its number: all that a component has."""
    z = state.z
    return np.column_stack(
        [
            state.coef[z],
            state.sigma2[z],
            state.t[z],
            state.lambda1[state.c[z]],
            state.gate_mean[z],
            state.gate_var[z],
            (data.X * state.moment[z]).sum(axis=1),
            (data.X @ state.gram.sum(axis=2).T)[np.arange(len(z)), z],
        ]
    )


def test_everything_of_a_component_moves_along():
    data, rng = geweke_data(9, 4, 2), np.random.default_rng(1)
    state = prior_draw(data, 4, 2, OWN.numbers(), rng)
    simulate(state, data, rng)
    state.t[:] = rng.uniform(size=state.t.shape)
    update_grams(state, data)
    changed = 0
    for _ in range(30):
        before, z = described(state, data), state.z.copy()
        _compiled.draw_order(state, data, OWN.numbers(), rng)
        np.testing.assert_array_equal(described(state, data), before)
        np.testing.assert_array_equal(state.counts, np.bincount(state.z, minlength=4))
        np.testing.assert_array_equal(state.member, state.z)
        changed += not np.array_equal(z, state.z)
    assert changed > 10


def test_one_component_has_one_order():
    data, rng = geweke_data(), np.random.default_rng(0)
    state = prior_draw(data, 1, 2, OWN.numbers(), rng)
    _compiled.draw_order(state, data, OWN.numbers(), rng)
    assert not state.z.any()


def test_geweke_sees_orders_that_are_always_exchanged(monkeypatch):
    def always(counts, alpha, rng):
        mixed = rng.permutation(len(counts))
        counts[:] = counts[mixed]
        return mixed

    monkeypatch.setattr(order, "propose_order", always)
    steps = steps_with(draw_order=order.draw_order.py_func)
    assert geweke(expected_statistics(3000), steps, 1500).max() > 6


def test_large_components_come_first_at_once():
    """With a small α; rows that move one by one would take thousands of sweeps."""
    counts, rng = np.array([0, 0, 300, 700]), np.random.default_rng(0)
    found = np.array([counts[order.propose_order(counts.copy(), 1.0, rng)] for _ in range(200)])
    assert (found[:, 2:] == 0).all(axis=1).mean() > 0.7
    assert 0.2 < (found[:, 0] == 700).mean() < 0.9
