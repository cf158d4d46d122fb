"""Pictures of nodes read back pixel by pixel and point by point."""

from __future__ import annotations

import base64
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from views.report.drawn import Mark, marks

from tellwhy.results.node_picture import NodePicture
from tellwhy.views.page.nodes import (
    LINE_HEIGHT,
    LINE_WIDTH,
    MOST_PIXELS,
    MOST_RINGS,
    PLOT_SIDE,
    Shown,
    draw_pictures,
)
from tellwhy.views.plots.colors import CLASS_COLORS, ODD, SCORE_COLORS
from tellwhy.words.wording import THIN

MISSING = (225, 225, 225)
NAN = np.nan


def rgb(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


def pixels(shown: Shown) -> np.ndarray:
    """The pixels of a map, from the PNG inside the page."""
    content = base64.b64decode(re.search('base64,([^"]*)', str(shown.image))[1])  # type: ignore[index]
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    start = content.index(b"IDAT") + 4
    lines = np.frombuffer(zlib.decompress(content[start:]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def grid(**changes: object) -> NodePicture:
    scores = np.array([0.0, 1.0, 2.0, NAN, 4.0, 10.0])
    made = NodePicture(
        kind="grid",
        shape=(2, 3),
        at=None,
        names=("AI", "SI"),
        data=np.column_stack([scores, -scores]),
        classes=np.array([0, 0, 0, -1, 1, 0]),
        scores=scores,
        context=scores / 2,
        values=np.column_stack([scores, 3 * scores]),
        others={"forest": np.arange(6.0)},
        places=(),
        all_classes=np.array([0, 0, 0, -1, 1, 0]),
        threshold=3.0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def by_title(found: NodePicture) -> dict[str, Shown]:
    return {shown.title: shown for shown in draw_pictures(found)}


def test_maps_of_all_that_is_known_most_relevant_features_first() -> None:
    assert list(by_title(grid())) == [
        "class",
        "score",
        "score that the context adds",
        "relevance of SI",
        "relevance of AI",
        "forest (does not see neighbours)",
        "SI and AI by class",
    ]


def test_classes_have_their_colours_and_missing_nodes_none() -> None:
    shown = by_title(grid())["class"]
    expected = [rgb(CLASS_COLORS[0])] * 3 + [MISSING, rgb(CLASS_COLORS[1]), rgb(CLASS_COLORS[0])]
    np.testing.assert_array_equal(pixels(shown).reshape(-1, 3), expected)
    assert shown.note == f"class 0: 80{THIN}%; class 1: 20{THIN}%."


def test_higher_scores_are_darker() -> None:
    found = pixels(by_title(grid())["score"]).reshape(-1, 3).astype(int)
    assert tuple(found[3]) == MISSING
    assert tuple(found[0]) == rgb(SCORE_COLORS[0][1])
    assert tuple(found[5]) == rgb(SCORE_COLORS[-1][1])
    light = found[[0, 1, 2, 4, 5]].sum(axis=1)
    assert (np.diff(light) < 0).all()


@pytest.mark.parametrize(
    ("scores", "note"),
    [
        (np.arange(1000.0), "0 (light) to 994 (dark, and beyond)"),
        (
            np.append(np.arange(999.0) + 50, 1e6),
            "50 (light) to 1044 (dark, and beyond)",
        ),  # one node is not the scale
        (np.append(np.arange(999.0) - 50, 1e6), "−50 (light) to 944 (dark, and beyond)"),
        (np.append(np.arange(999.0) + 1, 1e6), "0 (light) to 995 (dark, and beyond)"),  # nearly 0 is 0
        (np.full(1000, 7.0), "7 (light) to 7 (dark, and beyond)"),
    ],
)
def test_the_scale_is_told(scores: np.ndarray, note: str) -> None:
    flat = np.zeros(1000)
    found = grid(
        shape=(20, 50),
        scores=scores,
        context=flat,
        classes=flat.astype(int),
        data=np.zeros((1000, 2)),
        values=np.zeros((1000, 2)),
        others={},
    )
    assert by_title(found)["score"].note == note


def test_each_map_shows_its_own_numbers() -> None:
    found = by_title(grid(context=np.array([9.0, 0.0, 0.0, 0.0, 0.0, 0.0])))
    context = pixels(found["score that the context adds"]).reshape(-1, 3).astype(int).sum(axis=1)
    assert context.argmin() == 0
    assert pixels(found["score"]).reshape(-1, 3).astype(int).sum(axis=1).argmin() == 5
    assert found["relevance of SI"].note.startswith("0 (light) to 29.64")  # the 99.5 % quantile


def test_the_slice_of_a_volume_is_told() -> None:
    assert "Slice 7 of the volume" in by_title(grid(at=7))["class"].note


def test_large_maps_keep_every_kth_node() -> None:
    n = 2 * MOST_PIXELS + 1
    flat = np.zeros(3 * n)
    scores = flat.copy()
    scores[3] = 1.0  # line 0, column 3: where every third node is kept
    found = grid(
        shape=(3, n),
        scores=scores,
        context=flat,
        classes=flat.astype(int),
        data=np.zeros((3 * n, 2)),
        values=np.zeros((3 * n, 2)),
        others={},
    )
    drawn = pixels(by_title(found)["score"])
    assert drawn.shape == (1, -(-n // 3), 3)
    assert drawn[0].astype(int).sum(axis=1).argmin() == 1


def sequence(**changes: object) -> NodePicture:
    level = np.array([0.0, 1.0, 5.0, 5.0, 1.0, 10.0])
    scores = np.array([0.0, 0.0, 1.0, 9.0, 0.0, 4.0])
    made = NodePicture(
        kind="time",
        shape=(6,),
        at=None,
        names=("flow", "heat"),
        data=np.column_stack([level, 2 - level]),
        classes=np.array([0, 0, 1, 1, 0, 0]),
        scores=scores,
        context=scores,
        values=np.column_stack([scores, scores / 2]),
        others={},
        places=("08:00", "09:00", "10:00", "11:00", "12:00", "13:00"),
        all_classes=np.array([0, 0, 1, 1, 0, 0]),
        threshold=3.0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def paths(shown: Shown) -> dict[str, list[list[tuple[float, float]]]]:
    """Stretches of each colour: points of a path between one 'move to' and the next."""
    found = {}
    for m in marks(shown.image):
        if m.tag == "path":
            starts = m.attributes["d"].replace("h0.5", "").replace("h0.1", "").split("M")[1:]
            found[m.attributes["stroke"]] = [
                [tuple(float(x) for x in point.split()) for point in start.split("L")] for start in starts
            ]
    return found  # type: ignore[return-value]


def rings(shown: Shown) -> list[Mark]:
    return [m for m in marks(shown.image) if m.tag == "circle"]


def test_lines_of_the_most_relevant_features_and_the_score() -> None:
    assert list(by_title(sequence())) == ["flow", "heat", "score", "flow and heat by class"]
    swapped = sequence(values=sequence().values[:, ::-1])
    assert list(by_title(swapped))[:2] == ["heat", "flow"]


def test_a_line_breaks_where_the_class_changes() -> None:
    found = paths(by_title(sequence())["flow"])
    step = LINE_WIDTH / 5
    low, high = LINE_HEIGHT - 8, 8
    assert found[CLASS_COLORS[0]] == [
        [(0, low), (step, pytest.approx(low - 0.1 * (low - high), abs=0.1))],
        [(4 * step, pytest.approx(low - 0.1 * (low - high), abs=0.1)), (5 * step, high)],
    ]
    assert [len(stretch) for stretch in found[CLASS_COLORS[1]]] == [2]


def test_nodes_above_the_threshold_are_ringed_on_their_line() -> None:
    for name in ("flow", "heat", "score"):
        shown = by_title(sequence())[name]
        assert sorted(m.at("cx") for m in rings(shown)) == [3 * LINE_WIDTH / 5, LINE_WIDTH]
        assert {m.attributes["stroke"] for m in rings(shown)} == {ODD}
    heights = {m.at("cx"): m.at("cy") for m in rings(by_title(sequence())["flow"])}
    assert heights[LINE_WIDTH] < heights[3 * LINE_WIDTH / 5]  # 10 above 5


def test_of_many_odd_nodes_the_oddest_are_ringed() -> None:
    n = 2 * MOST_RINGS
    scores = 10.0 + np.arange(n) % 7 + np.arange(n) / n
    level = np.zeros(n)
    found = sequence(
        shape=(n,),
        data=np.column_stack([level, level]),
        classes=level.astype(int),
        scores=scores,
        values=np.ones((n, 2)),
        places=(),
    )
    at = sorted(m.at("cx") for m in rings(by_title(found)["score"]))
    oddest = np.sort(np.argsort(-scores)[:MOST_RINGS])
    assert at == pytest.approx((oddest / (n - 1) * LINE_WIDTH).tolist(), abs=0.06)


def test_both_ends_of_the_time_are_told() -> None:
    assert by_title(sequence())["flow"].note.startswith("08:00 to 13:00; colour: class")
    assert by_title(sequence(places=()))["flow"].note.startswith("0 to 5;")


def test_cross_plots_put_the_most_relevant_feature_across() -> None:
    found = sequence(names=("heat", "flow"), data=np.column_stack([np.arange(6.0), np.arange(6.0) ** 2]))
    shown = by_title(found)["heat and flow by class"]
    assert shown.note.startswith("across: heat, 0 to 5; up: flow, 0 to 25; circles")
    points = {point for stretches in paths(shown).values() for (point,) in stretches}
    assert (10, PLOT_SIDE - 10) in points  # least of both: bottom left
    assert (PLOT_SIDE - 10, 10) in points
    middle = next(y for x, y in points if x == pytest.approx(10 + 0.4 * (PLOT_SIDE - 20)))
    assert middle == pytest.approx(PLOT_SIDE - 10 - 0.16 * (PLOT_SIDE - 20))
    assert len(rings(shown)) == 2


def test_cross_plots_leave_out_missing_nodes_and_need_two_features() -> None:
    data = sequence().data.copy()
    data[5] = NAN
    shown = by_title(sequence(data=data, classes=np.array([0, 0, 1, 1, 0, -1])))["flow and heat by class"]
    assert sum(len(stretches) for stretches in paths(shown).values()) == 5
    assert len(rings(shown)) == 1
    assert "across: flow, 0 to 5;" in shown.note
    one = sequence(names=("flow",), data=sequence().data[:, :1], values=sequence().values[:, :1])
    assert list(by_title(one)) == ["flow", "score"]


def test_graphs_without_places_have_only_the_cross_plot() -> None:
    assert list(by_title(sequence(kind="edges"))) == ["flow and heat by class"]
