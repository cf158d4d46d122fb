import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from tellwhy.classifiers import CrammerSingerSVM, WestonWatkinsSVM
from tellwhy.classifiers.svm import _compiled_sweeps as blocks
from tellwhy.classifiers.svm.blocks import Bundles, Lists, Workers, unbundled
from tellwhy.classifiers.svm.pair_engine import PairEngine
from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.threads import row_team
from tellwhy.classifiers.svm.threads._compiled_meeting import LINE
from tellwhy.classifiers.svm.threads.row_team import LaneTeam, Pace, ShardTeam

N, CLASSES = 600, 11
D = {"shards": 90, "lanes": 900}
TEAMS = {"shards": ShardTeam, "lanes": LaneTeam}


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


def engine_of(kind="shards", loss="ww", dtype="float64", n_jobs=4, monkeypatch=None):
    if monkeypatch is not None:  # all threads, and batches of several rows, for however little work
        monkeypatch.setattr(row_team, "WORTH_MEETING", 0)
        monkeypatch.setattr(Pace, "share", lambda self, order, visit: visit(order, max(self.seconds)))
    return PairEngine(
        problem_of(kind, loss, dtype), n_bundles=1, n_jobs=n_jobs, seed=np.random.default_rng(0)
    )


def in_turn(engine, order, exact):
    """A sweep of one thread that knows no batches: over all variables if none is listed, else over those that are."""
    p, g, piece, W = engine.problem, engine.groups[0], engine.lists[0, 0], engine.W[0]
    rows = (order, g.rows, g.labels, g.norms, g.tops, g.totals)
    if piece.used == 0:
        piece.cls, piece.val, piece.used = blocks.sweep_pairs_dense(
            *rows, g.owned.at, g.owned.owned, 0, CLASSES, p.indptr, p.indices, p.values, W, W,
            piece.start, piece.count, piece.cls, piece.val, piece.used, exact,
        )  # fmt: skip
        return None
    return blocks.sweep_pairs(
        *rows, CLASSES, p.indptr, p.indices, p.values, W, W,
        piece.start, piece.count, piece.cls, piece.val, piece.idle, 1, 0.0, exact,
    )  # fmt: skip


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("loss", "dtype"), [("ww", "float64"), ("cs", "float64"), ("ww", "float32")])
@pytest.mark.parametrize("kind", ["shards", "lanes"])
def test_a_team_takes_the_steps_of_one_thread(kind, loss, dtype, exact, monkeypatch):
    alone, team = (engine_of(kind, loss, dtype, 3, monkeypatch) for _ in range(2))
    assert type(team.team) is TEAMS[kind]
    tol = 1e-10 if dtype == "float64" else 1e-4
    for sweep in range(4):
        twin = np.random.default_rng(sweep)
        if sweep == 0:
            team.team.sweep_all(twin, exact)
            order = np.random.default_rng(sweep)
            order.permutation(N)
        else:
            found = team.team.sweep(twin, 0.0, 1, exact)[0]
            order = np.random.default_rng(sweep)
        batches = team.team.batches
        order = batches.rows_of(order.permutation(np.arange(len(batches))))
        expected = in_turn(alone, order, exact)
        np.testing.assert_allclose(team.W[0], alone.W[0], atol=tol)
        np.testing.assert_allclose(team.duals().toarray(), alone.duals().toarray(), atol=tol)
        if (
            sweep and exact
        ):  # else rounding decides whether a variable is at its bound, and so whether it is violated
            assert found == pytest.approx(expected, rel=tol, abs=tol)
        for engine in (team, alone):
            engine.lists[0, 0].idle[:] = 0


