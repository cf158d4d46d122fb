import numpy as np
import pytest
from oracles.thread_ranks import in_ranks
from scipy import sparse

from tellwhy.classifiers.svm.pair_engine import PairEngine
from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.ranks import _compiled_guests as guest_loops, messages as rank_messages
from tellwhy.classifiers.svm.ranks._compiled_two_bundles import sweep_two_bundles
from tellwhy.classifiers.svm.ranks.engines import RankPairEngine, RankSingleEngine
from tellwhy.classifiers.svm.ranks.messages import Guests
from tellwhy.classifiers.svm.single_engine import SingleEngine
from tellwhy.classifiers.svm.solver import Settings, solve

TIGHT = Settings(tol=1e-7, max_epochs=3000)


def documents(n=160, n_classes=9, d=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.poisson(0.15, size=(n, d)) + rng.poisson(1.5, size=(n, d)) * (
        np.arange(d) % n_classes == y[:, None]
    )
    X = X - 0.3 * (rng.uniform(size=(n, d)) < 0.1)
    return sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), y


def problem_of(X, y, n_classes, loss="ww", dtype="float64"):
    return make_problem(X, Labels.of_classes(y), np.ones(len(y)), n_classes=n_classes, loss=loss, dtype=dtype)


def rank_engine(X, y, comm, *, half=1, n_jobs=1, dtype="float64"):
    sizes = np.bincount(y)
    mine = np.flatnonzero(RankPairEngine.owners(sizes, comm.size, half, dtype)[y] == comm.rank)
    problem = problem_of(X[mine], y[mine], len(sizes), dtype=dtype)
    seed = np.random.default_rng([0, comm.rank])
    return mine, RankPairEngine(problem, sizes, comm=comm, n_jobs=n_jobs, seed=seed, half=half)


def solved(X, y, *, settings=TIGHT, **options):
    def work(comm):
        mine, engine = rank_engine(X, y, comm, **options)
        progress = solve(engine, settings)
        held, classes_and_weights = engine.duals().toarray(), engine.own_weights()
        found = engine.certify(0.1)
        engine.close()
        return progress, mine, held, classes_and_weights, found

    return work


def table_of(found, n, n_classes):
    duals = np.zeros((n, n_classes))
    for _, mine, held, *_ in found:
        duals[mine] = held
    return duals


def weights_of(found, n_classes):
    classes = np.concatenate([part[3][0] for part in found])
    assert sorted(classes) == list(range(n_classes))
    W = np.concatenate([part[3][1] for part in found], axis=1)
    return W[:, np.argsort(classes)]


