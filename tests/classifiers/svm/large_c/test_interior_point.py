"""Lee–Lin–Wahba for few features: the optimum of the quadratic programme at any C, where steps would creep."""

from dataclasses import replace

import numpy as np
import pytest
from oracles.multiclass_svm import certificate, optimum
from scipy import sparse
from sklearn.datasets import load_iris

from tellwhy.classifiers import LeeLinWahbaSVM
from tellwhy.classifiers.svm import solver
from tellwhy.classifiers.svm.large_c import interior_point as method
from tellwhy.classifiers.svm.problem import Labels, make_problem, why_infeasible


def data(n=14, d=3, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate((np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)))
    return rng.normal(size=(n, d)), y, rng.uniform(0.5, 2.0, n)


def problem_of(X, y, caps):
    given = {"n_classes": int(y.max()) + 1, "loss": "llw", "dtype": "float64"}
    return make_problem(sparse.csr_array(X), Labels.of_classes(y), caps, **given)


@pytest.mark.parametrize(("C", "reached"), [(0.01, 1e-8), (1.0, 1e-8), (100.0, 1e-7), (1e4, 1e-5)])
@pytest.mark.parametrize("seed", range(3))
def test_variables_are_those_of_the_optimum(C, reached, seed):
    X, y, caps = data(seed=seed)
    problem = problem_of(X, y, C * caps)
    duals = method.interior_point(problem, 1e-8)
    assert why_infeasible(duals, problem) is None
    found = certificate(duals.toarray(), X, y, C * caps, "llw")
    assert (found.primal - found.dual) / found.primal < reached


def test_the_objective_is_that_of_an_independent_solver():
    X, y, caps = data()
    duals = method.interior_point(problem_of(X, y, caps), 1e-9).toarray()
    expected, _ = optimum(X, y, caps, 4, "llw")
    assert certificate(duals, X, y, caps, "llw").dual == pytest.approx(expected, rel=1e-8)


def test_a_large_c_takes_no_more_epochs():
    X, y = load_iris(return_X_y=True)
    models = [LeeLinWahbaSVM(C=C, tol=1e-4, random_state=0).fit(X, y) for C in (1.0, 1e4)]
    for model in models:
        assert model.dual_gap_ <= 1e-4
        assert model.n_iter_ <= solver.LEAP_AFTER + solver.MOST_EPOCHS


def test_what_is_no_nearer_is_not_taken(monkeypatch):
    X, y = load_iris(return_X_y=True)
    tried = []

    def worse(problem, tol):
        tried.append(tol)
        return sparse.csr_array((problem.n_examples, problem.n_classes))

    monkeypatch.setattr("tellwhy.classifiers.svm.engines.single_engine.interior_point", worse)
    model = LeeLinWahbaSVM(C=1.0, tol=1e-3, random_state=0, max_epochs=5000).fit(X, y)
    assert len(tried) == 1
    assert model.dual_gap_ <= 1e-3
    duals = [line["dual"] for line in model.history_]
    assert duals == sorted(duals)


def test_many_features_are_left_to_another_method():
    problem = problem_of(*data())
    assert method.is_small(problem)
    assert not method.is_small(replace(problem, n_features=method.MOST_FEATURES + 1))
    assert not method.is_small(replace(problem, loss="ovr"))
