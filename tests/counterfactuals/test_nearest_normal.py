"""Nearest normal rows: normal indeed, few changes, every constraint kept."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.counterfactuals import nearest_normal as change_search
from tellwhy.counterfactuals.choices import find_one_hot_blocks
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.detectors import KernelDensity, OneClassSVM
from tellwhy.scoring import FunctionScore, as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4)) * np.array([1.0, 10.0, 0.1, 3.0])
UNITS = X.std(axis=0)


def injected(columns, size=6.0, n=8):
    rows = X[:n].copy()
    rows[:, columns] += size * UNITS[columns]
    return rows


def bowl(threshold=9.0):
    return FunctionScore(lambda Y: ((Y / UNITS) ** 2).sum(axis=1), threshold=threshold)


MODELS = {
    "mixture": lambda: (as_score(GaussianMixture(1, random_state=0).fit(X)), None),
    "kernel density": lambda: (KernelDensity().fit(X / UNITS * 1.0), UNITS),
    "one-class svm": lambda: (OneClassSVM().fit(X / UNITS), UNITS),
    "forest": lambda: (as_score(IsolationForest(random_state=0).fit(X)), None),
}


@pytest.mark.parametrize("columns", [[1], [0, 3]])
@pytest.mark.parametrize("name", MODELS)
def test_only_what_was_made_odd_changes_and_the_result_is_normal(name, columns):
    model, units = MODELS[name]()
    score = as_score(model)
    scale = 1.0 if units is None else units
    rows, ordinary = injected(columns) / scale, X / scale
    found = nearest_normal(score, rows, reference_rows=ordinary)
    assert found.found.all()
    assert (score.value(found.points) <= found.threshold).all()
    allowed = np.zeros(4, dtype=bool)
    allowed[columns] = True
    odd = score.value(rows) > found.threshold
    assert odd.sum() >= 6
    is_subset = ~(found.changed & ~allowed).any(axis=1)
    assert is_subset[odd].mean() >= (
        0.5 if name == "forest" else 1.0
    )  # a forest's steps may be met in other columns
    assert found.changed.sum(axis=1).max() <= 3


def test_changes_stop_at_the_threshold():
    rows = injected([1], size=20.0)
    found = nearest_normal(bowl(), rows, reference_rows=X, low=[-1e3] * 4, high=[1e3] * 4)
    np.testing.assert_allclose(bowl().value(found.points), 9.0, rtol=1e-5)
    assert (found.changed == np.array([False, True, False, False])).all()


@pytest.mark.parametrize("distance", ["absolute", "squared"])
@pytest.mark.parametrize("units", [[1.0, 1.0], [4.0, 1.0], [1.0, 4.0]])
def test_of_single_changes_the_smallest_is_taken(distance, units):
    rows, ordinary = np.array([[2.5, 2.8]]), np.random.default_rng(0).normal(size=(200, 2))
    round_bowl = FunctionScore(lambda Y: (Y**2).sum(axis=1), threshold=9.0)
    found = nearest_normal(round_bowl, rows, reference_rows=ordinary, scales=units, distance=distance)
    ends = np.sqrt(9.0 - np.array([2.8, 2.5]) ** 2)  # what either column alone has to become
    cheapest = int(np.argmin((np.array([2.5, 2.8]) - ends) / units))
    assert found.changed.tolist() == [[cheapest == 0, cheapest == 1]]
    assert found.points[0, cheapest] == pytest.approx(ends[cheapest], abs=1e-5)


def test_columns_that_depend_on_each_other_are_adjusted_in_turn():
    score = FunctionScore(
        lambda Y: Y[:, 0] ** 2 + Y[:, 1] ** 2 + 1.2 * Y[:, 0] * Y[:, 1] + Y[:, 2] ** 2, threshold=0.2
    )
    corners = 3.0 * np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    found = nearest_normal(score, np.array([[8.0, 5.0, 0.0]]), reference_rows=corners, integers=[False] * 3)
    assert found.changed.tolist() == [[True, True, False]]  # no prototype is normal: nothing else leads there


def test_narrow_valleys_are_found_without_a_gradient():
    mix = np.array([[1.0, 1.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, 1.0]])
    rows = np.random.default_rng(0).normal(size=(500, 3)) @ mix  # the first two columns are nearly equal
    score = as_score(GaussianMixture(1, reg_covar=1e-12, random_state=0).fit(rows))
    odd = rows[:5].copy()
    odd[:, 0] += 1.0
    found = nearest_normal(score, odd, reference_rows=rows)
    assert found.found.all()
    assert found.changed.sum(axis=1).max() <= 2
    assert not found.changed[:, 2].any()


def test_normal_rows_stay_as_they_are():
    rows = np.vstack([X[:5], injected([1])[:1]])
    found = nearest_normal(bowl(30.0), rows, reference_rows=X)
    np.testing.assert_array_equal(found.points[:5], X[:5])
    assert found.found.all()
    assert not found.changed[:5].any()
    assert found.changed[5].any()


def test_ranges_are_kept_in_changed_cells():
    low, high = X.min(axis=0), X.max(axis=0)
    rows = injected([1, 2, 3], size=30.0)
    found = nearest_normal(bowl(), rows, reference_rows=X)
    inside = (found.points >= low - 1e-12) & (found.points <= high + 1e-12)
    assert inside[found.changed].all()
    narrow = nearest_normal(bowl(), rows, reference_rows=X, low=low / 10, high=high / 10)
    assert (np.abs(narrow.points) <= np.maximum(-low, high) / 10 + 1e-12)[narrow.changed].all()


def test_whole_numbers_stay_whole():
    counts = np.random.default_rng(0).poisson(20.0, size=(300, 3)).astype(float)
    score = as_score(GaussianMixture(1, random_state=0).fit(counts))
    odd = np.array([[90.0, 20.0, 21.0], [20.0, 85.0, 2.0]])
    for settings in ({}, {"integers": [True, True, True]}):
        found = nearest_normal(score, odd, reference_rows=counts, **settings)
        assert found.found.all()
        np.testing.assert_array_equal(found.points, np.round(found.points))
    free = nearest_normal(score, odd, reference_rows=counts, integers=[False] * 3)
    assert (free.points != np.round(free.points)).any()


def test_steps_keep_whole_numbers_behind_a_scaling():
    counts = np.random.default_rng(0).poisson(20.0, size=(300, 2)).astype(float)
    centre, unit = counts.mean(axis=0), counts.std(axis=0)
    score = FunctionScore(lambda Z: (Z**2).sum(axis=1), threshold=6.0)
    odd = (np.array([[60.0, 20.0], [20.0, 71.0]]) - centre) / unit
    ordinary = (counts - centre) / unit
    found = nearest_normal(score, odd, reference_rows=ordinary, steps=1.0 / unit)
    raw = found.points * unit + centre
    assert found.found.all()
    np.testing.assert_allclose(raw, np.round(raw), atol=1e-9)
    assert (score.value(found.points) <= 6.0).all()


class TestBlocks:
    """Two numbers and a one-hot block of three columns."""

    RNG = np.random.default_rng(0)
    CATEGORY = np.eye(3)[RNG.choice(3, size=300, p=[0.6, 0.39, 0.01])]
    ROWS = np.hstack([RNG.normal(size=(300, 2)), CATEGORY])
    OWNER = np.array([0, 1, 2, 2, 2])
    SCORE = FunctionScore(
        lambda Z: (Z[:, :2] ** 2).sum(axis=1) + 20.0 * Z[:, 4] + 1e3 * (Z[:, 2:].sum(axis=1) - 1) ** 2,
        threshold=9.0,
    )

    def test_one_hot_columns_change_together_to_a_valid_category(self):
        odd = np.array([[0.5, 0.1, 0.0, 0.0, 1.0], [9.0, 0.0, 0.0, 0.0, 1.0], [9.0, 0.0, 1.0, 0.0, 0.0]])
        found = nearest_normal(self.SCORE, odd, reference_rows=self.ROWS, owner=self.OWNER)
        assert found.found.all()
        np.testing.assert_array_equal(found.points[:, 2:].sum(axis=1), 1.0)
        assert np.isin(found.points[:, 2:], [0.0, 1.0]).all()
        np.testing.assert_array_equal(found.points[:2, 4], 0.0)
        assert not found.changed[0, :2].any()
        assert found.changed[1, 0]
        assert not found.changed[2, 2:].any()

    def test_one_hot_columns_are_recognised(self):
        odd = np.array([[0.5, 0.1, 0.0, 0.0, 1.0]])
        found = nearest_normal(self.SCORE, odd, reference_rows=self.ROWS, ranking=np.ones((1, 5)))
        np.testing.assert_array_equal(found.points[:, 2:].sum(axis=1), 1.0)
        assert found.changed[0].tolist() == [False, False, *(self.ROWS[:, 2:].mean(axis=0) > 0.5)[:2], True]

    def test_a_ranking_per_owner(self):
        odd = np.array([[9.0, 0.0, 1.0, 0.0, 0.0]])
        owner = np.array([0, 1, 3, 3, 3])  # the user's column 2 has no encoded column
        found = nearest_normal(
            self.SCORE, odd, reference_rows=self.ROWS, owner=owner, ranking=np.ones((1, 4))
        )
        assert found.changed.tolist() == [[True, False, False, False, False]]
        with pytest.raises(InvalidInput, match="one number per row and block"):
            nearest_normal(self.SCORE, odd, reference_rows=self.ROWS, owner=owner, ranking=np.ones((1, 2)))


def test_many_columns_are_ranked_first(monkeypatch):
    monkeypatch.setattr(change_search, "SHORTLIST", 3)
    rows = np.random.default_rng(0).normal(size=(200, 12))
    score = FunctionScore(lambda Y: (Y**2).sum(axis=1), threshold=30.0)
    odd = rows[:4].copy()
    odd[:, 7] = 12.0
    for ranking in (None, np.eye(12)[[7] * 4]):
        found = nearest_normal(score, odd, reference_rows=rows, ranking=ranking)
        assert (found.changed == (np.arange(12) == 7)).all()


def test_the_nearest_prototype_is_the_last_resort():
    """A score that no change of a few columns lowers: only rows that are ordinary in all columns at once are normal."""
    centre = np.full(20, 3.0)
    score = FunctionScore(lambda Y: (np.abs(Y - centre).max(axis=1) > 0.5).astype(float), threshold=0.5)
    reference_rows = centre + np.random.default_rng(0).uniform(-0.4, 0.4, size=(30, 20))
    odd = np.zeros((2, 20))
    odd[:, :4] = 3.0
    found = nearest_normal(score, odd, reference_rows=reference_rows, low=np.zeros(20), high=np.full(20, 9.0))
    assert found.found.all()
    assert (score.value(found.points) <= 0.5).all()
    assert not found.changed[:, :4].any()  # what was in order is put back


def test_rows_that_cannot_become_normal():
    found = nearest_normal(bowl(-1.0), injected([1])[:2], reference_rows=X)
    assert not found.found.any()
    assert np.isnan(found.points).all()
    assert not found.changed.any()


def test_thresholds():
    score = FunctionScore(bowl().value)
    found = nearest_normal(score, injected([1]), reference_rows=X)
    assert found.threshold == pytest.approx(np.quantile(score.value(X), 0.95))
    assert nearest_normal(bowl(9.0), X[:1], reference_rows=X).threshold == 9.0
    assert nearest_normal(bowl(9.0), X[:1], reference_rows=X, threshold=5.0).threshold == 5.0
    with pytest.raises(InvalidInput, match="finite"):
        nearest_normal(bowl(), X[:1], reference_rows=X, threshold=np.nan)


def test_training_rows_do_not_vouch_for_themselves():
    rows = np.vstack([X / UNITS, [[0.0, 30.0, 0.0, 0.0]]])
    score = KernelDensity().fit(rows).to_score()
    found = nearest_normal(score, rows[-1:], reference_rows=rows)
    assert found.changed.tolist() == [[False, True, False, False]]
    assert abs(found.points[0, 1]) < 5


def test_not_far_from_the_best_possible():
    """With smooth scores and every column allowed to change, a general optimiser cannot do much better per column."""
    score = as_score(GaussianMixture(1, random_state=0).fit(X))
    level = float(np.quantile(score.value(X), 0.95))
    for x in injected([1, 3], size=4.0)[:3]:
        found = nearest_normal(score, x[None], reference_rows=X, threshold=level)
        columns = np.flatnonzero(found.changed[0])

        def point(u, x=x, columns=columns):
            y = x.copy()
            y[columns] += UNITS[columns] * u
            return y

        start = ((found.points[0] - x) / UNITS)[columns]
        constraint = {"type": "ineq", "fun": lambda u, p=point: level - score.value(p(u)[None])[0]}
        best = minimize(lambda u: np.abs(u).sum(), start, constraints=[constraint], options={"maxiter": 300})
        assert np.abs(start).sum() <= 1.3 * best.fun + 1e-6


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"distance": "cosine"}, InvalidParameter, "distance"),
        ({"integers": [True]}, InvalidInput, "integers"),
        ({"scales": [1.0, np.nan, 1.0, 1.0]}, InvalidInput, "scales"),
        ({"owner": [0, 1]}, InvalidInput, "owner"),
        ({"reference_rows": X[:, :2]}, InvalidInput, "columns"),
    ],
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        nearest_normal(bowl(), X[:2], **{"reference_rows": X, **settings})


def test_nothing_is_modified():
    rows, ordinary = injected([1]), X.copy()
    kept = rows.copy()
    nearest_normal(bowl(), rows, reference_rows=ordinary)
    np.testing.assert_array_equal(rows, kept)
    np.testing.assert_array_equal(ordinary, X)


def test_one_hot_columns_against_a_search_of_all_runs():
    rng = np.random.default_rng(0)
    for _ in range(200):
        kinds = [
            rng.normal(size=(9, 1)),
            rng.integers(0, 2, (9, 1)),
            np.eye(3)[rng.integers(0, 3, 9)],
            np.zeros((9, 1)),
        ]
        rows = np.hstack([kinds[i] for i in rng.integers(0, 4, 5)]).astype(float)
        expected, first = np.arange(rows.shape[1]), 0
        for stop in range(1, rows.shape[1] + 1):
            for start in range(first, stop):
                run = rows[:, start:stop]
                if np.isin(run, [0, 1]).all() and (run.sum(axis=1) == 1).all() and run[:, 0].any():
                    expected[start:stop], first = start, stop
                    break
        np.testing.assert_array_equal(find_one_hot_blocks(rows), expected)
