"""Figures that add up one row's score, or many: waterfalls, forces and decisions."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import integer, validate_value
from tellwhy.core.score import Floats
from tellwhy.views.plots.colors import INK, LOW_TO_HIGH, NEUTRAL
from tellwhy.views.plots.rows import NOT_ATTRIBUTED, Part, check_shares, list_feature_parts, list_rest_parts
from tellwhy.views.plots.style import (
    find_main_features,
    finish,
    label,
    make_distinct,
    name_quantity,
    name_row,
    need_rows,
    pad_range,
    tell_method,
    turn_to_one_class,
    write_row_title,
)
from tellwhy.words.wording import count, number

MOST_LINES = 200  # of a decision plot
_SMALL = 1e-9  # of the largest value: what rounding leaves
_ROOM = 0.07  # of the width of a force plot, for a part to be named


def waterfall(explanation: Explanation, row: int = 0, max_features: int = 10) -> go.Figure:
    """Draw how one row's score builds up from the base value, one feature after the other.

    Parameters
    ----------
    explanation
        Attributions; of relevance beside what is usual (`kind="relative"`), the relevance itself is drawn.
    row
        Which of the explained rows, counted from 0.
    max_features
        The most features to draw, the largest on top; all others share one bar.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=[[1.0, -0.5]], scores=[2.5], base_values=[2.0], method="Example")
    >>> figure = waterfall(e)
    >>> [float(start) for start in figure.data[0].base], [float(step) for step in figure.data[0].x]
    ([2.0, 1.5], [-0.5, 1.0])
    """
    chosen, parts = _split_row("plot.waterfall", explanation, row, max_features)
    parts = parts[::-1]  # from the bottom
    base = float(chosen.base_values[0])
    ends = base + np.cumsum([part.amount for part in parts])
    starts = np.concatenate([[base], ends[:-1]])
    names = make_distinct([part.name for part in parts])
    figure = go.Figure(_draw_steps(parts, names, starts))
    _connect(figure, ends)
    _mark(figure, base, "base value", "bottom")
    _mark(figure, float(chosen.scores[0]), name_quantity(chosen), "top")
    figure.update_yaxes(automargin=True, ticksuffix="  ", showgrid=False)
    figure.update_xaxes(range=pad_range([*starts, *ends]))
    height = 190 + 32 * len(parts)
    return finish(
        figure,
        write_row_title(chosen, row),
        tell_method(chosen),
        x_title=name_quantity(chosen),
        height=height,
    )


def _split_row(
    owner: str, explanation: Explanation, row: int, max_features: int
) -> tuple[Explanation, list[Part]]:
    """One row, and the parts of its score, the largest feature first."""
    validate_value(owner, "max_features", max_features, integer(1))
    chosen = check_shares(explanation, owner)[row]
    return chosen, [*list_feature_parts(chosen, max_features), *list_rest_parts(chosen, max_features)]


def _draw_steps(parts: list[Part], names: list[str], starts: np.ndarray) -> go.Bar:
    return go.Bar(
        x=[part.amount for part in parts],
        y=names,
        base=starts,
        orientation="h",
        marker_color=[part.color for part in parts],
        text=[write_signed(part.amount) for part in parts],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{text}<extra></extra>",
        showlegend=False,
    )


def write_signed(amount: float) -> str:
    """Write a number with its sign, plus too."""
    return number(amount, 3) if amount <= 0 else f"+{number(amount, 3)}"


def _connect(figure: go.Figure, ends: np.ndarray) -> None:
    """Draw thin lines from the end of each bar to the beginning of the next."""
    for place, end in enumerate(ends[:-1]):
        line = {"color": NEUTRAL, "width": 1}
        figure.add_shape(
            type="line", x0=end, x1=end, y0=place - 0.4, y1=place + 1.4, line=line, layer="below"
        )


def _mark(figure: go.Figure, x: float, words: str, where: str) -> None:
    """Draw a dotted line at a value, and name it."""
    figure.add_vline(x=x, line_width=1, line_color=INK, line_dash="dot")
    # above the axes, a line higher still, or below the numbers of the x axis
    shift = {"top": 2, "above": 18, "bottom": -22}[where]
    figure.add_annotation(
        x=x,
        y=0.0 if where == "bottom" else 1.0,
        yref="paper",
        yanchor="top" if where == "bottom" else "bottom",
        yshift=shift,
        text=f"{words} {number(x)}",
        showarrow=False,
        font={"size": 12},
    )


def force(explanation: Explanation, row: int = 0, max_features: int = 12) -> go.Figure:
    """Draw what pushes one row's score up (from the left) and down (from the right), on one line.

    Parameters
    ----------
    explanation
        Attributions; of relevance beside what is usual (`kind="relative"`), the relevance itself is drawn.
    row
        Which of the explained rows, counted from 0.
    max_features
        The most features to draw for themselves.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=[[1.0, -0.5]], scores=[2.5], base_values=[2.0], method="Example")
    >>> sorted((float(bar.base[0]), float(bar.x[0])) for bar in force(e).data)
    [(1.5, 1.0), (2.5, 0.5)]
    """
    chosen, parts = _split_row("plot.force", explanation, row, max_features)
    score = float(chosen.scores[0])
    figure = go.Figure()
    raising = [part for part in parts if part.amount > 0]
    lowering = [part for part in parts if part.amount < 0]
    width = sum(abs(part.amount) for part in parts) or 1.0
    _push(figure, raising, score, -1.0, width)
    _push(figure, lowering, score, 1.0, width)
    base = float(chosen.base_values[0])
    _mark(figure, base, "base value", "top")
    _mark(figure, score, name_quantity(chosen), "above")
    ends = [score - sum(part.amount for part in raising), score - sum(part.amount for part in lowering)]
    figure.update_xaxes(range=pad_range([base, *ends], 0.05))
    figure.update_yaxes(visible=False, range=[-1.9, 0.45])
    figure.update_layout(barmode="overlay", showlegend=False)
    title = write_row_title(chosen, row)
    finish(figure, title, tell_method(chosen), x_title=name_quantity(chosen), height=350)
    return figure.update_layout(margin_t=130)  # two numbers stand above the bars


def _push(figure: go.Figure, parts: list[Part], score: float, side: float, width: float) -> None:
    """Add bars away from the score, the largest feature next to it; small ones are named when pointed at."""
    at = score
    # what belongs to no single feature is the farthest, whatever its size
    for place, part in enumerate(sorted(parts, key=lambda part: (part.color == NEUTRAL, -abs(part.amount)))):
        color = part.color
        size = abs(part.amount)
        start = at - size if side < 0 else at
        figure.add_trace(
            go.Bar(
                x=[size],
                y=[0],
                base=[start],
                orientation="h",
                width=0.5,
                marker={"color": color, "line": {"color": "white", "width": 2}},
                opacity=max(1.0 - 0.12 * place, 0.4),
                hovertemplate=f"{label(part.name)}: {write_signed(part.amount)}<extra></extra>",
            )
        )
        if size >= _ROOM * width:
            _name_part(figure, part, start + size / 2, place, color)
        at += side * size


def _name_part(figure: go.Figure, part: Part, x: float, place: int, color: str) -> None:
    # neighbours are named at three heights in turn, so that long names do not meet
    figure.add_annotation(
        x=x,
        y=-0.3,
        text=f"{label(part.name)}<br>{write_signed(part.amount)}",
        showarrow=True,
        arrowhead=0,
        arrowcolor=color,
        ax=0,
        ay=-0.55 - 0.45 * (place % 3),
        ayref="y",
        yanchor="top",
        font={"size": 11, "color": color},
        bgcolor="white",
    )


def decision(explanation: Explanation, max_features: int = 15, max_rows: int = MOST_LINES) -> go.Figure:
    """Draw the way of many rows from the base value to their scores, one line per row.

    Features stand from the least important, at the bottom, to the most important, at the top; each moves a
    line to the right or to the left. Colour is the score.

    Parameters
    ----------
    explanation
        Attributions; of relevance beside what is usual (`kind="relative"`), the relevance itself is drawn.
    max_features
        The most features to draw; all others make the first step.
    max_rows
        The most rows to draw; of more, evenly spaced ones.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=[[1.0, -0.5]], scores=[2.5], base_values=[2.0], method="Example")
    >>> [float(x) for x in decision(e).data[0].x]
    [2.0, 1.5, 2.5]
    """
    validate_value("plot.decision", "max_features", max_features, integer(1))
    validate_value("plot.decision", "max_rows", max_rows, integer(1))
    need_rows(explanation, "plot.decision")
    explanation = turn_to_one_class(check_shares(explanation, "plot.decision"))
    shown = explanation[spread_evenly(len(explanation), max_rows)]
    names, ways = _list_way_points(shown, max_features)
    figure = _draw_ways(ways, shown)
    ticks = {"tickvals": [k + 0.5 for k in range(len(names))], "ticktext": make_distinct(names)}
    figure.update_yaxes(
        automargin=True, zeroline=False, ticksuffix="  ", range=[0, len(names) + 0.2], **ticks
    )
    figure.update_xaxes(range=pad_range(ways, 0.03))
    drawn = "" if len(shown) == len(explanation) else f", {number(len(shown))} of them drawn"
    title = f"How {count(len(explanation), 'row')} come to their {name_quantity(shown)}s{drawn}"
    if len(explanation) == 1:
        title = f"How row {name_row(shown, 0)} comes to its {name_quantity(shown)}"
    height = 170 + max(30 * len(names), 210)
    return finish(figure, title, tell_method(shown), x_title=name_quantity(shown), height=height)


def _list_way_points(shown: Explanation, max_features: int) -> tuple[list[str], Floats]:
    """Names of the steps from the bottom up, and where each row is before, between and after them."""
    flat = shown.values.reshape(len(shown), -1)
    chosen = find_main_features(flat, max_features)[::-1]
    names = [shown.names()[j] for j in chosen]
    steps = flat[:, chosen]
    rest = shown.scores - shown.base_values - steps.sum(axis=1)
    if np.abs(rest).max() > _SMALL * np.abs(flat).max(initial=1e-300):
        names = [_name_rest(shown, flat.shape[1] - len(chosen)), *names]
        steps = np.column_stack([rest, steps])
    return names, np.column_stack([shown.base_values, shown.base_values[:, None] + steps.cumsum(axis=1)])


def _name_rest(shown: Explanation, n_others: int) -> str:
    """Name the first step: other features, what was not attributed, or both."""
    rest = shown.residual
    is_left = rest is not None and np.abs(rest).max() > _SMALL * np.abs(shown.values).max(initial=1e-300)
    words = [count(n_others, "other feature")] if n_others else []
    return ", ".join([*words, *([NOT_ATTRIBUTED] if is_left else [])])


def _draw_ways(ways: np.ndarray, shown: Explanation) -> go.Figure:
    """One line per row, coloured by its score."""
    from plotly.colors import sample_colorscale

    low = float(shown.scores.min())
    high = float(shown.scores.max())
    place = (shown.scores - low) / (high - low) if high > low else np.full(len(shown), 0.5)
    colors = sample_colorscale(LOW_TO_HIGH, place.tolist())
    heights = np.arange(ways.shape[1])
    figure = go.Figure()
    for i, way in enumerate(ways):
        figure.add_trace(
            go.Scatter(
                x=way,
                y=heights,
                mode="lines",
                line={"color": colors[i], "width": 1.5 if len(ways) > 20 else 2.5},
                opacity=0.5 if len(ways) > 20 else 0.9,
                hovertemplate=f"row {name_row(shown[i], i)}: %{{x:.4g}}<extra></extra>",
                showlegend=False,
            )
        )
    if np.ptp(shown.base_values) == 0:
        figure.add_vline(x=float(shown.base_values[0]), line_width=1, line_color=INK, line_dash="dot")
    return figure
