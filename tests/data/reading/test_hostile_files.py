"""Files that are small and need much, files that never end, and content under the wrong name."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.data import parquet_batches, read_table
from tellwhy.data.graph_files import read_grid
from tellwhy.data.reading import bytes as byte_source, cells as records, json as json_lines

MEBIBYTE = 2**20


def refused(path, match, read=read_table):
    with pytest.raises(UnreadableFile, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


def peak_of(code, *words):
    """Run code in a process of its own, and return the memory it took at most, in MiB."""
    # Not ru_maxrss: a new process inherits that of the one that started it.
    code += (
        "\nimport re; print(int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


def repeated(n, text):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([text]))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"t": repeated(20_000, "x" * 400_000)}),
        pa.table({"t": repeated(20_000, "x" * 400_000), "x": np.arange(20_000)}),
        pa.table({"s": pa.StructArray.from_arrays([repeated(20_000, "x" * 400_000)], ["t"])}),
        pa.table({"b": repeated(20_000, b"x" * 400_000)}),
    ],
    ids=["text", "text and numbers", "nested", "bytes"],
)
def test_values_that_repeat_are_counted_before_they_are_decoded(tmp_path, table):
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    assert path.stat().st_size < MEBIBYTE
    refused(path, "unpacks to more than 4 GiB")


def test_numbers_that_repeat_are_counted_too(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": np.zeros(2_000_000, np.int64)}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < MEBIBYTE / 4
    monkeypatch.setattr(byte_source, "LARGEST_UNPACKED", 8 * MEBIBYTE)
    refused(tmp_path / "t.parquet", "unpacks to more than")


def test_packed_text_is_counted_by_its_cells(tmp_path, monkeypatch):
    content = b"a,b,c\n" + b"1,1,1\n" * 100_000
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "t.csv").write_bytes(content)
    monkeypatch.setattr(byte_source, "LARGEST_UNPACKED", len(content) + 1000)  # the text itself is accepted
    refused(tmp_path / "t.csv.gz", "unpacks to more than")
    assert len(read_table(tmp_path / "t.csv").frame) == 100_000  # what is not packed surprises nobody


def test_lists_are_counted_as_they_are_read(tmp_path, monkeypatch):
    lists = pa.ListArray.from_arrays(range(0, 10_001 * 300, 300), pa.array(np.zeros(10_000 * 300, np.int64)))
    pq.write_table(pa.table({"l": lists, "x": range(10_000)}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < MEBIBYTE
    assert read_table(tmp_path / "t.parquet").frame.shape == (10_000, 2)
    monkeypatch.setattr(byte_source, "LARGEST_UNPACKED", 10 * MEBIBYTE)
    refused(tmp_path / "t.parquet", "unpacks to more than")


def test_a_long_text_that_occurs_once_is_read(tmp_path):
    texts = ["x" * 30_000, *(f"t{i % 300}" for i in range(200_000))]
    pq.write_table(pa.table({"t": texts}), tmp_path / "t.parquet")
    assert len(read_table(tmp_path / "t.parquet").frame) == len(texts)


def test_a_refused_bomb_took_no_memory(tmp_path):
    pq.write_table(pa.table({"t": repeated(30_000, "x" * 400_000)}), tmp_path / "t.parquet")
    code = """
import sys
from tellwhy.core.errors import UnreadableFile
from tellwhy.data import read_table
try:
    read_table(sys.argv[1])
except UnreadableFile:
    pass
else:
    raise SystemExit("it was read")
