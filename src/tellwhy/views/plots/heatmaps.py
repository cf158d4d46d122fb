"""Heat maps, overlays.

Heat maps of explanations: rows × features of a table, or one image per row; zero is white.

Contributions drawn onto what was explained: words of a text, pixels of a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import tokens_of
from tellwhy.core.params import integer, validate_value
from tellwhy.core.score import Floats
from tellwhy.views.plots.colors import DIVERGING
from tellwhy.views.plots.style import (
    find_main_features,
    finish,
    label,
    make_distinct,
    make_signed_axis,
    name_quantity,
    name_row,
    need_rows,
    tell_method,
    turn_to_one_class,
    write_row_title,
)
from tellwhy.views.plots.visualisations import find_channel_axis
from tellwhy.words.wording import number

MOST_IMAGES = 12
IMAGES_ACROSS = 4


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

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> import numpy as np
    >>> e = Explanation(values=np.ones((2, 4, 4)), scores=[1.0, 2.0], method="Example")
    >>> len(heatmap(e).data)
    2
    """
    validate_value("plot.heatmap", "max_rows", max_rows, integer(1))
    validate_value("plot.heatmap", "max_features", max_features, integer(1))
    need_rows(explanation, "plot.heatmap")
    n_axes = len(explanation.feature_shape)
    if n_axes > 3:
        raise InvalidInput(
            "plot.heatmap draws tables and images: features of shape (d,), (h, w) or (h, w, channels). Got "
            f"{explanation.feature_shape}. Reshape `values` first."
        )
    if n_axes == 1:
        return _draw_table(explanation, max_rows, max_features)
    return _draw_images(explanation, min(max_rows, MOST_IMAGES))


def _draw_table(explanation: Explanation, max_rows: int, max_features: int) -> go.Figure:
    shown = turn_to_one_class(explanation)[: min(max_rows, len(explanation))]
    chosen = find_main_features(shown.values, max_features)
    names = make_distinct([shown.names()[j] for j in chosen])
    rows = [f"row {name_row(shown[i], i)}" for i in range(len(shown))]
    values = shown.values[:, chosen]
    words = "%{y}, %{x}: %{z:.4g}<extra></extra>"
    gaps = {"xgap": 1, "ygap": 1}
    figure = go.Figure(
        go.Heatmap(z=values, x=names, y=rows, coloraxis="coloraxis", hovertemplate=words, **gaps)
    )
    figure.update_layout(coloraxis=make_signed_axis(values, shown))
    figure.update_xaxes(automargin=True, tickangle=-40 if len(names) > 6 else 0, showgrid=False)
    # Plotly counts from the bottom up; people read tables from the top down.
    figure.update_yaxes(automargin=True, autorange="reversed", showgrid=False, ticksuffix="  ")
    title = "Values by row"
    if len(shown) < len(explanation):
        title = f"Values of {len(shown)} of {len(explanation)} rows"
    return finish(figure, title, tell_method(shown), x_title="feature", height=220 + 22 * len(shown))


