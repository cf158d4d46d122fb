"""Owen values: against all orders in which groups stay together."""

import numpy as np
import pandas as pd
import pytest
from oracles.shapley_oracles import owen_by_orders, shapley_by_definition

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers import KernelShap, OwenValues
from tellwhy.explainers.shapley.owen_values import (
    choose_orders,
    cluster_columns,
    count_contexts,
    draw_orders,
    list_all_orders,
    list_players,
)
from tellwhy.scoring import PredictionScore

TREES = [
    [0, 1, 2, 3, 4, 5],
    [[0, 1], [2, 3], [4, 5]],
    [[0, 1, 2], 3, [4, 5]],
    [[0, [1, 2]], [[3, 4], 5]],
    [[[[[0, 1], 2], 3], 4], 5],
]


def game(seed=0):
    table = np.random.default_rng(seed).normal(size=2**6)
    return lambda S: table[sum(2**player for player in S)]


def shared(sets, worth):
    of = [worth(np.flatnonzero(mask).tolist()) for mask in sets.members]
    full = worth(range(sets.members.shape[1]))
    return sets.share(np.array([of]), np.array([worth([])]), np.array([full]))


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_all_orders_give_the_definition(tree):
    found = shared(list_all_orders(tree), game())
    np.testing.assert_allclose(found.values[0], owen_by_orders(game(), tree), atol=1e-12)
    assert found.stderr is None


def test_without_groups_they_are_shapley_values():
    found = shared(list_all_orders(TREES[0]), game())
    np.testing.assert_allclose(found.values[0], shapley_by_definition(game(), 6), atol=1e-12)


def test_the_count_says_how_many_sets_are_looked_at():
    for tree in TREES:
        assert len(list_all_orders(tree).members) <= 2 * count_contexts(tree)


def test_a_groups_values_add_up_to_its_own_among_groups():
    found = shared(list_all_orders(TREES[3]), game()).values[0]

    def of_groups(S):
        return game_of(frozenset(player for k in S for player in list_players(TREES[3][k])))

    game_of = game()
    np.testing.assert_allclose(
        [found[:3].sum(), found[3:].sum()], shapley_by_definition(of_groups, 2), atol=1e-12
    )


def test_drawn_orders_are_unbiased_and_say_how_far_they_are_off():
    tree = TREES[3]
    exact = owen_by_orders(game(), tree)
    gaps, values = [], []
    for seed in range(200):
        found = shared(draw_orders(tree, 24, np.random.default_rng(seed)), game())
        values.append(found.values[0])
        gaps.append(np.abs(found.values[0] - exact) <= 2.2 * found.stderr[0])  # of eleven degrees of freedom
    np.testing.assert_allclose(np.mean(values, axis=0), exact, atol=0.06)
    assert 0.92 < np.mean(gaps) < 0.98


def test_drawn_values_add_up():
    worth = game(1)
    found = shared(draw_orders(TREES[1], 8, np.random.default_rng(0)), worth)
    assert found.values.sum() == pytest.approx(worth(range(6)) - worth([]), abs=1e-12)


def test_wide_tables_are_sampled_and_narrow_ones_are_not():
    pairs = [[2 * k, 2 * k + 1] for k in range(20)]
    assert choose_orders(list(range(12)), "auto", np.random.default_rng(0)).is_exact
    assert not choose_orders(pairs, "auto", np.random.default_rng(0)).is_exact
    few = choose_orders(pairs, 400, np.random.default_rng(0))
    assert few.n_orders == 10
    assert len(few.members) == 390
    with pytest.raises(InvalidParameter, match="n_coalitions=100 is too few"):
        choose_orders(pairs, 100, np.random.default_rng(0))


def test_columns_that_move_together_are_one_group():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(200, 2))
    rows = np.column_stack(
        [base[:, 0], base[:, 1], np.exp(base[:, 0]), -base[:, 1] + 0.01 * rng.normal(size=200)]
    )
    tree = cluster_columns(rows)
    assert sorted(sorted(list_players(part)) for part in tree) == [[0, 2], [1, 3]]


def test_by_names_of_a_frame_and_by_default():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    frame["c"] = frame["a"] + 0.01 * frame["c"]

    def product(rows):
        return np.asarray(rows["a"] * rows["b"] + rows["c"] * rows["d"])

    score = tellwhy.explain(product, frame[:3], "owen", background=frame, task="prediction")
    assert score.method == "OwenValues"
    assert "[0, 2]" in score.params["groups"]
    named = tellwhy.explain(
        product, frame[:3], "OwenValues", groups=[["a", "c"]], background=frame, task="prediction"
    )
    assert named.params["groups"] == "[[0, 2], 1, 3]"
    np.testing.assert_allclose(named.residual, 0.0, atol=1e-12)
    np.testing.assert_allclose(
        named.extras["group_values"].sum(axis=1), named.scores - named.base_values, atol=1e-12
    )
    whole = KernelShap(PredictionScore(lambda X: X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]), groups=[[0, 2]])
    of_groups = whole.fit(frame.to_numpy()).explain(frame[:3].to_numpy()).extras["group_values"]
    np.testing.assert_allclose(named.extras["group_values"], of_groups, atol=1e-10)


def test_errors_of_drawn_reference_rows_are_those_of_the_mean(monkeypatch):
    monkeypatch.setattr("tellwhy.explainers.shapley.kernel_shap._MOST_SCORED", 2)
    rows = np.random.default_rng(0).normal(size=(400, 2))
    score = PredictionScore(lambda X: 2.0 * X[:, 0] + X[:, 1])
    found = OwenValues(score, groups=[[0, 1]]).fit(rows).explain(rows[:1])
    assert found.params["stderr_covers"] == "drawn reference rows"
    np.testing.assert_allclose(found.stderr[0], [2 * np.sqrt(0.75) / 10, np.sqrt(0.75) / 10], rtol=0.15)


@pytest.mark.parametrize(
    ("groups", "words"),
    [([[0, 1], [1, 2]], "more than once"), ([["x"]], "no column names"), ([[0], []], "without columns")],
)
def test_groups_that_cannot_be_are_refused(groups, words):
    rows = np.zeros((3, 3))
    with pytest.raises(InvalidParameter, match=words):
        OwenValues(lambda X: X.sum(axis=1), groups=groups).fit(rows).explain(rows)
