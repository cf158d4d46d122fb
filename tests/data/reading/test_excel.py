from __future__ import annotations

import datetime
import sys

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter, MissingExtra, UnreadableFile
from tellwhy.data import read_table


@pytest.fixture
def book(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")

    def save(**sheets):
        workbook = openpyxl.Workbook()
        workbook.remove(workbook.active)
        for name, rows in sheets.items():
            sheet = workbook.create_sheet(name)
            for row in rows:
                sheet.append(row)
        workbook.save(tmp_path / "t.xlsx")
        return tmp_path / "t.xlsx"

    return save


ROWS = [
    ["city", "mm", "on", "flag"],
    ["Oslo", 3.5, datetime.date(2024, 5, 31), True],
    ["Rome", "#N/A", None, False],
]


def test_a_sheet(book):
    table = read_table(book(data=[[], *ROWS]))
    assert list(table.frame.columns) == ["city", "mm", "on", "flag"]
    assert table.frame["mm"].tolist()[0] == 3.5
    assert np.isnan(table.frame["mm"].tolist()[1])
    assert table.frame["on"].tolist()[0] == pd.Timestamp("2024-05-31")
    assert table.frame["flag"].tolist() == [True, False]
    assert table.notices == ()


def test_several_sheets(book):
    path = book(first=ROWS, second=[["a"], [1]])
    assert read_table(path).notices == ("Read sheet 'first'; not read: 'second'.",)
    assert read_table(path, sheet="second").frame["a"].tolist() == [1]
    assert read_table(path, sheet=1).frame["a"].tolist() == [1]
    assert read_table(path, sheet=0).frame["city"].tolist() == ["Oslo", "Rome"]
    for sheet in ("first", "second", 0, 1):  # whoever names a sheet knows that there are others
        assert read_table(path, sheet=sheet).notices == ()
    with pytest.raises(InvalidParameter, match=r"no sheet 'third'\. There are: 'first', 'second'"):
        read_table(path, sheet="third")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "'data' is empty"),
        ([["a", "b"]], "header but no data rows"),
        ([["a", "a"], [1, 2]], r"'a' \(columns 1, 2\)"),
        ([["a"], [1], [1, 2]], "row 3: found more than 1 cells"),
    ],
)
def test_bad_sheets(book, rows, message):
    with pytest.raises(InvalidInput, match=message):
        read_table(book(data=rows))


def test_a_damaged_workbook(book):
    path = book(data=ROWS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UnreadableFile, match=r"t\.xlsx"):
        read_table(path)


def test_without_openpyxl(book, monkeypatch):
    path = book(data=ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"tellwhy\[excel\]"):
        read_table(path)


def test_cells_that_hold_an_error_are_missing(book):
    errors = ["#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"]
    frame = read_table(book(data=[["n"], [1.5], *([error] for error in errors)])).frame
    assert frame["n"].dtype == np.float64
    assert frame["n"].isna().sum() == len(errors)


def test_columns_without_a_name_are_numbered_and_empty_ones_at_the_end_are_none(book):
    frame = read_table(book(data=[["a", None, "c", None], [1, 2, 3, None], [4, 5, 6, None]])).frame
    assert list(frame.columns) == ["a", "column_2", "c"]
    assert frame["column_2"].tolist() == [2, 5]