@pytest.mark.parametrize(
    ("ranks", "half", "n_jobs"),
    [(1, 1, 1), (1, 3, 2), (2, 1, 1), (2, 2, 2), (3, 1, 1), pytest.param(4, 1, 1, marks=pytest.mark.slow)],
)
def test_ranks_find_the_optimum_of_one_process(ranks, half, n_jobs, monkeypatch):
    X, y = documents()
    alone = PairEngine(problem_of(X, y, 9), n_bundles=1, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]
    found = in_ranks(ranks, solved(X, y, half=half, n_jobs=n_jobs), monkeypatch)
    for progress, *_, again in found:
        assert progress.last["gap"] <= TIGHT.tol
        assert progress.last["objective"] == pytest.approx(expected, rel=1e-6)
        assert again.gap == pytest.approx(progress.last["gap"], abs=1e-10)
    W, duals = weights_of(found, 9), table_of(found, len(y), 9)
    np.testing.assert_allclose(W, alone.weights(), atol=2e-3)
    duals[np.arange(len(y)), y] -= duals.sum(axis=1)
    np.testing.assert_allclose(W, -(X.T @ duals), atol=1e-10)  # the weights are those of the variables
    scores = X @ W
    gains = 1 - scores[np.arange(len(y)), y][:, None] + scores
    gains[np.arange(len(y)), y] = 0
    primal = 0.5 * (W**2).sum() + np.maximum(gains, 0).sum()
    assert primal == pytest.approx(found[0][0].last["objective"], rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_bundles_may_be_empty(n_classes, monkeypatch):
    X, y = documents(60, n_classes)
    alone = PairEngine(problem_of(X, y, n_classes), n_bundles=1, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]
    for progress, *_ in in_ranks(2, solved(X, y), monkeypatch):
        assert progress.last["objective"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow  # compiles everything again
def test_single_precision(monkeypatch):
    X, y = documents()
    alone = PairEngine(problem_of(X, y, 9), n_bundles=1, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]
    settings = Settings(tol=1e-4, max_epochs=500)
    found = in_ranks(2, solved(X, y, dtype="float32", settings=settings), monkeypatch)
    assert found[0][0].last["objective"] == pytest.approx(expected, rel=2e-4)
    assert found[0][3][1].dtype == np.float32


def test_nothing_is_left_out_without_shrinking(monkeypatch):
    X, y = documents()
    settings = Settings(tol=1e-5, max_epochs=500, shrinking=False)
    for progress, *_ in in_ranks(2, solved(X, y, settings=settings), monkeypatch):
        assert progress.last["gap"] <= 1e-5
        assert progress.last["listed"] == 160 * 8


def test_ranks_go_on_from_given_variables(monkeypatch):
    X, y = documents()
    first = in_ranks(2, solved(X, y), monkeypatch)
    duals = sparse.csr_array(table_of(first, len(y), 9))

    def work(comm):
        mine, engine = rank_engine(X, y, comm)
        engine.set_duals(duals[mine])
        found = engine.certify(0.1)
        return found, engine.own_weights()[1]

    for ranks in (1, 3):
        for certificate, _ in in_ranks(ranks, work, monkeypatch):
            assert certificate.gap <= 1.01e-7
            assert certificate.primal == pytest.approx(first[0][0].last["objective"], rel=1e-9)


@pytest.mark.parametrize("bundles", [1, 2])
def test_lee_lin_wahba_ranks_find_the_optimum_of_one_process(bundles, monkeypatch):
    X, y = documents()
    problem = problem_of(X, y, 9, "llw")
    expected = solve(SingleEngine(problem, n_bundles=4, n_jobs=1, seed=np.random.default_rng(0)), TIGHT)

    def work(comm):
        seed = np.random.default_rng([0, comm.rank])
        engine = RankSingleEngine(problem, np.bincount(y), comm=comm, n_jobs=1, seed=seed, bundles=bundles)
        return solve(engine, TIGHT), *engine.own_weights()

    found = in_ranks(2, work, monkeypatch)
    for progress, *_ in found:
        assert progress.last["objective"] == pytest.approx(expected.last["objective"], rel=1e-6)
    np.testing.assert_allclose(sum(part[2].sum(axis=1) for part in found), 0, atol=1e-9)


def block(n=50, m=12, m_own=10, d=30, seed=0):
    """A block of examples with lists of variables for the classes of two bundles, as arrays."""
    rng = np.random.default_rng(seed)
    X = sparse.csr_array(sparse.random(n, d, 0.2, "csr", random_state=seed) + sparse.eye(n, d, k=2))
    W_own, W = rng.normal(0, 0.3, (d, 16)), rng.normal(0, 0.3, (d, 16))
    labels = rng.integers(0, m_own, n)
    lists = []
    for width, forbidden in ((m_own, labels), (m, None)):
        chosen = rng.uniform(size=(n, width)) < 0.6
        if forbidden is not None:
            chosen[np.arange(n), forbidden] = False
        count, cls = chosen.sum(axis=1).astype(np.int32), np.nonzero(chosen)[1].astype(np.int32)
        start = np.cumsum(count, dtype=np.int64) - count
        lists.append([start, count, cls, rng.uniform(0, 1, len(cls)) * (rng.uniform(size=len(cls)) < 0.5)])
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return X, W_own, W, labels, norms, np.ones(n), lists, rng.permutation(n)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_guests_move_as_they_would_at_home(batch, monkeypatch):
    monkeypatch.setattr(rank_messages, "BATCH", (batch, batch))
    X, W_own, W, labels, norms, tops, (own, other), order = block()
    rows, idle, calm = np.arange(50), np.zeros(50, dtype=np.int8), 1.0
    home = [W_own.copy(), W.copy(), own[3].copy(), other[3].copy(), idle.copy()]
    entries = (X.indptr.astype(np.int64), X.indices, X.data)
    expected = sweep_two_bundles(
        order, rows, labels, norms, tops, *entries, 10, home[0], *own[:3], home[2],
        12, home[1], *other[:3], home[3], home[4], 1, calm,
    )  # fmt: skip
    visitors = order[other[1][order] > 0]
    problem = type("Rows", (), {"indptr": entries[0], "indices": entries[1], "values": entries[2]})
    piece = type("Piece", (), dict(zip(("start", "count", "cls"), other, strict=False)))
    guests = Guests.of(visitors, rows, problem, piece)
    heads = np.full(30, -1, dtype=np.int64)
    worst, summed, visited = 0.0, 0.0, 0
    for k in range(guests.n_batches):
        host = Guests.read(guests.numbers(12), guests.values, [12])[0]
        scores, steps = host.scores(k, W, 12), np.empty(guests.n_listed(k))
        found = guest_loops.sweep_guests(
            *guests.part(k), visitors, labels, norms, tops, *guests.arrays, scores, 10, W_own, *own,
            12, other[0], other[3], idle, calm, heads, steps,
        )  # fmt: skip
        host.add_steps(k, W, steps)
        worst, summed, visited = max(worst, found[0]), summed + found[1], visited + found[2]
    assert (worst, summed, visited) == pytest.approx(expected, rel=1e-9)
    assert (heads == -1).all()
    for ours, theirs in zip((W_own, W, own[3], other[3], idle), home, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    assert 0 < (idle > 0).sum() < 50


def test_two_bundles_are_balanced_by_one_visit():
    X, W_own, W, labels, norms, tops, (own, other), _ = block()
    entries, idle = (X.indptr.astype(np.int64), X.indices, X.data), np.zeros(50, dtype=np.int8)
    for r in range(50):
        sweep_two_bundles(
            np.array([r]),
            np.arange(50),
            labels,
            norms,
            tops,
            *entries,
            10,
            W_own,
            *own,
            12,
            W,
            *other,
            idle,
            1,
            -1.0,
        )
        x = X[[r]].toarray()[0]
        for (start, count, cls, val), weights in ((own, W_own), (other, W)):
            at = slice(start[r], start[r] + count[r])
            gain, a = 1 - x @ W_own[:, labels[r]] + x @ weights[:, cls[at]], val[at]
            assert (np.abs(gain[(a > 0) & (a < 1)]) < 1e-9).all()
            assert (gain[a == 0] < 1e-9).all()
            assert (gain[a == 1] > -1e-9).all()


def test_messages_keep_guests():
    X, *_, (_, other), order = block()
    problem = type("Rows", (), {"indptr": X.indptr, "indices": X.indices, "values": X.data})
    piece = type("Piece", (), dict(zip(("start", "count", "cls"), other, strict=False)))
    none = np.empty(0, dtype=np.int64)
    sent = [Guests.of(some, np.arange(50), problem, piece) for some in (order[:20], none, order[20:23])]
    numbers, values = np.concatenate([g.numbers(12) for g in sent]), np.concatenate([g.values for g in sent])
    for ours, theirs in zip(sent, Guests.read(numbers, values, [12, 12, 12]), strict=True):
        for one, another in zip(ours.arrays, theirs.arrays, strict=True):
            np.testing.assert_array_equal(one, another)
    everyone = np.full(50, 12, dtype=np.int32)
    piece.count, piece.start, piece.cls = (
        everyone,
        12 * np.arange(50),
        np.tile(np.arange(12, dtype=np.int32), 50),
    )
    whole = Guests.of(order, np.arange(50), problem, piece)
    assert len(whole.numbers(12)) < len(whole.classes)
    np.testing.assert_array_equal(
        Guests.read(whole.numbers(12), whole.values, [12])[0].classes, whole.classes
    )


@pytest.mark.parametrize("n", [0, 1, 4, 5, 8, 13])
def test_long_messages_travel_in_pieces(n, monkeypatch):
    monkeypatch.setattr(rank_messages, "LARGEST", 32)

    def both(comm):
        post, other = rank_messages.Post(comm), 1 - comm.rank
        for tag in (1, 2):
            post.send(other, tag, np.arange(n) + 100.0 * comm.rank + tag)
        found = [post.receive(other, tag, np.float64) for tag in (2, 1)]
        post.finish()
        return found

    for rank, found in enumerate(in_ranks(2, both, monkeypatch)):
        for tag, values in zip((2, 1), found, strict=True):
            np.testing.assert_array_equal(values, np.arange(n) + 100.0 * (1 - rank) + tag)
