"""Local minima around rows: against closed forms, general-purpose optimisers, and each other."""

import numpy as np
import pytest
from oracles.shapley_oracles import gaussian_minimum, minimum_by_scipy
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture

from tellwhy.core.errors import InvalidInput
from tellwhy.counterfactuals import minimise as module
from tellwhy.counterfactuals.minimise import minimise
from tellwhy.counterfactuals.row_scores import find_quadratics
from tellwhy.detectors import KernelDensity, NearestNeighbours
from tellwhy.optimise.pattern_search import search_pattern
from tellwhy.scoring import FunctionScore, as_score

RNG = np.random.default_rng(0)
D = 5
MIX = RNG.normal(size=(D, D))
X = RNG.normal(size=(300, D)) @ MIX
ODD = X[:6] + np.array([0.0, 4.0, 0.0, 0.0, -3.0])
SCALES = X.std(axis=0)
EVERY = np.ones((1, D), dtype=bool)
MASKS = np.vstack([EVERY, ~np.eye(D, dtype=bool), [[True, False, True, False, False]]])
ONE = GaussianMixture(1, random_state=0).fit(X)
TWO = GaussianMixture(2, random_state=0).fit(np.vstack([X, 0.3 * X + 6.0]))


def bare(model):
    """The same score without its quadratic forms: plain quasi-Newton descent."""
    score = as_score(model)
    return FunctionScore(score.value, gradient=score.gradient)


def objective(score, x, free, gamma, scales=SCALES, cell=np.square):
    c = np.flatnonzero(free)

    def of(u):
        y = x.copy()
        y[c] += scales[c] * u
        return float(score.value(y[None])[0] + gamma / len(c) * np.sum(cell(u)))

    return of


@pytest.mark.parametrize("gamma", [0.0, 0.001, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("wrap", [as_score, bare], ids=["newton", "quasi-newton"])
def test_one_gaussian_has_a_closed_form(gamma, wrap):
    found = minimise(wrap(ONE), ODD, MASKS, gamma=gamma, scales=SCALES)
    assert found.converged.all()
    for i, x in enumerate(ODD):
        for k, free in enumerate(MASKS):
            exact = gaussian_minimum(
                x, ONE.means_[0], ONE.precisions_[0], free=free, gamma=gamma, scales=SCALES
            )
            np.testing.assert_allclose(
                found.points[i, k], exact, rtol=0, atol=1e-8 if wrap is as_score else 1e-5
            )


def test_fixed_columns_do_not_move_at_all():
    points = minimise(as_score(TWO), ODD, MASKS, scales=SCALES).points
    for k, free in enumerate(MASKS):
        np.testing.assert_array_equal(points[:, k, ~free], ODD[:, ~free])


@pytest.mark.parametrize("wrap", [as_score, bare], ids=["newton", "quasi-newton"])
def test_mixtures_end_where_the_slope_is_zero_and_never_higher(wrap):
    score, gamma = as_score(TWO), 0.01
    found = minimise(wrap(TWO), ODD, MASKS, gamma=gamma, scales=SCALES)
    assert found.converged.all()
    for i, x in enumerate(ODD):
        for k, free in enumerate(MASKS):
            y = found.points[i, k]
            slope = score.gradient(y[None])[0] * SCALES + 2 * gamma / free.sum() * (y - x) / SCALES
            np.testing.assert_allclose(slope[free], 0.0, atol=1e-5)
            assert (
                objective(score, x, free, gamma)(((y - x) / SCALES)[free]) <= score.value(x[None])[0] + 1e-12
            )


def test_the_minimum_is_the_local_one():
    far_apart = GaussianMixture(2, random_state=0).fit(np.vstack([X, X + 60.0]))
    near_first, near_second = minimise(
        as_score(far_apart), np.vstack([X[:3] + 1.0, X[:3] + 59.0]), EVERY
    ).points[[0, 3], 0]
    assert np.abs(near_second - near_first).min() > 50


def test_singular_curvature_of_a_projection():
    score = as_score(PCA(2).fit(X))
    found = minimise(score, ODD, MASKS, gamma=0.01, scales=SCALES)
    slope = score.gradient(found.points[:, 0]) * SCALES + 2 * 0.01 / D * (found.points[:, 0] - ODD) / SCALES
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.5, 5.0])
@pytest.mark.parametrize("wrap", [as_score, bare], ids=["newton", "quasi-newton"])
def test_absolute_distance(gamma, wrap):
    free, x = np.array([True, True, False, True, False]), ODD[0]
    found = minimise(wrap(ONE), ODD[:1], free[None], gamma=gamma, scales=SCALES, distance="absolute").points[
        0, 0
    ]
    of = objective(as_score(ONE), x, free, gamma, cell=np.abs)
    best = minimum_by_scipy(
        lambda parts: of(parts[:3] - parts[3:]) + 1e-9 * parts.sum(), np.full(6, 0.5), [(0, None)] * 6
    )
    assert of(((found - x) / SCALES)[free]) <= of(best[:3] - best[3:]) + 1e-7


