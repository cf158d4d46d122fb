"""Rows that share their values in some columns."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.data.columns.roles import read_columns
from tellwhy.kinds.segments import find_deepest, find_nested_segments


def segments(frame, reference=None):
    known = read_columns(frame if reference is None else reference)
    scored = known.frame if reference is None else read_columns(frame, roles=known.roles).frame
    return find_nested_segments(scored, known.frame, known.roles, "t.csv")


def test_each_value_is_a_segment_and_a_missing_one_is_none():
    frame = pd.DataFrame({"role": ["a", "b", None, "a"] * 5})
    (found,) = segments(frame)
    assert found.words == ("role = a", "role = b")
    assert found.scored.tolist() == [0, 1, -1, 0] * 5


def test_several_columns_are_nested():
    frame = pd.DataFrame({"role": ["a", "a", "b", "b"] * 5, "land": ["x", "y", "x", None] * 5})
    wide, narrow = segments(frame)
    assert wide.scored.tolist() == [0, 0, 1, 1] * 5
    assert narrow.scored.tolist() == [0, 1, 2, -1] * 5
    assert narrow.words[1] == "role = a and land = y"
    level, segment = find_deepest([wide, narrow], np.array([1, 3]))
    assert level.tolist() == [1, 0]
    assert segment.tolist() == [1, 1]


def test_a_segment_that_the_reference_does_not_have_is_none():
    reference = pd.DataFrame({"role": ["b", "a"] * 10, "land": ["x", "y"] * 10})
    frame = pd.DataFrame({"role": ["a", "c", "b"] * 5, "land": ["y", "y", "y"] * 5})
    wide, narrow = segments(frame, reference)
    assert wide.scored.tolist() == [1, -1, 0] * 5
    assert narrow.scored.tolist() == [1, -1, -1] * 5


def test_many_numbers_are_cut_into_tenths():
    frame = pd.DataFrame({"age": np.random.default_rng(0).permutation(np.linspace(18, 80, 1000).round(1))})
    (found,) = segments(frame)
    counts = np.bincount(found.scored)
    assert len(counts) == 10
    assert counts.min() >= 90
    low = frame["age"][found.scored == 0]
    assert low.max() < frame["age"][found.scored == 1].min()
    assert found.words[0].startswith("age = 18–")


def test_dates_are_refused_with_what_to_do():
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=40)})
    with pytest.raises(InvalidInput, match="--time day"):
        segments(frame)
