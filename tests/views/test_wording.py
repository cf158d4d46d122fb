"""Numbers, counts and cells read as they are: nothing is rounded into another claim."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from tellwhy.words import wording
from tellwhy.words.wording import THIN

NUMBERS = {
    "zero": (0.0, "0"),
    "small": (0.001234, "0.001234"),
    "smaller": (0.0009996, "9.996 × 10⁻⁴"),
    "thousands": (9999.0, "9999"),
    "ten thousands": (12345.0, f"12{THIN}345"),
    "millions, negative": (-7654321.0, f"−7{THIN}654{THIN}321"),
    "billions": (2.5e9, "2.5 × 10⁹"),
    "rounded up": (9999.96, f"10{THIN}000"),
    "digits that say nothing": (2.500, "2.5"),
    "infinite": (np.inf, "∞"),
    "infinitely negative": (-np.inf, "−∞"),
    "not a number": (np.nan, "–"),
    "nothing": (None, "–"),
}


@pytest.mark.parametrize(("value", "words"), [pytest.param(*v, id=k) for k, v in NUMBERS.items()])
def test_numbers(value: float | None, words: str) -> None:
    assert wording.number(value) == words


@pytest.mark.parametrize(
    ("n", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (10**5, "100\u202f000 rows")]
)
def test_counts(n: int, words: str) -> None:
    assert wording.count(n, "row") == words


def test_a_plural_of_its_own() -> None:
    assert [wording.count(n, "class", "classes") for n in (1, 2)] == ["1 class", "2 classes"]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (1.0, "100"),
        (0.9999, "99.9"),  # never all
        (0.991, "99.1"),
        (0.99, "99"),
        (0.504, "50"),
        (0.0994, "9.9"),
        (0.0001, "0.01"),
        (0.00009, "<0.01"),  # never nothing
        (0.0, "0"),
    ],
)
def test_shares(part: float, words: str) -> None:
    assert wording.share(part) == f"{words}{THIN}%"


def test_no_share() -> None:
    assert wording.share(np.nan) == "–"
    assert wording.percentile(np.nan) == "–"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([34.4712, 33.2, -9.05], ["34.47", "33.20", "−9.05"]),
        ([0.0, 0.5], ["0.0000", "0.5000"]),
        ([12345.6, 3.0], [f"12{THIN}346", "3"]),
        ([2e6, 1.5], [f"2{THIN}000{THIN}000", "1.5"]),  # one size for both would be absurd
        ([0.005, 0.001], ["0.005", "0.001"]),
        ([3.0, np.nan, np.inf], ["3.000", "–", "∞"]),
        ([0.0, 0.0], ["0", "0"]),
        ([], []),
    ],
)
def test_a_column_of_numbers_has_one_number_of_decimals(values: list[float], words: list[str]) -> None:
    assert wording.aligned(values) == words


CELLS = {
    "number": (3.14159, "3.142"),
    "whole number": (np.int64(12), "12"),
    "true": (True, "True"),
    "false of numpy": (np.bool_(False), "False"),
    "text": (" two\n words\t", "two words"),
    "day": (pd.Timestamp("2019-03-01"), "2019-03-01"),
    "moment": (datetime.datetime(2019, 3, 1, 12, 30), "2019-03-01 12:30:00"),
    "None": (None, "missing"),
    "NaN": (np.float64("nan"), "missing"),
    "NaT": (pd.NaT, "missing"),
    "NA": (pd.NA, "missing"),
    "a list is not missing": ([None], "[None]"),
    "empty text": ("", ""),
}


@pytest.mark.parametrize(("value", "words"), [pytest.param(*v, id=k) for k, v in CELLS.items()])
def test_cells(value: object, words: str) -> None:
    assert wording.cell(value) == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.9, 4.1, "0.9–4.1"),
        (0, 5, "0–5"),
        (-3.0, 5.0, "−3 to 5"),
        (-5, -3, "−5 to −3"),
        (5.0, 5.0, "5"),
        (2.00001, 2.00002, "2"),
        ("2020-01-02", "2020-01-06", "2020-01-02 to 2020-01-06"),
    ],
)
def test_ranges(low: object, high: object, words: str) -> None:
    assert wording.between(low, high) == words


def test_moments() -> None:
    texts = ["2019-03-01 00:00", "2019-03-01T00:00:00.000", "2019-03-01T00:00:01", "soon"]
    assert [wording.moment(text) for text in texts] == [
        "2019-03-01",
        "2019-03-01",
        "2019-03-01 00:00:01",
        "soon",
    ]


def test_long_texts_are_cut_with_an_ellipsis() -> None:
    assert wording.shorten("x" * 60) == "x" * 60
    assert wording.shorten("x" * 61) == "x" * 59 + "…"
    assert wording.shorten("ab cd", 4) == "ab…"
    assert len(wording.cell("x" * 5000)) == wording.CELL_LENGTH


@pytest.mark.parametrize("mark", ["\x00", "\x1b", "\x9f", "\u202e", "\u2066", "\ud800"])
def test_marks_that_could_turn_text_around_are_replaced(mark: str) -> None:
    assert wording.clean(f"a{mark}b") == "a\ufffdb"
