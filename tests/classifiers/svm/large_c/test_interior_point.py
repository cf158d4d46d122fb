"""Few features: the optimum of the quadratic programme at any C, and its Newton steps beside all variables written out."""

from dataclasses import replace

import numpy as np
import pytest
from oracles.multiclass_svm import certificate, directions, optimum
from scipy import sparse
from sklearn.datasets import load_iris

from tellwhy.classifiers import CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM, WestonWatkinsSVM
from tellwhy.classifiers.svm import interior_point as method, solver
from tellwhy.classifiers.svm.interior_point import Entries, NewtonStep, Programme
from tellwhy.classifiers.svm.problem import Labels, make_multilabel_problem, make_problem, tell_why_infeasible
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.run import train
from tellwhy.classifiers.svm.weston_watkins import PairEngine
from tellwhy.core.errors import NotConverged

LOSSES = ["llw", "ovr", "ww", "cs"]


def data(n=14, d=3, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate((np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)))
    return rng.normal(size=(n, d)), y, rng.uniform(0.5, 2.0, n)


def problem_of(X, y, caps, loss="llw"):
    given = {"n_classes": int(y.max()) + 1, "loss": loss, "dtype": "float64"}
    return make_problem(sparse.csr_array(X), Labels.of_classes(y), caps, **given)


