"""A value beside what is usual: the range named is the range drawn, and the row's own value is marked."""

from __future__ import annotations

import pandas as pd
import pytest
from views.report.drawn import mark, marks

from tellwhy.results.result import Typical
from tellwhy.views.page.anomalies import BesideUsual, show_beside_usual, show_value
from tellwhy.words.wording import THIN

NUMBER = Typical("n", "number", quantiles=[0.0, 10.0, 30.0, 55.0, 70.0, 90.0, 100.0])
DATE = Typical(
    "d",
    "date",
    quantiles=list(range(7)),
    labels=["2020-01-01", "2020-02-01", "2020-04-01", "2020-06-01", "2020-08-01", "2020-11-01", "2021-01-01"],
)


def strip(usual: Typical, value: object, normal: object = None) -> str:
    found = show_beside_usual(usual, value, normal).strip
    assert found is not None
    return found


def test_numbers_in_words_and_as_a_strip() -> None:
    assert show_beside_usual(NUMBER, 40.0, None).words == "usually 10–90, median 55"
    drawn = strip(NUMBER, 40.0, 20.0)
    # The axis leaves 2 % free at each end: 0 lies at 2 %, 100 at 98 %.
    assert (mark(drawn, "range-all").at("x"), mark(drawn, "range-all").end) == pytest.approx((2, 98))
    assert (mark(drawn, "range-most").at("x"), mark(drawn, "range-most").end) == pytest.approx((11.6, 88.4))
    assert (mark(drawn, "range-half").at("x"), mark(drawn, "range-half").end) == pytest.approx((30.8, 69.2))
    assert mark(drawn, "median").at("x") == pytest.approx(2 + 0.96 * 55)
    assert mark(drawn, "value-mark").at("cx") == pytest.approx(2 + 0.96 * 40)
    diamond = next(m for m in marks(drawn) if m.tag == "svg" and "x" in m.attributes)
    assert diamond.at("x") == pytest.approx(2 + 0.96 * 20)
    assert marks(drawn)[0].words == "40; usually 10–90, median 55"


def test_no_mark_without_a_value() -> None:
    assert not marks(strip(NUMBER, None), "value-mark")
    assert not marks(strip(NUMBER, 40.0), "normal-mark")
    assert marks(strip(NUMBER, None))[0].words.startswith("missing;")


def test_negative_ranges_have_a_word_between_them() -> None:
    usual = Typical("n", "number", quantiles=[-9.0, -5.0, -3.0, 0.0, 3.0, 5.0, 9.0])
    assert show_beside_usual(usual, 1.0, None).words == "usually −5 to 5, median 0"


def test_dates_in_words_and_as_a_strip() -> None:
    assert show_beside_usual(DATE, "2020-06-01", None).words == "usually 2020-02-01 to 2020-11-01"
    drawn = strip(DATE, "2020-06-01", pd.Timestamp("2020-02-01"))
    assert mark(drawn, "value-mark").at("cx") == pytest.approx(mark(drawn, "median").at("x"))
    diamond = next(m for m in marks(drawn) if m.tag == "svg" and "x" in m.attributes)
    assert diamond.at("x") == pytest.approx(mark(drawn, "range-most").at("x"))


def test_cells_of_dates_are_written_without_midnight() -> None:
    assert show_value("2020-06-01T00:00:00", DATE) == "2020-06-01"
    assert show_value("2020-06-01T00:00:00", NUMBER) == "2020-06-01T00:00:00"  # text is shown as it is
    assert show_value(pd.NaT, DATE) == "missing"
    assert show_value(3.0, None) == "3"


def categories(shares: dict[str, float], value: object, kind: str = "category") -> BesideUsual:
    return show_beside_usual(Typical("k", kind, shares=shares), value, None)


def test_categories_are_drawn_against_the_most_common_one() -> None:
    found = categories({"a": 0.4, "b": 0.2, "c": 0.1}, "b").categories
    assert [(c.value, c.share, c.is_this_row) for c in found] == [
        ("a", f"40{THIN}%", False),
        ("b", f"20{THIN}%", True),
        ("c", f"10{THIN}%", False),
    ]
    drawn = [m for c in found for m in marks(c.bar) if m.kind in ("odd", "usual")]
    assert [(m.kind, m.at("width")) for m in drawn] == [("usual", 100), ("odd", 50), ("usual", 25)]
    assert marks(found[0].bar)[0].words == f"a: 40{THIN}% of rows"


def test_a_value_never_seen_is_new_and_an_unlisted_one_is_rare() -> None:
    new = categories({"a": 0.6, "b": 0.4}, "z").categories
    assert (new[-1].value, new[-1].share, new[-1].is_this_row) == ("z", "new", True)
    rare = categories({"a": 0.6, "b": 0.2}, "z").categories
    assert (rare[-1].value, rare[-1].share, rare[-1].is_this_row) == ("z", "rare", True)


def test_a_missing_cell_is_no_category() -> None:
    assert not any(c.is_this_row for c in categories({"a": 0.6, "b": 0.4}, None).categories)


@pytest.mark.parametrize("spelled", [{"true": 0.9, "false": 0.1}, {"True": 0.9, "False": 0.1}])
def test_booleans_are_found_however_they_are_spelled(spelled: dict[str, float]) -> None:
    found = categories(spelled, False, "boolean").categories
    assert [c.is_this_row for c in found] == [False, True]


def test_whole_numbers_are_categories_too() -> None:
    assert [c.is_this_row for c in categories({"1": 0.9, "2": 0.1}, 2.0).categories] == [False, True]


def test_nothing_known_is_nothing_shown() -> None:
    found = categories({}, "z")
    assert (found.words, found.strip, found.categories) == ("", None, [])
