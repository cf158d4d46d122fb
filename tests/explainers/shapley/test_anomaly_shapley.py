"""Anomaly Shapley: every characteristic function against its definition, invariances, groups, and bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from oracles.shapley_oracles import gaussian_minimum, minimum_by_scipy, relaxed_worth, shapley_by_definition
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tellwhy.core.errors import InvalidInput
from tellwhy.counterfactuals.minimise import Minima, minimise
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.detectors import KernelDensity
from tellwhy.explainers import AnomalyShapley
from tellwhy.explainers.rows import Players
from tellwhy.explainers.shapley import anomaly_shapley, neighbourhood
from tellwhy.explainers.shapley.neighbourhood import Neighbourhood, choose_gamma_by_injection
from tellwhy.explainers.shapley.shapley_values import make_every_coalition
from tellwhy.scoring import FunctionScore, Mixture, MixtureScore, as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(250, 4)) @ RNG.normal(size=(4, 4)) + 1.0
ODD = X[:3] + np.array([[0.0, 3.0, 0.0, 0.0], [2.0, 0.0, 0.0, -4.0], [0.0, 0.0, 0.0, 0.0]])
ONE = GaussianMixture(1, random_state=0).fit(X)
TWO = GaussianMixture(2, random_state=0).fit(X)


def explained(model, rows=ODD, background=X, **settings):
    return AnomalyShapley(model, **settings).fit(background).explain(rows)


def scored(model):
    return lambda point: float(as_score(model).value(point[None])[0])


def unit_of(values):
    """The unit of γ: the standard deviation that belongs to the distance of the quartiles."""
    return np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.349


def closed_form(x, gamma):
    """x̂*(S) of the one-component mixture; γ counts in units of its scores."""
    scales = X.std(axis=0)
    gamma = gamma * unit_of(as_score(ONE).value(X))

    def minimum(S):
        free = np.array([i not in S for i in range(len(x))])
        if not free.any():
            return x
        return gaussian_minimum(x, ONE.means_[0], ONE.precisions_[0], free=free, gamma=gamma, scales=scales)

    return minimum


@pytest.mark.parametrize("gamma", [0.01, 3.0])
def test_relaxed_against_closed_form_and_enumeration(gamma):
    found = explained(ONE, gamma=gamma)
    for x, values, base in zip(ODD, found.values, found.base_values, strict=True):
        minimum = closed_form(x, gamma)
        exact = shapley_by_definition(lambda S, x=x, m=minimum: relaxed_worth(scored(ONE), x, m, S), 4)
        np.testing.assert_allclose(values, exact, atol=1e-8)
        assert base == pytest.approx(scored(ONE)(minimum(frozenset())), abs=1e-8)


@pytest.mark.parametrize("gamma", [0.01, 3.0])
def test_local_against_closed_form_and_enumeration(gamma):
    found = explained(ONE, gamma=gamma, characteristic="local")
    for x, values in zip(ODD, found.values, strict=True):
        minimum = closed_form(x, gamma)
        exact = shapley_by_definition(lambda S, m=minimum: scored(ONE)(m(S)), 4)
        np.testing.assert_allclose(values, exact, atol=1e-8)


def test_ball_is_the_lowest_score_within_the_walls():
    radius, x = 0.8, ODD[0]
    found = explained(TWO, rows=ODD[:1], characteristic="ball", radius=radius)

    def worth(S):
        free = [i for i in range(4) if i not in S]
        if not free:
            return scored(TWO)(x)

        def of(u):
            y = x.copy()
            y[free] += X.std(axis=0)[free] * u
            return scored(TWO)(y)

        return of(minimum_by_scipy(of, np.zeros(len(free)), [(-radius, radius)] * len(free)))

    np.testing.assert_allclose(found.values[0], shapley_by_definition(worth, 4), atol=1e-5)


@pytest.mark.parametrize("characteristic", ["relaxed", "local", "ball"])
def test_values_add_up_exactly(characteristic):
    found = explained(TWO, characteristic=characteristic)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-11)
    np.testing.assert_allclose(found.scores, as_score(TWO).value(ODD), rtol=1e-12)
    assert found.stderr is None
    assert found.params["coalitions"] == "all"
    assert found.kind == "attribution"


def test_the_absolute_distance_and_a_function():
    np.testing.assert_array_equal(explained(ONE, distance="absolute", gamma=1e5).values, 0.0)  # nothing moves
    cheap, squared = (explained(ONE, distance=kind, gamma=1e-10).values for kind in ("absolute", "squared"))
    np.testing.assert_allclose(cheap, squared, atol=1e-4)
    np.testing.assert_allclose(explained(ONE, distance=np.square).values, explained(ONE).values, atol=1e-5)
    assert explained(ONE, distance=np.square).params["distance"] == "square"


def test_columns_may_change_places():
    order = [2, 0, 3, 1]
    score = as_score(TWO)
    shuffled = FunctionScore(
        lambda Y: score.value(Y[:, np.argsort(order)]),
        gradient=lambda Y: score.gradient(Y[:, np.argsort(order)])[:, order],
    )
    plain = FunctionScore(score.value, gradient=score.gradient)
    expected = explained(plain).values[:, order]
    np.testing.assert_allclose(explained(shuffled, ODD[:, order], X[:, order]).values, expected, atol=1e-7)


UNIT, SHIFT = np.array([1e-3, 40.0, 1.0, 1e5]), np.array([5.0, 0.0, -2.0, 1e6])


def mixture(unit=1.0, shift=0.0):
    """The energy of TWO for rows in other units."""
    unit = np.broadcast_to(unit, 4)
    return MixtureScore.of(
        Mixture(TWO.weights_, TWO.means_ * unit + shift, TWO.covariances_ * np.outer(unit, unit))
    )


def descended(unit=1.0, shift=0.0):
    """The same without its quadratic forms."""
    return FunctionScore(mixture(unit, shift).value, gradient=mixture(unit, shift).gradient)


@pytest.mark.parametrize("characteristic", ["relaxed", "local"])
@pytest.mark.parametrize("score", [mixture, descended])
def test_units_and_offsets_do_not_matter(characteristic, score):
    plain = explained(score(), characteristic=characteristic)
    found = explained(score(UNIT, SHIFT), ODD * UNIT + SHIFT, X * UNIT + SHIFT, characteristic=characteristic)
    np.testing.assert_allclose(found.values, plain.values, atol=1e-5)


def test_rows_do_not_depend_on_each_other_or_on_batches(monkeypatch):
    together = explained(TWO).values
    np.testing.assert_allclose(explained(TWO, ODD[1:2]).values[0], together[1], rtol=1e-7, atol=1e-9)
    monkeypatch.setattr(anomaly_shapley, "_BATCH_BYTES", 300)
    np.testing.assert_allclose(explained(TWO).values, together, rtol=1e-7, atol=1e-9)


def bent(Y):
    """A score whose minima are not in closed form: a valley along x₁ = x₀²."""
    return np.sqrt(1.0 + 4.0 * (Y[:, 1] - Y[:, 0] ** 2) ** 2) + 0.5 * (Y**2).sum(axis=1)


def bent_slope(Y):
    off = Y[:, 1] - Y[:, 0] ** 2
    slope = Y.copy()
    common = 4.0 * off / np.sqrt(1.0 + 4.0 * off**2)
    slope[:, 0] -= 2.0 * Y[:, 0] * common
    slope[:, 1] += common
    return slope


BENT = FunctionScore(bent, gradient=bent_slope)


class TestAuto:
    WIDE = np.random.default_rng(5).normal(size=(60, 14))
    MOVED = WIDE[:6] + 4.0 * np.eye(14)[[0, 1, 5, 0, 1, 9]]

    def test_scores_of_quadratic_forms_stay_relaxed(self):
        found = explained(TWO)
        np.testing.assert_array_equal(found.values, explained(TWO, characteristic="relaxed").values)
        assert found.params["characteristic_used"] == "relaxed"

    def test_scores_without_a_gradient_stay_relaxed(self):
        found = explained(bent)
        np.testing.assert_array_equal(found.values, explained(bent, characteristic="relaxed").values)

    def test_others_are_local_where_players_are_few(self):
        found, exact = (explained(BENT, characteristic=kind) for kind in ("auto", "local"))
        assert found.params["characteristic_used"] == "local"
        falls = exact.scores - exact.base_values
        np.testing.assert_allclose(found.values / falls[:, None], exact.values / falls[:, None], atol=5e-3)
        relaxed = explained(BENT, characteristic="relaxed")
        assert np.abs(relaxed.values - exact.values).max() > 20 * np.abs(found.values - exact.values).max()

    def test_beyond_they_are_polished_and_the_gap_is_told(self):
        found, relaxed, local = (
            explained(BENT, self.MOVED, self.WIDE, characteristic=kind)
            for kind in ("auto", "relaxed", "local")
        )
        assert found.params["characteristic_used"] == "polished"
        assert found.params["relaxed_above"] > 4 * found.params["polished_above"] >= 0.0
        assert 0 < found.params["rows_polished"] < 6
        off = [np.abs(each.values - local.values).max() for each in (found, relaxed)]
        assert off[0] < 0.5 * off[1]
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-10)

    def test_polished_rows_do_not_depend_on_each_other(self):
        together = explained(BENT, self.MOVED, self.WIDE).values
        alone = explained(BENT, self.MOVED[2:3], self.WIDE).values
        np.testing.assert_allclose(together[2], alone[0], rtol=1e-7, atol=1e-9)

    def test_polishing_needs_no_more_than_one_player(self):
        found = explained(BENT, groups=[[0, 1, 2, 3]], characteristic="polished")
        np.testing.assert_allclose(found.values.sum(axis=1), found.scores - found.base_values)


class TestGroups:
    def test_groups_of_one_are_no_groups(self):
        plain = explained(TWO)
        for groups in ([[0], [1], [2], [3]], [3, 1, 0, 2], np.array([0, 1, 2, 3]), []):
            found = explained(TWO, groups=groups)
            np.testing.assert_allclose(found.values, plain.values, atol=1e-10)

    def test_a_group_plays_as_one_and_its_columns_share_equally(self):
        found = explained(ONE, groups=[[1, 3]])
        team = [frozenset({1, 3}), frozenset({0}), frozenset({2})]
        for x, values, whole in zip(ODD, found.values, found.extras["group_values"], strict=True):
            minimum = closed_form(x, 0.01)

            def worth(S, x=x, minimum=minimum):
                inside = frozenset().union(*(team[k] for k in S))
                parts = [minimum(frozenset())] + [minimum(team[k]) for k in S]
                mean = sum(parts) / len(parts)
                return scored(ONE)(np.array([x[i] if i in inside else mean[i] for i in range(4)]))

            exact = shapley_by_definition(worth, 3)
            np.testing.assert_allclose(whole, exact, atol=1e-8)
            np.testing.assert_allclose(values, [exact[1], exact[0] / 2, exact[2], exact[0] / 2], atol=1e-8)
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-11)

    def test_groups_by_name(self):
        frame = pd.DataFrame(X, columns=list("abcd"))
        model = GaussianMixture(1, random_state=0).fit(frame)
        rows = pd.DataFrame(ODD, columns=list("abcd"))
        named = explained(model, rows, frame, groups=[["b", "d"]])
        np.testing.assert_allclose(named.values, explained(ONE, groups=[[1, 3]]).values, atol=1e-8)

    def test_encoded_columns_play_for_their_raw_column(self):
        colour = np.random.default_rng(1).choice(["red", "blue", "green"], size=len(X), p=[0.6, 0.38, 0.02])
        frame = pd.DataFrame(X, columns=list("abcd")).assign(colour=colour)
        encode = make_column_transformer((StandardScaler(), list("abcd")), (OneHotEncoder(), ["colour"]))
        model = make_pipeline(encode, GaussianMixture(1, reg_covar=1e-2, random_state=0)).fit(frame)
        found = explained(model, frame.iloc[:5], frame)
        assert found.values.shape == (5, 5)
        assert found.feature_names == ["a", "b", "c", "d", "colour"]
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-10)
        rare = frame.iloc[[0]].assign(colour="green")
        assert (
            explained(model, rare, frame).values[0, 4]
            > explained(model, rare.assign(colour="red"), frame).values[0, 4]
        )


class TestSampling:
    D = 20
    ROWS = np.random.default_rng(3).normal(size=(300, D))
    MODEL = GaussianMixture(1, random_state=0).fit(ROWS)
    NEW = ROWS[:2] + 3.0 * np.eye(D)[:2]

    def test_sampled_values_are_near_those_of_more_samples(self):
        rough = explained(self.MODEL, self.NEW, self.ROWS, n_coalitions=300)
        fine = explained(self.MODEL, self.NEW, self.ROWS, n_coalitions=8_000)
        error = np.abs(rough.values - fine.values)
        assert (error <= 4 * rough.stderr + 1e-12).all()
        assert (error <= 2 * rough.stderr).mean() > 0.9
        assert fine.stderr.max() < 0.2 * rough.stderr.max()
        np.testing.assert_allclose(rough.residual, 0.0, atol=1e-10)

    def test_it_says_so(self):
        found = explained(self.MODEL, self.NEW, self.ROWS)
        assert found.params["coalitions"] == "sampled in pairs"
        assert found.params["coalitions_used"] == 2 * self.D + 2048
        assert found.stderr.shape == found.values.shape
        assert found.values.argmax(axis=1).tolist() == [0, 1]

    def test_seeds(self):
        first, same, other = (
            explained(self.MODEL, self.NEW, self.ROWS, random_state=seed, n_coalitions=100).values
            for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(first, same)
        assert np.abs(first - other).max() > 1e-6

    def test_groups_share_their_standard_error(self):
        found = explained(self.MODEL, self.NEW, self.ROWS, groups=[[0, 1], [2, 3, 4]], n_coalitions=200)
        np.testing.assert_array_equal(found.stderr[:, 0], found.stderr[:, 1])

    @pytest.mark.slow
    def test_five_thousand_columns(self):
        score = FunctionScore(lambda Y: (Y**2).sum(axis=1), gradient=lambda Y: 2 * Y)
        rows = np.random.default_rng(0).normal(size=(20, 5000))
        odd = rows[:1].copy()
        odd[0, 17] = 40.0
        found = explained(score, odd, rows)
        assert found.params["coalitions"] == "sampled in pairs"
        assert found.values[0].argmax() == 17
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-6)


def test_minima_that_were_not_reached_are_counted_over_all_batches(monkeypatch):
    monkeypatch.setattr(anomaly_shapley, "_ROWS_BYTES", 1)
    score = FunctionScore(lambda Y: Y.sum(axis=1))
    players = Players(np.arange(4), np.arange(4), np.arange(4))

    def lowest(scores, rows, free):
        points = np.repeat(rows[:, None], len(free), axis=1)
        return Minima(points, np.broadcast_to(rows[:, :1] > X[0, 0], points.shape[:2]))

    setup = anomaly_shapley.Setup(players, make_every_coalition(4), lowest)
    found = anomaly_shapley.compute_coalition_worths(RowScores(score, X[:6]), X[:6], setup, "relaxed")
    unreached = int((X[:6, 0] <= X[0, 0]).sum())
    assert 1 < unreached < 6
    assert found.n_unsettled == 5 * unreached, "x̂*(∅) and four x̂*({i}) of each such row"


def test_points_of_a_few_sets_are_those_of_all_sets():
    players = Players(np.arange(4), np.arange(4), np.arange(4))
    setup = anomaly_shapley.Setup(players, make_every_coalition(4), None)
    minima = Minima(np.random.default_rng(0).normal(size=(6, 5, 4)), np.ones((6, 5), dtype=bool))
    relaxed = anomaly_shapley.RelaxedPoints(X[:6], setup, minima)
    inside, some = relaxed.some_points(np.arange(14))
    for part, members, points in relaxed.points(10**6):
        np.testing.assert_array_equal(inside[part], members)
        np.testing.assert_allclose(some[:, part], points, rtol=1e-12, atol=1e-12)


def test_only_sampled_sets_are_content_with_rough_minima(monkeypatch):
    asked = []

    def recording(*args, **settings):
        asked.append(settings["slack"])
        return minimise(*args, **settings)

    monkeypatch.setattr(neighbourhood, "minimise", recording)
    wide = np.random.default_rng(0).normal(size=(40, 13))
    score = FunctionScore(lambda Y: (Y**2).sum(axis=1), gradient=lambda Y: 2 * Y)
    explained(score, X[:1], X, characteristic="local")
    assert set(asked) == {0.0}
    asked.clear()
    explained(score, X[:1], X)
    assert set(asked) == {1e-3}, "nor is more asked for what 'auto' chooses"
    asked.clear()
    explained(score, wide[:1], wide, n_coalitions=60)
    assert set(asked) == {1e-3}


def test_its_reference_rows_are_ordinary():
    """A search without a gradient steps towards rows of the lower half of the scores, spread over that half."""
    score = FunctionScore(lambda Y: (Y**2).sum(axis=1))
    reference_rows = Neighbourhood.of(score, X).reference_rows
    values = np.sort(score.value(X))
    places = np.searchsorted(values, score.value(reference_rows))
    np.testing.assert_array_equal(places, np.linspace(0, 124, 8).round())


class TestGamma:
    def test_balance_makes_both_terms_alike(self):
        explainer = AnomalyShapley(ONE, gamma="balance").fit(X)
        assert 0.1 < explainer.gamma_ < 100
        used = explainer.gamma_ * unit_of(as_score(ONE).value(X))
        assert explainer.explain(ODD).params["gamma_used"] == pytest.approx(used, rel=1e-12)

    def test_balance_is_the_median_fall_over_the_median_distance(self):
        explainer = AnomalyShapley(ONE, gamma="balance").fit(X)
        some = X[np.linspace(0, 249, 48).round().astype(int)]
        lowest = np.array([closed_form(x, 0.01)(frozenset()) for x in some])
        fall = as_score(ONE).value(some) - as_score(ONE).value(lowest)
        cost = (((lowest - some) / X.std(axis=0)) ** 2).mean(axis=1)
        expected = np.median(fall) / np.median(cost) / unit_of(as_score(ONE).value(X))
        assert explainer.gamma_ == pytest.approx(expected, rel=1e-6)

    def test_balance_has_no_unit_where_the_score_has_no_gradient(self):
        plain, large = (
            AnomalyShapley(lambda Y, c=c: c * np.abs(Y).max(axis=1), gamma="balance").fit(X)
            for c in (1.0, 1024.0)
        )
        assert large.gamma_ == pytest.approx(plain.gamma_, rel=1e-6)
        assert large.neighbourhood_.score_unit == pytest.approx(1024.0 * plain.neighbourhood_.score_unit)

    def test_injection_flips_binary_columns_and_leaves_constant_ones(self):
        background = np.column_stack([X[:, 0], X[:, 1] > 1.0, np.full(250, 7.0)])
        score = FunctionScore(lambda Y: (Y**2).sum(axis=1), gradient=lambda Y: 2 * Y)
        near = AnomalyShapley(score).fit(background).neighbourhood_
        given = []

        def record(rows, gamma):
            given.append(rows.copy())
            return rows

        choose_gamma_by_injection(record, background, near, np.arange(3), np.random.default_rng(0))
        before = background[np.linspace(0, 249, 48).round().astype(int)]
        changed = given[0] != before
        assert (changed.sum(axis=1) == 1).all(), "one column of each row"
        assert not changed[:, 2].any()
        np.testing.assert_array_equal(given[0][changed[:, 1], 1], 1.0 - before[changed[:, 1], 1])
        moved = np.abs(given[0] - before)[changed[:, 0], 0] / background[:, 0].std()
        assert 1.0 <= moved.min() < moved.max() <= 2.0
        assert len({rows.tobytes() for rows in given}) == 1, "every candidate explains the same rows"

    def test_injection_takes_a_candidate(self):
        balanced = AnomalyShapley(TWO, gamma="balance").fit(X).gamma_
        assert AnomalyShapley(TWO, gamma="injection").fit(X).gamma_ in (0.001, 0.01, 0.1, 1.0, 10.0, balanced)

    def test_injection_reaches_the_balanced_value(self):
        def only_large_ones_work(rows, gamma):
            moved = np.abs(rows - X[np.linspace(0, 249, 48).round().astype(int)])
            return moved if gamma > 10 else np.zeros_like(moved)

        near = AnomalyShapley(ONE).fit(X).neighbourhood_
        rng = np.random.default_rng(0)
        assert (
            choose_gamma_by_injection(only_large_ones_work, X, near, np.arange(4), rng, balanced=62.0) == 62.0
        )

    def test_auto_balances_where_columns_are_many(self):
        few, many = (np.random.default_rng(0).normal(size=(60, d)) for d in (20, 21))
        for rows, balances in ((few, False), (many, True)):
            score = FunctionScore(lambda Y: (Y**2).sum(axis=1), gradient=lambda Y: 2 * Y)
            found = AnomalyShapley(score).fit(rows).gamma_
            balanced = AnomalyShapley(score, gamma="balance").fit(rows).gamma_
            assert found == (balanced if balances else 0.01)
            assert balanced != 0.01

    def test_injection_prefers_what_finds_the_column(self):
        """A price so high that nothing moves explains nothing: all values are 0 and ranks are ties."""

        def only_one_works(rows, gamma):
            moved = np.abs(rows - X[np.linspace(0, 249, 48).round().astype(int)])
            return moved if gamma == 0.1 else np.zeros_like(moved)

        near = AnomalyShapley(ONE).fit(X).neighbourhood_
        rng = np.random.default_rng(0)
        assert choose_gamma_by_injection(only_one_works, X, near, np.arange(4), rng) == 0.1
        assert choose_gamma_by_injection(lambda rows, _: rows * 0, X, near, np.arange(4), rng) == 0.01

    def test_scores_without_a_gradient_are_measured_in_their_own_spread(self):
        forest = IsolationForest(n_estimators=30, random_state=0).fit(X)
        found = explained(forest, np.array([[1.0, 40.0, 1.0, 1.0]]))
        assert found.values[0].argmax() == 1
        assert found.params["gamma_used"] == pytest.approx(0.01 * as_score(forest).value(X).std(), rel=0.1)
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-12)

    def test_the_unit_of_such_a_score_does_not_matter(self):
        plain, small = (explained(lambda Y, c=c: c * np.abs(Y).max(axis=1), gamma=5.0) for c in (1.0, 1e-4))
        np.testing.assert_allclose(small.values, 1e-4 * plain.values, atol=1e-12)


def test_training_rows_of_a_kernel_model_are_explained_without_themselves():
    rows = np.vstack([X, [[1.0, 30.0, 1.0, 1.0]]])
    model = KernelDensity().fit(rows)
    found = explained(model, rows[-1:], rows)
    assert found.extras["left_out"].tolist() == [250]
    assert found.values[0].argmax() == 1
    assert found.scores[0] > 2 * model.to_score().value(rows[-1:])[0]


class TestBadInput:
    def test_a_constant_score_has_nothing_to_share(self):
        for model in (
            lambda Y: np.ones(len(Y)),
            FunctionScore(lambda Y: np.ones(len(Y)), gradient=np.zeros_like),
        ):
            found = explained(model)
            np.testing.assert_array_equal(found.values, 0.0)
            np.testing.assert_array_equal(found.base_values, 1.0)

    def test_one_column(self):
        model = GaussianMixture(1, random_state=0).fit(X[:, :1])
        found = explained(model, np.array([[9.0]]), X[:, :1])
        np.testing.assert_allclose(found.values[0, 0], found.scores[0] - found.base_values[0])
        assert found.values[0, 0] > 1

    def test_background_of_one_row_and_constant_columns(self):
        with pytest.raises(InvalidInput, match="at least 2, better 100"):
            explained(TWO, background=X[:1])
        found = explained(TWO, background=X[[0, 0]])
        assert found.params["constant_columns"] == 4
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-10)

    def test_rows_far_outside_the_background(self):
        found = explained(TWO, ODD * 1e4)
        assert np.isfinite(found.values).all()
        np.testing.assert_allclose(found.residual / found.scores, 0.0, atol=1e-12)

    def test_kinks(self):
        found = explained(
            FunctionScore(lambda Y: np.abs(Y).sum(axis=1), gradient=np.sign), np.array([[0.1, 9.0, 0.0, 0.2]])
        )
        assert found.values[0].argmax() == 1


def test_settings_survive_saving(tmp_path):
    found = explained(ONE, groups=[[0, 1]], distance=np.square)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = type(found).load(found.save(tmp_path / "saved"))
    assert loaded.params["groups"] == [0, 0, 1, 2]
    np.testing.assert_array_equal(loaded.extras["group_values"], found.extras["group_values"])


def test_a_score_of_shares_is_not_followed_outside_the_unit_interval():
    """A column that is constant in the background could otherwise fall without end."""
    score = FunctionScore(lambda Y: 5.0 + Y.sum(axis=1), gradient=np.ones_like)
    score.unit_interval = True
    background = np.array([[0.0, 0.0], [1.0, 0.0]] * 10)
    found = AnomalyShapley(score).fit(background).explain(np.array([[1.0, 1.0]]))
    assert 5.0 <= found.base_values[0] <= 5.1
