"""A card shows each main column once, joins the small ones, and its parts make up the score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from views.example_run import run_of
from views.report.drawn import amount, mark, marks

from tellwhy.results.result import Typical
from tellwhy.views.page.anomalies import Card, make_cards
from tellwhy.views.page.shell import Limits
from tellwhy.words.wording import THIN

NAMES = [f"c{j}" for j in range(8)]


def card_of(values: list[float], **settings: object) -> Card:
    return make_cards(run_of(values, NAMES[: len(values)], **settings), Limits())[0]  # type: ignore[arg-type]


def lines(card: Card) -> list[tuple[str, str, str]]:
    return [(str(f.name), f.amount, f.share) for f in card.factors]


def test_columns_with_less_than_two_per_cent_are_joined() -> None:
    values = [1.0, 30.0, 50.0, 10.0, 8.2, 0.5, 0.2, 0.1]
    assert lines(card_of(values, scores=[110.0])) == [
        ("c2", "50", f"50{THIN}%"),
        ("c1", "30", f"30{THIN}%"),
        ("c3", "10", f"10{THIN}%"),
        ("c4", "8.2", f"8.2{THIN}%"),
        ("4 other columns", "1.8", f"1.8{THIN}%"),
        ("not attributed", "10", ""),
    ]


def test_a_column_with_just_two_per_cent_has_a_line() -> None:
    names = [name for name, *_ in lines(card_of([60.0, 20.0, 16.0, 2.0, 1.0, 1.0]))]
    assert names == ["c0", "c1", "c2", "c3", "2 other columns", "not attributed"]


def test_three_columns_are_named_however_small_they_are() -> None:
    names = [name for name, *_ in lines(card_of([100.0, 0.3, 0.2, 0.1]))]
    assert names == ["c0", "c1", "c2", "1 other column", "not attributed"]


def test_many_large_columns_are_cut_at_the_limit() -> None:
    run = run_of([1.0] * 8, NAMES)
    names = [str(f.name) for f in make_cards(run, Limits(factors=5))[0].factors]
    assert names == ["c0", "c1", "c2", "c3", "c4", "3 other columns", "not attributed"]


def test_what_lowers_a_score_is_ranked_by_size_and_has_no_share() -> None:
    card = card_of([4.0, -6.0, 1.0], scores=[-1.0])
    assert lines(card)[:3] == [("c1", "−6", ""), ("c0", "4", f"80{THIN}%"), ("c2", "1", f"20{THIN}%")]
    for factor, color in zip(card.factors, ("usual", "odd", "odd", "rest"), strict=True):
        (drawn,) = [m for m in marks(factor.bar, color) if m.tag == "rect"]
        assert drawn.at("width") >= 0.4


def test_strengths_of_other_kinds_are_no_shares_and_have_no_rest() -> None:
    card = card_of([4.0, -6.0, 1.0, 0.01], kind="sensitivity")
    assert lines(card) == [("c1", "−6", ""), ("c0", "4", ""), ("c2", "1", "")]
    assert all(marks(f.bar, "odd") and not marks(f.bar, "usual") for f in card.factors)
    assert "do not add up" in card.balance


def test_bars_share_one_axis_that_holds_every_whisker() -> None:
    card = card_of([6.0, -2.0, 1.0], scores=[5.0], stderr=[[3.0, 1.0, 0.5]])
    first, second, third = (f.bar for f in card.factors[:3])
    # From −3 (−2 and its error) to 9 (6 and its error): zero is at a quarter, one unit is a twelfth.
    assert mark(first, "zero").at("x") == pytest.approx(25)
    assert (mark(first, "odd").at("x"), mark(first, "odd").end) == pytest.approx((25, 75))
    assert (mark(first, "whisker").at("x"), mark(first, "whisker").end) == pytest.approx((50, 100))
    assert mark(second, "usual").at("x") == pytest.approx(25 - 200 / 12, abs=0.01)
    assert mark(second, "whisker").at("x") == pytest.approx(0, abs=0.01)
    assert mark(third, "whisker").end == pytest.approx(25 + 150 / 12, abs=0.01)
    assert [f.error for f in card.factors] == ["± 3", "± 1", "± 0.5", ""]


def test_rounding_errors_are_not_told_as_parts() -> None:
    values = [0.1] * 3 + [0.2]
    card = card_of(values, scores=[0.1 + 0.1 + 0.1 + 0.2 + 1e-15])
    assert lines(card)[-1] == ("not attributed", "0", "")
    assert card.balance.startswith("Score 0.5000 = 0.5000 from columns + 0.0000 not attributed.")


def test_the_balance_adds_up_in_the_order_of_its_words() -> None:
    card = card_of([4.0, 3.0], scores=[10.0], base_values=[1.0])
    assert card.balance.startswith(
        "Score 10.00 = 7.00 from columns + 1.00 before any column + 2.00 not attributed."
    )
    assert "before any column" not in card_of([4.0, 3.0], scores=[10.0]).balance


@pytest.mark.parametrize("as_frame", [False, True])
def test_cells_are_those_of_the_row_and_column(as_frame: bool) -> None:
    names = ["a", "b"]
    data: object = np.array([[1.5, 2.5], [3.5, 4.5]])
    if as_frame:
        data = pd.DataFrame(data, columns=names)[["b", "a"]]
    run = run_of([[2.0, 1.0], [1.0, 2.0]], names, data=data, typical=[Typical("a", "number")])
    shown = [
        {str(f.name): str(f.value) for f in c.factors if not f.is_rest} for c in make_cards(run, Limits())
    ]
    assert shown == [{"a": "1.5", "b": "2.5"}, {"b": "4.5", "a": "3.5"}]


def test_a_reason_tells_the_cell_before_the_data_do() -> None:
    run = run_of([2.0, 1.0], ["a", "b"], cells=["as it was read"], data=np.array([[7.0, 8.0]]))
    assert [f.value for f in make_cards(run, Limits())[0].factors[:2]] == ["as it was read", "8"]


def test_every_column_stands_beside_what_is_usual_in_it() -> None:
    quantiles = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    typical = [Typical("c0", "number", quantiles=quantiles), Typical("c1", "category", shares={"x": 1.0})]
    card = card_of([2.0, 1.0, 0.5], typical=typical, cells=[9.0, "y", 1.0])
    first, second, unknown, rest = (f.beside for f in card.factors)
    assert first is not None
    assert second is not None
    assert first.words == "usually 1–5, median 3"
    assert first.strip is not None
    assert [c.value for c in second.categories] == ["x", "y"]
    assert unknown is None
    assert rest is None


def test_only_what_would_change_is_told_of_the_nearest_normal_row() -> None:
    normal = {"c0": 3.00001, "c1": 4.0, "c2": "2020-05-31T00:00:00"}
    typical = [Typical("c2", "date")]
    card = card_of([1.0, 2.0, 3.0], cells=[3.0, 9.0, "2031-01-01"], nearest_normal=normal, typical=typical)
    assert card.normal == [("c1", "4", "9"), ("c2", "2020-05-31", "2031-01-01")]


def test_long_lists_of_changes_are_cut() -> None:
    run = run_of([1.0] * 8, NAMES, cells=[1.0] * 8, nearest_normal=dict.fromkeys(NAMES, 5.0))
    assert [name for name, *_ in make_cards(run, Limits(factors=3))[0].normal] == NAMES[:3]


def test_only_listed_rows_have_cards() -> None:
    run = run_of(np.ones((5, 2)), ["a", "b"])
    assert len(make_cards(run, Limits(cards=3))) == 3
    assert len(make_cards(run, Limits(cards=3, listed=2))) == 2
    assert make_cards(replace(run, anomalies=[]), Limits()) == []


def test_amounts_of_a_card_make_up_the_score_for_any_values() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.normal(size=8) * 10.0 ** rng.integers(-3, 3, size=8)
        card = card_of(list(values), scores=[values.sum() + rng.normal()])
        total = sum(amount(f.amount) for f in card.factors)
        assert total == pytest.approx(
            amount(card.balance.split(" = ")[0][6:]), abs=0.02 * np.abs(values).max()
        )


def test_every_kind_of_explanation_has_its_words():
    from tellwhy.core.explanation import KINDS
    from tellwhy.views.page.anomalies import KIND_WORDS
    from tellwhy.views.plots.style import AXIS_TITLES

    assert set(KIND_WORDS) == set(AXIS_TITLES) == set(KINDS)
