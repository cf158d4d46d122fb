"""Coalitions and the least-squares fit: against the definition, and against the formulas as printed."""

import numpy as np
import pytest
from oracles.shapley_oracles import kernel, kernel_as_printed, shapley_by_definition, weighted_fit

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.shapley.shapley_values import (
    SumFit,
    choose_coalitions,
    compute_size_chances,
    count_by_size,
    draw_distinct,
    make_every_coalition,
    sample_coalitions,
    set_weights,
    shapley_kernel,
    shapley_values,
)


def random_game(d, seed=0):
    """A game with interactions of every order, as a function of a frozenset."""
    rng = np.random.default_rng(seed)
    table = {}

    def worth(S):
        if S not in table:
            table[S] = rng.normal() + len(S) ** 2
        return table[S]

    return worth


def smooth_games(members, n=3, seed=0):
    """v(S) of n games with pairwise and cubic terms, for masks of any number of players."""
    rng = np.random.default_rng(seed)
    d = members.shape[1]
    linear, pairs = rng.normal(size=(n, d)), rng.normal(size=(n, d, d)) / np.sqrt(d)
    Z = members.astype(float)
    first = Z @ linear.T
    second = np.einsum("mi,nij,mj->mn", Z, pairs, Z)
    return (first + second + 0.1 * (first / np.sqrt(d)) ** 3).T


def fitted(coalitions, worth, d):
    """Fit the values of one game given as a function of a frozenset."""
    sets = [frozenset(np.flatnonzero(z).tolist()) for z in coalitions.members]
    ends = np.array([worth(frozenset())]), np.array([worth(frozenset(range(d)))])
    return shapley_values(coalitions, np.array([[worth(S) for S in sets]]), *ends)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
def test_all_coalitions_give_the_definition(d):
    worth = random_game(d)
    found = fitted(make_every_coalition(d), worth, d)
    np.testing.assert_allclose(found.values[0], shapley_by_definition(worth, d), atol=1e-10)
    assert found.stderr is None


def test_the_kernel_is_per_subset_and_the_printed_one_is_wrong():
    d, worth = 5, random_game(5)
    exact = shapley_by_definition(worth, d)
    np.testing.assert_allclose(weighted_fit(worth, d, kernel), exact, atol=1e-10)
    assert np.abs(weighted_fit(worth, d, kernel_as_printed) - exact).max() > 0.01
    sizes = np.arange(1, d)
    np.testing.assert_allclose(shapley_kernel(d, sizes), [kernel(d, s) for s in sizes], rtol=1e-14)
    assert not np.allclose(shapley_kernel(d, sizes), [kernel_as_printed(d, s) for s in sizes])


def test_samples_come_in_pairs_and_depend_on_the_seed_alone():
    first, second = (sample_coalitions(20, 100, np.random.default_rng(3)).members for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first[:50], ~first[50:])
    assert first.sum(axis=1).min() > 0
    assert first.sum(axis=1).max() < 20


def test_how_many_coalitions():
    rng = np.random.default_rng(0)
    assert choose_coalitions(12, "auto", rng).is_exact
    assert len(choose_coalitions(12, "auto", rng).members) == 2**12 - 2
    assert len(choose_coalitions(13, "auto", rng).members) == 2 * 13 + 2048
    assert not choose_coalitions(13, "auto", rng).is_exact
    assert not choose_coalitions(10, 100, rng).is_exact
    assert choose_coalitions(5, 30, rng).is_exact
    assert len(choose_coalitions(1, "auto", rng).members) == 0
    with pytest.raises(InvalidParameter, match="at least 42"):
        choose_coalitions(20, 30, rng)
    with pytest.raises(InvalidParameter, match="at most 10240"):
        choose_coalitions(20, 20_000, rng)


def test_sampled_values_are_additive_and_exact_for_additive_games():
    coalitions = choose_coalitions(30, "auto", np.random.default_rng(0))
    weights = np.random.default_rng(1).normal(size=30)
    worth = 2.0 + (coalitions.members @ weights)[None]
    found = shapley_values(coalitions, worth, np.array([2.0]), np.array([2.0 + weights.sum()]))
    np.testing.assert_allclose(found.values[0], weights, atol=1e-10)
    np.testing.assert_allclose(found.stderr, 0.0, atol=1e-8)
    noisy = smooth_games(coalitions.members)
    full = smooth_games(np.ones((1, 30), dtype=bool))[:, 0]
    assert (
        np.abs(shapley_values(coalitions, noisy, np.zeros(3), full).values.sum(axis=1) - full).max() < 1e-12
    )


@pytest.mark.parametrize(("d", "n", "n_seeds"), [(13, 400, 20), (13, 60, 30)])
def test_coverage_of_the_standard_error(d, n, n_seeds):
    everyone = make_every_coalition(d)
    full = smooth_games(np.ones((1, d), dtype=bool))[:, 0]
    exact = shapley_values(everyone, smooth_games(everyone.members), np.zeros(3), full).values
    covered = []
    for seed in range(n_seeds):
        drawn = sample_coalitions(d, n, np.random.default_rng(seed))
        found = shapley_values(drawn, smooth_games(drawn.members), np.zeros(3), full)
        covered.append(np.abs(found.values - exact) <= 1.96 * found.stderr)
    assert 0.91 < np.mean(covered) < 0.98


