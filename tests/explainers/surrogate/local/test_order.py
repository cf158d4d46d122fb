"""Orders of segments by asking: starts that are worth most, and questions chosen by the answers before."""

from itertools import combinations

import numpy as np
import pytest

from tellwhy.explainers.surrogate.chains import Priors
from tellwhy.explainers.surrogate.mixture import Plan, fit_surrogate
from tellwhy.explainers.surrogate.order import (
    KEPT_AT_FIRST,
    Sets,
    _mend_order,
    ask_in_rounds,
    count_compared,
    draw_sets_of_the_best,
    find_best_order,
    find_first_enough,
    fit_worth_by_ridge,
    make_prefixes,
    ranking,
)
from tellwhy.explainers.surrogate.sampler import Settings


def as_it_is(found):
    return found


def pairs(seed, n=8):
    """What sets are worth where segments matter in pairs, too: between 0 and 1."""
    rng = np.random.default_rng(seed)
    weights, together = rng.normal(size=n), np.triu(rng.normal(size=(n, n)), 1)

    def worth(masks):
        found = masks @ weights + np.einsum("ij,jk,ik->i", masks, together, masks)
        return 1.0 / (1.0 + np.exp(-found))

    return worth


def starts(worth, order):
    n = len(order)
    masks = np.array([[float(s in order[:k]) for s in range(n)] for k in range(1, n)])
    return worth(masks)


@pytest.mark.parametrize("seed", range(6))
def test_starts_are_nearly_the_best_sets_of_their_size(seed):
    """Against all sets of each size: on average at most 0.05 below, where a ranking by single segments is not."""
    worth = pairs(seed)
    ranked = np.argsort(-worth(np.eye(8))).tolist()
    order = find_best_order(Sets(worth, 8, 10_000), [ranked], as_it_is, enough=np.inf)
    assert sorted(order) == list(range(8))
    best = [
        worth(np.array([[float(s in one) for s in range(8)] for one in combinations(range(8), k)])).max()
        for k in range(1, 8)
    ]
    found = starts(worth, order)
    assert np.mean(best - found) < 0.05
    assert found.mean() >= starts(worth, ranked).mean() - 0.01


def test_segments_that_only_matter_together_are_found_by_leaving_out():
    """No single segment helps; the three together are all."""
    order = find_best_order(
        Sets(lambda m: m[:, [2, 5, 7]].prod(axis=1), 9, 1000), [list(range(9))], as_it_is, enough=1.0
    )
    assert set(order[:3]) == {2, 5, 7}


