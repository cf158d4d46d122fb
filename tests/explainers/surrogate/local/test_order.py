"""Orders of segments by asking: starts that are worth most, within the questions allowed."""

from itertools import combinations

import numpy as np
import pytest

from tellwhy.explainers.surrogate.order import Sets, _mended, best_order, n_compared


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
    order = best_order(Sets(worth, 8, 10_000), [ranked], as_it_is, enough=np.inf)
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
    order = best_order(
        Sets(lambda m: m[:, [2, 5, 7]].prod(axis=1), 9, 1000), [list(range(9))], as_it_is, enough=1.0
    )
    assert set(order[:3]) == {2, 5, 7}


def test_segments_that_say_the_same_are_found_by_adding():
    """Of two groups of three that say the same, one of each comes first."""

    def worth(masks):
        return 0.5 * masks[:, :3].max(axis=1) + 0.5 * masks[:, 3:6].max(axis=1)

    order = best_order(Sets(worth, 9, 1000), [list(range(9))], as_it_is, enough=1.0)
    assert sorted(segment // 3 for segment in order[:2]) == [0, 1]


@pytest.mark.parametrize("n_questions", [0, 3, 40, 100, 300, 2000])
def test_no_more_questions_than_allowed_and_no_set_twice(n_questions):
    asked = []

    def worth(masks):
        asked.extend(map(bytes, masks.astype(bool)))
        return masks @ np.arange(20.0)

    sets = Sets(worth, 20, n_questions)
    order = best_order(sets, [list(range(20)), list(range(20))[::-1]], as_it_is, enough=np.inf)
    assert sorted(order) == list(range(20))
    assert sets.n_asked == len(asked) <= n_questions
    assert len(set(asked)) == len(asked)


def test_a_start_that_is_worse_than_its_neighbours_is_mended():
    """Segment 4 spoils sets of three to five unless segment 7 is there, which regressions put after it."""
    ranked = [0, 1, 4, 2, 3, 7, 5, 6, 8, 9]

    def worth(masks):
        spoilt = masks[:, 4] * (1 - masks[:, 7]) * (masks.sum(axis=1) < 7)
        return 0.5 + 0.05 * masks.sum(axis=1) * (1 - spoilt) - 0.5 * spoilt

    mended = _mended(Sets(worth, 10, 1000), ranked, as_it_is)
    assert sorted(mended) == list(range(10))
    assert starts(worth, ranked).min() < 0.1
    assert starts(worth, mended).min() > 0.5
    assert _mended(Sets(worth, 10, 9), ranked, as_it_is) == ranked, "no questions are left"


def test_what_was_not_compared_is_mended_too():
    """Questions reach for 20 of 40 segments; among the others, 24 spoils what lacks 27."""

    def worth(masks):
        size = masks.sum(axis=1)
        spoilt = masks[:, 24] * (1 - masks[:, 27]) * (size > 20) * (size < 35)
        return 0.3 + 0.01 * size - 0.3 * spoilt

    ranked = list(range(40))
    sets = Sets(worth, 40, 420)
    order = best_order(sets, [ranked], as_it_is, enough=np.inf)
    assert starts(worth, ranked).min() < 0.3 < starts(worth, order).min()
    assert sets.n_asked <= 420


def test_an_order_by_adding_is_taken_where_leaving_out_goes_astray():
    """One segment alone is nearly enough, but is not missed where five others are there."""

    def worth(masks):
        return np.maximum(0.9 * masks[:, 11], masks[:, 1:6].prod(axis=1))

    order = best_order(Sets(worth, 12, 1000), [list(range(12))], as_it_is, enough=1.0)
    assert order[0] == 11
    assert starts(worth, order).min() >= 0.9


def test_the_first_ranking_says_what_is_compared_where_questions_are_few():
    worth = np.zeros(30)
    worth[[3, 17]] = 1.0
    ranked = [17, 3, *(s for s in range(30) if s not in (3, 17))]
    assert n_compared(30, 100) < 30
    order = best_order(Sets(lambda m: m @ worth, 30, 100), [ranked], as_it_is, enough=np.inf)
    assert order == ranked


def test_rankings_that_are_no_better_do_not_replace_what_was_asked():
    """The order must not depend on regressions where these change nothing: their draws differ."""
    worth = pairs(1)
    ranked = np.argsort(-worth(np.eye(8))).tolist()
    orders = [
        best_order(Sets(worth, 8, 10_000), [ranked, other], as_it_is, enough=np.inf)
        for other in (ranked, ranked[::-1])
    ]
    assert orders[0] == orders[1]
