"""Rows, columns and identifiers that files hold arrive, or the file is refused: nothing is lost in silence."""

from __future__ import annotations

import decimal
import io
import json
import re
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tellwhy.core.errors import UnreadableFile
from tellwhy.data import read_table
from tellwhy.data.reading import bytes as byte_source, survey as quoting

LONG = [f"123456789012345678{i:02d}" for i in range(60)]


def lines(*rows):
    return "\n".join(["a,b,c", *rows]) + "\n"


def refused(path, match):
    with pytest.raises(UnreadableFile, match=match) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_a_quotation_mark_that_is_never_closed_takes_no_rows(tmp_path):
    rows = [f"{i},{i * 1.5},note{i}" for i in range(60)]
    rows[40] = '40,60.0,"note'
    (tmp_path / "t.csv").write_text(lines(*rows))
    refused(tmp_path / "t.csv", "line 42: the row that begins there goes on to line 61.*never closed")


def test_a_quotation_mark_that_a_later_one_closes_takes_no_rows(tmp_path):
    rows = [f'{i},{i * 1.5},"note{i}"' for i in range(60)]
    rows[20] = '20,30.0,"note'
    (tmp_path / "t.csv").write_text(lines(*rows))
    refused(tmp_path / "t.csv", "line 22: the row that begins there goes on to line 23")


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64, 4 * 2**20])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n"])
def test_cells_over_several_lines_are_read(tmp_path, monkeypatch, block, end, tail):
    cells = ["x", "two\nlines", 'a ""mark""', "", "\n", '5" pipe', "a,b", "\n\nq\n"]
    quoted = [f'"{c}"' if c != '5" pipe' else c for c in cells]
    text = "a,b\n\n" + "\n".join(f"{i},{c}" for i, c in enumerate(quoted)) + tail
    (tmp_path / "t.csv").write_bytes(text.replace("\n", end).encode())
    monkeypatch.setattr(byte_source, "_BLOCK", block)
    frame = read_table(tmp_path / "t.csv").frame
    assert frame["a"].tolist() == list(range(8))
    assert frame["b"][1] == f"two{end}lines"
    assert frame["b"][2] == 'a "mark"'


