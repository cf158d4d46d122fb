"""Several files as one table: rows in order, each with its file and line."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.data import read_table, sources as standard_input
from tellwhy.data.places import find_file, find_line, place_of
from tellwhy.data.sources import join_frames, read_sources


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.csv").write_text("city,mm\nOslo,3\nRome,1\n")
    (tmp_path / "b.csv").write_text("mm,city\n7,Bern\n8,\n9,Kyiv\n")
    return [tmp_path / "a.csv", tmp_path / "b.csv"]


def test_each_row_remembers_its_file_and_line(files):
    table = read_sources(files)
    assert table.frame["mm"].tolist() == [3, 1, 7, 8, 9]
    assert table.frame["mm"].dtype == np.int64
    assert [find_line(table.frame, i) for i in range(5)] == [2, 3, 2, 3, 4]
    assert [find_file(table.frame, i) for i in range(5)] == [str(files[0])] * 2 + [str(files[1])] * 3
    cut = table.frame.iloc[[4, 1]]  # rows that were cut out keep their places
    assert place_of(cut, 0) == f"row 4 (line 4 of {files[1]})"
    assert table.notices[0].startswith("5 rows of 2 files joined: 2 from ")


def test_one_file_has_no_file_of_its_own(files):
    frame = read_table(files[0]).frame
    assert (find_line(frame, 1), find_file(frame, 1)) == (3, None)
    assert read_sources(files[:1]).fingerprint == read_table(files[0]).fingerprint


def test_the_fingerprint_depends_on_the_order(files):
    assert read_sources(files).fingerprint != read_sources(files[::-1]).fingerprint


def test_a_file_without_known_lines_does_not_shift_the_others(files, tmp_path):
    (tmp_path / "c.csv").write_text('city,mm\n"two\nlines",4\n')
    table = read_sources([tmp_path / "c.csv", *files])
    assert [find_line(table.frame, i) for i in range(4)] == [None, 2, 3, 2]
    assert find_file(table.frame, 0) == str(tmp_path / "c.csv")


def test_other_columns_are_refused_by_name(files, tmp_path):
    (tmp_path / "c.csv").write_text("city,rain\nOslo,3\n")
    with pytest.raises(
        InvalidInput, match=r"c\.csv lacks 'mm' and has 'rain' besides, compared with .*a\.csv"
    ):
        read_sources([*files, tmp_path / "c.csv"])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2], [0.5], [1.0, 2.0, 0.5]),
        ([1.0, np.nan], ["007"], ["1", None, "007"]),  # a gap made a float of a whole number
        ([1.5, 2.25], ["$3"], ["1.5", "2.25", "$3"]),
        ([True, False], ["maybe"], ["True", "False", "maybe"]),
        ([np.nan, np.nan], ["x"], [None, None, "x"]),
        ([np.nan, np.nan], [True], [None, None, True]),
        ([pd.Timestamp("2024-05-01")], ["soon"], ["2024-05-01 00:00:00", "soon"]),
    ],
)
def test_kinds_of_columns_are_brought_together(first, second, expected):
    joined = join_frames([pd.DataFrame({"x": first}), pd.DataFrame({"x": second})])["x"]
    assert [None if pd.isna(cell) else cell for cell in joined] == expected


def test_categories_of_two_files_are_joined_as_text():
    parts = [pd.DataFrame({"x": pd.Categorical(levels)}) for levels in (["a", "b"], ["c"])]
    assert join_frames(parts)["x"].tolist() == ["a", "b", "c"]


def test_notices_name_the_files_they_are_about(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n1,5;2\n2,5;3\n")
    (tmp_path / "b.csv").write_text("x;y\n1;2\n2;3\n")
    notices = read_sources([tmp_path / "a.csv", tmp_path / "b.csv"]).notices[1:]
    assert notices == (
        "Columns are separated by semicolons.",
        "a.csv: Numbers have a decimal comma (1,5).",
    )


class _Pipe(io.BytesIO):
    @property
    def buffer(self):
        return self


def piped(monkeypatch, content, **settings):
    monkeypatch.setattr(standard_input.sys, "stdin", _Pipe(content))
    return read_sources(["-"], **settings)


def test_standard_input_of_any_format(files, monkeypatch, tmp_path):
    frame = pd.DataFrame({"city": ["Oslo", "Rome"], "mm": [3, 1]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    lines = frame.to_json(orient="records", lines=True).encode()
    contents = [files[0].read_bytes(), lines, frame.to_json(orient="records").encode()]
    contents += [(tmp_path / name).read_bytes() for name in ("a.parquet", "a.xlsx")]
    for content in contents:
        table = piped(monkeypatch, content)
        assert table.source == "standard input"
        assert table.frame["mm"].tolist() == [3, 1]
    assert find_line(piped(monkeypatch, contents[0]).frame, 1) == 3


def test_errors_of_standard_input_do_not_name_a_temporary_file(monkeypatch):
    with pytest.raises(UnreadableFile, match=r"standard input, line 3: found 3 fields"):
        piped(monkeypatch, b"a,b\n1,2\n1,2,3\n")
    with pytest.raises(UnreadableFile, match="standard input is empty"):
        piped(monkeypatch, b"")


def test_what_cannot_be_read_together_is_refused(files):
    with pytest.raises(InvalidParameter, match="named more than once"):
        read_sources(["-", "-"])
    with pytest.raises(InvalidParameter, match="looks like a query; say which database"):
        read_sources(["SELECT * FROM t"])
    with pytest.raises(
        InvalidParameter, match=r"a\.csv is no Excel workbook and has no sheets; got sheet '2'"
    ):
        read_sources(files, sheet="2")


def test_sheets_by_name_and_as_people_count(tmp_path):
    with pd.ExcelWriter(tmp_path / "b.xlsx") as book:
        for number, name in enumerate(["one", "2", "three"]):
            pd.DataFrame({"x": [number, 10]}).to_excel(book, sheet_name=name, index=False, startrow=number)
    found = {
        sheet: read_sources([tmp_path / "b.xlsx"], sheet=sheet).frame for sheet in ("one", "1", "2", "3", 0)
    }
    assert [int(frame["x"][0]) for frame in found.values()] == [0, 0, 1, 2, 0]
    assert find_line(found["3"], 1) == 5  # two empty rows stand above its header
    with pytest.raises(InvalidParameter, match="has no sheet '4'"):
        read_sources([tmp_path / "b.xlsx"], sheet="4")