def _draw_images(explanation: Explanation, most: int) -> go.Figure:
    shown = explanation[: min(most, len(explanation))]
    pictures = shown.values
    if pictures.ndim == 4:
        pictures = pictures.sum(axis=find_channel_axis(shown.feature_shape) + 1)  # axis 0 counts the rows
    across = min(IMAGES_ACROSS, len(shown))
    down = -(-len(shown) // across)
    titles = [
        f"row {name_row(shown[i], i)}, {name_quantity(shown)} {number(float(shown.scores[i]))}"
        for i in range(len(shown))
    ]
    figure = make_subplots(
        down, across, subplot_titles=titles, horizontal_spacing=0.03, vertical_spacing=0.12
    )
    words = "pixel (%{y}, %{x}): %{z:.4g}<extra></extra>"
    for i, picture in enumerate(pictures):
        trace = go.Heatmap(z=picture, coloraxis="coloraxis", hovertemplate=words)
        figure.add_trace(trace, i // across + 1, i % across + 1)
    figure.update_annotations(font_size=13)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, autorange="reversed")  # the first line of an image is its top
    figure.for_each_yaxis(lambda axis: axis.update(scaleanchor=axis.anchor))  # pixels stay square
    figure.update_layout(coloraxis=make_signed_axis(pictures, shown))
    is_attribution = shown.kind == "attribution"
    what = "comes from" if is_attribution else "is sensitive"
    title = f"Where each {name_quantity(shown)} {what}"
    return finish(figure, title, tell_method(shown), height=130 + 250 * down)


_LINE = 92  # characters of a line of text
_GRAYS = [[0.0, "black"], [1.0, "white"]]


def text(explanation: Explanation, row: int = 0, *, words: Sequence[str] | None = None) -> go.Figure:
    """Draw a text with each word on the colour of its contribution.

    Parameters
    ----------
    explanation
        One feature per word (or token).
    row
        Which of the explained texts, counted from 0.
    words
        The words, one per feature; by default those in the explained data, or the names of the features.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=[[0.0, 2.0]], scores=[2.0], method="Example", feature_names=["good", "grief"])
    >>> [note.text for note in text(e).layout.annotations]
    ['good', 'grief']
    """
    chosen = explanation[row]
    values = (
        chosen.values.reshape(-1) if chosen.values.ndim == 2 else chosen.values[0].sum(axis=-1).reshape(-1)
    )
    tokens = tokens_of(chosen) if words is None else None
    if tokens is not None:
        values = values[: len(tokens[0])]
    shown = _choose_words(chosen, words, len(values)) if tokens is None else tokens[0]
    reach = float(np.abs(values).max(initial=0.0)) or 1.0
    figure = go.Figure()
    figure.update_layout(coloraxis=_make_word_axis(reach))
    # an invisible point carries the bar of colours
    figure.add_trace(
        go.Scatter(
            x=[0], y=[0], mode="markers", marker={"color": [0], "opacity": 0, "coloraxis": "coloraxis"}
        )
    )
    n_lines = _write(figure, shown, values / reach)
    figure.update_xaxes(visible=False, range=[0, _LINE])
    figure.update_yaxes(visible=False, range=[-n_lines, 0.6])
    height = 150 + 34 * max(n_lines, 3)
    return finish(figure, write_row_title(chosen, row), tell_method(chosen), height=height)


def _make_word_axis(reach: float) -> dict[str, Any]:
    """A colour axis that says what the colours mean, in the room of a few lines of text."""
    ticks = {"tickvals": [-reach, 0, reach], "ticktext": ["lowers it", "0", "raises it"]}
    return {"colorscale": DIVERGING, "cmin": -reach, "cmax": reach, "colorbar": {**ticks, "thickness": 12}}


def _choose_words(chosen: Explanation, words: Sequence[str] | None, n: int) -> list[str]:
    """Words of a row, one per feature."""
    given = _find_words(chosen, n) if words is None else [str(word) for word in words]
    if len(given) != n:
        raise InvalidInput(
            f"plot.text needs one word per feature: there are {n} features and {len(given)} words. Pass "
            "`words=`, a list of them."
        )
    return given


def _find_words(chosen: Explanation, n: int) -> list[str]:
    data = None if chosen.data is None else np.asarray(chosen.data)[0]
    if data is not None and np.ndim(data) == 0:  # one text
        return str(data).split()
    if data is not None and np.ndim(data) == 1 and len(data) == n and isinstance(data[0], str):
        return [str(word) for word in data]
    return chosen.names() if chosen.values.ndim == 2 else []


def _write(figure: go.Figure, words: list[str], levels: Floats) -> int:
    """Set words one after the other, in lines; return how many lines there are."""
    from plotly.colors import sample_colorscale

    backs = sample_colorscale(DIVERGING, ((levels + 1.0) / 2.0).tolist())
    line = 0
    at = 0.0
    for word, back, level in zip(words, backs, levels, strict=True):
        room = len(label(word)) + 1.6
        if at > 0 and at + room > _LINE:
            line += 1
            at = 0.0
        figure.add_annotation(
            x=at,
            y=-line,
            text=label(word),
            showarrow=False,
            xanchor="left",
            yanchor="middle",
            bgcolor=back,
            borderpad=3,
            font={
                "family": "ui-monospace, Menlo, Consolas, monospace",
                "size": 14,
                "color": _choose_ink(level),
            },
        )
        at += room
    return line + 1


def _choose_ink(level: float) -> str:
    """White on dark colours."""
    return "white" if abs(level) > 0.75 else "#1a2330"


def overlay(
    explanation: Explanation, row: int = 0, *, picture: Any = None, opacity: float = 0.75
) -> go.Figure:
    """Draw contributions on top of the picture that was explained, beside the picture alone.

    Parameters
    ----------
    explanation
        Of pictures: features of shape (h, w), (h, w, channels) or (channels, h, w).
    row
        Which of the explained pictures, counted from 0.
    picture
        The picture, where `explanation.data` does not hold it.
    opacity
        How much the colours of the largest contributions hide the picture, 0 to 1.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=np.ones((1, 4, 4)), scores=[16.0], method="Example", data=np.zeros((1, 4, 4)))
    >>> len(overlay(e).data)
    3
    """
    chosen = explanation[row]
    if len(chosen.feature_shape) not in (2, 3):
        raise InvalidInput(
            "plot.overlay draws pictures: features of shape (h, w), (h, w, channels) or (channels, h, w). "
            f"Got {chosen.feature_shape}."
        )
    shares = chosen.values[0]
    shares = shares.sum(axis=find_channel_axis(shares.shape)) if shares.ndim == 3 else shares
    seen = _make_grays(chosen, picture, shares.shape)
    figure = make_subplots(
        1, 2, subplot_titles=["the picture", "what raised and lowered"], horizontal_spacing=0.04
    )
    for column in (1, 2):
        figure.add_trace(go.Heatmap(z=seen, colorscale=_GRAYS, showscale=False, hoverinfo="skip"), 1, column)
    words = "pixel (%{y}, %{x}): %{z:.4g}<extra></extra>"
    figure.add_trace(go.Heatmap(z=shares, coloraxis="coloraxis", hovertemplate=words), 1, 2)
    figure.update_layout(
        coloraxis=make_signed_axis(shares, chosen) | {"colorscale": _make_see_through(opacity)}
    )
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, autorange="reversed", constrain="domain")
    figure.for_each_yaxis(lambda axis: axis.update(scaleanchor=axis.anchor))  # pixels stay square
    finish(figure, write_row_title(chosen, row), tell_method(chosen), height=500)
    return figure.update_layout(margin_t=125)  # two titles stand above the pictures


def _make_grays(chosen: Explanation, picture: Any, shape: tuple[int, ...]) -> Floats:
    """The picture as levels of gray."""
    if picture is None and chosen.data is None:
        raise InvalidInput("plot.overlay needs the picture: this explanation holds no data. Pass `picture=`.")
    seen = np.asarray(chosen.data[0] if picture is None else picture, dtype=np.float64)
    if seen.ndim == 3:
        seen = seen.mean(axis=find_channel_axis(seen.shape))
    if seen.shape != shape:
        raise InvalidInput(f"The picture has the shape {seen.shape}; expected {shape}, as it was explained.")
    return seen


def _make_see_through(opacity: float) -> list[list[Any]]:
    """Blue to orange, through nothing at all in the middle."""
    strong = float(np.clip(opacity, 0.0, 1.0))
    stops = [(0.0, "31,78,121", 1.0), (0.25, "47,110,168", 0.6), (0.5, "255,255,255", 0.0)]
    stops += [(0.75, "198,83,7", 0.6), (1.0, "163,63,0", 1.0)]
    return [[place, f"rgba({color},{strong * part:.3f})"] for place, color, part in stops]