"""
    assert peak_of(code, tmp_path / "t.parquet") < 500


def sheet_of(path, xml):
    book = openpyxl.Workbook()
    book.active.append(["a"])
    book.save(path)
    with zipfile.ZipFile(path) as old:
        parts = {entry.filename: old.read(entry.filename) for entry in old.infolist()}
    name = "xl/worksheets/sheet1.xml"
    parts[name] = re.sub(rb"<sheetData>.*</sheetData>", xml, parts[name], flags=re.DOTALL)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for part, content in parts.items():
            new.writestr(part, content)
    return path


def test_workbooks_unpack_to_so_much_at_most(tmp_path, monkeypatch):
    path = sheet_of(tmp_path / "t.xlsx", b"<sheetData>" + b" " * 3 * MEBIBYTE + b"</sheetData>")
    monkeypatch.setattr(byte_source, "LARGEST_WORKBOOK", MEBIBYTE)
    refused(path, "unpacks to more than")


def test_entities_are_not_multiplied(tmp_path):
    lol = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    xml = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lol">{lol}]><worksheet>&l9;</worksheet>'
    path = sheet_of(tmp_path / "t.xlsx", b"<sheetData/>")
    with zipfile.ZipFile(path) as old:
        parts = {entry.filename: old.read(entry.filename) for entry in old.infolist()}
    parts["xl/worksheets/sheet1.xml"] = xml.encode()
    with zipfile.ZipFile(path, "w") as new:
        for part, content in parts.items():
            new.writestr(part, content)
    refused(path, "cannot be read as an Excel workbook|is empty")


@pytest.mark.parametrize("n", [1_000, 1_000_000])
@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
@pytest.mark.parametrize("signs", ["[]", '{"a":}'])
def test_deep_json_is_refused(tmp_path, n, name, signs):
    opens = signs[:-1] * n
    value = opens + ("1" if signs[0] == "{" else "") + signs[-1] * n
    text = f'{{"a": 1}}\n{{"a": {value}}}\n'
    (tmp_path / name).write_text(text if name.endswith("l") else "[" + text.strip().replace("\n", ",") + "]")
    refused(tmp_path / name, "not valid JSON|nested too deeply")


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_a_name_of_its_own_in_every_row_is_refused(tmp_path, name, monkeypatch):
    rows = [json.dumps({f"name{i}": i}) for i in range(2_000)]
    (tmp_path / name).write_text("\n".join(rows) if name.endswith("l") else f"[{','.join(rows)}]")
    monkeypatch.setattr(records, "MOST_CELLS", 10**6)
    monkeypatch.setattr(json_lines, "MOST_CELLS", 10**6)
    refused(tmp_path / name, "names of values in its first")


def test_a_list_is_never_held_whole(tmp_path):
    rows = ",".join(f'{{"a": {i}, "pad": null{" " * 200}}}' for i in range(100_000))
    (tmp_path / "t.json").write_text(f"[{rows}]")
    code = "import sys; from tellwhy.data import read_table; print(len(read_table(sys.argv[1]).frame))"
    empty = peak_of("import tellwhy.data.sources")
    assert peak_of(code, tmp_path / "t.json") < empty + 60  # MiB; the file has 23


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("read", [read_table, read_grid, lambda path: list(parquet_batches(path))])
def test_pipes_and_devices_are_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "a pipe or a device", read)
    with pytest.raises(UnreadableFile, match="a pipe or a device"):
        read("/dev/zero")


def test_charts_have_no_cells(tmp_path):
    book = openpyxl.Workbook()
    book.create_chartsheet("chart", 0)
    for row in (["x", "y"], [1, 2], [3, 4]):
        book.worksheets[0].append(row)
    book.save(tmp_path / "t.xlsx")
    assert read_table(tmp_path / "t.xlsx").frame.shape == (2, 2)
    with pytest.raises(InvalidParameter, match=r"no sheet 'chart'\. There are: 'Sheet'"):
        read_table(tmp_path / "t.xlsx", sheet="chart")


def test_a_workbook_under_another_name_is_a_workbook(tmp_path):
    pd.DataFrame({"x": [1, 2]}).to_excel(tmp_path / "t.xlsx", index=False)
    (tmp_path / "t.xlsx").rename(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv").frame["x"].tolist() == [1, 2]


def test_a_zone_that_nobody_knows_is_told(tmp_path):
    times = pa.array([0, 3_600_000_000, None], pa.timestamp("us", tz="Mars/Phobos"))
    pq.write_table(pa.table({"when": times}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.frame["when"][1] == pd.Timestamp("1970-01-01 01:00")
    assert table.notices == ("Column 'when': the time zone 'Mars/Phobos' is not known; read as UTC.",)


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_halves_of_characters_are_told_apart(tmp_path, name):
    rows = ['{"k\\ud800": "\\ud801"}', '{"k\\ud800": "\\udfff"}']
    (tmp_path / name).write_text("\n".join(rows) if name.endswith("l") else f"[{','.join(rows)}]")
    frame = read_table(tmp_path / name).frame
    assert frame[frame.columns[0]].tolist() == ["\\ud801", "\\udfff"]


def test_durations_of_workbooks_are_durations(tmp_path):
    book = openpyxl.Workbook()
    for row in (["d"], [pd.Timedelta("26:00:00").to_pytimedelta()], [pd.Timedelta("1h").to_pytimedelta()]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert read_table(tmp_path / "t.xlsx").frame["d"].tolist() == [pd.Timedelta("26h"), pd.Timedelta("1h")]


def test_styles_that_are_lost_make_no_numbers_of_dates(tmp_path):
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"day": pd.to_datetime(["2024-05-31", "2024-06-01"])}).to_excel(path, index=False)
    with zipfile.ZipFile(path) as old:
        parts = {e.filename: old.read(e.filename) for e in old.infolist() if "styles" not in e.filename}
    with zipfile.ZipFile(path, "w") as new:
        for part, content in parts.items():
            new.writestr(part, content)
    refused(path, r"its part xl/styles\.xml is missing")


@pytest.mark.parametrize("name", [b"b\xff.csv", b"b\xff.parquet", b"b\xff.jsonl", b"b\xff.csv.gz"])
def test_names_that_are_no_text_are_read(tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    if name.endswith(b"parquet"):
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t")
        (tmp_path / "t").rename(path)
    else:
        text = b'{"a": 1}\n{"a": 2}\n' if name.endswith(b"jsonl") else b"a\n1\n2\n"
        path.write_bytes(gzip.compress(text) if name.endswith(b"gz") else text)
    assert read_table(path).frame["a"].tolist() == [1, 2]


def header(shape):
    told = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(told).to_bytes(2, "little") + told.encode()


@pytest.mark.parametrize("shape", ["(1000000, 1000000)", "(3, 3)", "(-1, 5)"])
@pytest.mark.parametrize("name", ["t.npy", "t.npz"])
def test_arrays_hold_what_they_say(tmp_path, shape, name):
    content = header(shape) + b"\0" * 64
    path = tmp_path / name
    if name.endswith("npz"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", content)
    else:
        path.write_bytes(content)
    refused(path, "says that it takes", read_grid)


def test_one_array_is_a_grid_of_one_feature(tmp_path):
    np.save(tmp_path / "heat.npy", np.ones((3, 4)))
    assert list(read_grid(tmp_path / "heat.npy").arrays) == ["heat"]
    with pytest.raises(InvalidInput, match=r"one \.npz or \.npy file; got a table"):
        read_grid(read_table)
