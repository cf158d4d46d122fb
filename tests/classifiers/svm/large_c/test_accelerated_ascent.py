"""Lee–Lin–Wahba for many features: the optimum at large C by steps with a momentum."""

from dataclasses import replace

import numpy as np
import pytest
from oracles.multiclass_svm import certificate, optimum
from scipy import sparse

from tellwhy.classifiers import LeeLinWahbaSVM
from tellwhy.classifiers.svm import (
    accelerated_ascent as method,
    lee_lin_wahba as single_engine,
    solver,
)
from tellwhy.classifiers.svm.accelerated_ascent import LENGTHS, Primal, find_best_length
from tellwhy.classifiers.svm.problem import Labels, make_problem, tell_why_infeasible


def data(n=14, d=3, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate((np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)))
    return rng.normal(size=(n, d)), y, rng.uniform(0.5, 2.0, n)


def problem_of(X, y, caps, dtype="float64"):
    given = {"n_classes": int(y.max()) + 1, "loss": "llw", "dtype": dtype}
    return make_problem(sparse.csr_array(X), Labels.of_classes(y), caps, **given)


def nothing(problem):
    return sparse.csr_array((problem.n_examples, problem.n_classes))


def texts(n=300, n_terms=700, n_classes=8, seed=0):
    """Sparse rows of unit length, with more features than the interior-point method takes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    terms = np.where(rng.random((n, 12)) < 0.3, y[:, None] * 5 + rng.integers(0, 5, (n, 12)), 0)
    common = (n_terms * rng.random((n, 12)) ** 3).astype(int)
    columns = np.where(terms > 0, terms, common)
    X = np.zeros((n, n_terms))
    X[np.arange(n)[:, None], columns] = 1.0
    return sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), y


def gap_of_best_length(found, duals, caps):
    """The relative gap of weights of the best length, from the gains of the weights themselves."""
    half_norm = duals.sum() - found.dual
    primal = min(
        t**2 * half_norm + caps @ np.maximum(1 + t * (found.gains - 1), 0).sum(axis=1) for t in LENGTHS
    )
    return (primal - found.dual) / primal


@pytest.mark.parametrize(("C", "tol"), [(0.01, 1e-8), (1.0, 1e-6), (100.0, 1e-3), (1e4, 1e-2)])
@pytest.mark.parametrize("seed", range(3))
def test_variables_are_those_of_the_optimum(C, tol, seed):
    X, y, caps = data(d=20, seed=seed)
    problem = problem_of(X, y, C * caps)
    duals = method.accelerated_ascent(problem, nothing(problem), tol)
    assert tell_why_infeasible(duals, problem) is None
    found = certificate(duals.toarray(), X, y, C * caps, "llw")
    assert -1e-12 <= gap_of_best_length(found, duals, C * caps) <= tol


@pytest.mark.parametrize("d", [3, 20])
def test_the_objective_is_that_of_an_independent_solver(d):
    X, y, caps = data(d=d)
    problem = problem_of(X, y, caps)
    duals = method.accelerated_ascent(problem, nothing(problem), 1e-9).toarray()
    expected, _ = optimum(X, y, caps, 4, "llw")
    assert certificate(duals, X, y, caps, "llw").dual == pytest.approx(expected, rel=1e-7)


def test_objectives_are_those_of_the_variables():
    X, y, caps = data(d=6)
    X[3] = 0.0  # an empty row costs what no weights can change
    problem = problem_of(X, y, caps)
    ascent = method._Ascent(problem, nothing(problem))
    for seed in range(5):
        ascent.epoch(np.random.default_rng(seed).permutation(problem.n_examples))
    full = np.flatnonzero(np.any(X != 0, axis=1))
    found = certificate(ascent.variables(), X[full], y[full], caps[full], "llw")
    lost = 3 * caps[3]
    assert ascent.objectives() == pytest.approx((found.primal + lost, found.dual + lost), rel=1e-12)


def test_it_goes_on_from_where_it_starts(monkeypatch):
    X, y, caps = data(d=20)
    problem = problem_of(X, y, 100 * caps)
    near = method.accelerated_ascent(problem, nothing(problem), 1e-4)
    monkeypatch.setattr(method, "MOST_EPOCHS", method.CHECKED_EVERY)
    duals = method.accelerated_ascent(problem, near, 1e-4).toarray()
    found = certificate(duals, X, y, 100 * caps, "llw")
    assert (found.primal - found.dual) / found.primal <= 1e-4


@pytest.mark.parametrize(("dtype", "C"), [("float64", 1e4), ("float32", 10.0)])
def test_a_fit_with_many_features_ends_at_a_large_c(dtype, C, monkeypatch):
    X, y = texts()
    model = LeeLinWahbaSVM(C=C, tol=1e-2, random_state=0, max_epochs=40, dtype=dtype)
    assert model.fit(X, y).dual_gap_ <= 1e-2
    assert model.n_iter_ <= solver.SWITCH_AFTER + solver.MOST_EPOCHS
    monkeypatch.setattr(single_engine, "is_possible", lambda _: False)
    with pytest.warns(UserWarning, match="gap"):
        assert model.fit(X, y).dual_gap_ > 1e-2


def objective(W, X, y, C):
    """½ ‖W‖² + C Σ losses, of weights classes × features."""
    losses = np.maximum(1 + X @ W.T, 0)
    losses[np.arange(len(y)), y] = 0
    return 0.5 * (W**2).sum() + C * losses.sum()


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_the_objective_of_a_fit_is_that_of_its_weights(C):
    X, y = texts()
    model = LeeLinWahbaSVM(C=C, tol=1e-2, random_state=0, max_epochs=60, fit_intercept=False).fit(X, y)
    assert objective(model.coef_, X, y, C) == pytest.approx(model.objective_, rel=1e-9)
    assert model.objective_ == min(line["objective"] for line in model.history_)


def test_longer_weights_may_have_the_lower_objective():
    X, y, caps = data(d=20)
    problem = problem_of(X, y, 1e4 * caps)
    W = np.linalg.lstsq(X, np.where(np.arange(4) == y[:, None], 3.0, -1.0) * 0.995, rcond=None)[0]
    primal = Primal(problem)
    length, found = find_best_length(primal, W)
    assert length in (1.005, 1.01)
    every = np.array([objective(t * W.T, X, y, 1e4) for t in LENGTHS])  # the same caps for all
    np.testing.assert_allclose(Primal(problem_of(X, y, np.full(14, 1e4))).of(W, LENGTHS), every)
    assert found == min(primal.of(W, LENGTHS)) < 0.1 * primal.of(W)[0]


def test_momentum_from_far_away_is_dropped(monkeypatch):
    X, y, caps = data(d=20)
    problem = problem_of(X, y, 100 * caps)
    monkeypatch.setattr(method, "MOST_EPOCHS", 300)
    found = []
    for factor in (method.DROPPED_AFTER, np.inf):
        monkeypatch.setattr(method, "DROPPED_AFTER", factor)
        duals = method.accelerated_ascent(problem, nothing(problem), 1e-9).toarray()
        reached = certificate(duals, X, y, 100 * caps, "llw")
        found.append((reached.primal - reached.dual) / reached.primal)
    assert found[0] < 1e-9
    assert found[1] > 1e-7


def test_what_has_no_room_is_left_to_steps():
    problem = problem_of(*data())
    assert method.is_possible(problem)
    assert method.is_possible(replace(problem, n_features=method.MOST_VARIABLES // 4))
    assert not method.is_possible(replace(problem, n_features=method.MOST_VARIABLES // 4 + 1))
    assert not method.is_possible(replace(problem, loss="ovr"))
