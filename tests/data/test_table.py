from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.data import Table, as_table
from tellwhy.data.places import mark_lines, place_of
from tellwhy.data.table import frame_fingerprint

COLUMNS = {"n": [1.5, 2.5], "t": ["a", None], "b": [True, False]}


@pytest.mark.parametrize(
    "make", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
def test_the_same_table_from_anything(make):
    table = as_table(make(COLUMNS))
    assert isinstance(table, Table)
    assert list(table.frame.columns) == ["n", "t", "b"]
    assert table.frame["n"].tolist() == [1.5, 2.5]
    assert table.frame["t"].isna().tolist() == [False, True]
    assert table.frame["b"].tolist() == [True, False]
    assert len(table.fingerprint) == 64


def test_arrays():
    frame = as_table(np.array([[1, 2], [3, 4]])).frame
    assert list(frame.columns) == ["x0", "x1"]
    assert frame["x1"].tolist() == [2, 4]
    mixed = as_table(np.array([[1, "a"], [2, "b"]], dtype=object)).frame
    assert mixed["x0"].dtype.kind == "i"
    fields = np.array([(1, 2.5)], dtype=[("k", int), ("x", float)])
    assert as_table(fields).frame["x"].tolist() == [2.5]


def test_the_users_frame_is_left_alone():
    frame = pd.DataFrame({0: [1.0, 2.0], "t": ["a", "b"]}, index=["r", "s"])
    before = frame.copy()
    table = as_table(frame)
    table.frame["new"] = 1
    pd.testing.assert_frame_equal(frame, before)
    assert list(frame.columns) == [0, "t"]
    assert list(table.frame.index) == [0, 1]


def test_a_table_stays_itself():
    table = as_table(COLUMNS)
    assert as_table(table) is table


def test_arrow_backed_and_odd_arrow_types_become_plain():
    frame = pd.DataFrame(
        {
            "x": pd.Series([1, None], dtype="int64[pyarrow]"),
            "t": pd.Series(["a", None], dtype="string[pyarrow]"),
        }
    )
    assert as_table(frame).frame["x"].dtype == np.float64
    odd = pa.table(
        {
            "decimal": pa.array([1, 2], pa.decimal128(5, 2)),
            "nothing": pa.nulls(2),
            "day": pa.array([0, None], pa.date32()),
            "time": pa.array([3600, 0], pa.time32("s")),
            "list": [["ä", "2"], None],
            "struct": [{"u": 1, "v": {"w": "z"}}, {"u": 2, "v": None}],
            "flag": [True, None],
            "kind": pa.array(["p", "q"]).dictionary_encode(),
            "code": pa.array([7, 8]).dictionary_encode(),
            "bytes": [b"ab", b"\xff"],
        }
    )
    frame = as_table(odd).frame
    assert frame["decimal"].tolist() == [1.0, 2.0]
    assert frame["nothing"].dtype == np.float64
    assert frame["day"].dtype.kind == "M"
    assert frame["time"].tolist() == ["01:00:00", "00:00:00"]
    assert frame["list"].tolist()[0] == '["ä", "2"]'  # letters as they are, not as \u00e4
    assert frame["struct.u"].tolist() == [1, 2]
    assert frame["struct.v.w"].tolist()[0] == "z"
    assert str(frame["flag"].dtype) == "boolean"
    assert isinstance(frame["kind"].dtype, pd.CategoricalDtype)
    assert frame["code"].tolist() == [7, 8]
    assert frame["bytes"].tolist() == ["ab", "\ufffd"]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (7, "Cannot read a int as a table"),
        (np.zeros(3), "Got 1D"),
        ({"a": [1, 2], "b": [1]}, r"equal length. Got lengths \{'a': 2, 'b': 1\}"),
        ({"a": 1}, "'a': one value"),
        (pl.LazyFrame({"a": [1]}), r"\.collect\(\)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), r"'a' \(columns 1, 2\)"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), r"'1' \(columns 1, 2\)"),
    ],
)
def test_what_is_no_table(obj, message):
    with pytest.raises(InvalidInput, match=message):
        as_table(obj)


def test_fingerprints_tell_values_names_and_types_apart():
    frames = [
        pd.DataFrame({"a": [1.0, 2.0]}),
        pd.DataFrame({"b": [1.0, 2.0]}),
        pd.DataFrame({"a": [1.0, 3.0]}),
        pd.DataFrame({"a": [1, 2]}),
        pd.DataFrame({"a": [1, 0]}),
        pd.DataFrame({"a": [True, False]}),
        pd.DataFrame({"a": [[1], [2]]}),
        pd.DataFrame({"a": ["1.0", None]}),
    ]
    assert len({frame_fingerprint(frame) for frame in frames}) == len(frames)
    assert frame_fingerprint(frames[0]) == frame_fingerprint(frames[0].copy())


@pytest.mark.parametrize(
    ("obj", "source"),
    [
        (pd.DataFrame(COLUMNS), "pandas.DataFrame"),
        (pl.DataFrame(COLUMNS), "polars.DataFrame"),
        (COLUMNS, "dict of columns"),
        (np.zeros((2, 2)), "numpy.ndarray"),
    ],
)
def test_the_source_says_what_was_given(obj, source):
    assert as_table(obj).source == source


def test_rows_cut_out_of_a_file_keep_their_lines():
    frame = pd.DataFrame({"a": range(6)})
    mark_lines(frame, 2)
    assert place_of(as_table(frame.iloc[3:]).frame, 0) == "row 3 (line 5 of the file)"
    assert list(as_table(pd.DataFrame({"a": range(6)}).iloc[3:]).frame.index) == [0, 1, 2]


def test_many_duplicates_are_counted():
    names = [letter for letter in "abcdefg" for _ in range(2)]
    with pytest.raises(
        InvalidInput, match=r"'a' \(columns 1, 2\).*'e' \(columns 9, 10\) and 2 more\. Expected"
    ):
        as_table(pd.DataFrame([range(14)], columns=names))
    with pytest.raises(InvalidInput, match=r"'a' \(columns 1, 2, 3\)\. Expected"):
        as_table(pd.DataFrame([range(3)], columns=["a", "a", "a"]))