def test_values_add_up_to_the_last_digits_where_sets_hardly_tell_players_apart():
    drawn = sample_coalitions(60, 130, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    worth = 1e6 * rng.normal(size=(5, 130))
    full = 1e6 * rng.normal(size=5)
    values = shapley_values(drawn, worth, np.zeros(5), full).values
    assert (np.abs(values.sum(axis=1) - full) < 4 * np.finfo(float).eps * np.abs(values).sum(axis=1)).all()


def test_sets_are_different_and_none_is_the_complement_of_another():
    for p, n in ((6, 20), (7, 100), (13, 500), (16, 3000), (40, 500)):
        members = sample_coalitions(p, n, np.random.default_rng(0)).members
        assert len(members) == n
        assert len(np.unique(members, axis=0)) == n
        assert members.any(axis=1).all()
        assert not members.all(axis=1).any()


def test_weights_are_those_of_the_sizes_in_the_kernel():
    drawn = sample_coalitions(14, 900, np.random.default_rng(0))
    sizes = drawn.members.sum(axis=1)
    of_sizes = np.bincount(sizes, drawn.weights, minlength=15)[1:14]
    np.testing.assert_allclose(of_sizes / of_sizes.sum(), compute_size_chances(14), atol=1e-12)
    np.testing.assert_array_equal(drawn.weights[:450], drawn.weights[450:])
    assert (sizes == 1).sum() == 14  # all there are


def test_small_sizes_are_drawn_more_often_but_not_again_and_again():
    counts = np.array(count_by_size(40, 1000))
    assert counts.sum() == 1000
    assert counts[0] == 40
    assert (np.diff(counts[1:-1]) <= 0).all()
    assert count_by_size(6, 31) == [6, 15, 10]


def test_where_pairs_are_few_all_single_players_are_among_them():
    for n_pairs in (40, 49, 80):
        counts = count_by_size(40, n_pairs)
        assert counts[0] == 40
        assert sum(counts) == n_pairs
    assert count_by_size(40, 39)[0] < 20
    assert count_by_size(40, 200)[0] < 40


def test_every_player_is_drawn_as_often_as_any_other():
    members = np.concatenate([draw_distinct(12, 3, 60, np.random.default_rng(seed)) for seed in range(300)])
    np.testing.assert_allclose(members.mean(axis=0), 0.25, atol=0.012)
    halves = draw_distinct(30, 15, 400, np.random.default_rng(0))
    assert halves[:, 0].all()


def test_the_fewest_sets_that_are_allowed_do():
    full = smooth_games(np.ones((1, 20), dtype=bool))[:, 0]
    for seed in range(5):
        drawn = choose_coalitions(20, 42, np.random.default_rng(seed))
        found = shapley_values(drawn, smooth_games(drawn.members), np.zeros(3), full)
        assert np.isfinite(found.values).all()
        assert (found.stderr > 0).all()


@pytest.mark.parametrize("is_one_prior", [True, False])
def test_games_of_threes_are_found_from_fewer_sets_than_there_are_threes(is_one_prior):
    rng = np.random.default_rng(0)
    p, drawn = 16, sample_coalitions(16, 1500, np.random.default_rng(1))
    players = np.array([rng.permutation(p)[:3] for _ in range(30)])
    sizes = rng.normal(size=30)

    def worth(members):
        return (members[:, players].all(axis=2) @ sizes)[None]

    exact = np.bincount(players.ravel(), np.repeat(sizes / 3, 3), minlength=p)
    ends = worth(np.zeros((1, p), dtype=bool))[:, 0], worth(np.ones((1, p), dtype=bool))[:, 0]
    found = shapley_values(drawn, worth(drawn.members), *ends, is_one_prior=is_one_prior)
    plain = SumFit.of_sets(drawn)
    gains = worth(drawn.members)
    by_sums = plain.values((gains * set_weights(drawn)) @ drawn.members, ends[1] - ends[0])
    error = np.linalg.norm(found.values[0] - exact)
    assert error < (0.25 if is_one_prior else 0.1) * np.linalg.norm(by_sums[0] - exact)


def test_a_game_is_shared_alike_whatever_games_stand_beside_it():
    drawn = sample_coalitions(14, 400, np.random.default_rng(0))
    full = smooth_games(np.ones((1, 14), dtype=bool))[:, 0]
    worth = smooth_games(drawn.members)
    for is_one_prior in (True, False):
        together = shapley_values(drawn, worth, np.zeros(3), full, is_one_prior=is_one_prior)
        alone = shapley_values(drawn, worth[:1], np.zeros(1), full[:1], is_one_prior=is_one_prior)
        np.testing.assert_allclose(alone.values[0], together.values[0], rtol=1e-9, atol=1e-12)
