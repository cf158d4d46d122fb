"""Figures of explained nodes: maps of grids, cross-plots coloured by class, time lines of chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from plotly.subplots import make_subplots

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import integer, none, real, validate_value
from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import Grid
from tellwhy.views.plots.colors import CLASS_COLORS, ODD, SCORE_COLORS, choose_class_color, score_limits
from tellwhy.views.plots.style import find_main_features, finish, label, tell_method
from tellwhy.words.wording import number

MOST_POINTS = 5_000
MAPS_ACROSS = 4
_MAP_WIDTH = 300


class _Axis(Protocol):
    domain: tuple[float, float]


class _Subplot(Protocol):
    """Where plotly puts a map."""

    xaxis: _Axis
    yaxis: _Axis


def node_maps(
    explanation: Explanation,
    graph: Grid,
    *,
    others: Mapping[str, ArrayLike] | None = None,
    at: int | None = None,
) -> go.Figure:
    """Draw classes, scores, what the context adds, and the relevance of each feature as maps.

    Parameters
    ----------
    explanation
        Of a grid's nodes, by `LatentClassDTD`; nodes that were not explained stay empty.
    graph
        The grid.
    others
        Scores of other detectors for all nodes, by name, to draw beside.
    at
        Which slice along the first axis of a volume; by default the one that holds the highest score.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> from tellwhy.data.graphs import grid
    >>> e = Explanation(
    ...     values=np.ones((6, 2)), scores=np.arange(6.0), method="LatentClassDTD",
    ...     extras={"class": np.zeros(6, int), "context": np.zeros(6), "row": np.arange(6)},
    ... )
    >>> [a.text for a in node_maps(e, grid((2, 3))).layout.annotations]
    ['class', 'score', 'context', 'relevance of x0', 'relevance of x1']
    """
    if not isinstance(graph, Grid) or len(graph.shape) not in (2, 3):
        raise InvalidInput("plot.node_maps draws grids of two or three axes; for a chain use plot.time_line.")
    _need_classes(explanation, "plot.node_maps")
    layers = _list_layers(explanation, graph, others or {})
    place = _slice(explanation, graph, at)
    across = min(MAPS_ACROSS, len(layers))
    down = -(-len(layers) // across)
    titles = [label(name) for name in layers]
    figure = make_subplots(
        down, across, subplot_titles=titles, horizontal_spacing=0.06, vertical_spacing=0.09
    )
    for k, (name, values) in enumerate(layers.items()):
        line, column = k // across + 1, k % across + 1  # plotly counts from 1
        plane = values.reshape(graph.shape)
        plane = plane if place is None else plane[place]
        is_class = name == "class"
        drawn = _draw_class_map(plane) if is_class else _score_map(plane, figure.get_subplot(line, column))
        figure.add_trace(drawn, line, column)
    figure.update_xaxes(visible=False)
    # the first line of the grid is the top of the map
    figure.update_yaxes(visible=False, autorange="reversed")
    figure.for_each_yaxis(lambda axis: axis.update(scaleanchor=axis.anchor))  # nodes stay square
    where = "" if place is None else f", slice {place} of {graph.shape[0]}"
    title = f"Classes, scores and reasons of {number(graph.n_nodes)} nodes{where}"
    finish(figure, title, tell_method(explanation), height=140 + _measure_line_height(graph) * down)
    return figure.update_layout(margin_t=130)


def _measure_line_height(graph: Grid) -> int:
    """Pixels of a line of maps: as high as the grid is for its width, within reason, and its title."""
    height, width = graph.shape[-2:]
    return int(np.clip(_MAP_WIDTH * height / width, 120, 500)) + 60


def _list_layers(explanation: Explanation, graph: Grid, others: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    """Maps by name, flat, NaN where a node was not explained."""
    rows = np.asarray(explanation.extras.get("row", np.arange(len(explanation))))
    if len(rows) and rows.max() >= graph.n_nodes:
        raise InvalidInput(f"The explanation is of node {rows.max()}; the grid has {graph.n_nodes}.")
    parts: dict[str, Any] = {"class": explanation.extras["class"], "score": explanation.scores}
    if "context" in explanation.extras:
        parts["context"] = explanation.extras["context"]
    parts |= {f"relevance of {name}": explanation.values[:, k] for k, name in enumerate(explanation.names())}
    layers = {}
    for name, values in parts.items():
        layers[name] = np.full(graph.n_nodes, np.nan)
        layers[name][rows] = values
    for name, values in others.items():
        flat = np.asarray(values, dtype=np.float64).ravel()
        if len(flat) != graph.n_nodes:
            raise InvalidInput(
                f"others[{name!r}] has {len(flat)} scores; the grid has {graph.n_nodes} nodes."
            )
        layers[name] = flat
    return layers


def _slice(explanation: Explanation, graph: Grid, at: int | None) -> int | None:
    if len(graph.shape) == 2:
        return None
    validate_value("plot.node_maps", "at", at, (none, integer(0, graph.shape[0] - 1)))
    if at is not None:
        return int(at)
    rows = np.asarray(explanation.extras.get("row", np.arange(len(explanation))))
    return int(rows[int(np.argmax(explanation.scores))] // np.prod(graph.shape[1:]))


def _draw_class_map(plane: Floats) -> go.Heatmap:
    n = len(CLASS_COLORS)
    scale = [[edge / n, color] for k, color in enumerate(CLASS_COLORS) for edge in (k, k + 1)]
    words = "node (%{y}, %{x}): class %{z}<extra></extra>"
    return go.Heatmap(z=plane % n, zmin=0, zmax=n, colorscale=scale, showscale=False, hovertemplate=words)


def _score_map(plane: Floats, place: _Subplot) -> go.Heatmap:
    """One scale per map, up to the 99.5 % quantile, its bar beside the map."""
    low, high = score_limits(plane)
    _, right = place.xaxis.domain
    bottom, top = place.yaxis.domain
    bar = {"x": right, "xpad": 4, "y": (bottom + top) / 2, "len": 0.9 * (top - bottom), "thickness": 9}
    # Scores start at 0 where they cannot be negative, also after rounding errors.
    least = min(low, 0.0) if low > -1e-12 else low
    return go.Heatmap(
        z=plane,
        zmin=least,
        zmax=max(high, least + 1e-12),  # plotly takes two equal ends for none
        colorscale=[list(stop) for stop in SCORE_COLORS],
        colorbar=bar,
        showscale=high > least,  # a map of one number has no scale
        hovertemplate="node (%{y}, %{x}): %{z:.4g}<extra></extra>",
    )


def cross_plot(explanation: Explanation, x: int = 0, y: int = 1, *, odd: float = 0.01) -> go.Figure:
    """Draw two features of the nodes against each other, coloured by class, the oddest nodes ringed.

    Parameters
    ----------
    explanation
        By `LatentClassDTD`, with its data.
    x, y
        Numbers of the features.
    odd
        Share of the nodes that is ringed.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(
    ...     values=np.ones((4, 2)), scores=np.arange(4.0), method="LatentClassDTD", data=np.eye(4, 2),
    ...     extras={"class": np.array([0, 0, 1, 1])},
    ... )
    >>> [trace.name for trace in cross_plot(e, odd=0.25).data]
    ['class 0', 'class 1', 'oddest 25 %']
    """
    _need_classes(explanation, "plot.cross_plot")
    n_features = explanation.values.shape[1]
    for name, value in (("x", x), ("y", y)):
        validate_value("plot.cross_plot", name, value, integer(0, n_features - 1))
    validate_value("plot.cross_plot", "odd", odd, real(0, 1))
    data = _read_data(explanation, "plot.cross_plot")
    names = explanation.names()
    classes = np.asarray(explanation.extras["class"])
    rows = spread_evenly(len(data), MOST_POINTS)
    places = data[:, [x, y]]
    figure = go.Figure()
    for k in np.unique(classes):
        own = rows[classes[rows] == k]
        _draw_points(
            figure,
            places,
            own,
            f"class {k}",
            {"size": 4, "color": choose_class_color(int(k)), "opacity": 0.5},
        )
    top = _find_oddest(explanation, odd)
    ring = {"size": 11, "symbol": "circle-open", "color": ODD, "line": {"width": 1.5}}
    _draw_points(figure, places, top[:MOST_POINTS], f"oddest {100 * odd:g} %", ring)
    figure.update_yaxes(title=label(names[y]))
    return finish(figure, "Nodes by class", tell_method(explanation), x_title=label(names[x]), height=560)


def _find_oddest(explanation: Explanation, share: float) -> Integers:
    """The given share of the nodes, and at least one, highest scores first."""
    return np.argsort(-explanation.scores, kind="stable")[: max(1, round(share * len(explanation)))]


def _draw_points(
    figure: go.Figure, places: Floats, rows: Integers, name: str, marker: dict[str, Any]
) -> None:
    words = "node %{customdata}: (%{x:.4g}, %{y:.4g})<extra>" + name + "</extra>"
    figure.add_scattergl(
        x=places[rows, 0],
        y=places[rows, 1],
        mode="markers",
        marker=marker,
        name=name,
        customdata=rows,
        hovertemplate=words,
    )


def time_line(
    explanation: Explanation, times: ArrayLike | None = None, *, max_features: int = 6, odd: float = 0.01
) -> go.Figure:
    """Draw features over a chain, each stretch in the colour of its class, with the scores below.

    The oddest nodes are marked.

    Parameters
    ----------
    explanation
        Of a chain's nodes in order, by `LatentClassDTD`, with its data.
    times
        Time of each explained node; by default its number.
    max_features
        The most features to draw, the most relevant first.
    odd
        Share of the nodes that is marked.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(
    ...     values=np.ones((4, 1)), scores=np.arange(4.0), method="LatentClassDTD", data=np.ones((4, 1)),
    ...     extras={"class": np.array([0, 0, 1, 1])},
    ... )
    >>> len(time_line(e).data)
    6
    """
    _need_classes(explanation, "plot.time_line")
    validate_value("plot.time_line", "max_features", max_features, integer(1))
    validate_value("plot.time_line", "odd", odd, real(0, 1))
    data = _read_data(explanation, "plot.time_line")
    classes = np.asarray(explanation.extras["class"])
    places = np.asarray(explanation.extras.get("row", np.arange(len(data))) if times is None else times)
    if len(places) != len(data):
        raise InvalidInput(f"times has {len(places)} entries for {len(data)} explained nodes.")
    chosen = find_main_features(explanation.values, max_features)
    series = [(label(explanation.names()[j]), data[:, j]) for j in chosen] + [("score", explanation.scores)]
    figure = make_subplots(len(series), 1, shared_xaxes=True, vertical_spacing=0.04)
    top = _find_oddest(explanation, odd)
    for line, (name, values) in enumerate(series, start=1):
        for k in np.unique(classes):
            # Gaps where another class begins: a line never joins two classes.
            _draw_stretch(figure, places, np.where(classes == k, values, np.nan), int(k), line)
        mark = {"size": 9, "symbol": "circle-open", "color": ODD, "line": {"width": 2}}
        shown = {"mode": "markers", "marker": mark, "name": "oddest", "showlegend": line == 1}
        figure.add_scatter(x=places[top], y=values[top], row=line, col=1, hoverinfo="skip", **shown)
        figure.update_yaxes(title=name, row=line, col=1)
    return finish(figure, "Classes along the line", tell_method(explanation), height=160 + 140 * len(series))


def _draw_stretch(figure: go.Figure, places: NDArray[Any], values: Floats, k: int, line: int) -> None:
    style = {
        "line": {"color": choose_class_color(k), "width": 1.5},
        "marker": {
            "size": 3,
            "color": choose_class_color(k),
        },  # a node between two others of another class is a dot
    }
    words = "%{x}: %{y:.4g}<extra>class " + str(k) + "</extra>"
    figure.add_scatter(
        x=places,
        y=values,
        mode="lines+markers",
        name=f"class {k}",
        legendgroup=f"class {k}",
        showlegend=line == 1,
        hovertemplate=words,
        row=line,
        col=1,
        **style,
    )


def _read_data(explanation: Explanation, owner: str) -> Floats:
    if explanation.data is None:
        raise InvalidInput(f"{owner} needs the rows that were explained; this explanation has no data.")
    return np.asarray(explanation.data, dtype=np.float64)


def _need_classes(explanation: Explanation, owner: str) -> None:
    if not len(explanation) or "class" not in explanation.extras:
        raise InvalidInput(f"{owner} draws explanations of nodes by LatentClassDTD; this one has no classes.")
