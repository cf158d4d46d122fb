from __future__ import annotations

import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.data.reading.bytes import ByteSource
from tellwhy.data.reading.dialect import detect_dialect

CASES = {
    "commas": ("a,b\n1,2\n", ",", "."),
    "commas beside quoted semicolons": ('a,b\n"x;y",2\n"z;w",3\n', ",", "."),
    "semicolons beside decimal commas": ("a;b\n1,5;2,5\n3,5;4,5\n", ";", ","),
    "no header, decimal commas": ("1,5;2,5\n3,5;4,5\n", ";", ","),
    "semicolons and points": ("a;b\n1.5;2.25\n", ";", "."),
    "tabs and thousands": ("a\tb\n1.234,5\tx\n", "\t", ","),
    "bars": ("a|b\n1|2\n", "|", "."),
    "three digits after the comma do not tell": ("a;b\n1,234;2\n", ";", "."),
    "commas and points both": ("a;b\n1,5;2.5\n", ";", "."),
    "commas in a text column": ("a;b\nx, y;1\nx, y, z;2\n", ";", "."),
    "one column": ("a\n1\n2\n", ",", "."),
    "one column, decimal commas": ("a\n1,5\n2,25\n", ";", ","),
    "one ragged row": ("a,b,c\n" + "1,2,3\n" * 9 + "1,2,3,4\n", ",", "."),
}


@pytest.mark.parametrize(("text", "delimiter", "decimal"), [pytest.param(*v, id=k) for k, v in CASES.items()])
def test_delimiter_and_decimal_sign(tmp_path, text, delimiter, decimal):
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    found = detect_dialect(ByteSource(path, path.name), "utf-8-sig")
    assert (found.delimiter, found.decimal) == (delimiter, decimal)


@pytest.mark.parametrize(
    ("header", "is_header"),
    [
        ("a,1", True),
        ("2020,2021", False),
        ("0,1,2", True),
        ("0,1", False),  # two columns of zeros and ones look the same
        (",0,1,2", True),
        ("1,2,3", False),
        ("1,,3", False),
        ("-1e5,+.5", False),
        ("1;5", True),
    ],
)
def test_header_or_data(tmp_path, header, is_header):
    path = tmp_path / "t.txt"
    n_fields = header.count(",") + 1
    path.write_text(f"{header}\n{','.join(['7'] * n_fields)}\n", encoding="utf-8")
    found = detect_dialect(ByteSource(path, path.name), "utf-8-sig", delimiter=",")
    assert found.n_header_lines == int(is_header)
    assert found.names[0] == ("column_1" if not is_header or header.startswith(",") else header.split(",")[0])


def test_header_after_blank_lines_and_over_several(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('\n\n"a\nb",c\n1,2\n', encoding="utf-8")
    found = detect_dialect(ByteSource(path, path.name), "utf-8-sig")
    assert found.n_header_lines == 4
    assert found.names == ("a\nb", "c")


@pytest.mark.parametrize(
    ("header", "is_told"),
    [
        ("Oslo,77516,0", True),
        ("city,1799,0", True),
        ("city,2019,2020", False),
        ("city,1850,2101", False),
        ("city,mm,0", False),
    ],
)
def test_names_that_look_like_data_are_told(tmp_path, header, is_told):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\nRome,2,3\n", encoding="utf-8")
    said = detect_dialect(ByteSource(path, path.name), "utf-8-sig").said
    assert [notice.kind == "names_are_numbers" for notice in said] == [True] * is_told


def test_duplicates_that_look_like_data_are_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("tcp,0.00,0.00\nudp,2,3\n", encoding="utf-8")
    with pytest.raises(
        InvalidInput, match=r"'0.00' \(columns 2, 3\).*If the file has no line of column names, add one"
    ):
        detect_dialect(ByteSource(path, path.name), "utf-8-sig")


@pytest.mark.parametrize(("n", "words"), [(5, "column_5."), (6, "column_5, ….")])
def test_columns_without_a_name_are_counted(tmp_path, n, words):
    path = tmp_path / "t.csv"
    path.write_text("," * n + "z\n" + "1," * n + "2\n", encoding="utf-8")
    (notice,) = detect_dialect(ByteSource(path, path.name), "utf-8-sig").said
    assert notice.text.startswith(f"{n} columns without a name are called column_1, column_2,")
    assert notice.text.endswith(words)


@pytest.mark.parametrize(
    ("cells", "is_sure"), [("1.5;2", True), ("1,5;2.5", False), ("1,234;2", False), ("x;y", False)]
)
def test_the_decimal_sign_is_sure_only_where_a_cell_shows_it(tmp_path, cells, is_sure):
    path = tmp_path / "t.csv"
    path.write_text(f"a;b\n{cells}\n", encoding="utf-8")
    found = detect_dialect(ByteSource(path, path.name), "utf-8-sig")
    assert (found.decimal, found.decimal_is_sure) == (".", is_sure)


def test_names_of_columns_tell_nothing_of_the_decimal_sign(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("dose;0,5;2,5\nA;1,234;2\nB;3,456;4\n", encoding="utf-8")
    found = detect_dialect(ByteSource(path, path.name), "utf-8-sig")
    assert (found.decimal, found.decimal_is_sure) == (".", False)
    assert not any(notice.kind == "decimal_comma" for notice in found.said)
