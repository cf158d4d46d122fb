"""The equations of a Newton step, solved through the weights, against those of all variables written out."""

import numpy as np
import pytest
from oracles.multiclass_svm import directions
from scipy import sparse

from tellwhy.classifiers.svm.interior_point import Entries, NewtonStep, Programme
from tellwhy.classifiers.svm.problem import Labels, make_problem

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
