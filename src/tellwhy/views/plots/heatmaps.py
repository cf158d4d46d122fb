"""Heat maps of explanations: rows × features of a table, or one image per row; zero is white."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import integer, validate_value
from tellwhy.views.plots.classes import in_one_class
from tellwhy.views.plots.media.visualisations import channel_axis
from tellwhy.views.plots.style import (
    distinct_labels,
    explained_by,
    finish,
    main_features,
    need_rows,
    quantity,
    row_name,
    signed_axis,
)
from tellwhy.views.wording import number

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
        return _table_heatmap(explanation, max_rows, max_features)
    return _images(explanation, min(max_rows, MOST_IMAGES))


def _table_heatmap(explanation: Explanation, max_rows: int, max_features: int) -> go.Figure:
    shown = in_one_class(explanation)[: min(max_rows, len(explanation))]
    chosen = main_features(shown.values, max_features)
    names = distinct_labels([shown.names()[j] for j in chosen])
    rows = [f"row {row_name(shown[i], i)}" for i in range(len(shown))]
    values = shown.values[:, chosen]
    words = "%{y}, %{x}: %{z:.4g}<extra></extra>"
    gaps = {"xgap": 1, "ygap": 1}
    figure = go.Figure(
        go.Heatmap(z=values, x=names, y=rows, coloraxis="coloraxis", hovertemplate=words, **gaps)
    )
    figure.update_layout(coloraxis=signed_axis(values, shown))
    figure.update_xaxes(automargin=True, tickangle=-40 if len(names) > 6 else 0, showgrid=False)
    # Plotly counts from the bottom up; people read tables from the top down.
    figure.update_yaxes(automargin=True, autorange="reversed", showgrid=False, ticksuffix="  ")
    title = "Values by row"
    if len(shown) < len(explanation):
        title = f"Values of {len(shown)} of {len(explanation)} rows"
    return finish(figure, title, explained_by(shown), x_title="feature", height=220 + 22 * len(shown))


def _images(explanation: Explanation, most: int) -> go.Figure:
    shown = explanation[: min(most, len(explanation))]
    pictures = shown.values
    if pictures.ndim == 4:
        pictures = pictures.sum(axis=channel_axis(shown.feature_shape) + 1)  # axis 0 counts the rows
    across = min(IMAGES_ACROSS, len(shown))
    down = -(-len(shown) // across)
    titles = [
        f"row {row_name(shown[i], i)}, {quantity(shown)} {number(float(shown.scores[i]))}"
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
    figure.update_layout(coloraxis=signed_axis(pictures, shown))
    is_attribution = shown.kind == "attribution"
    what = "comes from" if is_attribution else "is sensitive"
    title = f"Where each {quantity(shown)} {what}"
    return finish(figure, title, explained_by(shown), height=130 + 250 * down)
