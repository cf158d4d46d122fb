import numpy as np
import pytest
from scipy import sparse

from tellwhy.classifiers import CrammerSingerSVM, WestonWatkinsSVM, _compiled, row_team
from tellwhy.classifiers.blocks import Bundles, Lists, unbundled
from tellwhy.classifiers.pair_engine import PairEngine
from tellwhy.classifiers.problem import Labels, make_problem
from tellwhy.classifiers.row_team import Pace, Shards

N, D, CLASSES = 600, 90, 11


def problem_of(loss="ww", dtype="float64"):
    rng = np.random.default_rng(0)
    X = sparse.random_array((N, D), density=0.5, rng=rng, format="csr")
    X = sparse.csr_array(X / sparse.linalg.norm(X, axis=1)[:, None])
    y = rng.integers(0, CLASSES, N)
    return make_problem(X, Labels.of_classes(y), rng.uniform(0.1, 2, N), n_classes=CLASSES, loss=loss, dtype=dtype)


def engine_of(loss="ww", dtype="float64", n_jobs=4):
    return PairEngine(problem_of(loss, dtype), n_bundles=1, n_jobs=n_jobs, seed=np.random.default_rng(0))


def in_turn(engine, order, sweeps):
    """The sweeps of one thread that knows no shards: first over all variables, then over those that are listed."""
    p, g, piece, W = engine.problem, engine.groups[0], engine.lists[0, 0], engine.W[0]
    rows = (order, g.rows, g.labels, g.norms, g.tops, g.totals)
    piece.cls, piece.val, piece.used = _compiled.sweep_pairs_dense(
        *rows, g.owned.at, g.owned.owned, 0, CLASSES, p.indptr, p.indices, p.values, W, W,
        piece.start, piece.count, piece.cls, piece.val, piece.used, True,
    )  # fmt: skip
    for _ in range(sweeps):
        piece.idle[:] = 0
        found = _compiled.sweep_pairs(
            *rows, CLASSES, p.indptr, p.indices, p.values, W, W,
            piece.start, piece.count, piece.cls, piece.val, piece.idle, 1, 0.0, True,
        )  # fmt: skip
    return found


def as_a_team(engine, order, sweeps, n):
    engine.team._all(order, n, True)
    for _ in range(sweeps):
        found = engine.team._listed(order, n, 0.0, True)
    return found


@pytest.mark.parametrize(("loss", "dtype"), [("ww", "float64"), ("cs", "float64"), ("ww", "float32")])
def test_a_team_takes_the_steps_of_one_thread(loss, dtype):
    order = np.random.default_rng(1).permutation(N)
    alone, team = engine_of(loss, dtype), engine_of(loss, dtype)
    expected, found = in_turn(alone, order, 3), as_a_team(team, order, 3, 2)
    tol = 1e-10 if dtype == "float64" else 1e-4
    assert found == pytest.approx(expected, rel=tol)
    np.testing.assert_allclose(team.W[0], alone.W[0], atol=tol)
    np.testing.assert_allclose(team.duals().toarray(), alone.duals().toarray(), atol=tol)


@pytest.mark.parametrize("loss", ["ww", "cs"])
def test_the_number_of_threads_changes_no_bit(loss):
    order, ends = np.random.default_rng(2).permutation(N), []
    for n in (1, 2, 3):
        engine = engine_of(loss)
        as_a_team(engine, order, 2, n)
        ends.append((engine.W[0].tobytes(), engine.lists[0, 0].val[: engine.lists[0, 0].used].tobytes()))
        engine.close()
    assert ends == [ends[0]] * 3


@pytest.mark.parametrize("cls", [WestonWatkinsSVM, CrammerSingerSVM])
def test_fits_do_not_depend_on_threads(cls, monkeypatch):
    monkeypatch.setattr(row_team, "WORTH_MEETING", 0)
    p = problem_of()
    X, y = sparse.csr_array((p.values, p.indices, p.indptr), shape=(N, D)), p.labels
    models = [cls(n_jobs=n, random_state=0, tol=1e-2, max_epochs=5000).fit(X, y) for n in (1, 2)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert [h["gap"] for h in models[0].history_] == [h["gap"] for h in models[1].history_]


def test_threads_meet_only_for_rows_with_much_work(monkeypatch):
    assert set(engine_of().team.pace.seconds) == {1}
    monkeypatch.setattr(row_team, "WORTH_MEETING", 100)
    assert set(engine_of().team.pace.seconds) == {2, 1}


def test_rows_that_were_calm_are_left_out():
    engine = engine_of()
    engine.dense_epoch()
    engine.certify(0.1)
    first = engine.epoch(1e9, 1)
    assert first.visited == np.count_nonzero(engine.lists[0, 0].count)
    assert engine.epoch(0.0, 1).visited == 0
    assert engine.epoch(0.0, 2).visited == first.visited


def test_shards_hold_every_entry_once_and_are_balanced():
    p = problem_of()
    shards = Shards.of(p)
    sizes = np.diff(shards.cuts, axis=1)
    assert shards.n == 2
    assert abs(sizes.sum(axis=0) / len(p.indices) - 0.5).max() < 0.05
    again = sparse.csr_array((shards.values, shards.indices, p.indptr), shape=(N, D))
    before = sparse.csr_array((p.values, p.indices, p.indptr), shape=(N, D))
    np.testing.assert_array_equal(again.toarray(), before.toarray())
    owner = np.full(D, -1)
    for s in range(shards.n):
        features = np.concatenate([shards.indices[c[s] : c[s + 1]] for c in shards.cuts])
        assert np.isin(owner[features], (-1, s)).all()
        owner[features] = s


def test_all_threads_work_only_while_that_is_faster(monkeypatch):
    clock, used = {"now": 0.0}, []
    monkeypatch.setattr(row_team.time, "perf_counter", lambda: clock["now"])

    def visits(cost):
        def visit(rows, n):
            used.append((n, len(rows)))
            clock["now"] += cost[n] * len(rows)
            return rows

        return visit

    order = np.arange(3200)
    pace = Pace(2)
    np.testing.assert_array_equal(np.concatenate(pace.share(order, visits({1: 1.0, 2: 0.6}))), order)
    assert used == [(2, 400), (1, 400), (2, 2400)]
    for _ in range(9):
        np.testing.assert_array_equal(np.concatenate(pace.share(order, visits({1: 1.0, 2: 5.0}))), order)
    assert used[-1] == (1, 3200)
    alone = Pace(1)
    assert [[len(part) for part in alone.share(order, visits({1: 1.0}))] for _ in range(2)] == [
        [400, 400, 2400],
        [3200],
    ]
    assert len(pace.share(order[:100], visits({1: 1.0}))) == 1


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