def test_a_high_price_of_absolute_distance_keeps_the_row():
    found = minimise(as_score(ONE), ODD, EVERY, gamma=1e4, scales=SCALES, distance="absolute")
    np.testing.assert_array_equal(found.points[:, 0], ODD)
    assert found.converged.all()


def test_a_function_as_distance():
    plain = minimise(as_score(ONE), ODD, MASKS, gamma=2.0, scales=SCALES).points
    np.testing.assert_allclose(
        minimise(as_score(ONE), ODD, MASKS, gamma=2.0, scales=SCALES, distance=lambda u: u**2).points,
        plain,
        atol=1e-6,
    )
    with pytest.raises(InvalidInput, match="one finite number per cell"):
        minimise(as_score(ONE), ODD, MASKS, distance=lambda u: u.sum(axis=1))


@pytest.mark.parametrize("wrap", [as_score, bare], ids=["newton", "quasi-newton"])
@pytest.mark.parametrize("model", [ONE, TWO], ids=["one", "two"])
def test_neighbourhood_with_walls(wrap, model):
    radius = 0.7
    found = minimise(wrap(model), ODD, EVERY, scales=SCALES, radius=radius)
    moved = (found.points[:, 0] - ODD) / SCALES
    assert np.abs(moved).max() <= radius + 1e-12
    for x, u in zip(ODD, moved, strict=True):
        of = objective(as_score(model), x, EVERY[0], 0.0)
        assert of(u) <= of(minimum_by_scipy(of, np.zeros(D), [(-radius, radius)] * D)) + 1e-6


@pytest.mark.parametrize("wrap", [as_score, bare], ids=["newton", "quasi-newton"])
def test_binary_columns_stay_between_0_and_1(wrap):
    rows = (np.random.default_rng(1).random((200, 4)) < [0.2, 0.5, 0.8, 0.5]).astype(float)
    rows[:, 3] = rows[:, 1]
    model = GaussianMixture(1, reg_covar=1e-2, random_state=0).fit(rows)
    odd, gamma, binary = np.array([[1.0, 0.0, 0.0, 1.0]]), 0.5, np.ones(4, dtype=bool)
    found = minimise(
        wrap(model), odd, binary[None], gamma=gamma, scales=rows.std(axis=0), binary=binary
    ).points[0, 0]
    assert found.min() >= 0
    assert found.max() <= 1

    def of(y):
        x = odd[0]
        entropy = -x * np.log(np.maximum(y, 1e-300)) - (1 - x) * np.log(np.maximum(1 - y, 1e-300))
        return float(as_score(model).value(y[None])[0] + gamma / 4 * entropy.sum())

    assert of(found) <= of(minimum_by_scipy(of, np.full(4, 0.5), [(1e-6, 1 - 1e-6)] * 4)) + 1e-6


