"""Batches of rows in threads: order, silence inside, progress outside, errors."""

import threading
import time

import numpy as np
import pytest

from tellwhy.core import progress
from tellwhy.core.progress import show_with, silently, track
from tellwhy.core.running import cut_batches, map_batches


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", -1.0)
    seen = []
    with show_with(lambda label, done, total: seen.append((label, done, total))):
        yield seen


def squares(rows):
    for _ in track(range(3), 3, "inside"):
        time.sleep(0.001)
    return np.arange(rows.start, rows.stop) ** 2


def test_results_come_in_order_and_only_the_caller_shows_progress(shown):
    batches = cut_batches(100, 1, 7)
    found = np.concatenate(map_batches(squares, batches, "outside"))
    np.testing.assert_array_equal(found, np.arange(100) ** 2)
    assert {label for label, _, _ in shown} == {"outside"}
    assert shown[-1][1] == shown[-1][2]


def test_a_single_batch_shows_its_own_progress(shown):
    map_batches(squares, [slice(0, 5)], "outside")
    assert {label for label, _, _ in shown} == {"inside"}


def test_nothing_to_do():
    assert map_batches(squares, [], "outside") == []


def test_several_threads_are_used_where_there_are_several_cores(monkeypatch):
    monkeypatch.setattr("tellwhy.core.running.joblib.effective_n_jobs", lambda _: 2)
    meeting = threading.Barrier(2, timeout=20)
    assert map_batches(lambda rows: meeting.wait() >= 0 and rows.start, [slice(0, 1), slice(1, 2)], "") == [
        0,
        1,
    ]


def test_an_error_reaches_the_caller():
    def broken(rows):
        raise ValueError(f"rows from {rows.start}")

    with pytest.raises(ValueError, match="rows from"):
        map_batches(broken, cut_batches(10, 1, 2), "outside")


def test_silence_ends_with_the_call(shown):
    silently(squares)(slice(0, 2))
    assert shown == []
    squares(slice(0, 2))
    assert shown
