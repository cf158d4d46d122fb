"""Which rows are scored and which are learned from, and how columns and values are named in a request."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data import as_table
from tellwhy.kinds.graph_input import GraphRequest
from tellwhy.kinds.request import Request, check_column, find_rows_equal_to, split_marker, write_cell
from tellwhy.kinds.table_rows import read_reference, select
from tellwhy.workflow import explain_table

FRAME = pd.DataFrame(
    {
        "id": ["p", "q", "r", "s"],
        "a": [1.0, 2.0, 3.0, 4.0],
        "b": [1.5, 2.0, np.nan, 2.0],
        "kind": ["x", "y", "x ", "y"],
        "k=v": [0, 1, 0, 1],
        "truth": [0, 0, 1, 0],
    }
)
TABLE = as_table(FRAME)


def chosen(**settings):
    return select(TABLE, Request(**settings))


def test_columns_that_name_or_mark_rows_are_no_features():
    found = chosen(id_column="id", label="truth", normal="kind=y", exclude=["k=v"])
    assert list(found.frame.columns) == ["a", "b"]
    assert list(found.reference.columns) == ["a", "b"]
    assert found.own.tolist() == [1, 3]
    assert found.is_clean
    assert found.words == "the rows with kind = y"


def test_columns_are_used_in_the_order_they_are_named():
    assert list(chosen(columns=["b", "a", "id"], id_column="id").frame.columns) == ["b", "a"]
    assert list(chosen(columns=["b", "a"], exclude=["b"]).frame.columns) == ["a"]


def test_without_a_reference_all_rows_are_learned_from_and_nobody_vouches_for_them():
    found = chosen()
    assert found.own.tolist() == [0, 1, 2, 3]
    assert not found.is_clean
    assert found.words == "all rows of the table"


def test_a_separate_reference_has_the_columns_of_the_table_and_nothing_else_is_asked_of_it():
    other = as_table(FRAME[["truth", "kind", "b", "a", "k=v"]].iloc[:2])
    asked = Request(
        columns=["b", "a", "id"], id_column="id", label="truth", number=["a", "truth"], by=["kind"]
    )
    found, request = read_reference(TABLE, other, asked)
    assert list(found.frame.columns) == ["b", "a", "kind"]
    assert (request.id_column, request.label, request.columns) == (None, None, ["b", "a"])
    assert (request.exclude, request.number, request.by) == (["kind"], ["a"], ["kind"])
    with pytest.raises(InvalidInput, match=r"lacks the column\(s\) 'id'"):
        read_reference(TABLE, other, Request())
    with pytest.raises(InvalidParameter, match="either a reference table or normal"):
        read_reference(TABLE, other, Request(normal="kind=y"))


def test_rows_are_kept_with_their_numbers():
    found = chosen(normal="kind=y", columns=["a", "b"]).without(np.array([0, 1, 3]), np.array([0, 1]))
    assert found.rows.tolist() == [0, 1, 3]
    assert found.own.tolist() == [1, 2]
    assert found.reference["a"].tolist() == [2.0, 4.0]
    assert found.is_clean
    less = chosen(columns=["a"]).learning_from(np.array([3, 1]))
    assert less.own.tolist() == [3, 1]
    assert less.reference["a"].tolist() == [4.0, 2.0]
    assert len(less.frame) == 4
    some = chosen(normal="kind=y", columns=["a"]).learning_from(np.array([1]))
    assert some.own.tolist() == [3]  # the second row of kind y
    assert some.reference["a"].tolist() == [4.0]


def test_markers():
    assert split_marker(TABLE, "k=v") == ("k=v", None)
    assert split_marker(TABLE, "k=v=1") == ("k=v", "1")
    assert split_marker(TABLE, "kind=x") == ("kind", "x")
    with pytest.raises(InvalidInput, match="Did you mean 'kind'"):
        split_marker(TABLE, "kinds=x")


def test_values_are_found_as_they_are_written():
    assert find_rows_equal_to(TABLE, "kind", "x").tolist() == [0, 2]  # blanks around a cell do not count
    assert find_rows_equal_to(TABLE, "kind", " x").tolist() == [0, 2]
    assert find_rows_equal_to(TABLE, "b", "2").tolist() == [1, 3]
    assert find_rows_equal_to(TABLE, "b", "1.5").tolist() == [0]
    with pytest.raises(InvalidInput, match="Its most common values are: "):
        find_rows_equal_to(TABLE, "kind", "z")
    assert [write_cell(c) for c in (1.0, 1.5, np.int64(2), True, " a ", np.inf)] == [
        "1",
        "1.5",
        "2",
        "True",
        "a",
        "inf",
    ]


def test_rows_with_gaps_are_dropped_where_that_is_asked_for():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"]).assign(
        name=[f"n{i}" for i in range(60)]
    )
    frame.loc[::7, "a"] = np.nan
    frame.loc[50, "b"] = 30.0
    run = explain_table(frame, missing="drop", id_column="name", top=3)
    kept = np.flatnonzero(frame["a"].notna())
    assert run.rows.tolist() == kept.tolist()
    assert len(run.scores) == len(kept)
    assert (run.anomalies[0].row, run.anomalies[0].id) == (50, "n50")
    for anomaly in run.anomalies:
        assert anomaly.id == f"n{anomaly.row}"
        assert run.scores[kept.tolist().index(anomaly.row)] == anomaly.score
        shown = {reason.feature: reason.value for reason in anomaly.reasons}
        assert all(frame.loc[anomaly.row, name] == value for name, value in shown.items())


@pytest.mark.parametrize("request_of", [Request, GraphRequest])
def test_up_to_half_of_the_rows_may_be_above_the_threshold(request_of):
    assert request_of(contamination=0.5).contamination == 0.5
    for share in (0.0, 0.51):
        with pytest.raises(InvalidParameter, match="'contamination' parameter"):
            request_of(contamination=share)


def test_what_the_table_has_is_listed():
    wide = as_table(pd.DataFrame(np.zeros((2, 12)), columns=[f"c{k}" for k in range(12)]))
    listed = ", ".join(f"'c{k}'" for k in range(10))
    with pytest.raises(InvalidInput, match=rf"no column 'zzz'\. Its columns are: {listed}, …\."):
        check_column(wide, "zzz")
    with pytest.raises(InvalidInput, match=r"Did you mean 'c11'\? Its columns"):
        check_column(wide, "c1l1")
    values = as_table(pd.DataFrame({"k": list("aaabbccccdefgh")}))
    with pytest.raises(InvalidInput, match="Its most common values are: 'c', 'a', 'b', '"):
        find_rows_equal_to(values, "k", "z")
