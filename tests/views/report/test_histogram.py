"""The histogram: every row in one bar, odd ones in the colour of oddness and tall enough to be seen."""

from __future__ import annotations

import re

import numpy as np
import pytest
from views.report.drawn import Mark, amount, mark, marks

from tellwhy.views.page.scores import Bins, bin_scores, draw_histogram
from tellwhy.views.page.svg import PLOT_HEIGHT, choose_ticks, round_ticks

RNG = np.random.default_rng(0)
USUAL = RNG.normal(5.0, 1.0, 4000).clip(1.0, 9.0)
FEW_ODD = np.concatenate([USUAL, [10.2, 10.9, 11.5]])


def bars(picture: str) -> list[Mark]:
    return [m for m in marks(picture) if m.tag == "rect" and m.kind in ("odd", "usual")]


def rows_of(bar: Mark) -> int:
    return int(amount(re.search(r": (.*) rows?$", bar.words)[1]))  # type: ignore[index]


def tick_texts(picture: str, anchor: str) -> list[str]:
    return [m.words for m in marks(picture, "tick") if m.attributes["text-anchor"] == anchor]


def test_few_odd_rows_are_counted_on_a_logarithmic_scale() -> None:
    bins = bin_scores(FEW_ODD, 10.0)
    assert bins.log_counts
    drawn = bars(draw_histogram(bins, "label"))
    odd = [bar for bar in drawn if bar.kind == "odd"]
    assert sum(rows_of(bar) for bar in odd) == 3
    tallest = max(bar.at("height") for bar in drawn)
    assert min(bar.at("height") for bar in odd) > 0.08 * tallest  # 1 of 400 would be a quarter of a per cent
    assert tick_texts(draw_histogram(bins, ""), "end")[:4] == ["rows", "0", "1", "10"]


@pytest.mark.parametrize(
    ("scores", "threshold"),
    [
        (np.concatenate([USUAL, RNG.uniform(10, 11, 400)]), 10.0),  # many odd rows
        (np.concatenate([USUAL[:300], [10.2]]), 10.0),  # few rows at all
        (USUAL, 10.0),  # nothing above the threshold
    ],
    ids=["many odd", "few rows", "none odd"],
)
def test_other_counts_are_proportional_to_their_bars(scores: np.ndarray, threshold: float) -> None:
    bins = bin_scores(scores, threshold)
    assert not bins.log_counts
    drawn = bars(draw_histogram(bins, ""))
    heights = np.array([bar.at("height") for bar in drawn])
    counts = np.array([rows_of(bar) for bar in drawn])
    np.testing.assert_allclose(heights / heights.max(), counts / counts.max(), atol=1e-3)
    assert all(bar.at("y") + bar.at("height") == pytest.approx(PLOT_HEIGHT) for bar in drawn)


@pytest.mark.parametrize("threshold", [6.0, 10.0, 20.0])
def test_bars_above_the_threshold_and_only_those_are_odd(threshold: float) -> None:
    picture = draw_histogram(bin_scores(FEW_ODD, threshold), "")
    drawn = bars(picture)
    assert sum(rows_of(bar) for bar in drawn) == len(FEW_ODD)
    assert sum(rows_of(bar) for bar in drawn if bar.kind == "odd") == (threshold < FEW_ODD).sum()
    for bar in drawn:
        start = amount(re.search("score (?:above )?(.*?)( to|:)", bar.words)[1])  # type: ignore[index]
        assert (bar.kind == "odd") == (start >= threshold - 1e-3)


def test_the_threshold_stands_between_usual_and_odd_bars() -> None:
    picture = draw_histogram(bin_scores(FEW_ODD, 10.0), "")
    line = mark(picture, "threshold").at("x")
    assert max(bar.end for bar in bars(picture) if bar.kind == "usual") <= line
    assert min(bar.at("x") for bar in bars(picture) if bar.kind == "odd") >= line
    assert mark(picture, "threshold-text").words == "threshold 10"


