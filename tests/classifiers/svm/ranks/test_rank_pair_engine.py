from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from oracles.thread_ranks import in_ranks
from scipy import sparse

from tellwhy.classifiers.svm.engines.dual_lists import DualLists
from tellwhy.classifiers.svm.engines.pair_engine import PairEngine
from tellwhy.classifiers.svm.engines.records import Block, Entries, Examples, Sweep
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine
from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.ranks import _compiled_guests as loops, messages as rank_messages
from tellwhy.classifiers.svm.ranks._compiled_two_blocks import sweep_two_blocks
from tellwhy.classifiers.svm.ranks.engines import RankPairEngine, RankSingleEngine
from tellwhy.classifiers.svm.ranks.messages import Guests
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


class Solved(NamedTuple):
    """What one rank ends with."""

    progress: Any
    mine: Any  # its rows
    duals: Any
    classes: Any  # its classes
    weights: Any
    certificate: Any  # of the solution


def solved(X, y, *, settings=TIGHT, **options):
    def work(comm):
        mine, engine = rank_engine(X, y, comm, **options)
        progress = solve(engine, settings)
        found = Solved(progress, mine, engine.duals().toarray(), *engine.own_weights(), engine.certify(0.1))
        engine.close()
        return found

    return work


def table_of(found, n, n_classes):
    duals = np.zeros((n, n_classes))
    for rank in found:
        duals[rank.mine] = rank.duals
    return duals


def weights_of(found, n_classes):
    classes = np.concatenate([rank.classes for rank in found])
    assert sorted(classes) == list(range(n_classes))
    W = np.concatenate([rank.weights for rank in found], axis=1)
    return W[:, np.argsort(classes)]


