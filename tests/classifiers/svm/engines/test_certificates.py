"""Certificates against the formulas: both objectives, the largest violation, and what is listed."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from oracles.multiclass_svm import certificate
from oracles.thread_ranks import in_ranks
from scipy import sparse

from tellwhy.classifiers.svm import (
    dual_lists as certified_lists,
    lee_lin_wahba as single_engine,
    weston_watkins as pair_engine,
)
from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import PAIR_LOSSES, Labels, make_problem, sum_squares_of
from tellwhy.classifiers.svm.ranks import rank_rows as rank_lists, row_engine
from tellwhy.classifiers.svm.ranks.exchange import Plan, Size
from tellwhy.classifiers.svm.ranks.row_engine import RankSingleEngine, RowEngine
from tellwhy.classifiers.svm.threads.row_batches import ranges
from tellwhy.classifiers.svm.weston_watkins import PairEngine

CLASSES = 7
SLACK = 0.1


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch):
    """Have every certificate made of several parts."""
    for module in (certified_lists, pair_engine, single_engine):
        monkeypatch.setattr(module, "ranges", lambda n, size=5: ranges(n, min(size, 5)))
    for module in (rank_lists, row_engine):
        monkeypatch.setattr(module, "UNIT", 4)


class Data(NamedTuple):
    X: Any
    y: Any
    caps: Any


def rows(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 9)) * (rng.random((40, 9)) < 0.5)
    X[np.arange(40), np.arange(40) % 9] += 0.5
    y = np.concatenate((np.arange(CLASSES), rng.integers(0, CLASSES, 40 - CLASSES)))
    return Data(X, y, rng.uniform(0.2, 2.0, 40))


def given_duals(data, loss, seed):
    """Feasible variables, many of them at a bound."""
    rng = np.random.default_rng(seed + 100)
    y = data.y
    duals = np.clip(rng.normal(0, 0.4, (len(y), CLASSES)), 0, 1) * (rng.random((len(y), CLASSES)) < 0.6)
    if loss != "ovr":
        duals[np.arange(len(y)), y] = 0
    if loss == "cs":
        sums = duals.sum(axis=1, keepdims=True)
        duals = duals / np.maximum(sums, 1) * np.where(rng.random((len(y), 1)) < 0.5, 1.0, 0.7)
        duals[::3] /= np.maximum(duals[::3].sum(axis=1, keepdims=True), 1e-9)
    else:
        duals[rng.random(duals.shape) < 0.1] *= 3
        duals = np.minimum(duals, 1)
    return duals * data.caps[:, None]


def problem_of(data, loss, squares=None):
    X = sparse.csr_array(data.X)
    labels = Labels.of_classes(data.y)
    given = {"n_classes": CLASSES, "loss": loss, "dtype": "float64", "squares": squares}
    return make_problem(X, labels, data.caps, **given)


def assert_certified(found, expected, duals, loss):
    assert found.primal == pytest.approx(expected.primal, rel=1e-10)
    assert found.dual == pytest.approx(expected.dual, rel=1e-10)
    assert found.worst == pytest.approx(expected.violations.max(), rel=1e-10)
    if loss != "cs":
        assert found.listed == ((expected.gains > -SLACK) | (duals > 0)).sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("loss", ["ww", "cs", "llw", "ovr"])
def test_one_process(loss, n_blocks, seed):
    data = rows(seed)
    duals = given_duals(data, loss, seed)
    engine = (PairEngine if loss in PAIR_LOSSES else SingleEngine)(
        problem_of(data, loss), n_blocks=n_blocks, n_jobs=2, seed=np.random.default_rng(0)
    )
    engine.set_duals(sparse.csr_array(duals))
    assert_certified(engine.certify(SLACK), certificate(duals, *data, loss), duals, loss)
    engine.close()


@pytest.mark.parametrize("loss", ["ww", "cs"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_of_pair_losses(ranks, loss):
    """The largest violation of all is among the examples of one rank or another."""
    places = set()
    for seed in range(6):
        data = rows(seed)
        duals = given_duals(data, loss, seed)
        expected = certificate(duals, *data, loss)
        bounds = [rank_lists.find_own_examples(rank, ranks, 40) for rank in range(ranks)]
        worst = expected.violations.max(axis=1)
        places |= {rank for rank, (a, b) in enumerate(bounds) if a <= worst.argmax() < b}

        def certified(comm, *, data=data, duals=duals):
            X = sparse.csr_array(data.X)
            part = Plan.of(comm.size, Size(40, X.nnz, 9, CLASSES)).part(comm.rank, np.arange(9) % 8)
            cut = Data(X[:, part.features].toarray(), data.y, data.caps)
            problem = problem_of(cut, loss, squares=sum_squares_of(X))
            engine = RowEngine(problem, part, comm=comm, n_jobs=1, seed=np.random.default_rng(0))
            engine.set_duals(sparse.csr_array(duals))
            return engine.certify(SLACK)

        for found in in_ranks(ranks, certified):
            assert_certified(found, expected, duals, loss)
    assert len(places) > 1


@pytest.mark.parametrize("loss", ["llw", "ovr"])
def test_ranks_of_single_losses(loss):
    places = set()
    for seed in range(4):
        data = rows(seed)
        duals = given_duals(data, loss, seed)
        problem = problem_of(data, loss)
        expected = certificate(duals, *data, loss)

        def certified(comm, *, problem=problem, data=data, duals=duals):
            engine = RankSingleEngine(
                problem,
                np.bincount(data.y, minlength=CLASSES),
                comm=comm,
                n_jobs=1,
                seed=np.random.default_rng(0),
                blocks=2,
            )
            engine.set_duals(sparse.csr_array(duals))
            held = np.concatenate([engine.blocks.members[b] for b in engine.held])
            return engine.certify(SLACK), held

        found = in_ranks(2, certified)
        for of_rank, _ in found:
            assert_certified(of_rank, expected, duals, loss)
        places.add(expected.violations.max(axis=0).argmax() in found[0][1])
    assert places == {True, False}
