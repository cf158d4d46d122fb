"""Figures of explanations, as plotly figures: `tellwhy.plot.bar(explanation)` and its neighbours.

Every function only draws: it takes an `Explanation` (or flipping results) and returns a
`plotly.graph_objects.Figure`. Orange raises a score, blue lowers it; the scale is always centred at zero and
readable without red and green.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import integer, validate_value
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.views.plots.style import (
    AXIS_TITLES,
    CURVES,
    INK,
    NEUTRAL,
    ODD,
    USUAL,
    channel_axis,
    distinct_labels,
    explained_by,
    finish,
    label,
    level_axis,
    row_name,
    signed_axis,
)
from tellwhy.views.wording import count, number

MOST_POINTS = 2000  # of one feature in a beeswarm


def bar(explanation: Explanation, row: int = 0, max_features: int = 10) -> go.Figure:
    """Draw how much each main feature contributed to one row's score.

    Parameters
    ----------
    explanation
        Of any kind; only attributions get bars for the other features and for what was not attributed.
    row
        Which of the explained rows, counted from 0.
    max_features
        The most features to draw, largest first.

    Examples
    --------
    >>> e = Explanation(values=[[1.0, 2.0]], scores=[3.5], method="Example", feature_names=["TSH", "T3"])
    >>> [str(name) for name in bar(e).data[0].y]
    ['not attributed', 'TSH', 'T3']
    """
    validate_value("plot.bar", "max_features", max_features, integer(1))
    chosen = explanation[row]
    parts = _parts(chosen, max_features)[::-1]
    above, below = [part.above for part in parts], [part.below for part in parts]
    trace = go.Bar(
        x=[part.amount for part in parts],
        y=distinct_labels([part.name for part in parts[::-1]])[::-1],
        orientation="h",
        marker_color=[part.color for part in parts],
        error_x={"type": "data", "array": above, "arrayminus": below} if any(above) or any(below) else None,
        text=[number(part.amount, 3) for part in parts],
        textposition="none" if any(above) or any(below) else "outside",  # whiskers would cross the numbers
        cliponaxis=False,
        hovertemplate="%{y}: %{x:.4g}<extra></extra>",
    )
    figure = go.Figure(trace)
    figure.add_vline(x=0, line_width=1, line_color=INK)
    figure.update_yaxes(automargin=True, ticksuffix="  ")
    title = f"Why row {row_name(chosen, row)} scores {number(float(chosen.scores[0]))}"
    return finish(
        figure, title, explained_by(chosen), x_title=AXIS_TITLES[chosen.kind], height=150 + 32 * len(parts)
    )


@dataclass(frozen=True)
class _Part:
    """One bar."""

    name: str
    amount: float
    color: str = NEUTRAL
    above: float = 0.0  # lengths of its whiskers
    below: float = 0.0


def _parts(row: Explanation, max_features: int) -> list[_Part]:
    """Return the main features, and for attributions what belongs to none of them."""
    flat, names = row.values.ravel(), row.names()
    above, below = _whiskers(row)
    order = np.argsort(-np.abs(flat), kind="stable")
    main, others = order[:max_features], order[max_features:]
    colors = np.where(flat < 0, USUAL, ODD)
    parts = [_Part(names[j], float(flat[j]), str(colors[j]), float(above[j]), float(below[j])) for j in main]
    if row.residual is None:
        return parts
    if len(others):
        parts.append(_Part(count(len(others), "other feature"), float(flat[others].sum())))
    if row.base_values[0]:
        parts.append(_Part("base value", float(row.base_values[0])))
    return [*parts, _Part("not attributed", float(row.residual[0]))]


def _whiskers(row: Explanation) -> tuple[Floats, Floats]:
    """Lengths above and below each value: its credible interval where there is one, else its standard error."""
    flat = row.values.ravel()
    if "interval" in row.extras:
        low, high = np.asarray(row.extras["interval"]).reshape(-1, 2).T
        return np.maximum(high - flat, 0.0), np.maximum(flat - low, 0.0)
    errors = np.zeros_like(flat) if row.stderr is None else row.stderr.ravel()
    return errors, errors


def beeswarm(explanation: Explanation, max_features: int = 12) -> go.Figure:
    """Draw the contributions of the main features in all rows, one point per row.

    Colour tells whether the row's value of the feature is low or high among the explained rows, where the
    explained data are known and numeric. Of more than 2,000 rows, evenly spaced ones are drawn, and the title
    says so.

    Examples
    --------
    >>> e = Explanation(values=np.eye(3), scores=np.ones(3), method="Example", data=np.eye(3))
    >>> len(beeswarm(e).data)
    3
    """
    validate_value("plot.beeswarm", "max_features", max_features, integer(1))
    _need_rows(explanation, "plot.beeswarm")
    rows = evenly_spread(len(explanation), MOST_POINTS)
    shown = explanation[rows]
    flat, names = shown.values.reshape(len(shown), -1), shown.names()
    chosen = _main_features(flat, max_features)
    figure = go.Figure()
    for place, j in enumerate(chosen[::-1]):
        level = _levels(shown.data, j, names[j])
        marker = {"size": 6, "opacity": 0.8, "color": USUAL if level is None else level}
        if level is not None:
            marker |= {"coloraxis": "coloraxis"}
        words = "%{fullData.name}: %{x:.4g}<extra></extra>"
        y = place + _spread(flat[:, j])
        figure.add_scatter(
            x=flat[:, j], y=y, mode="markers", marker=marker, hovertemplate=words, name=label(names[j])
        )
    figure.add_vline(x=0, line_width=1, line_color=INK)
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(len(chosen))),
        "ticktext": [label(names[j]) for j in chosen[::-1]],
    }
    figure.update_yaxes(automargin=True, zeroline=False, ticksuffix="  ", **ticks)
    figure.update_layout(coloraxis=level_axis(), showlegend=False)
    sample = "" if len(rows) == len(explanation) else f", {number(len(rows))} of them drawn"
    title = f"Main features over {count(len(explanation), 'row')}{sample}"
    return finish(
        figure, title, explained_by(shown), x_title=AXIS_TITLES[shown.kind], height=140 + 42 * len(chosen)
    )


def _levels(data: Any, j: int, name: str) -> Floats | None:
    """Rank of each row's value in a column, 0 to 1; None where the column is unknown or not numeric."""
    if data is None:
        return None
    try:
        if hasattr(data, "columns"):
            column = np.asarray(data[name], dtype=np.float64)
        else:
            column = np.asarray(data, dtype=np.float64).reshape(len(data), -1)[:, j]
    except (TypeError, ValueError, KeyError):
        return None
    order = np.unique(column, return_inverse=True)[1].ravel().astype(float)
    return np.asarray(order / max(order.max(initial=0.0), 1.0))