def heavy() -> tuple[np.ndarray, Bins]:
    scores = np.exp(RNG.normal(0, 2, 2000))
    return scores, bin_scores(scores, 20.0)


def test_logarithmic_scores_are_told_as_scores() -> None:
    scores, bins = heavy()
    picture = draw_histogram(bins, "")
    assert mark(picture, "threshold-text").words == "threshold 20"
    for bar in bars(picture)[1:]:  # the lowest hundredth joins the first bar
        low, high = (amount(text) for text in re.findall("[0-9.]+(?: × 10[⁻⁰-⁹]+)?", bar.words)[:2])
        inside = ((scores > low * 0.9995) & (scores <= high * 1.0005)).sum()
        assert abs(inside - rows_of(bar)) <= 2  # the words round the edges
    assert "logarithmic scale" in mark(picture, "axis-title").words
    ticks = [amount(text) for text in tick_texts(picture, "middle")]
    assert ticks == sorted(ticks)
    assert {1.0, 10.0, 100.0} <= set(ticks)


def test_scores_far_beyond_the_others_are_gathered_in_a_last_odd_bar() -> None:
    scores = np.concatenate([USUAL, [10.5, 2000.0, 3000.0]]) - 5.0  # below 0 too, so that no logarithm serves
    bins = bin_scores(scores, 5.0)
    assert (bins.log_scores, bins.beyond) == (False, 2)
    picture = draw_histogram(bins, "")
    last = bars(picture)[-1]
    assert (last.kind, rows_of(last)) == ("odd", 2)
    assert last.words.startswith("score above ")
    assert last.end <= 100
    assert tick_texts(picture, "end")[-1].startswith(">")
    assert amount(tick_texts(picture, "end")[-1][1:]) < 2000


def test_without_a_threshold_no_bar_is_odd() -> None:
    scores = np.concatenate([USUAL, [2000.0, 3000.0]])
    bins = bin_scores(scores, np.inf)
    assert bins.beyond == 2
    drawn = bars(draw_histogram(bins, ""))
    assert {bar.kind for bar in drawn} == {"usual"}
    assert sum(rows_of(bar) for bar in drawn) == len(scores)


def test_ticks_stand_at_their_place() -> None:
    picture = draw_histogram(bin_scores(FEW_ODD, 10.0), "")
    ticks = [m for m in marks(picture, "tick") if m.attributes["text-anchor"] == "middle"]
    line = mark(picture, "threshold").at("x")
    scale = [
        (tick.at("x") - line) / (float(tick.words) - 10.0) for tick in ticks if float(tick.words) != 10.0
    ]
    assert len(scale) >= 3
    assert min(scale) == pytest.approx(max(scale), rel=0.01)
    assert min(scale) > 0


def test_ticks_of_logarithmic_axes() -> None:
    assert round_ticks(0.9, 25.0) == [1, 2, 5, 10, 20]
    assert round_ticks(0.9, 2500.0) == [1, 10, 100, 1000]  # steps of 2 and 5 would crowd
    assert len(round_ticks(1e-9, 1e9)) <= 10


def test_ticks_of_an_axis_of_no_length() -> None:
    assert choose_ticks(3.0, 3.0, 5) == [3.0]
    assert choose_ticks(np.nan, 3.0, 5) == []
    assert choose_ticks(-1.0, 1.0, 4) == [-1.0, -0.5, 0.0, 0.5, 1.0]


def test_steps_between_powers_of_ten_only_where_there_is_room() -> None:
    assert round_ticks(1.0, 200.0) == [1, 2, 5, 10, 20, 50, 100, 200]
    assert round_ticks(1.0, 1000.0) == [1, 10, 100, 1000]
    assert round_ticks(1e-6, 1e6) == pytest.approx([1e-6, 1e-4, 1e-2, 1, 1e2, 1e4, 1e6])
