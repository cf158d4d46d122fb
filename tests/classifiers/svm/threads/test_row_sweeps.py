"""Sweeps of rows over threads, and how many threads are worth it."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from tellwhy.classifiers import CrammerSingerSVM, WestonWatkinsSVM
from tellwhy.classifiers.svm import _compiled_pairs as loops
from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.records import Sweep
from tellwhy.classifiers.svm.threads import (
    row_batches,
    row_batches as grid,
    row_sweeps,
    row_sweeps as thread_choice,
)
from tellwhy.classifiers.svm.threads._compiled_barrier import LINE
from tellwhy.classifiers.svm.threads.row_sweeps import SeparateRows, ShardedRows, ThreadChoice
from tellwhy.classifiers.svm.weston_watkins import PairEngine

N, CLASSES = 600, 11


D = {"shards": 90, "separate": 900}


KINDS = {"shards": ShardedRows, "separate": SeparateRows}


def problem_of(kind="shards", loss="ww", dtype="float64"):
    """Rows with half of the features, or with two of many."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((N, D[kind]), density=0.5 if kind == "shards" else 0.002, rng=rng, format="lil")
    X[np.arange(N), rng.integers(0, D[kind], N)] = 1.0
    X = sparse.csr_array(X)
    X = sparse.csr_array(X / sparse.linalg.norm(X, axis=1)[:, None])
    y = rng.integers(0, CLASSES, N)
    return make_problem(
        X, Labels.of_classes(y), rng.uniform(0.1, 2, N), n_classes=CLASSES, loss=loss, dtype=dtype
    )


def engine_of(kind="shards", loss="ww", dtype="float64", n_jobs=4, monkeypatch=None, entries_a_shard=12):
    if monkeypatch is not None:  # all threads, and batches of several rows, for however little work
        monkeypatch.setattr(row_sweeps, "WORTH_SHARING", 0)
        monkeypatch.setattr(grid, "CLASSES_A_PART", 4)
        monkeypatch.setattr(
            row_batches, "ENTRIES_A_SHARD", entries_a_shard
        )  # with 12 two shards, with 5 eight
        monkeypatch.setattr(ThreadChoice, "share", lambda self, order, visit: visit(order, max(self.seconds)))
    return PairEngine(problem_of(kind, loss, dtype), n_blocks=1, n_jobs=n_jobs, seed=np.random.default_rng(0))


def in_turn(engine, order, exact):
    """A sweep of one thread that knows no batches: over all variables if none is listed, else the listed."""
    lists = engine.lists[0, 0]
    if lists.used == 0:
        lists.keep(*loops.sweep_pairs_dense(order, *engine._read((0, 0)), lists.arrays, lists.used, exact))
        return None
    return loops.sweep_pairs(order, *engine._read((0, 0)), lists.arrays, Sweep(1, 0.0, exact))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("loss", "dtype"), [("ww", "float64"), ("cs", "float64"), ("ww", "float32")])
@pytest.mark.parametrize("kind", ["shards", "separate"])
def test_threads_together_take_the_steps_of_one(kind, loss, dtype, exact, monkeypatch):
    alone, together = (engine_of(kind, loss, dtype, 3, monkeypatch) for _ in range(2))
    assert type(together.rows) is KINDS[kind]
    tol = 1e-10 if dtype == "float64" else 1e-4
    for sweep in range(4):
        twin = np.random.default_rng(sweep)
        if sweep == 0:
            together.rows.sweep_all(twin, exact)
            order = np.random.default_rng(sweep)
            order.permutation(N)
        else:
            found = together.rows.sweep(twin, Sweep(1, 0.0, exact))
            order = np.random.default_rng(sweep)
        batches = together.rows.batches
        order = batches.examples_of(order.permutation(np.arange(len(batches))))
        expected = in_turn(alone, order, exact)
        np.testing.assert_allclose(together.W[0], alone.W[0], atol=tol)
        np.testing.assert_allclose(together.duals().toarray(), alone.duals().toarray(), atol=tol)
        # Else rounding decides whether a variable is at its bound, and so whether it is violated.
        if sweep and exact:
            assert found == pytest.approx(expected, rel=tol, abs=tol)
        for engine in (together, alone):
            engine.lists[0, 0].idle[:] = 0


@pytest.mark.parametrize("loss", ["ww", "cs"])
@pytest.mark.parametrize(("kind", "entries_a_shard"), [("shards", 12), ("shards", 5), ("separate", 12)])
def test_the_number_of_threads_changes_no_bit(kind, entries_a_shard, loss, monkeypatch):
    ends = []
    for n in (1, 2, 3, 4, 8):  # with 8 shards, scores are the sums of up to 8 slots
        engine = engine_of(kind, loss, n_jobs=n, monkeypatch=monkeypatch, entries_a_shard=entries_a_shard)
        engine.dense_epoch()
        engine.dense_epoch()
        engine.certify(0.1)
        found = [engine.epoch(0.01, 1) for _ in range(3)]
        idle = engine.lists[0, 0].idle
        ends.append((engine.W[0].tobytes(), engine.duals().toarray().tobytes(), idle.tobytes(), found))
        engine.close()
    assert ends == [ends[0]] * 5


