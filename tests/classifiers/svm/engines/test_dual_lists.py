import numpy as np

from tellwhy.classifiers.svm.dual_lists import DualLists, Part


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
