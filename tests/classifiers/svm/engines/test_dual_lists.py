"""Lists of dual variables, the classes of a block, and which rows are swept when."""

import itertools

import numpy as np
import pytest

from tellwhy.classifiers.svm.dual_lists import (
    CACHE_LINE,
    ClassBlocks,
    DualLists,
    Part,
    cut_balanced_blocks,
    make_aligned_zeros,
    partner,
    rounds,
)


def test_lists_grow_with_what_they_hold():
    lists = DualLists.empty(2, np.float64)
    lists.make_room(3)
    lists.classes[:3] = [4, 5, 6]
    lists.duals[:3] = [0.1, 0.2, 0.3]
    lists.used = 3
    lists.make_room(10)
    assert len(lists.classes) == len(lists.duals) == 13
    np.testing.assert_array_equal(lists.duals[:3], [0.1, 0.2, 0.3])
    kept = lists.classes
    lists.make_room(10)
    assert lists.classes is kept


def held(lists):
    """Row and class of each variable that is not zero."""
    found = lists.nonzeros(np.arange(5), np.arange(10))
    return list(zip(found.examples, found.classes, strict=True))


def test_lists_of_parts_follow_each_other():
    lists = DualLists.empty(5, np.float64)
    lists.starts[:] = [0, 2, 0, 1, 3]
    lists.lengths[:] = [2, 1, 1, 2, 0]
    lists.idle[:] = 1
    first = Part(0, 2, np.array([3, 7, 1], dtype=np.int32), np.ones(3))
    second = Part(2, 5, np.array([4, 5, 6], dtype=np.int32), np.full(3, 2.0))
    parts = [first, second]
    lists.replace_parts(parts)
    assert parts == []
    assert not lists.idle.any()
    np.testing.assert_array_equal(lists.starts, [0, 2, 3, 4, 6])
    assert held(lists) == [(0, 3), (0, 7), (1, 1), (2, 4), (3, 5), (3, 6)]
    np.testing.assert_array_equal(lists.nonzeros(np.arange(5), np.arange(10)).duals, [1, 1, 1, 2, 2, 2])
    lists.duals[[1, 4]] = 0.0
    for _ in range(2):
        assert held(lists) == [(0, 3), (1, 1), (2, 4), (3, 6)]
        lists.drop_zeros()
    assert len(lists.classes) == lists.used == 4


def test_weights_leave_their_blocks():
    rng = np.random.default_rng(0)
    blocks = ClassBlocks.of(rng.integers(1, 9, 21), 3, 8)
    W = {b: rng.normal(size=(600, blocks.width)) for b in range(3)}
    expected = np.concatenate(list(W.values()), axis=1)[:, blocks.position]
    np.testing.assert_array_equal(blocks.joined(W), expected)


def test_blocks_fill_whole_cache_lines():
    blocks = ClassBlocks.of(np.ones(21, dtype=int), 2, 8)
    assert blocks.width == 16
    assert [blocks.n_classes(b) for b in range(2)] == [11, 10]
    assert make_aligned_zeros((3, blocks.width), np.float64).ctypes.data % CACHE_LINE == 0
    for b, classes in enumerate(blocks.members):
        assert (blocks.block_of(classes) == b).all()


@pytest.mark.parametrize("n", range(1, 14))
def test_every_pair_meets_once_and_rounds_are_disjoint(n):
    met = [pair for pairs in rounds(n) for pair in pairs]
    assert sorted(met) == list(itertools.combinations(range(n), 2))
    for pairs in rounds(n):
        teams = [team for pair in pairs for team in pair]
        assert len(teams) == len(set(teams))
    assert len(rounds(n)) == (0 if n == 1 else n - 1 if n % 2 == 0 else n)


def printed_algorithm_4(n, c, r):
    """The schedule as printed in the thesis."""
    if n % 2 == 0 and c == n:
        return r
    if c == r:
        return n if n % 2 == 0 else c
    return (2 * r - c) % (n - 1)


@pytest.mark.parametrize("n", [5, 8])
def test_the_printed_schedule_fails_where_ours_holds(n):
    m = n if n % 2 else n - 1
    printed = [[printed_algorithm_4(n, c, r) for c in range(1, n + 1)] for r in range(1, m + 1)]
    assert any(other < 1 for line in printed for other in line)
    for r in range(1, m + 1):
        for c in range(1, n + 1):
            other = partner(n, c, r)
            assert other is None or (1 <= other <= n and other != c and partner(n, other, r) == c)


def test_bundles_are_balanced_by_classes_and_rows():
    rng = np.random.default_rng(0)
    sizes = np.sort(rng.pareto(1.0, size=101) * 10).astype(int) + 1
    bundles = cut_balanced_blocks(sizes, 4)
    assert sorted(np.concatenate(bundles)) == list(range(101))
    assert {len(b) for b in bundles} == {25, 26}
    rows = [sizes[b].sum() for b in bundles]
    assert max(rows) <= max(1.1 * min(rows), sizes.max() + 25 * np.median(sizes))
