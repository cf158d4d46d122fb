"""Bars, points.

What rows hold: cells beside the names of their columns, and columns as numbers.

The parts of one row's score: its main features, all others, and what was not attributed.

Figures of explanations of rows: bars of one row or of all, points of all, and the scores explained.

Every function only draws: it takes an `Explanation` and returns a `plotly.graph_objects.Figure`. Orange
raises a score, blue lowers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import columns_of
from tellwhy.core.params import integer, validate_value
from tellwhy.core.score import Floats, Integers
from tellwhy.views.plots.colors import INK, NEUTRAL, ODD, USUAL, choose_class_color
from tellwhy.views.plots.style import (
    LABEL_LENGTH,
    find_main_features,
    finish,
    is_anomaly,
    label,
    make_distinct,
    make_level_axis,
    name_quantity,
    need_rows,
    pad_range,
    split_by_class,
    tell_method,
    turn_to_one_class,
    write_contribution_title,
    write_row_title,
)
from tellwhy.words.wording import cell, count, number, shorten

_CELL_LENGTH = 18


def take_cells(explanation: Explanation, places: Integers) -> Any:
    """Cells of some columns (rows, columns), as they were given; None where they are not known."""
    if len(explanation.feature_shape) != 1:
        return None
    data = columns_of(explanation.data, explanation.names(), places)
    if data is None:
        return None
    # cell by cell, so that whole numbers beside texts and fractions stay whole
    columns = [
        np.asarray(columns_of(data, _list_names(explanation, places), np.array([k])))
        for k in range(len(places))
    ]
    table = np.empty((len(explanation), len(places)), dtype=object)
    for k, column in enumerate(columns):
        table[:, k] = column.reshape(len(explanation))
    return table


def _list_names(explanation: Explanation, places: Integers) -> list[str]:
    names = explanation.names()
    return [names[j] for j in places]


def label_row(row: Explanation, places: Integers) -> list[str]:
    """Names of some columns of one row with its cells: 'TSH = 14.5'; without cells where they are unknown."""
    names = _list_names(row, places)
    cells = take_cells(row, places)
    if cells is None:
        return make_distinct(names)
    return make_distinct([_join_cell(name, found) for name, found in zip(names, cells[0], strict=True)])


def _join_cell(name: str, found: Any) -> str:
    """A name and its cell in one label: the name has the room that the cell leaves."""
    said = shorten(cell(found), _CELL_LENGTH)
    return f"{shorten(name, LABEL_LENGTH - len(said) - 3)} = {said}"


def read_numbers(explanation: Explanation, j: int) -> Floats | None:
    """A column as numbers; None where it is unknown or holds something else."""
    if explanation.data is None:
        return None
    try:
        if len(explanation.feature_shape) == 1:
            cells = take_cells(explanation, np.array([j]))
            return None if cells is None else np.asarray(cells[:, 0], dtype=np.float64)
        rows = np.asarray(explanation.data, dtype=np.float64)
        return rows.reshape(len(rows), -1)[:, j]
    except (TypeError, ValueError):
        return None


def rank_values(column: Floats) -> Floats:
    """Rank of each value, 0 to 1: one far value would give all the others the same colour; NaN stays NaN."""
    order = np.unique(column, return_inverse=True)[1].ravel().astype(float)
    order[np.isnan(column)] = np.nan  # an empty cell is neither low nor high
    highest = np.nanmax(order) if not np.isnan(order).all() else 0.0
    return np.asarray(order / max(float(highest), 1.0))


def find_levels(column: Sequence[Any]) -> tuple[list[str], Integers]:
    """Kinds of cells of a column of texts, in the order of the alphabet, and the kind of each row."""
    kinds, codes = np.unique([cell(found) for found in column], return_inverse=True)
    return [str(kind) for kind in kinds], codes.ravel().astype(np.int64)


NOT_ATTRIBUTED = "not attributed"
_SMALL = 1e-9  # of the largest part: what rounding leaves is not drawn


@dataclass(frozen=True)
class Part:
    """One bar."""

    name: str
    amount: float
    color: str = NEUTRAL
    above: float = 0.0  # lengths of its whiskers
    below: float = 0.0


def list_feature_parts(row: Explanation, max_features: int) -> list[Part]:
    """Return the main features of one row, largest first, with their cells."""
    flat = row.values.ravel()
    above, below = _measure_whiskers(row)
    order = np.argsort(-np.abs(flat), kind="stable")[:max_features]
    names = label_row(row, order) if len(row.feature_shape) == 1 else [row.names()[j] for j in order]
    colors = np.where(flat < 0, USUAL, ODD)
    return [
        Part(name, float(flat[j]), str(colors[j]), float(above[j]), float(below[j]))
        for name, j in zip(names, order, strict=True)
    ]


def list_rest_parts(row: Explanation, max_features: int) -> list[Part]:
    """Return what belongs to none of the main features: all others, and what was not attributed."""
    if row.residual is None:  # of other kinds, values are no parts of the score: there is no rest
        return []
    flat = row.values.ravel()
    others = np.argsort(-np.abs(flat), kind="stable")[max_features:]
    parts = []
    if len(others):
        parts.append(Part(count(len(others), "other feature"), float(flat[others].sum())))
    rest = float(row.residual[0])
    scale = max(float(np.abs(flat).max(initial=0.0)), abs(float(row.scores[0])))
    return [*parts, Part(NOT_ATTRIBUTED, rest)] if abs(rest) > _SMALL * scale else parts


def check_shares(explanation: Explanation, owner: str) -> Explanation:
    """Return values that are shares of a score, which such a figure adds up; raise where there are none.

    Relevance beside what is usual of each column is put back to the relevance itself.
    """
    if explanation.kind == "relative" and "relevance" in explanation.extras:
        method = f"{explanation.method} (plain relevance)"
        values = np.asarray(explanation.extras["relevance"])
        return replace(explanation, values=values, kind="attribution", method=method)
    if explanation.kind != "attribution":
        raise InvalidInput(
            f"{owner} adds up shares of a score. Values of the kind {explanation.kind!r} are none: draw "
            "them with plot.bar or plot.beeswarm."
        )
    return explanation


def _measure_whiskers(row: Explanation) -> tuple[Floats, Floats]:
    """Lengths above and below each value: its credible interval where known, else its standard error."""
    flat = row.values.ravel()
    if "interval" in row.extras:
        low, high = np.asarray(row.extras["interval"]).reshape(-1, 2).T
        return np.maximum(high - flat, 0.0), np.maximum(flat - low, 0.0)
    errors = np.zeros_like(flat) if row.stderr is None else row.stderr.ravel()
    return errors, errors


MOST_POINTS = 2000  # of one feature in a beeswarm
N_BINS = 80  # along x, within which points of a beeswarm are kept apart


def bar(explanation: Explanation, row: int | None = None, max_features: int = 10) -> go.Figure:
    """Draw how much each main feature contributed: to one row's score, or on average over all rows.

    Parameters
    ----------
    explanation
        Of any kind; only attributions get bars for the other features and for what was not attributed.
    row
        Which of the explained rows, counted from 0. None: all of them, by the mean size of their values; of a
        single row, that row.
    max_features
        The most features to draw, largest first.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=[[1.0, 2.0]], scores=[3.5], method="Example", feature_names=["TSH", "T3"])
    >>> [str(name) for name in bar(e).data[0].y]
    ['not attributed', 'TSH', 'T3']
    """
    validate_value("plot.bar", "max_features", max_features, integer(1))
    need_rows(explanation, "plot.bar")
    if row is None and len(explanation) > 1:
        return _draw_mean_bars(explanation, max_features)
    chosen = explanation[row or 0]
    parts = [*list_feature_parts(chosen, max_features), *list_rest_parts(chosen, max_features)]
    names = make_distinct([part.name for part in parts])
    figure = go.Figure(_draw_bars(parts[::-1], names[::-1]))  # plotly draws from the bottom up
    figure.add_vline(x=0, line_width=1, line_color=INK)
    figure.update_xaxes(range=pad_range([0.0, *_measure_reaches(parts)]))
    figure.update_yaxes(automargin=True, ticksuffix="  ")
    title = write_row_title(chosen, row or 0)
    height = 150 + 32 * len(parts)
    x_title = write_contribution_title(chosen)
    if chosen.kind == "attribution" and chosen.base_values[0]:
        # no bar: it belongs to no feature, and is often so large that all others would look small
        x_title += f", on top of the base value {number(float(chosen.base_values[0]))}"
    return finish(figure, title, tell_method(chosen), x_title=x_title, height=height)


def _draw_bars(parts: list[Part], names: list[str]) -> go.Bar:
    above = [part.above for part in parts]
    below = [part.below for part in parts]
    has_whiskers = any(above) or any(below)
    return go.Bar(
        x=[part.amount for part in parts],
        y=names,
        orientation="h",
        marker_color=[part.color for part in parts],
        error_x={"type": "data", "array": above, "arrayminus": below} if has_whiskers else None,
        text=[number(part.amount, 3) for part in parts],
        textposition="none" if has_whiskers else "outside",  # whiskers would cross the numbers
        cliponaxis=False,
        hovertemplate="%{y}: %{x:.4g}<extra></extra>",
    )


def _measure_reaches(parts: list[Part]) -> list[float]:
    """How far bars and their whiskers reach, to both sides."""
    ends = [(part.amount - part.below, part.amount + part.above) for part in parts]
    return [end for both in ends for end in both]


def _draw_mean_bars(explanation: Explanation, max_features: int) -> go.Figure:
    """Mean size of each main feature's values over all rows; of several classes, what each of them adds."""
    explanation = turn_to_one_class(explanation)
    flat = np.abs(explanation.values.reshape(len(explanation), -1))
    order = np.argsort(-flat.mean(axis=0), kind="stable")
    parts = [Part(explanation.names()[j], float(flat[:, j].mean()), USUAL) for j in order[:max_features]]
    others = order[max_features:]
    if len(others):
        words = f"{count(len(others), 'other feature')}, together"
        parts.append(Part(words, float(flat[:, others].mean(axis=0).sum())))
    names = make_distinct([part.name for part in parts])
    classes = split_by_class(explanation)
    figure = go.Figure(_draw_bars(parts[::-1], names[::-1]))
    if len(classes) > 1:
        sizes = [flat[:, [j]] for j in order[:max_features]] + ([flat[:, others]] if len(others) else [])
        figure = _stack_bars(names[::-1], sizes[::-1], classes)
    figure.update_xaxes(range=[0.0, pad_range([0.0, *_measure_reaches(parts)])[1]])
    figure.update_yaxes(automargin=True, ticksuffix="  ")
    title = f"Main features over {count(len(explanation), 'row')}"
    x_title = f"{write_contribution_title(explanation)}: mean size"
    height = 150 + 32 * len(parts)
    return finish(figure, title, tell_method(explanation), x_title=x_title, height=height)


