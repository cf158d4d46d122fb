"""Waterfalls, forces and decisions add up to what was explained."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.views import plots
from tellwhy.views.plots.colors import ODD, USUAL


def explanation(n: int = 4, d: int = 6, residual: float = 0.25, **changes: object) -> Explanation:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(n, d))
    settings = {
        "values": values,
        "scores": values.sum(axis=1) + 2.0 + residual,
        "base_values": np.full(n, 2.0),
        "data": np.arange(n * d).reshape(n, d),
        "feature_names": [f"c{j}" for j in range(d)],
        "method": "Shapley",
    }
    return Explanation(**(settings | changes))  # type: ignore[arg-type]


def test_steps_of_a_waterfall_lead_from_the_base_to_the_score() -> None:
    e = explanation()
    trace = plots.waterfall(e, row=1, max_features=3).data[0]
    starts, steps = np.array(trace.base, dtype=float), np.array(trace.x, dtype=float)
    assert starts[0] == 2.0
    np.testing.assert_allclose(starts[1:], starts[:-1] + steps[:-1])
    assert starts[-1] + steps[-1] == pytest.approx(e.scores[1])
    assert list(trace.y[:2]) == ["not attributed", "3 other features"]
    largest = int(np.argmax(np.abs(e.values[1])))
    assert trace.y[-1] == f"c{largest} = {6 + largest}"
    assert trace.text[-1].startswith("+" if e.values[1, largest] > 0 else "−")


def test_bars_of_a_waterfall_that_go_down_are_blue() -> None:
    e = Explanation(values=[[3.0, -1.0]], scores=[2.0], method="m")
    trace = plots.waterfall(e).data[0]
    assert dict(zip(trace.y, trace.marker.color, strict=True)) == {"x0": ODD, "x1": USUAL}


def test_what_rounding_leaves_is_not_drawn() -> None:
    assert "not attributed" not in plots.waterfall(explanation(residual=1e-14)).data[0].y
    assert "not attributed" in plots.waterfall(explanation(residual=1e-3)).data[0].y


def test_the_base_and_the_score_are_named() -> None:
    said = [
        note.text
        for note in plots.waterfall(
            Explanation(values=[[1.0]], scores=[3.5], base_values=[2.5], method="m")
        ).layout.annotations
    ]
    assert said == ["base value 2.5", "score 3.5"]
    task = Explanation(
        values=[[1.0]], scores=[3.5], base_values=[2.5], method="m", params={"task": "regression"}
    )
    assert plots.waterfall(task).layout.annotations[1].text == "output 3.5"


def test_forces_meet_at_the_score() -> None:
    e = explanation(residual=0.0)
    bars = plots.force(e, row=2).data
    score = e.scores[2]
    raising = [(bar.base[0], bar.x[0]) for bar in bars if bar.marker.color == ODD]
    lowering = [(bar.base[0], bar.x[0]) for bar in bars if bar.marker.color == USUAL]
    assert max(base + size for base, size in raising) == pytest.approx(score)
    assert min(base for base, _ in lowering) == pytest.approx(score)
    assert sum(size for _, size in raising) == pytest.approx(e.values[2].clip(0).sum())
    assert sum(size for _, size in lowering) == pytest.approx(-e.values[2].clip(None, 0).sum())
    assert min(base for base, _ in raising) + sum(size for _, size in lowering) == pytest.approx(2.0)


def test_lines_of_a_decision_end_at_the_scores() -> None:
    e = explanation(n=5)
    figure = plots.decision(e, max_features=3)
    for i, line in enumerate(figure.data):
        assert line.x[0] == 2.0
        assert line.x[-1] == pytest.approx(e.scores[i])
    assert figure.layout.yaxis.ticktext[0] == "3 other features, not attributed"
    top = int(np.argmax(np.abs(e.values).mean(axis=0)))
    assert figure.layout.yaxis.ticktext[-1] == f"c{top}"
    assert figure.data[0].x[-1] - figure.data[0].x[-2] == pytest.approx(e.values[0, top])
    exact = plots.decision(explanation(residual=0.0))
    assert "attributed" not in " ".join(exact.layout.yaxis.ticktext)


def test_many_lines_are_sampled_and_that_is_said() -> None:
    figure = plots.decision(explanation(n=500), max_rows=50)
    assert len(figure.data) == 50
    assert figure.layout.title.text == "How 500 rows come to their scores, 50 of them drawn"


def test_one_row_has_a_title_of_its_own() -> None:
    assert plots.decision(explanation().top(1)).layout.title.text.startswith("How row ")
    assert plots.decision(explanation()[2]).layout.title.text == "How row 0 comes to its score"


@pytest.mark.parametrize("draw", [plots.waterfall, plots.force, plots.decision])
def test_only_shares_are_added_up(draw: object) -> None:
    with pytest.raises(InvalidInput, match=r"'ranking' are none: draw them with plot\.bar"):
        draw(explanation(kind="ranking"))  # type: ignore[operator]
    with pytest.raises(InvalidParameter, match="max_features"):
        draw(explanation(), max_features=0)  # type: ignore[operator]


def test_names_are_shown_as_they_are() -> None:
    hostile = '<a href="javascript:alert(1)">x</a>'
    e = explanation(d=2, n=2, feature_names=[hostile, "b"], data=None)
    for figure in (plots.waterfall(e), plots.force(e), plots.decision(e)):
        text = str(figure.to_json())
        assert "<a href" not in text
        assert "\\u003ca href" not in text


def relative() -> Explanation:
    """A row whose values are relevance over what is usual, as the one-liner may choose it."""
    from tellwhy.detectors import OneClassSVM
    from tellwhy.explainers import OneClassDTD

    X = np.random.default_rng(0).normal(size=(120, 3)) * [1.0, 3.0, 1.0]
    return OneClassDTD(OneClassSVM().fit(X), relative=True).explain([[0.0, 2.0, 4.0], [0.0, 9.0, 0.0]])


def test_relative_values_are_drawn_as_the_relevance_that_adds_up() -> None:
    e = relative()
    figure = plots.waterfall(e, row=1)
    trace = figure.data[0]
    steps = dict(zip((name.split(" ")[0] for name in trace.y), trace.x, strict=True))
    np.testing.assert_allclose([steps[f"x{j}"] for j in range(3)], e.extras["relevance"][1])
    assert float(trace.base[-1]) + float(trace.x[-1]) == pytest.approx(e.scores[1])
    assert "(plain relevance) explains" in figure.layout.title.subtitle.text
    assert e.kind == "relative"
    ends = [line.x[-1] for line in plots.decision(e).data if line.mode == "lines"]
    assert sorted(ends) == pytest.approx(sorted(e.scores))
    assert plots.force(e).data