@pytest.mark.parametrize(
    ("ranks", "half", "n_jobs"),
    [(1, 1, 1), (1, 3, 2), (2, 1, 1), (2, 2, 2), (3, 1, 1), pytest.param(4, 1, 1, marks=pytest.mark.slow)],
)
def test_ranks_find_the_optimum_of_one_process(ranks, half, n_jobs, monkeypatch):
    X, y = documents()
    alone = PairEngine(problem_of(X, y, 9), n_blocks=1, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]
    found = in_ranks(ranks, solved(X, y, half=half, n_jobs=n_jobs), monkeypatch)
    for rank in found:
        last = rank.progress.last
        assert last["gap"] <= TIGHT.tol
        assert last["objective"] == pytest.approx(expected, rel=1e-6)
        assert rank.certificate.gap == pytest.approx(last["gap"], abs=1e-10)
    W, duals = weights_of(found, 9), table_of(found, len(y), 9)
    np.testing.assert_allclose(W, alone.weights(), atol=2e-3)
    duals[np.arange(len(y)), y] -= duals.sum(axis=1)
    np.testing.assert_allclose(W, -(X.T @ duals), atol=1e-10)  # the weights are those of the variables
    scores = X @ W
    gains = 1 - scores[np.arange(len(y)), y][:, None] + scores
    gains[np.arange(len(y)), y] = 0
    primal = 0.5 * (W**2).sum() + np.maximum(gains, 0).sum()
    assert primal == pytest.approx(found[0].progress.last["objective"], rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_blocks_may_be_empty(n_classes, monkeypatch):
    X, y = documents(60, n_classes)
    alone = PairEngine(problem_of(X, y, n_classes), n_blocks=1, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]
    for rank in in_ranks(2, solved(X, y), monkeypatch):
        assert rank.progress.last["objective"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow  # compiles everything again
def test_single_precision(monkeypatch):
    X, y = documents()
    alone = PairEngine(problem_of(X, y, 9), n_blocks=1, n_jobs=1, seed=np.random.default_rng(0))
    expected = solve(alone, TIGHT).last["objective"]
    settings = Settings(tol=1e-4, max_epochs=500)
    found = in_ranks(2, solved(X, y, dtype="float32", settings=settings), monkeypatch)
    assert found[0].progress.last["objective"] == pytest.approx(expected, rel=2e-4)
    assert found[0].weights.dtype == np.float32


def test_nothing_is_left_out_without_shrinking(monkeypatch):
    X, y = documents()
    settings = Settings(tol=1e-5, max_epochs=500, shrinking=False)
    for rank in in_ranks(2, solved(X, y, settings=settings), monkeypatch):
        assert rank.progress.last["gap"] <= 1e-5
        assert rank.progress.last["listed"] == 160 * 8


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
            assert certificate.primal == pytest.approx(first[0].progress.last["objective"], rel=1e-9)


@pytest.mark.parametrize("blocks", [1, 2])
def test_lee_lin_wahba_ranks_find_the_optimum_of_one_process(blocks, monkeypatch):
    X, y = documents()
    problem = problem_of(X, y, 9, "llw")
    expected = solve(SingleEngine(problem, n_blocks=4, n_jobs=1, seed=np.random.default_rng(0)), TIGHT)

    def work(comm):
        seed = np.random.default_rng([0, comm.rank])
        engine = RankSingleEngine(problem, np.bincount(y), comm=comm, n_jobs=1, seed=seed, blocks=blocks)
        return solve(engine, TIGHT), *engine.own_weights()

    found = in_ranks(2, work, monkeypatch)
    for progress, *_ in found:
        assert progress.last["objective"] == pytest.approx(expected.last["objective"], rel=1e-6)
    np.testing.assert_allclose(sum(part[2].sum(axis=1) for part in found), 0, atol=1e-9)


@dataclass
class Tile:
    """Examples with lists of variables for the classes of two blocks, their own and another."""

    entries: Entries
    X: Any
    examples: Examples
    own: Block
    own_lists: DualLists
    other: Block
    lists: DualLists
    order: Any

    def numbers(self):
        """All that sweeps change."""
        return (
            self.own.weights,
            self.other.weights,
            self.own_lists.duals,
            self.lists.duals,
            self.lists.idle,
        )


def listed(chosen, rng):
    lengths = chosen.sum(axis=1).astype(np.int32)
    classes = np.nonzero(chosen)[1].astype(np.int32)
    duals = rng.uniform(0, 1, len(classes)) * (rng.uniform(size=len(classes)) < 0.5)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    return DualLists(starts, lengths, classes, duals, np.zeros(len(chosen), dtype=np.int8), len(classes))


def tile(n=50, n_other=12, n_own=10, d=30, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.csr_array(sparse.random(n, d, 0.2, "csr", random_state=seed) + sparse.eye(n, d, k=2))
    own, other = (Block(rng.normal(0, 0.3, (d, 16)), 0, m) for m in (n_own, n_other))
    labels = rng.integers(0, n_own, n)
    chosen = rng.uniform(size=(n, n_own)) < 0.6
    chosen[np.arange(n), labels] = False
    own_lists = listed(chosen, rng)
    lists = listed(rng.uniform(size=(n, n_other)) < 0.6, rng)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    unbounded = np.full(n, np.inf)
    examples = Examples(np.arange(n), labels, squares, np.ones(n), unbounded, np.arange(n + 1), labels, False)
    entries = Entries(X.indptr.astype(np.int64), X.indices, X.data)
    return Tile(entries, X, examples, own, own_lists, other, lists, rng.permutation(n))


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_guests_move_as_they_would_at_home(batch, monkeypatch):
    monkeypatch.setattr(rank_messages, "BATCH", (batch, batch))
    home, away = tile(), tile()
    negligible = 1.0
    expected = sweep_two_blocks(
        home.order,
        home.entries,
        home.examples,
        home.own,
        home.own_lists.arrays,
        home.other,
        home.lists.arrays,
        Sweep(1, negligible, True),
    )
    visitors = away.order[away.lists.lengths[away.order] > 0]
    guests = Guests.of(visitors, away.examples.rows, away.entries, away.lists)
    heads = np.full(30, -1, dtype=np.int64)
    parts = []
    for k in range(guests.n_batches):
        host = Guests.read(guests.numbers(12), guests.arrays.values, [12])[0]
        scores, steps = host.scores(k, away.other), np.empty(guests.n_listed(k))
        found = loops.sweep_guests(
            *guests.part(k), visitors, away.examples, guests.arrays, scores, away.own, away.own_lists.arrays,
            12, away.lists.arrays, negligible, heads, steps,
        )  # fmt: skip
        host.add_steps(k, away.other.weights, steps)
        parts.append(found)
    sums = (max(part.worst for part in parts), *np.array(parts)[:, 1:].sum(axis=0))
    assert sums == pytest.approx(expected, rel=1e-9)
    assert (heads == -1).all()
    for ours, theirs in zip(away.numbers(), home.numbers(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    assert 0 < (away.lists.idle > 0).sum() < 50


def test_two_blocks_are_balanced_by_one_visit():
    t = tile()
    for e in range(50):
        sweep_two_blocks(
            np.array([e]), t.entries, t.examples, t.own, t.own_lists.arrays, t.other, t.lists.arrays,
            Sweep(1, -1.0, True),
        )  # fmt: skip
        x = t.X[[e]].toarray()[0]
        label_score = x @ t.own.weights[:, t.examples.labels[e]]
        for lists, weights in ((t.own_lists, t.own.weights), (t.lists, t.other.weights)):
            at = slice(lists.starts[e], lists.starts[e] + lists.lengths[e])
            gain, a = 1 - label_score + x @ weights[:, lists.classes[at]], lists.duals[at]
            assert (np.abs(gain[(a > 0) & (a < 1)]) < 1e-9).all()
            assert (gain[a == 0] < 1e-9).all()
            assert (gain[a == 1] > -1e-9).all()


def test_messages_keep_guests():
    t = tile()
    none = np.empty(0, dtype=np.int64)
    some = (t.order[:20], none, t.order[20:23])
    sent = [Guests.of(visitors, np.arange(50), t.entries, t.lists) for visitors in some]
    numbers = np.concatenate([g.numbers(12) for g in sent])
    values = np.concatenate([g.arrays.values for g in sent])
    for ours, theirs in zip(sent, Guests.read(numbers, values, [12, 12, 12]), strict=True):
        assert ours.batch == theirs.batch
        for one, another in zip(ours.arrays, theirs.arrays, strict=True):
            np.testing.assert_array_equal(one, another)
    t.lists.lengths[:] = 12
    t.lists.starts[:] = 12 * np.arange(50)
    t.lists.classes = np.tile(np.arange(12, dtype=np.int32), 50)
    whole = Guests.of(t.order, np.arange(50), t.entries, t.lists)
    assert len(whole.numbers(12)) < len(whole.arrays.classes)
    again = Guests.read(whole.numbers(12), whole.arrays.values, [12])[0]
    np.testing.assert_array_equal(again.arrays.classes, whole.arrays.classes)


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