@pytest.mark.parametrize("loss", ["ww", "cs"])
@pytest.mark.parametrize("kind", ["shards", "lanes"])
def test_the_number_of_threads_changes_no_bit(kind, loss, monkeypatch):
    ends = []
    for n in (1, 2, 3):
        engine = engine_of(kind, loss, n_jobs=n, monkeypatch=monkeypatch)
        engine.dense_epoch()
        engine.dense_epoch()
        engine.certify(0.1)
        found = [engine.epoch(0.01, 1) for _ in range(3)]
        piece = engine.lists[0, 0]
        ends.append((engine.W[0].tobytes(), engine.duals().toarray().tobytes(), piece.idle.tobytes(), found))
        engine.close()
    assert ends == [ends[0]] * 3


@pytest.mark.parametrize("cls", [WestonWatkinsSVM, CrammerSingerSVM])
@pytest.mark.parametrize("kind", ["shards", "lanes"])
def test_fits_do_not_depend_on_threads(kind, cls, monkeypatch):
    monkeypatch.setattr(row_team, "WORTH_MEETING", 0)
    monkeypatch.setattr(row_team, "TRIAL_ROWS", 1)
    monkeypatch.setattr(row_team, "TRIAL_BATCHES", 1)
    p = problem_of(kind)
    X, y = sparse.csr_array((p.values, p.indices, p.indptr), shape=(N, D[kind])), p.labels
    models = [
        cls(n_jobs=n, random_state=0, tol=1e-2, max_epochs=5000, fit_intercept=False).fit(X, y)
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert [h["gap"] for h in models[0].history_] == [h["gap"] for h in models[1].history_]


def test_threads_meet_as_often_as_the_work_of_rows_is_worth(monkeypatch):
    team = engine_of().team  # 45 entries × 11 classes
    assert (set(team.pace.seconds), team.size) == ({1}, 1)
    monkeypatch.setattr(row_team, "WORTH_MEETING", 100)
    team = engine_of().team
    assert (set(team.pace.seconds), team.size) == ({2, 1}, row_team.BATCH)
    monkeypatch.setattr(row_team, "MUCH_WORK", 200)
    assert engine_of().team.size == 1


def test_batches_are_composed_anew_only_where_rows_are_missing_or_few(monkeypatch):
    team, rng = engine_of(monkeypatch=monkeypatch).team, np.random.default_rng(0)
    team.sweep_all(rng, True)
    before, team.piece.count[:] = team.batches, 1
    team.piece.count[:200] = 0
    team._keep_composed(rng)
    assert team.batches is before
    team.piece.count[:400] = 0
    team._keep_composed(rng)
    np.testing.assert_array_equal(np.sort(team.batches.members), np.arange(400, N))
    team.piece.count[7] = 1
    team._keep_composed(rng)
    assert 7 in team.batches.members
    assert len(team.batches.members) == N - 399


@pytest.mark.parametrize("kind", ["shards", "lanes"])
def test_rows_that_were_calm_are_left_out(kind):
    engine = engine_of(kind)
    engine.dense_epoch()
    engine.certify(0.1)
    first = engine.epoch(1e9, 1)
    assert first.visited == np.count_nonzero(engine.lists[0, 0].count)
    assert engine.epoch(0.0, 1).visited == 0
    assert engine.epoch(0.0, 2).visited == first.visited


@pytest.mark.parametrize("kind", ["shards", "lanes"])
def test_calls_with_few_variables_give_the_same_lists(kind, monkeypatch):
    whole = engine_of(kind)
    whole.dense_epoch()
    monkeypatch.setattr(row_team, "FRESH_ENTRIES", 200)
    parts = engine_of(kind)
    parts.dense_epoch()
    np.testing.assert_array_equal(whole.duals().toarray(), parts.duals().toarray())
    assert parts.lists[0, 0].used == parts.lists[0, 0].count.sum()


def test_all_threads_work_only_while_that_is_faster(monkeypatch):
    clock, used, seen = {"now": 0.0}, [], []
    monkeypatch.setattr(row_team.time, "perf_counter", lambda: clock["now"])

    def visits(cost):
        def visit(batches, n):
            used.append((n, len(batches)))
            clock["now"] += cost[n] * len(batches)
            seen.extend(batches)

        return visit

    order = np.arange(3200)
    pace = Pace(2)
    pace.share(order, visits({1: 1.0, 2: 0.6}))
    assert used == [(1, 400), (2, 400), (2, 2400)]
    for _ in range(8):
        pace.share(order, visits({1: 1.0, 2: 5.0}))
    assert used[-1] == (1, 2400)  # after two trials in which all threads were slower
    pace.share(order, visits({1: 1.0}))
    assert used[-1] == (1, 3200)
    np.testing.assert_array_equal(seen, np.tile(order, 10))
    used.clear()
    alone = Pace(1)
    for _ in range(2):
        alone.share(order, visits({1: 1.0}))
    assert used == [(1, 400), (1, 400), (1, 2400), (1, 3200)]
    pace.share(order[:500], visits({1: 1.0}))
    assert used[-1] == (1, 500)
    for rows, least in ((1, 64), (8, 8), (128, 2)):
        assert Pace(2, rows).least == least


def test_threads_do_not_wait_for_those_that_an_interrupt_kept_from_starting(monkeypatch):
    engine, ends = engine_of(n_jobs=2), []

    def sweep(t, n, team):
        until = time.monotonic() + 20
        while team[LINE * (1 - t)] < 1 and time.monotonic() < until:
            time.sleep(0.001)
        ends.append(time.monotonic() < until)

    submit = ThreadPoolExecutor.submit

    def interrupted(pool, function, t):
        if t == 1:
            raise KeyboardInterrupt
        return submit(pool, function, t)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.team._together(sweep, (2, np.zeros(2 * LINE, dtype=np.int64)))
    engine.close()
    assert ends == [True]


def test_all_threads_are_there_before_any_waits_for_another():
    workers = Workers(5)
    assert len(workers._pool._threads) == 5
    assert workers.map(abs, [-1, 2]) == [1, 2]
    workers.close()


def test_lists_grow_with_what_they_hold():
    lists = Lists.empty(2, np.float64)
    lists.make_room(3)
    lists.cls[:3], lists.val[:3], lists.used = [4, 5, 6], [0.1, 0.2, 0.3], 3
    lists.make_room(10)
    assert len(lists.cls) == len(lists.val) == 13
    np.testing.assert_array_equal(lists.val[:3], [0.1, 0.2, 0.3])
    kept = lists.cls
    lists.make_room(10)
    assert lists.cls is kept


def test_weights_leave_their_bundles():
    rng = np.random.default_rng(0)
    bundles = Bundles.of(rng.integers(1, 9, 21), 3, 8)
    W = {b: rng.normal(size=(600, bundles.width)) for b in range(3)}
    expected = np.concatenate(list(W.values()), axis=1)[:, bundles.position]
    np.testing.assert_array_equal(unbundled(W, bundles), expected)


def test_lists_of_parts_follow_each_other():
    lists = Lists.empty(5, np.float64)
    lists.start[:], lists.count[:] = [0, 2, 0, 1, 3], [2, 1, 1, 2, 0]
    first, second = (
        (np.array([3, 7, 1], dtype=np.int32), np.ones(3)),
        (np.array([4, 5, 6], dtype=np.int32), np.full(3, 2.0)),
    )
    parts = [(0, 2, *first), (2, 5, *second)]
    lists.replace_parts(parts)
    assert parts == []
    np.testing.assert_array_equal(lists.start, [0, 2, 3, 4, 6])
    rows, classes, _ = lists.entries(np.arange(5), np.arange(10))
    assert list(zip(rows, classes, strict=True)) == [(0, 3), (0, 7), (1, 1), (2, 4), (3, 5), (3, 6)]
    lists.val[[1, 4]] = 0.0
    expected = [(0, 3), (1, 1), (2, 4), (3, 6)]
    for _ in range(2):
        rows, classes, _ = lists.entries(np.arange(5), np.arange(10))
        assert list(zip(rows, classes, strict=True)) == expected
        lists.drop_zeros()
    assert len(lists.cls) == lists.used == 4
