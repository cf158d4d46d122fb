"""Ranks that each hold some classes of losses that judge each class on its own."""

import numpy as np
import pytest
from oracles.thread_ranks import in_ranks
from scipy import sparse

from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.ranks.row_engine import RankSingleEngine
from tellwhy.classifiers.svm.solver import Settings, solve

TIGHT = Settings(tol=1e-7, max_epochs=3000)


@pytest.mark.parametrize("blocks", [1, 2])
def test_ranks_find_the_optimum_of_one_process(blocks):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 9
    X = rng.normal(size=(90, 12)) + 2.0 * (np.arange(12) == y[:, None])
    rows = sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True))
    problem = make_problem(rows, Labels.of_classes(y), np.ones(90), n_classes=9, loss="llw", dtype="float64")
    alone = SingleEngine(problem, n_blocks=4, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]

    def work(comm):
        seed = np.random.default_rng([0, comm.rank])
        engine = RankSingleEngine(problem, np.bincount(y), comm=comm, n_jobs=1, seed=seed, blocks=blocks)
        objective = solve(engine, TIGHT).last["objective"]
        engine.forget_duals()
        return objective, engine.class_rows(np.array([3, 0, 8])), engine.class_rows(np.arange(9))

    for objective, some, every in in_ranks(2, work):
        assert objective == pytest.approx(expected, rel=1e-6)
        np.testing.assert_array_equal(some, every[[3, 0, 8]])
        np.testing.assert_allclose(every, alone.weights().T, atol=1e-3)
        np.testing.assert_allclose(every.sum(axis=0), 0, atol=1e-9)
