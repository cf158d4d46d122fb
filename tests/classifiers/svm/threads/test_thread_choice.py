import numpy as np

from tellwhy.classifiers.svm.threads import row_sweeps as thread_choice
from tellwhy.classifiers.svm.threads.row_sweeps import ThreadChoice


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
