"""A file with other cells in a few places: what does not change is copied to the byte."""

import gzip

import pytest

from tellwhy.core.errors import UnreadableFile
from tellwhy.kinds.repair import rewrite_delimited, write_like


@pytest.mark.parametrize(
    ("encoding", "end", "delimiter"),
    [("utf-8", "\n", ","), ("utf-8-sig", "\r\n", ";"), ("cp1252", "\n", "\t"), ("utf-16", "\n", ",")],
)
def test_everything_but_the_cell_is_copied(tmp_path, encoding, end, delimiter):
    rows = [
        ["plz", "ort", '"note, long; with\tsigns"'],
        ["00123", '"Zürich"', "  blank "],
        ["00456", "Zürch", '"two' + end + 'lines"'],
        ["00789", "Zürich", '""'],
    ]
    text = end.join(delimiter.join(row) for row in rows) + end
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    rewrite_delimited(path, tmp_path / "b.csv", {1: {"ort": "Zürich"}}, 3)
    assert (tmp_path / "b.csv").read_bytes() == text.replace("Zürch", "Zürich").encode(encoding)


def test_bytes_that_the_encoding_lacks_come_back(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n\xe4\x81,1\nx,2\ny,3\n")
    rewrite_delimited(path, tmp_path / "b.csv", {1: {"b": 20}}, 3)
    assert (tmp_path / "b.csv").read_bytes() == b"a,b\n\xe4\x81,1\nx,20\ny,3\n"


def test_a_packed_file_is_written_unpacked_and_one_without_a_header_too(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n\n3,4\n5,6"))
    rewrite_delimited(path, tmp_path / "b.csv", {2: {"column_2": 60}, 0: {"column_1": None}}, 3)
    assert (tmp_path / "b.csv").read_bytes() == b",2\n\n3,4\n5,60"


def test_the_only_cell_of_a_row_is_emptied(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"note\nunknown\nfine\n")
    rewrite_delimited(path, tmp_path / "b.csv", {0: {"note": None}}, 2)
    assert (tmp_path / "b.csv").read_bytes() == b'note\n""\nfine\n'  # a blank line would be no row


def test_a_file_that_changed_meanwhile_is_noticed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(UnreadableFile, match="2 rows now, and had 3"):
        rewrite_delimited(path, tmp_path / "b.csv", {}, 3)


@pytest.mark.parametrize(
    ("old", "value", "decimal", "new"),
    [
        ("10964", 109.64, ".", "109.64"),
        ("1.234,50 €", 12.345, ",", "12,345 €"),
        ("12.50", 7, ".", "7.00"),
        ("(missing)", 3.0, ".", "3"),
        ("5", 0.30000000000000004, ".", "0.3"),
        ("1e3", 10, ".", "10"),
        ("-5 °C", 5, ".", "5 °C"),
        ("x", "y", ".", "y"),
        ("1", True, ".", "True"),
        ("4", float("nan"), ".", ""),
    ],
)
def test_a_value_is_written_as_the_cell_was(old, value, decimal, new):
    assert write_like(old, value, decimal) == new