def _stack_bars(names: list[str], sizes: list[Floats], classes: dict[str, Any]) -> go.Figure:
    """Bars of the mean size of features, in one colour for the rows of each class."""
    figure = go.Figure()
    for place, (name, rows) in enumerate(classes.items()):
        share = [float(size[rows].sum() / len(size)) for size in sizes]
        words = f"%{{y}}, rows of {label(name)}: %{{x:.4g}}<extra></extra>"
        figure.add_trace(
            go.Bar(
                x=share,
                y=names,
                orientation="h",
                marker_color=choose_class_color(place),
                name=label(name),
                hovertemplate=words,
            )
        )
    totals = [float(size.sum() / len(size)) for size in sizes]
    shown = [f" {number(total, 3)}" for total in totals]
    figure.add_trace(
        go.Scatter(
            x=totals,
            y=names,
            mode="text",
            text=shown,
            textposition="middle right",
            cliponaxis=False,
            hoverinfo="skip",
            showlegend=False,
        )
    )
    legend = {"title": "rows explained for", "traceorder": "normal"}
    return figure.update_layout(barmode="stack", showlegend=True, legend=legend)


def beeswarm(explanation: Explanation, max_features: int = 12) -> go.Figure:
    """Draw the contributions of the main features in all rows, one point per row.

    Colour tells whether the row's value of the feature is low or high among the explained rows, where the
    explained data are known and numeric. Of more than 2,000 rows, evenly spaced ones are drawn, and the title
    says so. Rows of a classifier of two classes are drawn in terms of the second, whichever was explained.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=np.eye(3), scores=np.ones(3), method="Example", data=np.eye(3))
    >>> len(beeswarm(e).data)
    3
    """
    validate_value("plot.beeswarm", "max_features", max_features, integer(1))
    need_rows(explanation, "plot.beeswarm")
    explanation = turn_to_one_class(explanation)
    rows = spread_evenly(len(explanation), MOST_POINTS)
    shown = explanation[rows]
    chosen = find_main_features(shown.values.reshape(len(shown), -1), max_features)[
        ::-1
    ]  # from the bottom up
    figure = go.Figure()
    for place, j in enumerate(chosen):
        figure.add_trace(_draw_swarm(shown, int(j), place))
    figure.add_vline(x=0, line_width=1, line_color=INK)
    ticks = {"tickvals": list(range(len(chosen))), "ticktext": [label(shown.names()[j]) for j in chosen]}
    figure.update_yaxes(automargin=True, zeroline=False, ticksuffix="  ", tickmode="array", **ticks)
    columns = [read_numbers(shown, int(j)) for j in chosen]
    has_gaps = any(column is not None and bool(np.isnan(column).any()) for column in columns)
    figure.update_layout(coloraxis=make_level_axis(has_gaps), showlegend=False)
    sample = "" if len(rows) == len(explanation) else f", {number(len(rows))} of them drawn"
    title = f"Main features over {count(len(explanation), 'row')}{sample}"
    height = 140 + 42 * len(chosen)
    return finish(figure, title, tell_method(shown), x_title=write_contribution_title(shown), height=height)


