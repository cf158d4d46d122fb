"""Ranks that each hold a part of the weights: the same bits as one, by messages and in shared memory."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from oracles.thread_ranks import in_ranks, shared_bytes
from scipy import sparse

from tellwhy.classifiers.svm.problem import Labels, make_problem, sum_squares_of
from tellwhy.classifiers.svm.ranks import rank_rows, row_engine
from tellwhy.classifiers.svm.ranks.exchange import Messages, Plan, SharedMemory, Size
from tellwhy.classifiers.svm.ranks.row_engine import RowEngine
from tellwhy.classifiers.svm.solver import Settings, solve
from tellwhy.classifiers.svm.threads import row_batches
from tellwhy.classifiers.svm.threads.row_batches import Grid
from tellwhy.classifiers.svm.weston_watkins import PairEngine

TIGHT = Settings(tol=1e-7, max_epochs=3000)
KINDS = {"messages": Messages, "shared memory": lambda comm: SharedMemory(comm, shared_bytes)}


def documents(n=160, n_classes=9, d=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.poisson(0.15, size=(n, d)) + rng.poisson(1.5, size=(n, d)) * (
        np.arange(d) % n_classes == y[:, None]
    )
    X = X - 0.3 * (rng.uniform(size=(n, d)) < 0.1)
    return sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), y


def problem_of(X, y, loss, dtype="float64", squares=None):
    ones = np.ones(len(y))
    n_classes = y.max() + 1
    labels = Labels.of_classes(y)
    return make_problem(X, labels, ones, n_classes=n_classes, loss=loss, dtype=dtype, squares=squares)


def rank_engine(X, y, comm, loss="ww", *, n_jobs=1, parts=None, dtype="float64"):
    dealt = row_batches.deal_out_features(X.indptr, X.indices, X.shape[1])
    size = Size(len(y), X.nnz, X.shape[1], y.max() + 1)
    part = Plan.of(comm.size, size, parts).part(comm.rank, dealt)
    cut = sparse.csr_array(X[:, part.features])
    problem = problem_of(cut, y, loss, dtype, sum_squares_of(X))
    return RowEngine(problem, part, comm=comm, n_jobs=n_jobs, seed=np.random.default_rng(0))


class Solved(NamedTuple):
    """What one rank ends with."""

    history: Any
    duals: Any
    weights: Any


def solved(X, y, loss="ww", *, settings=TIGHT, **options):
    def work(comm):
        engine = rank_engine(X, y, comm, loss, **options)
        progress = solve(engine, settings)
        history = [{k: v for k, v in line.items() if k != "seconds"} for line in progress.history]
        found = Solved(history, engine.duals().toarray(), engine.weights())
        engine.close()
        return found

    return work


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    monkeypatch.setattr(row_batches, "ENTRIES_A_SHARD", 2)  # four shards for these short rows
    monkeypatch.setattr(rank_rows, "CHUNK_ENTRIES", 200)
    monkeypatch.setattr(row_engine, "SCORES_AT_ONCE", 2**14)

    def exchange(comm):
        return Messages(comm) if comm.size == 1 else KINDS[request.param](comm)

    monkeypatch.setattr(row_engine, "choose_exchange", exchange)
    return request.param


@pytest.mark.parametrize("loss", ["ww", "cs"])
def test_the_number_of_ranks_changes_no_bit(kind, loss):
    X, y = documents()
    (alone,) = in_ranks(1, solved(X, y, loss))
    assert alone.history[-1]["gap"] <= TIGHT.tol
    for ranks, parts, n_jobs in ((2, 1, 1), (2, 2, 1), (4, 2, 1), (4, 4, 1), (3, 1, 2)):
        found = in_ranks(ranks, solved(X, y, loss, parts=parts, n_jobs=n_jobs))
        for rank in found:
            assert rank.history == alone.history
            np.testing.assert_array_equal(rank.weights, alone.weights)
        np.testing.assert_array_equal(sum(rank.duals for rank in found), alone.duals)
        held = np.array([rank.duals.any(axis=1) for rank in found])
        assert held.sum(axis=0).max() == 1  # each example's variables on one rank only


@pytest.mark.parametrize("loss", ["ww", "cs"])
def test_ranks_find_the_optimum_of_one_process(kind, loss):
    X, y = documents()
    alone = PairEngine(problem_of(X, y, loss), n_blocks=1, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]
    found = in_ranks(2, solved(X, y, loss, parts=2))
    W, duals = found[0].weights, sum(rank.duals for rank in found)
    assert found[0].history[-1]["objective"] == pytest.approx(expected, rel=1e-7)
    np.testing.assert_allclose(W, alone.weights(), atol=2e-3)
    duals[np.arange(len(y)), y] -= duals.sum(axis=1)
    np.testing.assert_allclose(W, -(X.T @ duals), atol=1e-10)  # the weights are those of the variables
    scores = X @ W
    gains = 1 - scores[np.arange(len(y)), y][:, None] + scores
    gains[np.arange(len(y)), y] = 0
    losses = np.maximum(gains, 0)
    primal = 0.5 * (W**2).sum() + (losses.sum() if loss == "ww" else losses.max(axis=1).sum())
    assert primal == pytest.approx(found[0].history[-1]["objective"], rel=1e-9)


def test_ranks_may_have_no_class_and_no_example(kind):
    X, y = documents(40, 2)
    expected = in_ranks(1, solved(X, y))[0].history
    for rank in in_ranks(3, solved(X, y)):
        assert rank.history == expected


@pytest.mark.slow  # compiles everything again
def test_single_precision(kind):
    X, y = documents()
    expected = in_ranks(1, solved(X, y))[0].history[-1]["objective"]
    settings = Settings(tol=1e-4, max_epochs=500)
    ends = [in_ranks(n, solved(X, y, dtype="float32", settings=settings))[0] for n in (1, 2)]
    assert ends[0].history[-1]["objective"] == pytest.approx(expected, rel=2e-4)
    assert ends[0].weights.dtype == np.float32
    np.testing.assert_array_equal(ends[0].weights, ends[1].weights)


def test_nothing_is_left_out_without_shrinking(kind):
    X, y = documents()
    settings = Settings(tol=1e-5, max_epochs=500, shrinking=False)
    for rank in in_ranks(2, solved(X, y, settings=settings)):
        assert rank.history[-1]["gap"] <= 1e-5
        assert rank.history[-1]["listed"] == 160 * 8


def test_ranks_go_on_from_given_variables(kind):
    X, y = documents()
    (first,) = in_ranks(1, solved(X, y))
    duals = sparse.csr_array(first.duals)

    def work(comm):
        engine = rank_engine(X, y, comm)
        engine.set_duals(duals)
        engine.restart(np.random.default_rng(1))
        return engine.certify(0.1)

    for ranks in (1, 3):
        for certificate in in_ranks(ranks, work):
            assert certificate.gap <= 1.01e-7
            assert certificate.primal == pytest.approx(first.history[-1]["objective"], rel=1e-9)


@pytest.mark.parametrize(
    ("entries", "n_ranks", "cut"), [(113, 4, (4, 1)), (113, 8, (8, 1)), (60, 8, (4, 2)), (5, 4, (1, 4))]
)
def test_features_are_cut_before_classes_as_far_as_rows_have_entries(entries, n_ranks, cut):
    plan = Plan.of(n_ranks, Size(5_000, 5_000 * entries, 20_000, 1_000))
    assert (plan.n_slots, plan.n_ranges) == cut
    # Threads of one process are given the same parts.
    grid = Grid.of(n_ranks, plan.size.n_shards, 1_000)
    assert (grid.n_slots, grid.n_ranges) == cut