def test_scores_without_a_gradient_are_searched():
    bowl = as_score(ONE)
    found = minimise(FunctionScore(bowl.value), ODD, MASKS, scales=SCALES, reference_rows=X[:8]).points
    exact = minimise(bowl, ODD, MASKS, scales=SCALES).points
    for k in range(len(MASKS)):
        start, end, best = (bowl.value(p) for p in (ODD, found[:, k], exact[:, k]))
        assert (end - best <= 0.2 * (start - best) + 1e-9).all()
        np.testing.assert_array_equal(found[:, k, ~MASKS[k]], ODD[:, ~MASKS[k]])


def test_trial_steps_become_smaller():
    found = search_pattern(
        lambda _, U: np.abs(U - [2.3, -0.7]).sum(axis=1), np.zeros((1, 2)), free=EVERY[:, :2]
    )
    np.testing.assert_allclose(found.U[0], [2.3, -0.7], atol=1 / 8)
    assert found.converged.all()


def test_a_forest_falls():
    forest = as_score(IsolationForest(random_state=0, n_estimators=30).fit(X))
    odd = np.array([[0.0, 30.0, 0.0, 0.0, 0.0]])
    found = minimise(forest, odd, EVERY, gamma=1e-4, scales=SCALES, reference_rows=X[:8])
    assert forest.value(found.points[:, 0])[0] < forest.value(odd)[0] - 0.05


def test_kinks_do_not_stop_descent():
    score = NearestNeighbours(5).fit(X).to_score()
    found = minimise(score, ODD, MASKS, scales=SCALES)
    assert (score.value(found.points[:, 0]) < score.value(ODD)).all()


def test_training_rows_are_left_out_of_their_own_minima():
    rows = np.vstack([X[:50], [[40.0] * D]])
    score = KernelDensity().fit(rows).to_score()
    end = minimise(score, rows[-1:], EVERY, scales=SCALES).points[0]
    assert np.abs(end).max() < 20  # with itself as support point it would stay


def test_batches_do_not_change_the_result(monkeypatch):
    whole = minimise(as_score(TWO), ODD, MASKS, scales=SCALES).points
    monkeypatch.setattr(module, "BATCH_BYTES", 5_000)
    np.testing.assert_allclose(minimise(as_score(TWO), ODD, MASKS, scales=SCALES).points, whole, atol=1e-7)


class TestSlack:
    """Minima that may be left a little too high, found from the minimum of the first set."""

    ROWS = X[:40] + np.array([0.0, 4.0, 0.0, 0.0, -3.0])

    def test_the_fall_that_is_left_undone_is_a_small_share(self):
        score = bare(TWO)
        exact = minimise(score, self.ROWS, MASKS, scales=SCALES).points
        found = minimise(score, self.ROWS, MASKS, scales=SCALES, slack=1e-3)
        assert found.converged.all()
        for k, free in enumerate(MASKS):
            high = score.value(found.points[:, k]) - score.value(exact[:, k])
            fall = score.value(self.ROWS) - score.value(exact[:, k])
            assert np.mean(high <= 0.01 * fall) >= 0.95  # elsewhere another minimum was found
            np.testing.assert_array_equal(found.points[:, k][:, ~free], self.ROWS[:, ~free])

    def test_it_takes_far_fewer_evaluations(self):
        seen = []
        score = as_score(TWO)
        counting = FunctionScore(score.value, gradient=lambda Y: seen.append(len(Y)) or score.gradient(Y))
        minimise(counting, self.ROWS, MASKS, scales=SCALES)
        thorough = sum(seen)
        seen.clear()
        minimise(counting, self.ROWS, MASKS, scales=SCALES, slack=1e-3)
        assert sum(seen) < 0.6 * thorough

    def test_a_start_that_is_higher_than_the_row_is_not_kept(self):
        # Both free: down to b > 10. There, with a put back to 0, is a local minimum higher than the row itself.
        def value(Y):
            a, b = Y.T
            return 0.05 * (b * (b - 10)) ** 2 + b * (3 - 5 * a) + 10 * (a - 3) ** 2

        def gradient(Y):
            a, b = Y.T
            return np.c_[-5 * b + 20 * (a - 3), 0.1 * b * (b - 10) * (2 * b - 10) + 3 - 5 * a]

        row, masks = np.array([[0.0, 1.0]]), np.array([[True, True], [False, True]])
        found = minimise(FunctionScore(value, gradient=gradient), row, masks, gamma=0.0, slack=1e-3).points[0]
        assert found[0, 1] > 10
        assert abs(found[1, 1]) < 1

    def test_batches_do_not_change_the_result(self, monkeypatch):
        whole = minimise(bare(TWO), ODD, MASKS, scales=SCALES, slack=1e-3).points
        monkeypatch.setattr(module, "BATCH_BYTES", 5_000)
        np.testing.assert_allclose(
            minimise(bare(TWO), ODD, MASKS, scales=SCALES, slack=1e-3).points, whole, atol=1e-7
        )

    def test_quadratic_forms_and_absent_gradients_are_as_exact_as_ever(self):
        for score in (as_score(TWO), FunctionScore(as_score(TWO).value)):
            exact = minimise(score, ODD[:2], MASKS, scales=SCALES).points
            found = minimise(score, ODD[:2], MASKS, scales=SCALES, slack=0.1).points
            np.testing.assert_array_equal(found, exact)