@pytest.mark.parametrize("block", [1, 2, 5, 4 * 2**20])
def test_the_fast_count_agrees_with_the_slow_one(tmp_path, monkeypatch, block):
    """Of random texts: where the fast count says that all is well, the standard library reads as many rows."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(byte_source, "_BLOCK", block)
    path = tmp_path / "t.csv"
    n_sound = 0
    for _ in range(300):
        text = "".join(rng.choice(list('a",\n\r'), 14, p=[0.3, 0.25, 0.2, 0.2, 0.05]))
        path.write_bytes(text.encode())
        source = byte_source.ByteSource(path, "t.csv")
        survey = quoting.TextSurvey("utf-8-sig", 1, True)
        rows = [row for row, _ in quoting._read_strict_rows(source, survey, ",")]
        found = sum(row is None or bool(row) for row in rows)
        for count in range(9):
            if quoting._is_sound(source, survey, ",", count):
                n_sound += 1
                assert count == found, repr(text)
                assert None not in rows
    assert n_sound > 20


def test_utf_16_is_counted_too(tmp_path):
    rows = ['1,2,"x\ny"', '3,4,"z', "5,6,w"]
    (tmp_path / "t.csv").write_bytes(lines(*rows).encode("utf-16"))
    refused(tmp_path / "t.csv", "line 4")
    (tmp_path / "t.csv").write_bytes(lines(*rows[:1], "3,4,z").encode("utf-16"))
    assert read_table(tmp_path / "t.csv").frame["c"].tolist() == ["x\ny", "z"]


def test_blank_lines_of_a_single_column_are_told(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n\n3\n")
    assert "Blank lines hold no row" in " ".join(read_table(tmp_path / "t.csv").notices)


def ids_in(tmp_path, name, content):
    path = tmp_path / name
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    else:
        path.write_text(content)
    return read_table(path).frame["id"]


@pytest.mark.parametrize("first", [0, 700])
def test_twenty_digits_are_kept(tmp_path, first):
    """Also where the sample that the dialect is told from shows nothing of them."""
    cells = [*map(str, range(first)), *LONG]
    found = ids_in(tmp_path, "t.csv", "\n".join(["x,id", *(f"{i},{c}" for i, c in enumerate(cells))]))
    assert found.tolist() == cells


def test_one_long_number_among_measurements_leaves_numbers(tmp_path):
    cells = [*(f"{i}.5" for i in range(50)), "123456789012345678901234"]
    found = ids_in(tmp_path, "t.csv", "\n".join(["x,id", *(f"{i},{c}" for i, c in enumerate(cells))]))
    assert found.dtype == float
    assert found.iloc[-1] == 123456789012345678901234.0


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_whole_numbers_of_json_are_kept(tmp_path, name):
    records = [{"id": 2**63 + i, "x": i / 2} for i in range(60)]
    text = json.dumps(records) if name.endswith("json") else "\n".join(map(json.dumps, records))
    assert ids_in(tmp_path, name, text).tolist() == [str(2**63 + i) for i in range(60)]


def test_a_number_that_no_float_holds_is_text(tmp_path):
    assert ids_in(tmp_path, "t.json", f'[{{"id": 1{"0" * 400}}}, {{"id": 2}}]').iloc[1] == "2"


def test_gaps_do_not_make_floats_of_long_numbers(tmp_path):
    cells = [None if i == 3 else 2**62 + i for i in range(60)]
    found = ids_in(tmp_path, "t.parquet", pa.table({"id": pa.array(cells, pa.int64()), "x": range(60)}))
    assert found.dropna().tolist() == [str(cell) for cell in cells if cell is not None]
    short = ids_in(tmp_path, "t.parquet", pa.table({"id": pa.array([1, None, 3], pa.int64())}))
    assert short.dtype == float


@pytest.mark.parametrize(("power", "kind"), [(25, str), (17, int)])
def test_decimals_without_places_are_whole_numbers(tmp_path, power, kind):
    cells = [decimal.Decimal(10**power + i) for i in range(60)]
    found = ids_in(tmp_path, "t.parquet", pa.table({"id": pa.array(cells, pa.decimal128(38, 0))}))
    assert found.tolist() == [kind(10**power + i) for i in range(60)]


def test_decimals_with_places_are_numbers(tmp_path):
    cells = [decimal.Decimal("1.25"), None]
    found = ids_in(tmp_path, "t.parquet", pa.table({"id": pa.array(cells, pa.decimal128(38, 2))}))
    assert found[0] == 1.25


@pytest.mark.parametrize("at", [0, 7, 2000])
@pytest.mark.parametrize("name", ["id", "x"])
def test_zeros_before_digits_are_kept_wherever_they_stand(tmp_path, at, name):
    cells = [f"{10000 + i}" for i in range(2001)]
    cells[at] = "00007"
    (tmp_path / "t.csv").write_text("\n".join([f"{name},y", *(f"{c},{i}.5" for i, c in enumerate(cells))]))
    assert read_table(tmp_path / "t.csv").frame[name].tolist() == cells


def test_numbers_without_zeros_before_them_stay_numbers(tmp_path):
    text = "\n".join(
        ["id,year,amount", *(f"{10000 + i},{1990 + i % 30},{i}" for i in range(900)), "0,1990,0"]
    )
    (tmp_path / "t.csv").write_text(text)
    frame = read_table(tmp_path / "t.csv").frame
    assert [dtype.kind for dtype in frame.dtypes] == ["i", "i", "i"]
    assert frame["id"].iloc[-1] == 0


def workbook(path, edit=None):
    book = openpyxl.Workbook()
    book.active.append(["x", "y", "k"])
    for i in range(60):
        book.active.append([i / 3, i, "abc"[i % 3]])
    content = io.BytesIO()
    book.save(content)
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry.filename)
            new.writestr(entry.filename, edit(data) if edit and "sheet1" in entry.filename else data)
    return path


def test_the_size_that_a_sheet_says_is_not_believed(tmp_path):
    def smaller(xml):
        return re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:B20"', xml)

    path = workbook(tmp_path / "t.xlsx", smaller)
    assert read_table(path).frame.shape == (60, 3)


@pytest.mark.parametrize(
    "edit",
    [
        lambda xml: xml.replace(b'<row r="30"', b'<row r="12"'),
        lambda xml: xml.replace(b'<row r="61"', b'<row r="99999999999"'),
        lambda xml: xml.replace(b'r="B30"', b'r="A30"'),
    ],
    ids=["row twice", "row beyond", "cell twice"],
)
def test_rows_and_cells_that_hide_others_are_refused(tmp_path, edit):
    refused(workbook(tmp_path / "t.xlsx", edit), "row .* follows row|has a cell twice")


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_a_name_that_an_object_has_twice_is_refused(tmp_path, name):
    text = '{"a": 1, "a": 2}'
    (tmp_path / name).write_text(text if name.endswith("l") else f"[{text}]")
    refused(tmp_path / name, "the name 'a' occurs more than once")


def test_bits_that_flip_are_found_by_checksums(tmp_path):
    rng = np.random.default_rng(0)
    content = io.BytesIO()
    table = pa.table({"x": rng.normal(size=500), "k": rng.integers(0, 99, 500), "t": ["a", "bc"] * 250})
    pq.write_table(table, content, write_page_checksum=True)
    path = tmp_path / "t.parquet"
    path.write_bytes(content.getvalue())
    truth = read_table(path).frame
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    n_refused = 0
    for _ in range(120):
        damaged = bytearray(content.getvalue())
        damaged[rng.integers(100, start + 2000)] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            pd.testing.assert_frame_equal(read_table(path).frame, truth)
        except UnreadableFile:
            n_refused += 1
    assert n_refused > 60
