"""The clock, and runs that do not depend on it."""

import time

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.storage import clock
from tellwhy.workflow import explain_table, save_run


def test_the_present_without_a_word_and_the_told_moment_with_one(monkeypatch):
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    assert abs(clock.now().timestamp() - time.time()) < 60
    monkeypatch.setenv(clock.VARIABLE, "1700000000")
    assert clock.stamp() == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize("told", ["yesterday", "1.5", "1" * 30])
def test_what_is_no_moment_is_told(monkeypatch, told):
    monkeypatch.setenv(clock.VARIABLE, told)
    with pytest.raises(InvalidParameter, match="whole seconds since 1970"):
        clock.now()


def test_two_runs_at_a_told_moment_have_the_same_bytes(monkeypatch, tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=["a", "b", "c"])
    table.loc[4, "b"] = 14.0
    monkeypatch.setenv(clock.VARIABLE, "1700000000")
    first = content(save_run(explain_table(table, random_state=1), tmp_path / "first"))
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: 2e9)
        assert content(save_run(explain_table(table, random_state=1), tmp_path / "again")) == first
    monkeypatch.setenv(clock.VARIABLE, "1700000001")
    assert content(save_run(explain_table(table, random_state=1), tmp_path / "other")) != first


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
