"""Coalitions and the least-squares fit: against the definition, and against the formulas as printed."""

import numpy as np
import pytest
from oracles.shapley_oracles import kernel, kernel_as_printed, shapley_by_definition, weighted_fit

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.shapley.shapley_values import (
    choose_coalitions,
    compute_size_chances,
    make_every_coalition,
    sample_coalitions,
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


@pytest.mark.parametrize("d", [13, 14])
def test_sizes_are_drawn_by_the_total_weight_of_a_size(d):
    members = sample_coalitions(d, 40_000, np.random.default_rng(0)).members
    seen = np.bincount(members.sum(axis=1), minlength=d + 1)[1:d] / len(members)
    np.testing.assert_allclose(seen, compute_size_chances(d), atol=0.01)
    per_subset = shapley_kernel(d, np.arange(1, d))
    assert (
        np.abs(seen - per_subset / per_subset.sum()).max() > 0.05
    )  # the weight of one subset, not of a size
    assert seen[d // 2 - 1] > 0.02  # the middle size is there, also where d is even
    np.testing.assert_allclose(
        members.mean(axis=0), 0.5, atol=1e-12
    )  # pairs: each player is in one of the two


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


def test_sampled_values_are_additive_and_exact_for_additive_games():
    coalitions = choose_coalitions(30, "auto", np.random.default_rng(0))
    weights = np.random.default_rng(1).normal(size=30)
    worth = 2.0 + (coalitions.members @ weights)[None]
    found = shapley_values(coalitions, worth, np.array([2.0]), np.array([2.0 + weights.sum()]))
    np.testing.assert_allclose(found.values[0], weights, atol=1e-10)
    np.testing.assert_allclose(found.stderr, 0.0, atol=1e-10)
    noisy = smooth_games(coalitions.members)
    full = smooth_games(np.ones((1, 30), dtype=bool))[:, 0]
    assert (
        np.abs(shapley_values(coalitions, noisy, np.zeros(3), full).values.sum(axis=1) - full).max() < 1e-12
    )


def test_sizes_of_sampled_sets_follow_the_kernel():
    members = sample_coalitions(8, 40_000, np.random.default_rng(0)).members
    sizes = np.arange(1, 8)
    expected = 1.0 / (sizes * (8 - sizes))
    counted = np.bincount(members.sum(axis=1), minlength=9)[1:8] / len(members)
    np.testing.assert_allclose(counted, expected / expected.sum(), atol=0.01)


def test_samples_are_fitted_without_weights():
    d = 13
    everyone = make_every_coalition(d)
    full = smooth_games(np.ones((1, d), dtype=bool))[:, 0]
    exact = shapley_values(everyone, smooth_games(everyone.members), np.zeros(3), full).values
    errors, weighted_errors = [], []
    for seed in range(8):
        drawn = sample_coalitions(d, 2000, np.random.default_rng(seed))
        worth = smooth_games(drawn.members)
        errors.append(shapley_values(drawn, worth, np.zeros(3), full).values - exact)
        twice = type(drawn)(drawn.members, shapley_kernel(d, drawn.members.sum(axis=1)))
        weighted_errors.append(shapley_values(twice, worth, np.zeros(3), full).values - exact)
    unweighted, weighted = (np.abs(np.mean(e, axis=0)).max() for e in (errors, weighted_errors))
    assert unweighted < 0.03
    assert weighted > 2 * unweighted  # the kernel counted twice does not converge to the Shapley values


@pytest.mark.parametrize(("d", "n"), [(13, 400), (13, 60)])
def test_coverage_of_the_standard_error(d, n):
    everyone = make_every_coalition(d)
    full = smooth_games(np.ones((1, d), dtype=bool))[:, 0]
    exact = shapley_values(everyone, smooth_games(everyone.members), np.zeros(3), full).values
    covered = []
    for seed in range(150):
        drawn = sample_coalitions(d, n, np.random.default_rng(seed))
        found = shapley_values(drawn, smooth_games(drawn.members), np.zeros(3), full)
        covered.append(np.abs(found.values - exact) <= 1.96 * found.stderr)
    assert 0.9 < np.mean(covered) < 0.98


def test_standard_errors_are_those_of_leaving_out_each_pair():
    """The variance is the sum of squared changes when a pair of sets is left out and the rest fitted again."""
    n_pairs = 40
    drawn = sample_coalitions(8, 2 * n_pairs, np.random.default_rng(0))
    worth = smooth_games(drawn.members)
    full = smooth_games(np.ones((1, 8), dtype=bool))[:, 0]
    found = shapley_values(drawn, worth, np.zeros(3), full)
    variance = np.zeros_like(found.values)
    for i in range(n_pairs):
        kept = np.delete(np.arange(2 * n_pairs), [i, i + n_pairs])
        fewer = type(drawn)(drawn.members[kept], None)
        variance += (shapley_values(fewer, worth[:, kept], np.zeros(3), full).values - found.values) ** 2
    np.testing.assert_allclose(found.stderr, np.sqrt(variance), rtol=1e-9)


def test_values_add_up_to_the_last_digits_where_sets_hardly_tell_players_apart():
    drawn = sample_coalitions(60, 130, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    worth = 1e6 * rng.normal(size=(5, 130))
    full = 1e6 * rng.normal(size=5)
    values = shapley_values(drawn, worth, np.zeros(5), full).values
    assert (np.abs(values.sum(axis=1) - full) < 4 * np.finfo(float).eps * np.abs(values).sum(axis=1)).all()


def test_too_few_distinct_sets_say_so():
    drawn = sample_coalitions(13, 30, np.random.default_rng(0))
    same = type(drawn)(np.repeat(drawn.members[[0, 15]], 15, axis=0), None)
    with pytest.raises(InvalidParameter, match="raise n_coalitions"):
        shapley_values(same, smooth_games(same.members), np.zeros(3), np.ones(3))
