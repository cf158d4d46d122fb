from tellwhy.classifiers.svm.threads.workers import Workers, ranges


def test_all_threads_are_there_before_any_waits_for_another():
    workers = Workers(5)
    assert len(workers._pool._threads) == 5
    assert workers.map(abs, [-1, 2]) == [1, 2]
    workers.close()


def test_ranges_follow_each_other():
    assert ranges(5, 2) == [(0, 2), (2, 4), (4, 5)]
    assert ranges(4, 2) == [(0, 2), (2, 4)]
    assert ranges(0, 2) == [(0, 0)]