def _spread(x: Floats) -> Floats:
    """Vertical places that keep points of nearly equal x apart: 0, ±1, ±2 … steps within bins of x."""
    low, high = float(x.min()), float(x.max())
    bins = np.zeros(len(x), dtype=int) if high <= low else ((x - low) / (high - low) * 80).astype(int)
    order = np.argsort(bins, kind="stable")
    starts = np.searchsorted(bins[order], bins[order], side="left")
    rank = np.empty(len(x), dtype=int)
    rank[order] = np.arange(len(x)) - starts
    side = np.where(rank % 2 == 0, 1, -1) * ((rank + 1) // 2)
    return np.asarray(0.38 * side / max(np.abs(side).max(initial=1), 12))


def heatmap(explanation: Explanation, max_rows: int = 40, max_features: int = 20) -> go.Figure:
    """Draw values of many rows at once: rows × features of a table, or one image per row.

    Parameters
    ----------
    explanation
        Of a table, or of images: feature shape (h, w), (h, w, channels) or (1, 3 or 4 channels, h, w), whose
        channels are summed.
    max_rows
        The most rows to draw, or images (of which at most 12), the first ones first.
    max_features
        The most features of a table to draw, those with the largest mean absolute value.

    Examples
    --------
    >>> e = Explanation(values=np.ones((2, 4, 4)), scores=[1.0, 2.0], method="Example")
    >>> len(heatmap(e).data)
    2
    """
    validate_value("plot.heatmap", "max_rows", max_rows, integer(1))
    validate_value("plot.heatmap", "max_features", max_features, integer(1))
    _need_rows(explanation, "plot.heatmap")
    n_axes = len(explanation.feature_shape)
    if n_axes > 3:
        raise InvalidInput(
            f"plot.heatmap draws tables and images: features of shape (d,), (h, w) or (h, w, channels). Got "
            f"{explanation.feature_shape}. Reshape `values` first."
        )
    return (
        _table_heatmap(explanation, max_rows, max_features) if n_axes == 1 else _images(explanation, max_rows)
    )


def _table_heatmap(explanation: Explanation, max_rows: int, max_features: int) -> go.Figure:
    shown = explanation[: min(max_rows, len(explanation))]
    chosen = _main_features(shown.values, max_features)
    names = distinct_labels([shown.names()[j] for j in chosen])
    rows = [f"row {row_name(shown[i], i)}" for i in range(len(shown))]
    words = "%{y}, %{x}: %{z:.4g}<extra></extra>"
    figure = go.Figure(
        go.Heatmap(
            z=shown.values[:, chosen],
            x=names,
            y=rows,
            coloraxis="coloraxis",
            xgap=1,
            ygap=1,
            hovertemplate=words,
        )
    )
    figure.update_layout(coloraxis=signed_axis(shown.values[:, chosen], shown.kind))
    figure.update_xaxes(automargin=True, tickangle=-40 if len(names) > 6 else 0, showgrid=False)
    figure.update_yaxes(automargin=True, autorange="reversed", showgrid=False, ticksuffix="  ")
    title = (
        f"Values of {len(shown)} of {len(explanation)} rows"
        if len(shown) < len(explanation)
        else "Values by row"
    )
    return finish(figure, title, explained_by(shown), x_title="feature", height=220 + 22 * len(shown))


def _images(explanation: Explanation, max_rows: int) -> go.Figure:
    shown = explanation[: min(max_rows, 12, len(explanation))]
    pictures = shown.values
    if pictures.ndim == 4:
        pictures = pictures.sum(axis=channel_axis(shown.feature_shape) + 1)
    n_columns = min(4, len(shown))
    n_lines = -(-len(shown) // n_columns)
    titles = [
        f"row {row_name(shown[i], i)}, score {number(float(shown.scores[i]))}" for i in range(len(shown))
    ]
    figure = make_subplots(
        n_lines, n_columns, subplot_titles=titles, horizontal_spacing=0.03, vertical_spacing=0.12
    )
    words = "pixel (%{y}, %{x}): %{z:.4g}<extra></extra>"
    for i, picture in enumerate(pictures):
        trace = go.Heatmap(z=picture, coloraxis="coloraxis", hovertemplate=words)
        figure.add_trace(trace, i // n_columns + 1, i % n_columns + 1)
    figure.update_annotations(font_size=13)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, autorange="reversed")
    figure.for_each_yaxis(lambda axis: axis.update(scaleanchor=axis.anchor))  # pixels stay square
    figure.update_layout(coloraxis=signed_axis(pictures, shown.kind))
    title = "Where each score comes from" if shown.kind == "attribution" else "Where each score is sensitive"
    return finish(figure, title, explained_by(shown), height=130 + 250 * n_lines)


def flipping(results: Any) -> go.Figure:
    """Draw how fast scores fall as features are taken away, one mean curve per method: the lower, the better.

    Parameters
    ----------
    results
        A result of `tellwhy.evaluation.flipping`, several of them, or a mapping from a name to such a result
        or to its mean curve. Results of `region_flipping` are drawn by `plot.region_flipping`.

    Examples
    --------
    >>> figure = flipping({"OneClassDTD": [1.0, 0.2, 0.0], "RandomAttribution": [1.0, 0.6, 0.0]})
    >>> [trace.name for trace in figure.data]
    ['OneClassDTD', 'random order']
    """
    curves = _named_curves(results)
    figure = go.Figure()
    styles = iter(CURVES * (len(curves) // len(CURVES) + 1))
    for name, curve in curves.items():
        is_random = name == "RandomAttribution"
        color, dash = (NEUTRAL, "dot") if is_random else next(styles)
        words = "%{fullData.name}: %{y:.3g} after %{x}<extra></extra>"
        shape = {
            "x": list(range(len(curve))),
            "y": curve,
            "line": {"color": color, "dash": dash, "width": 2.5},
        }
        shown_name = "random order" if is_random else label(name)
        figure.add_scatter(mode="lines", name=shown_name, hovertemplate=words, **shape)
    figure.update_layout(
        legend={"x": 0.99, "xanchor": "right", "y": 0.99, "bgcolor": "rgba(255, 255, 255, 0.8)"}
    )
    figure.update_yaxes(title="mean score, untouched row = 1", rangemode="tozero")
    figure.update_xaxes(tick0=0, dtick=-(-max(len(curve) for curve in curves.values()) // 12))
    title, subtitle = (
        "Do the named features carry the score?",
        "The faster a curve falls, the better its order.",
    )
    return finish(figure, title, subtitle, x_title="features taken away, most relevant first", height=460)


def _named_curves(results: Any) -> dict[str, Floats]:
    if hasattr(results, "mean_curve"):
        results = [results]
    if isinstance(results, Mapping):
        pairs = [(str(name), found) for name, found in results.items()]
    elif isinstance(results, Iterable):
        pairs = [(str(getattr(found, "method", "")), found) for found in results]
    else:
        pairs = []
    curves = {
        name: np.asarray(f.mean_curve() if hasattr(f, "mean_curve") else f, dtype=float) for name, f in pairs
    }
    if not curves or any(curve.ndim != 1 for curve in curves.values()):
        raise InvalidParameter(
            "The 'results' parameter of plot.flipping must be results of tellwhy.evaluation.flipping, or a mapping "
            f"from a name to a curve. Got {type(results).__name__} instead."
        )
    return curves


def scores(explanation: Explanation, *, threshold: float | None = None) -> go.Figure:
    """Draw the histogram of the explained scores, and the threshold where one is given.

    Examples
    --------
    >>> e = Explanation(values=np.eye(3), scores=[1.0, 2.0, 9.0], method="Example")
    >>> scores(e, threshold=5.0).layout.xaxis.title.text
    'score: the higher, the odder'
    """
    _need_rows(explanation, "plot.scores")
    words = "score %{x}: %{y} rows<extra></extra>"
    trace = go.Histogram(x=explanation.scores, nbinsx=50, marker_color=USUAL, hovertemplate=words)
    figure = go.Figure(trace)
    title = f"Scores of {count(len(explanation), 'row')}"
    if threshold is not None:
        n_above = int((explanation.scores > threshold).sum())
        figure.add_vline(
            x=threshold, line_color=INK, line_width=2, annotation_text=f"threshold {number(threshold)}"
        )
        title += f", {number(n_above)} above the threshold"
        if 0 < n_above < 0.05 * len(explanation):  # a handful of rows would not be seen beside thousands
            figure.update_yaxes(type="log")
    figure.update_layout(bargap=0.06)
    figure.update_yaxes(title="rows (logarithmic scale)" if figure.layout.yaxis.type == "log" else "rows")
    return finish(
        figure, title, explained_by(explanation), x_title="score: the higher, the odder", height=420
    )


def _main_features(flat: Floats, most: int) -> Integers:
    """Features with the largest mean absolute value, largest first."""
    return np.argsort(-np.abs(flat).mean(axis=0), kind="stable")[:most]


def _need_rows(explanation: Explanation, owner: str) -> None:
    if not len(explanation):
        raise InvalidInput(f"{owner} needs at least one explained row. Got an explanation of none.")
