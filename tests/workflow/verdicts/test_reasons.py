"""Reasons in words: which columns are named, in what order, with which numbers beside them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from zoo.anomalies import odd_row

from tellwhy.core.explanation import Explanation
from tellwhy.results.result import Reason, Typical
from tellwhy.verdicts.reasons import group_anomalies, is_usual, list_reasons, make_cell_reason
from tellwhy.verdicts.words import make_plain_cell
from tellwhy.words.numbers import write_number
from tellwhy.workflow import explain_table

NAMES = list("abcde")
USUAL = {name: Typical(name, "number", [-9.0, -2.0, -1.0, 0.0, 1.0, 2.0, 9.0]) for name in NAMES}


def told(values, cells, *, kind="attribution", typical=USUAL):
    """Reasons of a single row."""
    values = np.array([values], dtype=float)
    e = Explanation(
        values=values,
        scores=values.sum(axis=1),
        data=pd.DataFrame([cells], columns=NAMES[: values.shape[1]]),
        feature_names=NAMES[: values.shape[1]],
        method="M",
        kind=kind,
    )
    return list_reasons(e, typical)[0]


def test_the_main_columns_are_named_the_largest_share_first():
    found = told([1.0, 6.0, 3.0], [5.0, 5.0, 5.0])
    assert [(r.feature, round(r.share, 3)) for r in found] == [("b", 0.6), ("c", 0.3), ("a", 0.1)]
    assert found[0].text == "b = 5 (usually -2–2) · 60 %"
    assert (found[0].value, found[0].typical) == (5.0, [-2.0, 2.0])


def test_at_most_three_columns_are_named():
    assert [r.feature for r in told([20, 25, 22, 18, 15], [5.0] * 5)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("share", "cell", "is_told"),
    [
        (0.16, 1.0, True),
        (0.14, 1.0, False),  # a value that is usual by itself needs a larger share
        (0.06, 5.0, True),
        (0.04, 5.0, False),  # a smaller one is noise even of an odd value
        (0.14, 2.0, False),  # the ends of the usual range are usual
        (0.14, 2.001, True),
        (0.06, np.nan, True),  # a missing cell is not usual
    ],
)
def test_small_shares_are_told_of_odd_values_only(share, cell, is_told):
    found = told([1.0 - share, share], [5.0, cell])
    assert [r.feature for r in found] == ["a", "b"][: 1 + is_told]


def test_the_first_reason_is_told_however_usual_its_value():
    assert [r.feature for r in told([0.1, 0.1, 0.1, 0.1, 0.6], [0.0] * 5)] == ["e"]
    many = list("abcdefgh")
    e = Explanation(
        values=np.ones((1, 8)),
        scores=np.ones(1),
        data=pd.DataFrame(np.zeros((1, 8)), columns=many),
        method="M",
    )
    (found,) = list_reasons(replace(e, feature_names=many), dict.fromkeys(many, USUAL["a"]))
    assert [(r.feature, r.share) for r in found] == [("a", 0.125)]  # too small a share for any but the first


def test_columns_that_speak_against_are_no_reasons():
    found = told([2.0, -7.0], [5.0, 5.0])
    assert [r.feature for r in found] == ["a"]
    assert found[0].share == pytest.approx(1.0)
    assert told([0.0, 0.0], [5.0, 5.0]) == []


@pytest.mark.parametrize("kind", ["sensitivity", "ranking", "signal"])
def test_what_is_no_part_of_the_score_has_no_percentage(kind):
    found = told([3.0, 1.0], [5.0, 5.0], kind=kind)
    assert found[0].text == "a = 5 (usually -2–2)"


def test_words_of_all_kinds_of_cells():
    typical = {
        "a": Typical("a", "date", [0.0] * 7, [f"2024-01-0{i}" for i in range(1, 8)]),
        "b": Typical("b", "category", shares={"red": 0.7, "blue": 0.2, "green": 0.06, "pink": 0.04}),
        "c": Typical("c", "boolean", shares={"False": 0.97, "True": 0.03}),
        "d": Typical("d", "number", [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0]),
    }
    cells = [pd.Timestamp("2031-05-01"), "violet", True, np.nan]
    texts = {}
    for order in np.eye(4):
        for reason in told(order + 0.01, cells, typical=typical)[:1]:
            texts[reason.feature] = reason.text.split(" · ")[0]
    assert texts == {
        "a": "a = 2031-05-01 (usually 2024-01-02 to 2024-01-06)",
        "b": "b = violet (usually red or blue)",
        "c": "c = True (usually False)",  # 3 % is not usual
        "d": "d = missing (usually 1)",
    }


def usual_words(usual):
    return make_cell_reason("k", "v", usual, 0.5, is_share=False).text


def test_what_is_called_usual_is_usual():
    """The words and the rule that weighs shares agree on every value."""
    category = Typical("k", "category", shares={"red": 0.5, "blue": 0.46, "green": 0.04})
    assert [is_usual(v, category) for v in ("red", "blue", "green", "new")] == [True, True, False, False]
    assert usual_words(category) == "k = v (usually red or blue)"
    even = Typical("k", "category", shares={f"v{i:02d}": 0.02 for i in range(10)})
    assert usual_words(even) == "k = v (many different values)"
    assert usual_words(Typical("k", "category")) == "k = v (never seen)"


def anomaly(row, *parts):
    return odd_row(row, None, 1.0, 99.0, True, [Reason(name, 0.0, [], share) for name, share in parts])


def test_groups_share_the_columns_that_make_up_half_of_the_score():
    found = group_anomalies(
        [
            anomaly(1, ("a", 0.6), ("b", 0.4)),
            anomaly(2, ("a", 0.3), ("b", 0.25), ("c", 0.2)),
            anomaly(3, ("b", 0.4), ("a", 0.35)),
            anomaly(4, ("a", 0.5), ("d", 0.5)),
            anomaly(5, ("c", 0.9)),
            anomaly(6, ("a", 0.8)),
            anomaly(7),
        ]
    )
    assert [(g.features, g.rows) for g in found] == [(["a"], [1, 4, 6]), (["a", "b"], [2, 3])]


def test_numbers_have_four_digits_and_whole_parts_stay_whole():
    numbers = (0.0, 3.0, -0.12345, 1.0005, 12.345, 12345.678, -9999999.0, 1e12, 0.00012346, 0.00001)
    written = ["0", "3", "-0.1235", "1", "12.35", "12346", "-9999999", "1 trillion", "0.0001235", "1e-05"]
    assert [write_number(v) for v in numbers] == written


def test_cells_as_json_has_them():
    cells = [
        np.int64(3),
        np.float64(2.5),
        np.bool_(False),
        "x",
        pd.NA,
        np.nan,
        None,
        pd.Timestamp("2024-05-01"),
    ]
    assert [make_plain_cell(c) for c in cells] == [3, 2.5, False, "x", None, None, None, "2024-05-01"]
    assert [type(make_plain_cell(c)) for c in cells[:3]] == [int, float, bool]


def test_a_verified_number_that_is_ten_times_a_usual_one_is_told_as_a_slip():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"weight": rng.normal(73, 11, 900).round(1), "visits": rng.poisson(5, 900)})
    table.loc[4, "weight"] = 578.0
    table.loc[5, "weight"] = 350.0  # far out, and no power of ten away
    told = {anomaly.row: anomaly.reasons[0].text for anomaly in explain_table(table).anomalies}
    assert "; 10 times too large, a slipped decimal point?) · " in told[4]
    assert "slipped" not in told[5]
