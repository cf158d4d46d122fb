"""Sentences on what was left out or filled in: every column and cell is counted once."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.data.columns.encoder import _count_missing, collect_left_out
from tellwhy.data.columns.reading import Labels
from tellwhy.results.notice import Notice, say_all


def tell_left_out(*given):
    return say_all(collect_left_out(*given))


def tell_missing(*given):
    return say_all(_count_missing(*given))


@pytest.mark.parametrize(("n", "n_sentences"), [(1, 1), (10, 10), (11, 1)])
def test_up_to_ten_columns_get_a_sentence_each(n: int, n_sentences: int) -> None:
    found = tell_left_out({f"c{i}": "it has no values" for i in range(n)})
    assert len(found) == n_sentences
    if n == 11:
        assert found == [
            "Left out 11 columns, each because it has no values: 'c0', 'c1', 'c2', 'c3', 'c4', …."
        ]


def test_reasons_are_counted_apart() -> None:
    left_out = {f"c{i}": "empty" for i in range(12)} | {"id": "an identifier"}
    assert tell_left_out(left_out) == [
        "Left out 'id': an identifier.",
        "Left out 12 columns, each because empty: 'c0', 'c1', 'c2', 'c3', 'c4', ….",
    ]


@pytest.mark.parametrize(("n", "end"), [(5, "'c4'."), (6, "'c4', ….")])
def test_an_ellipsis_stands_for_columns_that_are_not_named(n: int, end: str) -> None:
    said = Notice("varies_only_here", {"columns": [f"c{i}" for i in range(n)]}).text
    assert said.endswith(end)


def gaps(*rows: int, n: int = 10) -> np.ndarray:
    values = np.arange(float(n))
    values[list(rows)] = np.nan
    return values


def test_cells_are_counted_by_column_and_what_was_done_by_kind() -> None:
    values = {"a": gaps(1, 2), "b": gaps(), "c": gaps(3), "k": Labels(np.array([-1, 0] * 5), ("x",))}
    kinds = {"a": "number", "b": "number", "c": "boolean", "k": "category"}
    assert tell_missing(values, kinds, "impute") == [
        "Filled missing numbers with the median: 'a' (2).",
        "Filled missing booleans with the more common value: 'c' (1).",
        "Missing categories count as a label of their own: 'k' (5).",
    ]
    assert tell_missing({"b": gaps()}, kinds, "impute") == []


def test_a_row_with_several_gaps_is_left_out_once() -> None:
    values = {"a": gaps(1, 2), "b": gaps(2, 3)}
    kinds = dict.fromkeys(values, "number")
    assert tell_missing(values, kinds, "drop") == ["Left out 3 rows with missing cells: 'a' (2), 'b' (2)."]


@pytest.mark.parametrize(
    ("n", "end"), [(20, "'c19' (2)."), (21, "'c19' (2) and 1 more column (2 cells)."), (23, "(6 cells).")]
)
def test_columns_beyond_twenty_are_summed_up(n: int, end: str) -> None:
    values = {f"c{i}": gaps(1, 2) for i in range(n)}
    (found,) = tell_missing(values, dict.fromkeys(values, "number"), "impute")
    assert found.endswith(end)
    assert found.count("'c") == min(n, 20)