def test_units_of_the_columns_do_not_matter():
    unit, shift = np.array([1e-3, 1.0, 50.0, 1e4, 2.0]), np.array([0.0, 5.0, -3.0, 100.0, 1.0])
    stretched = FunctionScore(
        lambda Y: as_score(TWO).value((Y - shift) / unit),
        gradient=lambda Y: as_score(TWO).gradient((Y - shift) / unit) / unit,
    )
    plain = minimise(bare(TWO), ODD, MASKS, scales=SCALES).points
    found = minimise(stretched, ODD * unit + shift, MASKS, scales=SCALES * unit).points
    np.testing.assert_allclose((found - shift) / unit, plain, atol=1e-6)


def test_constant_score_stays_where_it_is():
    flat = FunctionScore(lambda Y: np.ones(len(Y)), gradient=np.zeros_like)
    found = minimise(flat, ODD, MASKS)
    np.testing.assert_array_equal(found.points, np.repeat(ODD[:, None], len(MASKS), axis=1))
    assert found.converged.all()
    searched = minimise(FunctionScore(lambda Y: np.ones(len(Y))), ODD, MASKS, reference_rows=X[:4])
    np.testing.assert_array_equal(searched.points[:, 0], ODD)


def test_bad_scores_and_masks():
    broken = FunctionScore(lambda Y: np.full(len(Y), np.nan), gradient=np.zeros_like)
    with pytest.raises(InvalidInput, match="nan"):
        minimise(broken, ODD, MASKS)
    with pytest.raises(InvalidInput, match="columns"):
        minimise(as_score(ONE), ODD, MASKS[:, :3])


def test_far_rows_come_back():
    far = ODD * 1e6
    for wrap in (as_score, bare):
        found = minimise(wrap(ONE), far, EVERY, gamma=0.0, scales=SCALES).points[:, 0]
        np.testing.assert_allclose(found, np.repeat(ONE.means_, len(far), axis=0), atol=1e-3)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_quadratic_forms_are_the_score(kind):
    score = as_score(GaussianMixture(3, covariance_type=kind, random_state=0).fit(X))
    value, slope, _ = find_quadratics(score).evaluate(ODD)
    np.testing.assert_allclose(value, score.value(ODD), rtol=1e-10)
    np.testing.assert_allclose(slope, score.gradient(ODD), rtol=1e-8, atol=1e-9)
    projection = as_score(PCA(2).fit(X))
    np.testing.assert_allclose(
        find_quadratics(projection).evaluate(ODD)[0], projection.value(ODD), rtol=1e-10
    )
    assert find_quadratics(FunctionScore(lambda Y: Y.sum(axis=1))) is None