def test_segments_that_say_the_same_are_found_by_adding():
    """Of two groups of three that say the same, one of each comes first."""

    def worth(masks):
        return 0.5 * masks[:, :3].max(axis=1) + 0.5 * masks[:, 3:6].max(axis=1)

    order = find_best_order(Sets(worth, 9, 1000), [list(range(9))], as_it_is, enough=1.0)
    assert sorted(segment // 3 for segment in order[:2]) == [0, 1]


@pytest.mark.parametrize("n_questions", [0, 3, 40, 100, 300, 2000])
def test_no_more_questions_than_allowed_and_no_set_twice(n_questions):
    asked = []

    def worth(masks):
        asked.extend(map(bytes, masks.astype(bool)))
        return masks @ np.arange(20.0)

    sets = Sets(worth, 20, n_questions)
    order = find_best_order(sets, [list(range(20)), list(range(20))[::-1]], as_it_is, enough=np.inf)
    assert sorted(order) == list(range(20))
    assert sets.n_asked == len(asked) <= n_questions
    assert len(set(asked)) == len(asked)


def test_a_start_that_is_worse_than_its_neighbours_is_mended():
    """Segment 4 spoils sets of three to five unless segment 7 is there, which regressions put after it."""
    ranked = [0, 1, 4, 2, 3, 7, 5, 6, 8, 9]

    def worth(masks):
        spoilt = masks[:, 4] * (1 - masks[:, 7]) * (masks.sum(axis=1) < 7)
        return 0.5 + 0.05 * masks.sum(axis=1) * (1 - spoilt) - 0.5 * spoilt

    mended = _mend_order(Sets(worth, 10, 1000), ranked, as_it_is)
    assert sorted(mended) == list(range(10))
    assert starts(worth, ranked).min() < 0.1
    assert starts(worth, mended).min() > 0.5
    assert _mend_order(Sets(worth, 10, 9), ranked, as_it_is) == ranked, "no questions are left"


def test_what_was_not_compared_is_mended_too():
    """Questions reach for 20 of 40 segments; among the others, 24 spoils what lacks 27."""

    def worth(masks):
        size = masks.sum(axis=1)
        spoilt = masks[:, 24] * (1 - masks[:, 27]) * (size > 20) * (size < 35)
        return 0.3 + 0.01 * size - 0.3 * spoilt

    ranked = list(range(40))
    sets = Sets(worth, 40, 420)
    order = find_best_order(sets, [ranked], as_it_is, enough=np.inf)
    assert starts(worth, ranked).min() < 0.3 < starts(worth, order).min()
    assert sets.n_asked <= 420


def test_an_order_by_adding_is_taken_where_leaving_out_goes_astray():
    """One segment alone is nearly enough, but is not missed where five others are there."""

    def worth(masks):
        return np.maximum(0.9 * masks[:, 11], masks[:, 1:6].prod(axis=1))

    order = find_best_order(Sets(worth, 12, 1000), [list(range(12))], as_it_is, enough=1.0)
    assert order[0] == 11
    assert starts(worth, order).min() >= 0.9


def test_the_first_ranking_says_what_is_compared_where_questions_are_few():
    worth = np.zeros(30)
    worth[[3, 17]] = 1.0
    ranked = [17, 3, *(s for s in range(30) if s not in (3, 17))]
    assert count_compared(30, 100) < 30
    order = find_best_order(Sets(lambda m: m @ worth, 30, 100), [ranked], as_it_is, enough=np.inf)
    assert order == ranked


def test_rankings_that_are_no_better_do_not_replace_what_was_asked():
    """The order must not depend on regressions where these change nothing: their draws differ."""
    worth = pairs(1)
    ranked = np.argsort(-worth(np.eye(8))).tolist()
    orders = [
        find_best_order(Sets(worth, 8, 10_000), [ranked, other], as_it_is, enough=np.inf)
        for other in (ranked, ranked[::-1])
    ]
    assert orders[0] == orders[1]


WORTH = np.array([5.0, 4.0, 3.0, 2.0, 1.0, *np.zeros(15)])


def noise(masks, seed=0):
    return np.random.default_rng(seed).normal(size=len(masks))


@pytest.mark.parametrize("question", ["sufficiency", "necessity"])
def test_half_is_asked_evenly_and_the_rest_about_the_best(question):
    sizes = []

    def ask(masks):
        sizes.append(len(masks))
        return masks @ WORTH + 3.0 * noise(masks, len(sizes))

    answers = ask_in_rounds(ask, 20, 512, question, np.random.default_rng(0))
    assert sizes[0] == 256
    assert len(answers.masks) == len(answers.outputs) == sum(sizes) <= 512
    assert (answers.masks[0] == 1).all(), "the row itself"
    evenly, later = answers.masks[1:256], answers.masks[256:]
    np.testing.assert_allclose(evenly.mean(axis=0), np.mean(KEPT_AT_FIRST[question]), atol=0.02)
    taken = later if question == "sufficiency" else 1.0 - later
    assert taken.sum(axis=1).min() >= 2
    assert taken.sum(axis=1).max() <= 10
    assert taken[:, :3].mean() > 0.85
    assert taken[:, 5:].mean() < 0.3


def test_questions_end_when_the_ranking_is_stable_and_not_before():
    """Ten segments matter and ten do not; by noise alone no ranking is stable."""
    clear = np.repeat([1.0, 0.0], 10)
    sure = ask_in_rounds(lambda m: m @ clear, 20, 512, "sufficiency", np.random.default_rng(0))
    assert sure.is_stable
    assert len(sure.masks) == 256 + 2 * 32, "two more rounds rank the ten as the first did"
    lost = ask_in_rounds(noise, 20, 512, "sufficiency", np.random.default_rng(0))
    assert not lost.is_stable
    assert len(lost.masks) == 512


def test_same_seed_same_questions():
    runs = [
        ask_in_rounds(lambda m: m @ WORTH + noise(m), 20, 128, "necessity", np.random.default_rng(seed)).masks
        for seed in (3, 3, 4)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("n_segments", [0, 1, 2, 3])
def test_rows_of_few_segments(n_segments):
    answers = ask_in_rounds(lambda m: m.sum(axis=1), n_segments, 64, "sufficiency", np.random.default_rng(0))
    assert answers.masks.shape[1] == n_segments
    assert np.isfinite(answers.outputs).all()


def test_sets_compare_segments_of_similar_worth():
    sets = draw_sets_of_the_best(
        np.array([3.0, 2.9, 2.8, 0.0, 0.0, 0.0, 0.0, 0.0]), 2000, np.random.default_rng(0)
    )
    among = sets[:, :3].mean(axis=0)
    assert among.min() > 0.5
    assert among.max() < 1.0, "no segment is always there: its worth could not be told"
    assert sets[:, 3:].max(axis=0).min() == 1.0, "the others are tried too"


def test_ridge_is_the_textbook_formula():
    rng = np.random.default_rng(0)
    masks, y = (rng.random((30, 4)) < 0.5).astype(float), rng.normal(size=30)
    with_ones = np.column_stack([np.ones(30), masks])
    expected = np.linalg.solve(with_ones.T @ with_ones + np.diag([0.0, 1, 1, 1, 1]), with_ones.T @ y)
    np.testing.assert_allclose(fit_worth_by_ridge(masks, y), expected[1:])


def test_shortest_start_of_a_ranking():
    order = ranking(np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(make_prefixes(order, "sufficiency").sum(axis=1), [0, 1, 2, 3])
    np.testing.assert_array_equal(make_prefixes(order, "sufficiency")[1], [0, 1, 0])
    np.testing.assert_array_equal(make_prefixes(order, "necessity"), 1 - make_prefixes(order, "sufficiency"))
    assert find_first_enough(np.array([False, True, False, True])) == 1
    assert find_first_enough(np.zeros(4, dtype=bool)) == 3


def covered(question, n_sets, level=0.9):
    """Whether intervals hold planted coefficients, of all segments and of the three ranked first."""
    plan = Plan(Settings(1, 1, n_sweeps=150, n_burn=80, n_chains=1), Priors(), scale="common", n_jobs=1)
    everyone, first = [], []
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        truth = rng.laplace(size=10)
        answers = ask_in_rounds(
            lambda m, t=truth, r=rng: m @ t + 2.0 * r.normal(size=len(m)), 10, 96, question, rng
        )
        fitted = fit_surrogate(answers.masks, answers.outputs, plan, rng=rng, origin=np.zeros(10))
        local = fitted.local(
            np.ones(10), truth.sum(), uniforms=rng.random(len(fitted.coef)), credibility=level, owner=None
        )
        inside = (local.coefficient_interval[:, 0] <= truth) & (truth <= local.coefficient_interval[:, 1])
        everyone.append(inside.mean())
        first.append(inside[ranking(local.coefficients)[:3]].mean())
    return np.mean(everyone), np.mean(first)


@pytest.mark.parametrize("question", ["sufficiency", "necessity"])
def test_intervals_are_valid_although_questions_follow_answers(question):
    """Within 5 points of the nominal 90 %, also of the segments that were asked about because they led."""
    everyone, first = covered(question, 300)
    assert everyone == pytest.approx(0.9, abs=0.05)
    assert first == pytest.approx(0.9, abs=0.05)
