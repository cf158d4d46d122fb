"""Files as people have them: what is read, and what is said about files that cannot be."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.data import MISSING_WORDS, read_table
from tellwhy.data.places import place_of
from tellwhy.data.reading import bytes as byte_source, delimited

TEXT = "city,mm,on\nOslo,3.5,2024-05-31\nRome,,2024-06-01\n"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def expected_frame(frame):
    assert list(frame.columns) == ["city", "mm", "on"]
    assert frame["city"].tolist() == ["Oslo", "Rome"]
    assert frame["mm"].tolist()[0] == 3.5
    assert np.isnan(frame["mm"].tolist()[1])
    assert frame["on"].tolist() == [pd.Timestamp("2024-05-31"), pd.Timestamp("2024-06-01")]


ENCODINGS = {
    "utf-8": TEXT.encode(),
    "utf-8 with mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "utf-16-le with mark": b"\xff\xfe" + TEXT.encode("utf-16-le"),
    "utf-16-be with mark": b"\xfe\xff" + TEXT.encode("utf-16-be"),
    "utf-32": TEXT.encode("utf-32"),
    "carriage returns": TEXT.replace("\n", "\r\n").encode(),
    "old Mac": TEXT.replace("\n", "\r").encode(),
    "no last newline": TEXT.rstrip().encode(),
    "blank lines": TEXT.replace("\n", "\n\n").encode(),
    "quoted": b'"city","mm","on"\n"Oslo","3.5","2024-05-31"\n"Rome","","2024-06-01"\n',
    "spaced": b"city, mm, on\nOslo , 3.5, 2024-05-31\n Rome, ?, 2024-06-01\n",
    "tab": TEXT.replace(",", "\t").encode(),
    "bar": TEXT.replace(",", "|").encode(),
    "semicolon, decimal comma": TEXT.replace(",", ";").replace("3.5", "3,5").encode(),
}


@pytest.mark.parametrize("content", [pytest.param(v, id=k) for k, v in ENCODINGS.items() if k != "spaced"])
def test_the_same_table_in_any_writing(tmp_path, content):
    expected_frame(read_table(write(tmp_path / "t.csv", content)).frame)


def test_spaces_around_cells_are_no_part_of_them(tmp_path):
    frame = read_table(write(tmp_path / "t.csv", ENCODINGS["spaced"])).frame
    assert frame["city"].tolist() == ["Oslo", "Rome"]
    assert frame["mm"].dtype == np.float64
    assert np.isnan(frame["mm"][1])


@pytest.mark.parametrize("name", ["t.csv.gz", "t.gz", "T.CSV.GZ"])
def test_gzip(tmp_path, name):
    expected_frame(read_table(write(tmp_path / name, gzip.compress(TEXT.encode()))).frame)


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_zip_with_one_table_and_what_macs_add(tmp_path):
    path = zipped(tmp_path / "t.zip", {"folder/t.csv": TEXT, "__MACOSX/folder/._t.csv": b"\0\1"})
    expected_frame(read_table(path).frame)


def test_source_and_fingerprint(tmp_path):
    path = write(tmp_path / "t.csv", TEXT)
    table = read_table(str(path))
    assert table.source == str(path)
    assert table.fingerprint == hashlib.sha256(TEXT.encode()).hexdigest()
    assert table.notices == ()
    packed = write(tmp_path / "t.csv.gz", gzip.compress(TEXT.encode()))
    assert read_table(packed).fingerprint == hashlib.sha256(packed.read_bytes()).hexdigest()


@pytest.mark.parametrize("codec", ["cp1252", "latin-1"])
def test_other_encodings_are_read_with_a_notice(tmp_path, codec):
    odd = "é€" if codec == "cp1252" else "é\x81"
    content = f"name,n\nplain,1\n{odd},2\n".encode(codec)
    table = read_table(write(tmp_path / "t.csv", content))
    assert table.frame["name"].tolist() == ["plain", odd]
    words = "Windows-1252" if codec == "cp1252" else "Latin-1"
    assert len(table.notices) == 1
    assert words in table.notices[0]
    assert "line 3" in table.notices[0]


def test_an_encoding_can_be_given(tmp_path):
    path = write(tmp_path / "t.csv", "name,n\nЖук,1\n".encode("koi8-r"))
    assert read_table(path, encoding="koi8-r").frame["name"].tolist() == ["Жук"]
    with pytest.raises(UnreadableFile, match="not utf-8-sig text"):
        read_table(path, encoding="utf-8")
    with pytest.raises(InvalidParameter, match="no text encoding 'klingon'"):
        read_table(path, encoding="klingon")


def test_a_character_cut_by_a_block_border_is_still_utf8(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_source, "_BLOCK", 7)
    path = write(tmp_path / "t.csv", "name,n\näöüß€äöüß€,1\n€€€,2\n")
    table = read_table(path)
    assert table.frame["name"].tolist() == ["äöüß€äöüß€", "€€€"]
    assert table.notices == ()


def test_halves_of_a_character_that_are_apart_are_not_utf8(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_source, "_BLOCK", 7)
    table = read_table(write(tmp_path / "t.csv", b"ab,c\nx\xc3" + b"y,1\nzzz" + b"\xa9,2\n"))
    assert table.frame["ab"].tolist() == ["xÃy", "zzz©"]
    assert "line 2" in table.notices[0]


def test_a_character_cut_off_at_the_end_is_told_with_its_line(tmp_path):
    table = read_table(write(tmp_path / "t.csv", b"a,b\n1,x\n2,y\xc3"))
    assert table.frame["b"].tolist() == ["x", "yÃ"]
    assert "(see line 3)" in table.notices[0]


def test_missing_words_in_any_case(tmp_path):
    words = [*MISSING_WORDS, *(w.upper() for w in MISSING_WORDS), "Nan", "N/a", "None"]
    rows = "".join(f'x,{w},"{w}"\n' for w in words)
    frame = read_table(write(tmp_path / "t.csv", f"a,b,c\n{rows}x,1.5,word\n")).frame
    assert frame["b"].isna().sum() == len(words)
    assert frame["c"].isna().sum() == len(words)
    assert frame["b"].iloc[-1] == 1.5


def test_quoted_missing_words_do_not_make_dates_and_booleans_text(tmp_path):
    path = write(tmp_path / "t.csv", 'on,ok\n"2024-05-31","true"\n"NA","?"\n')
    frame = read_table(path).frame
    assert frame["on"].dtype.kind == "M"
    assert str(frame["ok"].dtype) == "boolean"
    assert frame.isna().sum().tolist() == [1, 1]


def test_quoted_line_ends_at_borders_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK", 256)
    cells = [f"x\n{'y' * (i % 50)}\nz" for i in range(300)]
    frame = read_table(
        write(tmp_path / "t.csv", "a,b\n" + "".join(f'"{c}",{i}\n' for i, c in enumerate(cells)))
    ).frame
    assert frame["a"].tolist() == cells


def test_quoting(tmp_path):
    path = write(
        tmp_path / "t.csv", 'a,b\n"x, ""y""\nz",1\n=cmd|\'/c calc\'!A0,2\n<script>alert(1)</script>,3\n'
    )
    frame = read_table(path).frame
    assert frame["a"].tolist() == ['x, "y"\nz', "=cmd|'/c calc'!A0", "<script>alert(1)</script>"]
    assert frame["b"].tolist() == [1, 2, 3]


def test_what_pandas_writes_reads_back(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=50), "k": rng.integers(9, size=50), "t": rng.choice(["a,b", 'q"', "z"], 50)}
    )
    frame["f"] = rng.random(50) < 0.5
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        frame.to_csv(tmp_path / "t.csv", index=False, quoting=quoting)
        read = read_table(tmp_path / "t.csv").frame
        pd.testing.assert_frame_equal(read, frame, check_dtype=False, check_column_type=False)
    assert read["f"].dtype == bool


def test_columns_that_pandas_numbered_are_a_header(tmp_path):
    pd.DataFrame(np.arange(8.0).reshape(2, 4) / 3).to_csv(tmp_path / "t.csv", index=False)
    assert list(read_table(tmp_path / "t.csv").frame.columns) == ["0", "1", "2", "3"]


def test_a_first_row_of_numbers_is_data(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "1.5,2\n3,4\n"))
    assert list(table.frame.columns) == ["column_1", "column_2"]
    assert table.frame.to_numpy().tolist() == [[1.5, 2], [3, 4]]
    assert "read as data" in table.notices[0]


def test_columns_without_a_name(tmp_path):
    table = read_table(write(tmp_path / "t.csv", ",b\n1,2\n"))
    assert list(table.frame.columns) == ["column_1", "b"]
    assert "without a name" in table.notices[0]


def test_one_row_and_one_column(tmp_path):
    assert read_table(write(tmp_path / "t.csv", "a,b\n1,2\n")).frame.shape == (1, 2)
    frame = read_table(write(tmp_path / "u.csv", "price\n3,14\n2,5\n")).frame
    assert frame["price"].tolist() == [3.14, 2.5]


def test_lines_are_known_where_each_row_is_one(tmp_path):
    assert (
        place_of(read_table(write(tmp_path / "t.csv", "a,b\n1,2\n3,4\n")).frame, 1)
        == "row 1 (line 3 of the file)"
    )
    assert place_of(read_table(write(tmp_path / "t.csv", "a,b\n\n1,2\n3,4\n")).frame, 1) == "row 1"
    assert (
        place_of(read_table(write(tmp_path / "t.csv", "1,2\n3,4\n")).frame, 1) == "row 1 (line 2 of the file)"
    )


def test_five_thousand_columns(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 5000))
    header = ",".join(f"c{i}" for i in range(5000))
    rows = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    frame = read_table(write(tmp_path / "t.csv", f"{header}\n{rows}\n")).frame
    np.testing.assert_array_equal(frame.to_numpy(), values)


def test_a_line_longer_than_a_block(tmp_path):
    long = "x" * 13_000_000
    frame = read_table(write(tmp_path / "t.csv", f"a,b\n{long},1\ny,2\n")).frame
    assert [len(cell) for cell in frame["a"]] == [13_000_000, 1]


ARCHIVE = io.BytesIO()
with zipfile.ZipFile(ARCHIVE, "w") as _archive:
    _archive.writestr("a.csv", TEXT)
    _archive.writestr("b.csv", TEXT)

BAD = {
    "empty": ("t.csv", b"", "is empty"),
    "spaces only": ("t.csv", b" \n\n", "is empty"),
    "mark only": ("t.csv", b"\xef\xbb\xbf", "is empty"),
    "empty inside gzip": ("t.csv.gz", gzip.compress(b""), "is empty"),
    "header only": ("t.csv", b"a,b\n", r"header \(2 columns\) but no data rows"),
    "too many fields": (
        "t.csv",
        b"a,b\n1,2\n3,4,5\n",
        r"line 3: found 3 fields, expected 2 as in the header\. Fix that line",  # no quotation mark is to blame
    ),
    "too few fields": ("t.csv", b"a,b,c\n1,2,3\n\n4,5\n", "line 4: found 2 fields, expected 3"),
    "open quote": ("t.csv", b'a,b\n1,2\n"3,4\n5,6\n', "line 3: found 1 fields, expected 2.*never closed"),
    "NUL": ("t.csv", b"a,b\n1,2\n3,\0\n", "NUL byte in line 3: it is a binary file"),
    "NUL in UTF-16": ("t.csv", "a,b\n1,\0\n".encode("utf-16"), "NUL byte in line 2"),
    "UTF-16 without mark": ("t.csv", (TEXT * 9).encode("utf-16-le"), "Pass the encoding 'utf-16-le'"),
    "UTF-16 cut": ("t.csv", TEXT.encode("utf-16")[:-1], "not utf-16 text"),
    "duplicates": ("t.csv", b"a,b,a,c,b\n1,2,3,4,5\n", r"'a' \(columns 1, 3\); 'b' \(columns 2, 5\)"),
    "truncated Parquet": ("t.parquet", b"PAR1" + b"\7" * 50, "cannot be read as Parquet: it is damaged"),
    "no Parquet": ("t.parquet", b"a,b\n1,2\n", "not a Parquet file, although"),
    "truncated gzip": ("t.csv.gz", gzip.compress(TEXT.encode() * 999)[:-40], "cannot be unpacked"),
    "damaged gzip": ("t.csv.gz", gzip.compress(TEXT.encode() * 9)[:30] + b"junk" * 30, "cannot be unpacked"),
    "no gzip": ("t.csv.gz", TEXT.encode(), "is not gzip-compressed, although"),
    "bad zip": ("t.zip", b"PK\x03\x04" + b"junk" * 20, "damaged zip file"),
    "no zip": ("t.zip", TEXT.encode(), "is not a zip archive, although"),
    "several in zip": ("t.zip", ARCHIVE.getvalue(), "holds 2 files.*'a.csv', 'b.csv'"),
    "old Excel": ("t.xls", b"\xd0\xcf\x11\xe0" + b"\0" * 20, "save it as .xlsx or CSV"),
    "not Excel": ("t.xlsx", b"a,b\n1,2\n", "is not an Excel workbook, although"),
    "web page": ("t.csv", b"<!DOCTYPE html><html></html>", "a web page"),
    "picture": ("t.csv", b"\x89PNG\r\n\x1a\n", "a picture"),
    "bad JSON line": ("t.jsonl", b'{"a": 1}\n{"a": \n', "line 2: not valid JSON"),
    "JSON line of numbers": ("t.jsonl", b'{"a": 1}\n[1, 2]\n', r"line 2: found \[1, 2\]; expected an object"),
    "bad JSON": ("t.json", b'[{"a": 1}, ', "not valid JSON"),
    "JSON list of numbers": ("t.json", b'[{"a": 1}, 7]', "element 1 of the list: found 7"),
    "JSON without values": ("t.jsonl", b"{}\n{}\n", "no rows with values"),
}


@pytest.mark.parametrize(("name", "content", "message"), [pytest.param(*v, id=k) for k, v in BAD.items()])
def test_bad_files_are_explained(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(InvalidInput, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(UnreadableFile, match=r"no file .*nothing\.csv"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(UnreadableFile, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(UnreadableFile, match="cannot be read: File name too long"):
        read_table(tmp_path / ("x" * 5000))
    with pytest.raises(UnreadableFile, match="is a pipe or a device"):
        read_table("/dev/null")


@pytest.mark.parametrize("packing", ["gz", "zip"])
def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch, packing):
    content = b"a,b\n" + b"1,2\n" * 5_000_000
    path = tmp_path / f"t.csv.{packing}"
    if packing == "gz":
        path.write_bytes(gzip.compress(content, 1))
    else:
        zipped(path, {"t.csv": content})
    monkeypatch.setattr(byte_source, "LARGEST_UNPACKED", 2**20)
    with pytest.raises(UnreadableFile, match="unpacks to more than"):
        read_table(path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delimiter": ",,"}, "one character"),
        ({"delimiter": '"'}, "one character"),
        ({"decimal": "x"}, "must be '.' or ','"),
        ({"delimiter": ",", "decimal": ","}, "cannot both be ','"),
    ],
)
def test_bad_settings(tmp_path, given, message):
    with pytest.raises(InvalidParameter, match=message):
        read_table(write(tmp_path / "t.csv", TEXT), **given)


def test_given_settings_are_taken(tmp_path):
    path = write(tmp_path / "t.txt", "a b\n1.234 2\n5 6\n")
    assert read_table(path, delimiter=" ").frame["a"].tolist() == [1.234, 5]
    path = write(tmp_path / "t.txt", "a;b\n1,234;2\n5;6\n")
    assert read_table(path, decimal=",").frame["a"].tolist() == [1.234, 5]
    assert read_table(path, decimal=".").frame["a"].tolist() == [1234, 5]


def test_unknown_names_are_read_by_content(tmp_path):
    assert read_table(write(tmp_path / "table", b'{"a": 1}\n{"a": 2}\n')).frame["a"].tolist() == [1, 2]
    assert read_table(write(tmp_path / "other", b"a;b\n1;2\n")).frame["b"].tolist() == [2]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"\xd0\xcf\x11\xe0", "old Excel"),
        (b"SQLite format 3", "SQLite"),
        (b"\xfd7zXZ", "xz"),
        (b"BZh", "bzip2"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"%PDF", "PDF"),
        (b"ARROW1", "Feather"),
        (b"\x93NUMPY", "numpy"),
        (b"\x89HDF", "HDF5"),
        (b"\xff\xd8\xff", "picture"),
        (b"<HTML>", "web page"),
    ],
)
def test_formats_that_people_confuse_with_tables_are_known(tmp_path, start, words):
    with pytest.raises(UnreadableFile, match=f"is not a text table but .*{words}"):
        read_table(write(tmp_path / "t.csv", start + b" and more\n"))


def test_the_line_where_an_encoding_fails_is_told(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", b"a,b\n1,2\n3,\xff\n5,6\n")
    for block in (7, 4 * 2**20):
        monkeypatch.setattr(byte_source, "_BLOCK", block)
        with pytest.raises(UnreadableFile, match="not utf-8-sig text: invalid start byte in line 3"):
            read_table(path, encoding="utf-8")
    cut = write(tmp_path / "u.csv", TEXT.encode("utf-16")[:-1])
    with pytest.raises(UnreadableFile, match="not utf-16 text: truncated data in line 3"):
        read_table(cut)


def test_the_delimiter_and_the_decimal_comma_are_told(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "a;b\n1,5;x\n2,25;y\n"))
    assert table.notices == ("Columns are separated by semicolons.", "Numbers have a decimal comma (1,5).")
    assert read_table(write(tmp_path / "t.csv", "a|b\n1.5|x\n")).notices == (
        "Columns are separated by vertical bars.",
    )


def test_an_encoding_by_its_mark_is_told(tmp_path):
    assert read_table(write(tmp_path / "t.csv", TEXT.encode("utf-16"))).notices == (
        "Read the text as utf-16.",
    )
    assert read_table(write(tmp_path / "u.csv", b"\xef\xbb\xbf" + TEXT.encode())).notices == ()


@pytest.mark.parametrize("extra", ["folder/.DS_Store", "Thumbs.db", "__MACOSX/._t.csv", "folder/"])
def test_what_systems_add_to_archives_is_no_table(tmp_path, extra):
    expected_frame(read_table(zipped(tmp_path / "t.zip", {"folder/t.csv": TEXT, extra: b""})).frame)


def test_archives_say_how_many_files_they_hold(tmp_path):
    with pytest.raises(
        UnreadableFile, match=r"holds 12 files \('0.csv'.*'9.csv', …\); expected exactly one table"
    ):
        read_table(zipped(tmp_path / "t.zip", {f"{i}.csv": TEXT for i in range(12)}))
    with pytest.raises(UnreadableFile, match="holds no file; expected exactly one table"):
        read_table(zipped(tmp_path / "u.zip", {"__MACOSX/._t.csv": b""}))


def test_the_limit_is_told_in_the_right_unit():
    assert "unpacks to more than 4 GiB" in str(byte_source.refuse_too_large("t.zip"))


def test_a_row_over_several_lines_is_told_with_both_ends(tmp_path):
    path = write(tmp_path / "t.csv", 'a,b\n1,2\n"3\n4\n5",6,7\n')
    with pytest.raises(
        UnreadableFile, match=r"line 3: found 3 fields, expected 2.* The row spans lines 3 to 5: "
    ):
        read_table(path)


def test_delimited_text_may_begin_like_an_object(tmp_path):
    table = read_table(write(tmp_path / "t.csv", '{"a";b\n1;2\n'), delimiter=";")
    assert list(table.frame.columns) == ['{"a"', "b"]


def test_zeros_before_codes_are_kept(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("plz,serial,hour,size\n01067,0012,07,1\n80331,0345,12,2\n,0007,00,03\n", encoding="utf-8")
    frame = read_table(path).frame
    assert frame["plz"][:2].tolist() == ["01067", "80331"]
    assert frame["plz"].isna()[2]
    assert frame["serial"].tolist() == ["0012", "0345", "0007"]
    assert frame["hour"].tolist() == [7, 12, 0]
    assert frame["size"].tolist() == [1, 2, 3]


def test_lines_of_another_encoding_are_read_as_what_they_are(tmp_path):
    utf8 = "stört,Genève\n1,Zürich\n2,Città\n3,\n3,Zürich\n".encode()
    path = write(tmp_path / "joined.csv", utf8 + "4,Zürich\n5,Genève\n".encode("latin-1"))
    table = read_table(path)
    assert table.frame.columns.tolist() == ["stört", "Genève"]
    assert table.frame["Genève"].dropna().tolist() == ["Zürich", "Città", "Zürich", "Zürich", "Genève"]
    assert "mixes encodings: 3 cells were read as UTF-8, such as 'Zürich'" in table.notices[1]
    told = read_table(path, encoding="cp1252")
    assert told.frame.columns[0] == "stÃ¶rt"  # an encoding that is told is not doubted
