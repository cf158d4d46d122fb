"""How far to trust the reasons: verdicts change where the numbers do, curves are those of their names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from views.example_run import example_run
from views.report.drawn import marks

from tellwhy.results.evidence import Agreement, Detection
from tellwhy.views.page.page import EvidenceView, list_detection_words, make_evidence
from tellwhy.views.page.scores import draw_curves
from tellwhy.views.page.svg import LEFT, PLOT_HEIGHT
from tellwhy.words.wording import THIN

RUN = example_run(200, top=6)
OURS = RUN.explanation.method


def view(**changes: object) -> EvidenceView:
    return make_evidence(replace(RUN, evidence=replace(RUN.evidence, **changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "verdict", "figure"),
    [
        (0.0, "strong", "0"),
        (0.15, "strong", "15"),
        (0.16, "fair", "16"),
        (0.4, "fair", "40"),
        (0.41, "weak", "41"),
        (-0.1, "strong", "0"),
    ],
)
def test_what_is_left_over(part: float, verdict: str, figure: str) -> None:
    found = view(unattributed=part).findings[0]
    assert (found.verdict, found.figure) == (verdict, f"{figure}{THIN}% left over")


@pytest.mark.parametrize(
    ("ours", "verdict", "words"),
    [
        (0.30, "strong", "much faster"),
        (0.31, "fair", "somewhat faster"),
        (0.388, "fair", "somewhat faster"),
        (0.389, "weak", "no faster than random order does: do not rely on the reasons"),
        (0.5, "weak", "do not rely"),
    ],
)
def test_whether_the_named_columns_matter(ours: float, verdict: str, words: str) -> None:
    found = view(flipping_area={OURS: ours, "RandomAttribution": 0.4, "Other": 0.01}).findings[1]
    assert found.verdict == verdict
    assert words in found.words
    assert found.figure.endswith("random order 0.4")


@pytest.mark.parametrize(
    ("shares", "verdict", "figure"),
    [
        ([1.0, 0.6], "strong", "80"),
        ([1.0, 0.58], "fair", "79"),
        ([0.5, 0.5], "fair", "50"),
        ([1.0, 0.0, 0.49], "weak", "50"),
        ([0.2], "weak", "20"),
    ],
)
def test_whether_other_methods_agree(shares: list[float], verdict: str, figure: str) -> None:
    found = view(agreement=[Agreement(f"m{k}", s, 0.5) for k, s in enumerate(shares)]).findings[2]
    assert (found.verdict, found.figure) == (verdict, f"{figure}{THIN}% same main column")


def test_each_other_method_is_told_by_itself() -> None:
    given = [
        Agreement("a", 0.8, 0.91),
        Agreement("b", 0.79, -0.2),
        Agreement("c", 0.5, 0.0),
        Agreement("d", 0.49, 1),
    ]
    found = view(agreement=given).agreement
    assert [(str(o.method), o.words, o.same, o.correlation) for o in found] == [
        ("a", "agrees", f"80{THIN}%", "0.91"),
        ("b", "partly agrees", f"79{THIN}%", "−0.2"),
        ("c", "partly agrees", f"50{THIN}%", "0"),
        ("d", "disagrees", f"49{THIN}%", "1"),
    ]
    drawn = [m for o in found for m in marks(o.bar, "usual")]
    assert [m.at("width") for m in drawn] == pytest.approx([80, 79, 50, 49])


def test_curves_are_listed_ours_first_random_last_the_best_others_between() -> None:
    areas = {"RandomAttribution": 0.5, "e": 0.4, "b": 0.1, OURS: 0.3, "c": 0.2, "d": 0.25}
    flipping = {name: [1.0, area, 0.0] for name, area in areas.items()}
    found = view(flipping=flipping, flipping_area=areas)
    assert [(str(c.name), c.area, c.is_ours) for c in found.legend] == [
        (OURS, "0.3", True),
        ("b", "0.1", False),
        ("c", "0.2", False),
        ("d", "0.25", False),
        ("random order", "0.5", False),
    ]
    assert len({c.class_ for c in found.legend}) == 5
    assert found.legend[-1].class_ == "curve-random"
    assert found.chart is not None
    drawn = {m.kind.split()[1]: m.attributes["points"].split()[1] for m in marks(found.chart, "curve")}
    for line in found.legend:  # the line drawn in a class is the curve of the name beside that class
        height = float(drawn[line.class_].split(",")[1])
        part = (PLOT_HEIGHT - height) / (PLOT_HEIGHT - 28)
        assert part == pytest.approx(float(line.area), abs=1e-3)


def test_curves_start_at_the_top_left_and_end_at_the_right() -> None:
    picture = draw_curves({"a": [1.0, 0.5, 0.0], "b": [1.0, -1.0, 0.0]}, ["x", "y"], "columns", "label")
    first, second = (
        [tuple(float(v) for v in p.split(",")) for p in m.attributes["points"].split()]
        for m in marks(picture, "curve")
    )
    top, bottom = 28.0, float(PLOT_HEIGHT)
    assert first == [
        (0, top),
        (50, pytest.approx((top + bottom) / 2 - (bottom - top) / 4)),
        (100, (top + bottom) / 2),
    ]
    assert second[1] == (50, bottom)


def test_a_curve_that_rises_first_stays_on_the_chart() -> None:
    picture = draw_curves({"a": [1.0, 0.5, 0.0], "b": [1.0, 2.0, 0.0]}, ["x", "y"], "columns", "label")
    heights = [
        [float(p.split(",")[1]) for p in m.attributes["points"].split()] for m in marks(picture, "curve")
    ]
    top, bottom = 28.0, float(PLOT_HEIGHT)
    assert heights[1] == [(top + bottom) / 2, top, bottom]
    assert heights[0][0] == heights[1][0]  # both start at 1


def test_counts_of_columns_stand_below_their_steps() -> None:
    picture = draw_curves({"a": list(np.linspace(1, 0, 11))}, ["x"], "columns", "label")
    ticks = {m.words: m.at("x") for m in marks(picture, "tick") if m.at("y") > PLOT_HEIGHT + 10}
    assert ticks["0"] == LEFT
    assert ticks["10"] == 100
    assert ticks["4"] == pytest.approx(LEFT + (100 - LEFT) * 0.4)


def test_long_curves_keep_both_ends() -> None:
    picture = draw_curves({"a": list(np.linspace(1, 0, 5001))}, ["x"], "columns", "label")
    points = marks(picture, "curve")[0].attributes["points"].split()
    assert len(points) <= 120
    assert points[0].startswith("0.00,")
    assert points[-1].startswith("100.00,")


def test_guessing_is_told_beside_the_average_precision() -> None:
    found = Detection("sick", "yes", 30, 0.9, 0.4, n_alarms=10, precision=0.8, recall=0.25)
    auroc, precision, *at_threshold = list_detection_words(found, 200)
    assert [words[:2] for words in at_threshold] == [("precision", "0.8"), ("recall", "0.25")]
    assert "among the 10 alarms" in at_threshold[0][2]
    silent = list_detection_words(Detection("sick", "yes", 30, 0.9, 0.4, negated=True), 200)
    assert silent[-1][:2] == ("alarms", "0")
    assert "sick ≠ yes" in silent[0][2]
    assert auroc[:2] == ("AUROC", "0.9")
    assert "a row with sick = yes scores higher" in auroc[2]
    assert precision[:2] == ("average precision", "0.4")
    assert precision[2].endswith("guessing would give 0.15")