@pytest.mark.parametrize("cls", [WestonWatkinsSVM, CrammerSingerSVM])
@pytest.mark.parametrize("kind", ["shards", "separate"])
def test_fits_do_not_depend_on_threads(kind, cls, monkeypatch):
    monkeypatch.setattr(row_sweeps, "WORTH_SHARING", 0)
    monkeypatch.setattr(thread_choice, "TRIAL_ROWS", 1)
    monkeypatch.setattr(thread_choice, "TRIAL_BATCHES", 1)
    p = problem_of(kind)
    e = p.entries
    X, y = sparse.csr_array((e.values, e.indices, e.indptr), shape=(N, D[kind])), p.labels
    models = [
        cls(n_jobs=n, random_state=0, tol=1e-2, max_epochs=5000, fit_intercept=False).fit(X, y)
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert [h["gap"] for h in models[0].history_] == [h["gap"] for h in models[1].history_]


def test_threads_wait_for_each_other_as_often_as_the_work_of_rows_is_worth(monkeypatch):
    rows = engine_of().rows  # 45 entries × 11 classes
    assert (set(rows.choice.seconds), rows.size) == ({1}, 1)
    monkeypatch.setattr(row_sweeps, "WORTH_SHARING", 100)
    rows = engine_of().rows
    assert (set(rows.choice.seconds), rows.size) == ({1}, row_sweeps.BATCH)  # one shard, few classes
    monkeypatch.setattr(row_batches, "ENTRIES_A_SHARD", 12)
    assert set(engine_of().rows.choice.seconds) == {2, 1}
    monkeypatch.setattr(grid, "CLASSES_A_PART", 2)
    assert set(engine_of().rows.choice.seconds) == {4, 2, 1}
    monkeypatch.setattr(row_sweeps, "MANY_CLASSES", 11)
    assert engine_of().rows.size == row_sweeps.LARGE_BATCH
    monkeypatch.setattr(row_sweeps, "MUCH_WORK", 45 * 11)
    assert engine_of().rows.size == row_sweeps.SMALL_BATCH  # whose weights stay in the cache


def test_batches_are_composed_anew_only_where_rows_are_missing_or_few(monkeypatch):
    rows, rng = engine_of(monkeypatch=monkeypatch).rows, np.random.default_rng(0)
    rows.sweep_all(rng, True)
    before = rows.batches
    rows.lists.lengths[:] = 1
    rows.lists.lengths[:200] = 0
    rows._keep_composed(rng)
    assert rows.batches is before
    rows.lists.lengths[:400] = 0
    rows._keep_composed(rng)
    np.testing.assert_array_equal(np.sort(rows.batches.members), np.arange(400, N))
    rows.lists.lengths[7] = 1
    rows._keep_composed(rng)
    assert 7 in rows.batches.members
    assert len(rows.batches.members) == N - 399


@pytest.mark.parametrize("kind", ["shards", "separate"])
def test_rows_that_were_idle_are_left_out(kind):
    engine = engine_of(kind)
    engine.dense_epoch()
    engine.certify(0.1)
    first = engine.epoch(1e9, 1)
    assert first.visited == np.count_nonzero(engine.lists[0, 0].lengths)
    assert engine.epoch(0.0, 1).visited == 0
    assert engine.epoch(0.0, 2).visited == first.visited


@pytest.mark.parametrize("kind", ["shards", "separate"])
def test_calls_with_few_variables_give_the_same_lists(kind, monkeypatch):
    whole = engine_of(kind)
    whole.dense_epoch()
    monkeypatch.setattr(row_sweeps, "FRESH_ENTRIES", 200)
    parts = engine_of(kind)
    parts.dense_epoch()
    np.testing.assert_array_equal(whole.duals().toarray(), parts.duals().toarray())
    assert parts.lists[0, 0].used == parts.lists[0, 0].lengths.sum()


def test_threads_do_not_wait_for_those_that_an_interrupt_kept_from_starting(monkeypatch):
    engine, ends = engine_of(n_jobs=2), []

    def sweep(t, barrier):
        until = time.monotonic() + 20
        while barrier.arrived[LINE * (1 - t)] < 1 and time.monotonic() < until:
            time.sleep(0.001)
        ends.append(time.monotonic() < until)

    submit = ThreadPoolExecutor.submit

    def interrupted(pool, function, tasks):
        if tasks == [1]:
            raise KeyboardInterrupt
        return submit(pool, function, tasks)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.rows._together(2, sweep)
    engine.close()
    assert ends == [True]


def test_all_threads_work_only_while_that_is_faster(monkeypatch):
    clock = {"now": 0.0}
    used = []
    seen = []
    monkeypatch.setattr(thread_choice.time, "perf_counter", lambda: clock["now"])

    def visits(cost):
        def visit(batches, n):
            used.append((n, len(batches)))
            clock["now"] += cost[n] * len(batches)
            seen.extend(batches)

        return visit

    order = np.arange(1600)
    choice = ThreadChoice(2)
    choice.share(order, visits({1: 1.0, 2: 0.6}))
    assert used == [(1, 1), (2, 100), (1, 100), (2, 1399)]
    for _ in range(16):
        choice.share(order, visits({1: 1.0, 2: 5.0}))
    assert used[-1] == (1, 1400)  # after two trials in which all threads were slower
    choice.share(order, visits({1: 1.0}))
    assert used[-1] == (1, 1600)
    np.testing.assert_array_equal(seen, np.tile(order, 18))
    used.clear()
    alone = ThreadChoice(1)
    for _ in range(2):
        alone.share(order, visits({1: 1.0}))
    assert used == [(1, 1), (1, 100), (1, 1499), (1, 1600)]
    choice.share(order[:500], visits({1: 1.0}))
    assert used[-1] == (1, 500)
    used.clear()
    ThreadChoice(8).share(order, visits({1: 1.0, 2: 0.6, 4: 0.5, 8: 0.7}))
    assert used == [(1, 1), (8, 100), (4, 100), (2, 100), (4, 1299)]  # one alone cannot be faster than two
    for rows, least in ((1, 64), (8, 8), (128, 2)):
        assert ThreadChoice(2, rows).least == least