@pytest.mark.parametrize(("C", "reached"), [(0.01, 1e-8), (1.0, 1e-8), (100.0, 1e-7), (1e4, 1e-5)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", LOSSES)
def test_variables_are_those_of_the_optimum(loss, C, reached, seed):
    X, y, caps = data(seed=seed)
    problem = problem_of(X, y, C * caps, loss)
    duals = method.interior_point(problem, 1e-8)
    assert tell_why_infeasible(duals, problem) is None
    found = certificate(duals.toarray(), X, y, C * caps, loss)
    # A row's sum is told from its bound to the last digit of the bound.
    assert (found.primal - found.dual) / found.primal < max(reached, 1e-6 if loss == "cs" else 0.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_is_that_of_an_independent_solver(loss):
    X, y, caps = data()
    duals = method.interior_point(problem_of(X, y, caps, loss), 1e-9).toarray()
    expected, _ = optimum(X, y, caps, 4, loss)
    assert certificate(duals, X, y, caps, loss).dual == pytest.approx(
        expected, rel=1e-6 if loss == "cs" else 1e-8
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_without_weight_count_for_nothing(loss):
    X, y, caps = data(n=20)
    caps[[3, 11]] = 0.0
    duals = method.interior_point(problem_of(X, y, caps, loss), 1e-8).toarray()
    np.testing.assert_array_equal(duals[[3, 11]], 0)
    found = certificate(duals, X, y, caps, loss)
    assert (found.primal - found.dual) / found.primal < 1e-6


def test_a_large_c_takes_no_more_epochs():
    X, y = load_iris(return_X_y=True)
    models = [LeeLinWahbaSVM(C=C, tol=1e-4, random_state=0).fit(X, y) for C in (1.0, 1e4)]
    for model in models:
        assert model.dual_gap_ <= 1e-4
        assert model.n_iter_ <= solver.SWITCH_AFTER + solver.MOST_EPOCHS


def slow_rows(n=300):
    """Rows far from the origin, whose classes lie close together: steps of one row creep."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 5
    return rng.normal(size=(n, 4)) + 20.0 + 0.3 * np.eye(5)[y][:, :4], y


@pytest.mark.parametrize("kind", [WestonWatkinsSVM, CrammerSingerSVM, OneVsRestSVM])
def test_fits_whose_epochs_would_run_out_end_at_a_large_c(kind, monkeypatch):
    X, y = slow_rows()
    settings = {"C": 100.0, "tol": 1e-3, "fit_intercept": False, "random_state": 0}
    model = kind(**settings).fit(X, y)
    assert model.dual_gap_ <= 1e-3
    assert model.n_iter_ <= 2 * solver.SLOW_AFTER
    monkeypatch.setattr(solver, "switch_method", lambda *_, **__: None)
    with pytest.warns(NotConverged, match="relative duality gap"):
        assert kind(**settings).fit(X, y).dual_gap_ > 0.1


def test_sets_of_labels_are_solved_too():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 3))
    Y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(30, 4)) > 0).astype(int)
    given = {"n_classes": 5, "dtype": "float64"}
    problem = make_multilabel_problem(sparse.csr_array(X), Labels.of_indicator(Y), np.full(30, 1e3), **given)
    assert method.is_small(problem)
    duals = method.interior_point(problem, 1e-6)
    assert tell_why_infeasible(duals, problem) is None
    steps = PairEngine(problem, n_blocks=1, n_jobs=1, seed=rng)
    steps.set_duals(duals)
    assert 0 <= steps.certify(0.0).gap < 1e-5


@pytest.mark.parametrize("loss", ["ww", "cs"])
def test_a_job_of_one_process_switches_method_and_is_resumed_to_the_same_bits(loss, tmp_path):
    X, y = slow_rows()
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    given = {"data": str(tmp_path / "rows.npz"), "loss": loss, "C": 100.0, "checkpoint_every": 10}
    whole = train(Job(out=str(tmp_path / "whole"), **given))
    assert whole.dual_gap_ <= 1e-3
    assert whole.n_iter_ < 2 * solver.SLOW_AFTER

    def cut(text):
        if text.startswith("epoch") and int(text.split()[1]) > solver.SLOW_AFTER - 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Job(out=str(tmp_path / "cut"), **given), cut)
    resumed = train(Job(out=str(tmp_path / "cut"), resume=True, **given))
    np.testing.assert_array_equal(np.asarray(resumed.coef_), np.asarray(whole.coef_))


def test_what_is_no_nearer_is_not_taken(monkeypatch):
    X, y = load_iris(return_X_y=True)
    tried = []

    def worse(problem, tol):
        tried.append(tol)
        return sparse.csr_array((problem.n_examples, problem.n_classes))

    monkeypatch.setattr("tellwhy.classifiers.svm.lee_lin_wahba.interior_point", worse)
    model = LeeLinWahbaSVM(C=1.0, tol=1e-3, random_state=0, max_epochs=5000).fit(X, y)
    assert len(tried) == 1
    assert model.dual_gap_ <= 1e-3
    duals = [line["dual"] for line in model.history_]
    assert duals == sorted(duals)


def test_many_features_are_left_to_another_method():
    problem = problem_of(*data())
    assert method.is_small(problem)
    assert not method.is_small(replace(problem, n_features=method.MOST_FEATURES + 1))
    pairs = replace(problem, loss="ww")
    assert method.is_small(replace(pairs, n_features=500, n_classes=6))
    assert not method.is_small(replace(pairs, n_features=500, n_classes=7))
    assert not method.is_small(replace(pairs, loss="cs", n_features=300, rows=np.arange(100_000)))


N = 9


CLASSES = 4


def programme_of(loss, rng):
    X = rng.normal(size=(N, 3))
    y = np.concatenate((np.arange(CLASSES), rng.integers(0, CLASSES, N - CLASSES)))
    given = {"n_classes": CLASSES, "loss": loss, "dtype": "float64"}
    problem = make_problem(sparse.csr_array(X), Labels.of_classes(y), np.ones(N), **given)
    return Programme.of(problem), X, y


@pytest.mark.parametrize("loss", ["llw", "ovr", "ww", "cs"])
def test_steps_solve_the_equations_of_all_variables(loss):
    rng = np.random.default_rng(3)
    programme, X, y = programme_of(loss, rng)
    lower = rng.uniform(0.01, 5.0, (N, CLASSES))
    upper = rng.uniform(0.01, 5.0, (N, 1) if loss == "cs" else (N, CLASSES))
    rhs = np.where(programme.free, rng.normal(size=(N, CLASSES)), 0.0)
    found = NewtonStep(programme, Entries.of(programme, lower, upper)).solved(rhs)

    V, variables = directions(X, y, CLASSES, loss)
    rows = np.array([i for i, _ in variables])
    at = tuple(np.array(variables).T)
    if loss == "cs":
        E = np.diag(lower[at]) + upper[rows, 0][:, None] * (rows[:, None] == rows)
    else:
        E = np.diag((lower + upper)[at])
    np.testing.assert_allclose(found[at], np.linalg.solve(E + V @ V.T, rhs[at]), rtol=1e-9, atol=1e-12)
    if loss != "ovr":
        np.testing.assert_array_equal(found[np.arange(N), y], 0)