def _draw_swarm(shown: Explanation, j: int, place: int) -> go.Scatter:
    """The points of one feature, on their line."""
    x = shown.values.reshape(len(shown), -1)[:, j]
    name = shown.names()[j]
    column = read_numbers(shown, j)
    marker: dict[str, Any] = {"size": 6, "opacity": 0.8, "color": USUAL}
    if column is not None:
        marker |= {"color": rank_values(column), "coloraxis": "coloraxis"}
    words = "%{fullData.name}: %{x:.4g}<extra></extra>"
    y = place + _spread(x)
    return go.Scatter(x=x, y=y, mode="markers", marker=marker, hovertemplate=words, name=label(name))


def _spread(x: Floats) -> Floats:
    """Vertical places that keep points of nearly equal x apart: 0, ±1, ±2 … steps within bins of x."""
    low = float(x.min())
    high = float(x.max())
    bins = np.zeros(len(x), dtype=int) if high <= low else ((x - low) / (high - low) * N_BINS).astype(int)
    order = np.argsort(bins, kind="stable")
    starts = np.searchsorted(bins[order], bins[order], side="left")
    rank = np.empty(len(x), dtype=int)
    rank[order] = np.arange(len(x)) - starts
    side = np.where(rank % 2 == 0, 1, -1) * ((rank + 1) // 2)
    # Lines are 1 apart: points stay within 0.38 of theirs. At least 12 steps: a few points lie close to it.
    return np.asarray(0.38 * side / max(np.abs(side).max(initial=1), 12))


def scores(explanation: Explanation, *, threshold: float | None = None) -> go.Figure:
    """Draw the histogram of the explained scores, and the threshold where one is given.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=np.eye(3), scores=[1.0, 2.0, 9.0], method="Example")
    >>> scores(e, threshold=5.0).layout.xaxis.title.text
    'score: the higher, the odder'
    """
    need_rows(explanation, "plot.scores")
    explanation = turn_to_one_class(explanation)
    words = "%{x}: %{y} rows<extra></extra>"
    figure = go.Figure(go.Histogram(x=explanation.scores, nbinsx=50, marker_color=USUAL, hovertemplate=words))
    name = name_quantity(explanation)
    title = f"{name.capitalize()}s of {count(len(explanation), 'row')}"
    y_title = "rows"
    if threshold is not None:
        n_above = int((explanation.scores > threshold).sum())
        said = f"threshold {number(threshold)}"
        figure.add_vline(x=threshold, line_color=INK, line_width=2, annotation_text=said)
        title += f", {number(n_above)} above the threshold"
        if 0 < n_above < 0.05 * len(explanation):  # a handful of rows would not be seen beside thousands
            figure.update_yaxes(type="log")
            y_title = "rows (logarithmic scale)"
    figure.update_layout(bargap=0.06)
    figure.update_yaxes(title=y_title)
    x_title = "score: the higher, the odder" if is_anomaly(explanation) else "output"
    return finish(figure, title, tell_method(explanation), x_title=x_title, height=420)
