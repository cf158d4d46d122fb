from __future__ import annotations

import pyarrow as pa
import pytest

from tellwhy.data.reading.cells import blank_missing, read_numbers
from tellwhy.results.notice import say_all

NUMBERS = {
    "thousands and decimals": (["1,234.5", "7"], ".", False, [1234.5, 7]),
    "two groups": (["1,234,567", None, "12"], ".", False, [1234567, None, 12]),
    "European": (["1.234,5", "-3"], ".", False, [1234.5, -3]),
    "European, known": (["1.234", "999"], ",", True, [1234, 999]),
    "decimal comma in quotes": (["3,14", "2,7"], ".", False, [3.14, 2.7]),
    "zero before the comma": (["0,123", "1,234"], ".", False, [0.123, 1.234]),
    "spaces": (["1 234", "12 345"], ".", False, [1234, 12345]),
    "no-break spaces": (["1\u00a0234,5", "2"], ",", True, [1234.5, 2]),
    "apostrophes": (["1'234.5", "2"], ".", False, [1234.5, 2]),
    "points in a file of commas": (["1.5", "2.25"], ",", True, [1.5, 2.25]),
    "exponents in a file of commas": (["1e5", "2"], ",", True, [1e5, 2]),
    "already plain": (["1", "2.5"], ".", False, [1, 2.5]),
}


@pytest.mark.parametrize(
    ("cells", "decimal", "is_sure", "expected"), [pytest.param(*v, id=k) for k, v in NUMBERS.items()]
)
def test_numbers_written_for_people(cells, decimal, is_sure, expected):
    table, _ = read_numbers(pa.table({"x": pa.chunked_array([cells])}), decimal=decimal, is_sure=is_sure)
    assert table["x"].to_pylist() == expected


@pytest.mark.parametrize(
    "cells",
    [
        ["1,234", "2,345"],
        ["1.234.5"],
        ["12,34.5"],
        ["1,2,3"],
        ["31.12.2024"],
        ["a"],
        ["1,234.5", "x"],
        [None],
    ],
)
def test_ambiguous_or_other_text_stays_text(cells):
    table = pa.table({"x": pa.chunked_array([cells], type=pa.string())})
    read, notices = read_numbers(table, decimal=".", is_sure=False)
    assert read["x"].to_pylist() == cells
    assert notices == []


def test_a_notice_shows_how_a_cell_was_read():
    table = pa.table({"amount": pa.chunked_array([["1.234,5"]])})
    _, notices = read_numbers(table, decimal=".", is_sure=False)
    assert say_all(notices) == ["Read numbers in column 'amount' as written for people: 1.234,5 is 1234.5."]


def test_blanks():
    table = pa.table({"x": [" a ", " NA", "-", "", "b-c", None], "n": [1, 2, 3, 4, 5, 6]})
    assert blank_missing(table)["x"].to_pylist() == ["a", None, None, None, "b-c", None]


@pytest.mark.parametrize("space", [" ", "\u00a0", "\u202f", "'", "’"])
def test_every_sign_between_thousands(space):
    cells = [f"12{space}345{space}678", "7"]
    table, notices = read_numbers(pa.table({"x": pa.chunked_array([cells])}), decimal=".", is_sure=False)
    assert table["x"].to_pylist() == [12345678, 7]
    assert say_all(notices) == [f"Read numbers in column 'x' as written for people: {cells[0]} is 12345678."]


def test_a_word_after_many_numbers_keeps_the_column_text():
    cells = ["1,234.5"] * 500 + ["n.d."]
    table, notices = read_numbers(pa.table({"x": pa.chunked_array([cells])}), decimal=".", is_sure=False)
    assert (table["x"].to_pylist(), notices) == (cells, [])
    plain = ["1"] * 500 + ["n.d."]
    table, _ = read_numbers(pa.table({"x": pa.chunked_array([plain])}), decimal=".", is_sure=False)
    assert table["x"].to_pylist() == plain


def test_the_known_decimal_sign_never_separates_thousands():
    """Arrow does not read the plus; to take 1,234 for a thousand would be wrong by that factor."""
    cells = ["+1,234", "+2,345"]
    table, notices = read_numbers(pa.table({"x": pa.chunked_array([cells])}), decimal=",", is_sure=True)
    assert (table["x"].to_pylist(), notices) == (cells, [])
