"""How a column's contribution depends on its cells: one point per row."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import find_columns
from tellwhy.core.score import Floats
from tellwhy.views.plots.colors import INK, LOW_TO_HIGH, USUAL, choose_class_color
from tellwhy.views.plots.rows import find_levels, rank_values, read_numbers, take_cells
from tellwhy.views.plots.style import (
    finish,
    label,
    need_rows,
    tell_method,
    turn_to_one_class,
    write_contribution_title,
)
from tellwhy.words.wording import count, number

MOST_POINTS = 5000
_BINS = 10  # of the column, within which another one is looked for that explains the spread
_MOST_KINDS = 8


def scatter(explanation: Explanation, column: str | int, *, color: str | int | None = "auto") -> go.Figure:
    """Draw a column's contributions against its cells, one point per row.

    Rows of a classifier of two classes are drawn in terms of the second, whichever was explained.

    Parameters
    ----------
    explanation
        Of rows of a table whose cells are known.
    column
        Name or place of the column.
    color
        Another column, whose cells colour the points. 'auto': the one that explains most of the spread among
        rows with nearly equal cells, so that what two columns do together is seen. None: one colour.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> e = Explanation(values=np.column_stack([X[:, 0] * X[:, 2], X[:, 1], X[:, 2]]), scores=X.sum(axis=1),
    ...                 data=X, method="Example", feature_names=["a", "b", "c"])
    >>> scatter(e, "a").layout.coloraxis.colorbar.title.text
    'c'
    """
    need_rows(explanation, "plot.scatter")
    explanation = turn_to_one_class(explanation)
    place = int(find_columns(explanation, column)[0])
    shown = explanation[spread_evenly(len(explanation), MOST_POINTS)]
    cells = take_cells(shown, np.array([place]))
    if cells is None:
        raise InvalidInput(
            "plot.scatter needs the explained rows, but this explanation holds no cells for its columns. "
            "Explain rows with an explainer, or give `data`."
        )
    name = shown.names()[place]
    numbers = read_numbers(shown, place)
    y = shown.values[:, place]
    figure = go.Figure()
    if numbers is None:
        _draw_kinds(figure, cells[:, 0], y)
    else:
        other = _choose_other_column(shown, place, numbers, color)
        _draw_points(figure, shown, numbers, y, other)
    figure.add_hline(y=0, line_width=1, line_color=INK)
    figure.update_yaxes(title=write_contribution_title(shown), zeroline=False)
    title = f"What {label(name)} does in {count(len(explanation), 'row')}"
    title += _tell_left_out(len(shown), len(explanation), numbers)
    return finish(figure, title, tell_method(shown), x_title=label(name), height=460)


def _tell_left_out(n_shown: int, n: int, numbers: Floats | None) -> str:
    """Say which rows are not drawn."""
    n_empty = 0 if numbers is None else int(np.isnan(numbers).sum())
    sampled = "" if n_shown == n else f", {number(n_shown)} of them drawn"
    return sampled + (f", {number(n_empty)} without a value left out" if n_empty else "")


def _draw_kinds(figure: go.Figure, cells: Any, y: Floats) -> None:
    """One box with its points for each kind of a column of texts, the most frequent first."""
    kinds, codes = find_levels(cells)
    counts = np.bincount(codes)
    for k in np.argsort(-counts, kind="stable")[:20]:
        figure.add_trace(
            go.Box(
                y=y[codes == k],
                name=label(kinds[k]),
                boxpoints="all",
                jitter=0.5,
                pointpos=0,
                marker={"color": USUAL, "size": 4, "opacity": 0.6},
                line={"color": INK, "width": 1},
                fillcolor="rgba(0,0,0,0)",
                showlegend=False,
            )
        )


def _draw_points(figure: go.Figure, shown: Explanation, x: Floats, y: Floats, other: int | None) -> None:
    marker = {"size": 7, "opacity": 0.75, "color": USUAL}
    words = "%{x:.4g}: %{y:.4g}<extra></extra>"
    if other is None:
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=marker, hovertemplate=words))
        return
    name = label(shown.names()[other])
    shade = read_numbers(shown, other)
    if shade is None:
        _draw_by_kind(figure, x, y, take_cells(shown, np.array([other]))[:, 0], name)
        return
    low, high = np.nanmin(shade), np.nanmax(shade)
    marker |= {"color": rank_values(shade), "coloraxis": "coloraxis"}
    hover = f"%{{x:.4g}}: %{{y:.4g}}<br>{name} = %{{customdata:.4g}}<extra></extra>"
    figure.add_trace(
        go.Scatter(x=x, y=y, mode="markers", marker=marker, customdata=shade, hovertemplate=hover)
    )
    ticks = {"tickvals": [0, 1], "ticktext": [number(float(low)), number(float(high))], "title": name}
    bar = {**ticks, "thickness": 12, "len": 0.7}
    figure.update_layout(coloraxis={"colorscale": LOW_TO_HIGH, "cmin": 0, "cmax": 1, "colorbar": bar})


def _draw_by_kind(figure: go.Figure, x: Floats, y: Floats, cells: Any, name: str) -> None:
    """Points in one colour for each kind of another column; rare kinds share the last one."""
    kinds, codes = find_levels(cells)
    frequent = np.argsort(-np.bincount(codes), kind="stable")[:_MOST_KINDS]
    for place, k in enumerate(frequent):
        at = codes == k
        marker = {"size": 7, "opacity": 0.75, "color": choose_class_color(place)}
        figure.add_trace(go.Scatter(x=x[at], y=y[at], mode="markers", marker=marker, name=label(kinds[k])))
    at = ~np.isin(codes, frequent)
    if at.any():
        marker = {"size": 7, "opacity": 0.5, "color": "#c9c3bd"}
        figure.add_trace(go.Scatter(x=x[at], y=y[at], mode="markers", marker=marker, name="others"))
    figure.update_layout(legend_title_text=name, showlegend=True)


def _choose_other_column(shown: Explanation, place: int, x: Floats, color: str | int | None) -> int | None:
    """Place of the column that colours points; None for one colour."""
    if color is None:
        return None
    if not (isinstance(color, str) and color == "auto"):
        return int(find_columns(shown, color)[0])
    strengths = [
        -1.0 if j == place else _measure_strength(x, shown.values[:, place], read_numbers(shown, j))
        for j in range(shown.values.shape[1])
    ]
    best = int(np.argmax(strengths))
    return best if strengths[best] > 0 else None


def _measure_strength(x: Floats, y: Floats, other: Floats | None) -> float:
    """How well another column tells high from low contributions among rows with nearly equal cells."""
    if other is None:
        return -1.0
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(other))
    if len(known) < 4 * _BINS:
        return -1.0
    order = known[np.argsort(x[known], kind="stable")]
    total = 0.0
    for rows in np.array_split(order, _BINS):
        spread = float(np.std(y[rows])) * float(np.std(other[rows]))
        if spread > 0:
            total += (
                abs(float(np.mean((y[rows] - y[rows].mean()) * (other[rows] - other[rows].mean())))) / spread
            )
    return total / _BINS
