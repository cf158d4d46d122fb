"""Batches of rows that threads work on together."""

from dataclasses import replace
from threading import Barrier

import numpy as np
import pytest
from scipy import sparse

from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.records import Entries
from tellwhy.classifiers.svm.threads import row_batches
from tellwhy.classifiers.svm.threads.row_batches import (
    PARTS,
    Batches,
    Workers,
    deal_out_features,
    merge_shards,
    n_shards,
    ranges,
    sharded,
)

N, D = 500, 120


def problem_of(density, n=N):
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, D), density=density, rng=rng, format="lil")
    X[np.arange(n), rng.integers(0, D, n)] = 1.0
    labels = Labels.of_classes(rng.integers(0, 3, n))
    return make_problem(sparse.csr_array(X), labels, np.ones(n), n_classes=3, loss="ww", dtype="float64")


def table_of(p):
    e = p.entries
    return sparse.csr_array((e.values, e.indices, e.indptr), shape=(len(e.indptr) - 1, D)).toarray()


def shards_of(p, n):
    return merge_shards(deal_out_features(p.entries.indptr, p.entries.indices, D), n)


def composed(p, order, shards=1, workers=None):
    """Batches of four with their inner products, from features in so many shards."""
    shard = shards_of(p, shards)
    batches = Batches.of_size(4, order)
    part = (0, len(batches))
    batches.set_products(sharded(shard, shards, p.entries), p, workers or Workers(1), part, batches.products)
    return batches


@pytest.mark.parametrize("density", [0.01, 0.1])
def test_parts_of_a_batch_have_no_feature_in_common(density):
    p = problem_of(density)
    batches = Batches.separate(np.random.default_rng(1).permutation(N), p)
    np.testing.assert_array_equal(np.sort(batches.members), np.arange(N))
    features = table_of(p) != 0
    for at in batches.at:
        assert np.diff(at).tolist() == sorted(np.diff(at), reverse=True)
        used = np.array([features[batches.members[at[k] : at[k + 1]]].any(axis=0) for k in range(PARTS)])
        assert used.sum(axis=0).max() <= 1
    assert batches.at[0, 0] == 0
    np.testing.assert_array_equal(batches.at[1:, 0], batches.at[:-1, -1])


def test_parts_are_even_where_rows_have_little_in_common():
    order = np.random.default_rng(1).permutation(N)
    assert Batches.separate(order, problem_of(0.004)).evenness > 3
    assert Batches.separate(order, problem_of(0.5)).evenness == pytest.approx(1)
    assert Batches.separate(order[:0], problem_of(0.5)).evenness == 0


def test_features_of_a_full_batch_are_free_for_the_next(monkeypatch):
    monkeypatch.setattr(row_batches, "PART_DEPTH", 32)
    batches = Batches.separate(np.random.default_rng(1).permutation(3000), problem_of(0.004, 3000))
    assert batches.sizes.mean() > 0.9 * PARTS * row_batches.PART_DEPTH


@pytest.mark.parametrize("shards", [1, 4])
def test_batches_of_a_size_know_the_inner_products_of_their_rows(shards, monkeypatch):
    monkeypatch.setattr(row_batches, "BATCHES_A_TASK", 7)
    p, order = problem_of(0.2), np.random.default_rng(2).permutation(N)[:50]
    batches = composed(p, order, shards, Workers(2))
    np.testing.assert_array_equal(batches.members, order)
    assert batches.sizes.tolist() == [4] * 12 + [2]
    X = table_of(p)
    for first, last in batches.at:
        expected = X[order[first:last]] @ X[order[first:last]].T
        for q in range(first, last):
            before = q - first
            np.testing.assert_allclose(batches.products[q, :before], expected[before, :before], rtol=1e-12)


def test_entries_of_the_same_feature_are_summed():
    whole = problem_of(0.2)
    e = whole.entries
    halves = replace(
        whole, entries=Entries(2 * e.indptr, np.repeat(e.indices, 2), 0.5 * np.repeat(e.values, 2))
    )
    batches = [composed(p, np.arange(N)) for p in (halves, whole)]
    for first, last in batches[0].at:
        for q in range(first, last):
            found, expected = (b.products[q, : q - first] for b in batches)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_batches_tell_their_rows():
    batches = Batches(
        np.array([5, 3, 8, 1, 0]), np.array([[0, 1, 2], [2, 3, 3], [3, 4, 5]]), np.empty((0, 0))
    )
    assert batches.examples_of(np.array([2, 0])).tolist() == [1, 0, 5, 3]
    wanted = np.zeros(9, dtype=bool)
    wanted[[8, 0]] = True
    assert batches.with_any(wanted).tolist() == [1, 2]
    assert batches.evenness == 5 / 3


def test_shards_hold_every_entry_once_and_are_balanced():
    p = problem_of(0.5)
    shard = shards_of(p, 2)
    e = sharded(shard, 2, p.entries)
    sizes = np.diff(e.cuts, axis=1)
    assert abs(sizes.sum(axis=0) / len(p.entries.indices) - 0.5).max() < 0.05
    again = sparse.csr_array((e.values, e.indices, p.entries.indptr), shape=(N, D))
    np.testing.assert_array_equal(again.toarray(), table_of(p))
    for s in range(2):
        features = np.concatenate([e.indices[c[s] : c[s + 1]] for c in e.cuts])
        assert (shard[features] == s).all()


def test_features_are_dealt_so_that_each_row_has_about_as_many_in_each_shard():
    d = 2000  # of which some are common and most are rare, as words are
    has = np.random.default_rng(0).uniform(size=(300, d)) < np.minimum(20 / np.arange(1, d + 1), 0.5)
    X = sparse.csr_array(has)
    in_turn = np.empty(d, dtype=np.int64)
    in_turn[np.argsort(-has.sum(axis=0), kind="stable")] = np.arange(d) % 8

    def uneven(shard):
        held = np.stack([has[:, shard == s].sum(axis=1) for s in range(8)])
        return (held.max(axis=0) / held.mean(axis=0)).mean() - 1

    assert uneven(deal_out_features(X.indptr, X.indices, d)) < 0.5 * uneven(in_turn)


def test_features_of_rows_that_were_not_looked_at_are_dealt_evenly(monkeypatch):
    p = problem_of(0.3)
    monkeypatch.setattr(row_batches, "DEALT_ENTRIES", 3 * 8)
    assert np.bincount(shards_of(p, 8), minlength=8).tolist() == pytest.approx([D / 8] * 8, abs=2)


def test_shards_are_as_many_as_entries_are_worth():
    assert [n_shards(mean, 20) for mean in (0, 5, 47, 48, 142, 192, 10_000)] == [1, 1, 1, 2, 4, 8, 8]
    assert [n_shards(mean, 1000) for mean in (0, 5, 23, 24, 95, 96, 113)] == [1, 1, 1, 2, 4, 8, 8]


def test_all_threads_are_there_before_any_waits_for_another():
    workers = Workers(5)
    assert len(workers._pool._threads) == 5
    assert workers.map(abs, [-1, 2]) == [1, 2]
    assert workers.map(abs, range(-1000, 5)) == [abs(k) for k in range(-1000, 5)]
    assert workers.map(abs, []) == []
    together = Barrier(5)
    assert sorted(workers.map(lambda _: together.wait(10), range(5))) == [0, 1, 2, 3, 4]
    workers.close()


def test_ranges_follow_each_other():
    assert ranges(5, 2) == [(0, 2), (2, 4), (4, 5)]
    assert ranges(4, 2) == [(0, 2), (2, 4)]
    assert ranges(0, 2) == [(0, 0)]
