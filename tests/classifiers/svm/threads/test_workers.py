from threading import Barrier

from tellwhy.classifiers.svm.threads.row_batches import Workers, ranges


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
