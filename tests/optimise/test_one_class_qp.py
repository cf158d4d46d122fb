"""The one-class programme: compiled steps, decomposition and the boundary's level against definitions."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from tellwhy.core.errors import NotConverged
from tellwhy.optimise import one_class_qp
from tellwhy.optimise._compiled_smo import smo
from tellwhy.optimise.one_class_qp import solve

RNG = np.random.default_rng(0)
N = 12
POINTS = RNG.normal(size=(N, 2))
K = np.exp(-((POINTS[:, None] - POINTS[None]) ** 2).sum(axis=2))
P = 0.3 * RNG.normal(size=N)
CAP = 1 / 5


def value(alpha):
    return 0.5 * alpha @ K @ alpha + P @ alpha


def violation(alpha, gradient, cap):
    return gradient[alpha > 0].max() - gradient[alpha < cap].min()


def start():
    alpha = np.zeros(N)
    alpha[:5] = CAP
    return alpha


def test_steps_end_at_the_optimum_of_a_general_solver():
    alpha = start()
    gradient = K @ alpha + P
    left = smo(K, gradient, alpha, CAP, 1e-10, 10_000)
    best = minimize(
        value,
        np.full(N, 1 / N),
        jac=lambda a: K @ a + P,
        bounds=[(0, CAP)] * N,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert value(alpha) == pytest.approx(best.fun, abs=1e-9)
    assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(gradient, K @ alpha + P, atol=1e-12)
    assert left == pytest.approx(violation(alpha, gradient, CAP), abs=1e-14)
    assert left <= 1e-10
    assert ((alpha == 0) | (alpha == CAP)).sum() >= 3  # limits are met exactly


def test_a_step_takes_the_partner_that_gains_most():
    """Not the one with the largest gradient: a near one, with little curvature between, may gain more."""
    matrix = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    gradient = np.array([0.0, 0.010, 0.012])
    alpha = np.full(3, 1 / 3)
    smo(matrix, gradient, alpha, 1.0, 0.0, 1)
    step = 0.010 / 0.2
    np.testing.assert_allclose(alpha, [1 / 3 + step, 1 / 3 - step, 1 / 3], atol=1e-15)


@pytest.mark.parametrize(
    ("alpha", "moved"),
    [
        ([0.1, 0.9], 0.9),  # the other variable has no more to give
        ([0.9, 0.1], 0.1),
        ([0.97, 0.5], 0.03),  # there is no more room
        ([0.5, 0.97], 0.5),
    ],
)
def test_steps_stop_at_the_limits(alpha, moved):
    alpha = np.array(alpha)
    gradient = np.array([-5.0, 5.0])
    expected = alpha + np.array([moved, -moved])
    smo(np.eye(2), gradient, alpha, 1.0, 0.0, 1)
    np.testing.assert_allclose(alpha, expected, atol=1e-15)
    assert ((alpha == 0.0) | (alpha == 1.0)).any()


def columns_of(matrix):
    return lambda index: matrix[:, index]


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_decomposition_with_small_working_sets_agrees_with_libsvm(monkeypatch, scale):
    points = RNG.normal(size=(90, 3))
    matrix = scale * np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2) / 4)
    exact = solve(columns_of(matrix), 90, nu=0.2, tol=1e-8, solver="libsvm")
    asked = []

    def columns(index):
        asked.append(len(index))
        return matrix[:, index]

    monkeypatch.setattr(one_class_qp, "WORKING_SET", 16)
    found = solve(columns, 90, nu=0.2, tol=1e-8, solver="smo")
    assert max(asked[1:]) <= 16
    for solution in (exact, found):
        assert solution.violation <= 1e-7
        np.testing.assert_allclose(solution.gradient, matrix @ solution.weights, rtol=1e-6)
    np.testing.assert_allclose(found.weights, exact.weights, atol=1e-5)
    assert found.level == pytest.approx(exact.level, rel=1e-6)
    free = (found.weights > 1e-6) & (found.weights < 1 / 18 - 1e-6)
    assert (found.gradient[free] >= found.level).all()


def test_weights_that_are_rounding_are_no_support():
    weights = np.array([0.5, 0.5 - 1e-14, 1e-14])
    found = one_class_qp._finish_solution(weights, np.array([1.0, 1.0, 1.0]), 0.5, 1e-6)
    assert (found.weights > 0).tolist() == [True, True, False]
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-15)


def test_the_level_is_below_the_rows_on_the_boundary_or_between_the_others():
    gradient = np.array([1.0, 2.0, 2.0 - 1e-9, 3.0])
    level = one_class_qp._find_boundary_level(np.array([0.5, 0.2, 0.3, 0.0]), gradient, 0.5)
    assert level < 2.0 - 1e-9
    assert level == pytest.approx(2.0, rel=1e-8)
    # No row on the boundary: one at the cap has gradient 1, those without weight 2 and 3.
    level = one_class_qp._find_boundary_level(
        np.array([0.5, 0.0, 0.5, 0.0]), np.array([1.0, 2.0, 0.5, 3.0]), 0.5
    )
    assert level == 1.5


def test_a_violation_of_more_than_ten_tolerances_is_told():
    weights = np.array([0.5, 0.5, 0.0])
    with pytest.warns(NotConverged, match="not solved to tol=0.001"):
        one_class_qp._finish_solution(weights, np.array([1.0, 1.0, 0.98]), 0.5, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = one_class_qp._finish_solution(weights, np.array([1.0, 1.0, 0.995]), 0.5, 1e-3)
    assert found.violation == pytest.approx(0.005)
