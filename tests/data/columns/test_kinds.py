from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.data.columns.kinds import CONSTANT, EMPTY, FREE_TEXT, IDENTIFIER, MIXTURE, judge_column


def judge(cells, name="c", **given):
    settings = {"max_categories": 5, "missing_is_label": True, "keep_numbering": False, **given}
    return judge_column(pd.DataFrame({name: cells}), name, **settings)


DAYS = [f"2024-05-{d:02}" for d in range(1, 31)]
KINDS = {
    "floats": ([1.5, 2.5, 9.0], "number"),
    "nullable": (pd.array([1, 5, None], dtype="Int64"), "number"),
    "decimals": ([decimal.Decimal("1.5"), decimal.Decimal("2"), None], "number"),
    "text of numbers": (["1", "2.5", None], "number"),
    "durations": (pd.to_timedelta([1, 2, 9], unit="h"), "number"),
    "booleans": ([True, False, True], "boolean"),
    "booleans with gaps": ([True, False, None], "boolean"),
    "zeros and ones": ([0, 1, 1], "boolean"),
    "zeros and ones with gaps": ([0, 1, np.nan], "boolean"),
    "time stamps": (pd.to_datetime(["2024-05-01", None, "2024-06-01"]), "date"),
    "time stamps with a zone": (pd.to_datetime(["2024-05-01", "2024-06-01"], utc=True), "date"),
    "periods": (pd.period_range("2024-01", periods=3, freq="M"), "date"),
    "text of dates": (DAYS, "date"),
    "text of dates, one wrong": ([*DAYS[:-1], "soon"], "date"),
    "words": (["a", "b", "a", "b"], "category"),
    "a category type": (pd.Categorical(["a", "b", "c"]), "category"),
    "categories that are numbers": (pd.Categorical([3, 1, 3, 1]), "category"),
    "one word and gaps": (["x", None, None], "category"),
    "many words, each often": ([f"w{i % 9}" for i in range(90)], "category"),
    "four dates in five": ([*DAYS[:24], *["soon"] * 6], ""),
    "a numbering in any order": (np.random.default_rng(0).permutation(50), ""),
    "whole numbers with gaps between them": (np.random.default_rng(0).permutation(50) ** 2, "number"),
    "evenly spaced, not whole": (np.arange(9) / 10, "number"),
    "few whole numbers in a row": ([1, 2, 3, 4], "number"),
}


@pytest.mark.parametrize(("cells", "kind"), [pytest.param(*v, id=k) for k, v in KINDS.items()])
def test_kinds(cells, kind):
    assert judge(cells).kind == kind


LEFT_OUT = {
    "nothing": ([None, None], EMPTY),
    "not a number": ([np.nan, np.nan], EMPTY),
    "one number": ([2.0, 2.0], CONSTANT),
    "one number and gaps": ([2.0, np.nan, 2.0], CONSTANT),
    "one word": (["a", "a"], CONSTANT),
    "one date": (pd.to_datetime(["2024-05-01"] * 3), CONSTANT),
    "one boolean": ([True, True], CONSTANT),
    "counting": (list(range(10, 20)), IDENTIFIER),
    "counting down by three": (list(range(30, 0, -3)), IDENTIFIER),
    "counting as text": ([str(i) for i in range(9)], IDENTIFIER),
    "distinct words": (["ann", "bob", "cid"], IDENTIFIER),
    "distinct words with gaps": (["ann", "bob", None], IDENTIFIER),
    "free text": ([f"t{i % 55}" for i in range(60)], FREE_TEXT),
    "numbers and words": (["1", "2", "3", "kg", "4", "m"], MIXTURE),
}


@pytest.mark.parametrize(("cells", "reason"), [pytest.param(*v, id=k) for k, v in LEFT_OUT.items()])
def test_left_out(cells, reason):
    verdict = judge(cells)
    assert (verdict.kind, verdict.reason) == ("", reason)


@pytest.mark.parametrize(
    "name", ["id", "ID", "customer_id", "CustomerId", "uuid", "row index", "patient.key"]
)
def test_distinct_whole_numbers_under_an_identifying_name(name):
    cells = np.random.default_rng(0).permutation(50) ** 2
    assert judge(cells, name).reason == IDENTIFIER
    assert judge(cells.astype(float), name).reason == IDENTIFIER
    assert judge(cells, name, keep_numbering=True).kind == "number"
    assert judge(cells // 6, name).kind == "number"
    assert judge(cells, "width").kind == "number"


def test_settings():
    assert judge(["x", None, "x"], missing_is_label=False).reason == CONSTANT
    assert judge([f"t{i % 55}" for i in range(60)], max_categories=55).kind == "category"


@pytest.mark.parametrize(("n_words", "is_mistake"), [(1, True), (2, True), (3, False)])
def test_nine_numbers_in_ten_make_text_a_mistake(n_words, is_mistake):
    cells = [str(i % 4) for i in range(20 - n_words)] + ["?"] * n_words
    if is_mistake:
        with pytest.raises(InvalidInput, match=rf"'c' holds '\?' in row {20 - n_words}"):
            judge(cells)
    else:
        assert judge(cells).kind == "category"
