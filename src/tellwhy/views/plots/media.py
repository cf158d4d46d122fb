"""Series with their relevance along time and channel, and pictures with theirs in six ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.views.plots.colors import INK, ODD
from tellwhy.views.plots.style import finish, make_distinct, tell_method, write_row_title
from tellwhy.views.plots.visualisations import VISUALISATIONS, make_pixels, visualise

MOST_POINTS = 4_000
MOST_CHANNELS = 12


def series(
    explanation: Explanation, row: int = 0, *, times: Any = None, channels: Sequence[str] | None = None
) -> go.Figure:
    """Draw one explained series, a panel for each channel, with its relevance as bars behind it.

    Parameters
    ----------
    explanation
        Of series: features of shape (time,) or (time, channels), such as those of a `PatchModel`.
    row
        Which of the explained series, counted from 0.
    times
        What to write along the time axis; by default the numbers of the samples.
    channels
        Names of the channels. Of more than twelve, those with most relevance are drawn.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=np.ones((1, 5, 2)), scores=[9.0], method="Example", data=np.zeros((1, 5, 2)))
    >>> len(series(e).data)
    4
    """
    chosen = explanation[row]
    if len(chosen.feature_shape) not in (1, 2) or chosen.data is None:
        raise InvalidInput(
            "plot.series draws explained series with their data: features of shape (time,) or (time, "
            f"channels). Got {chosen.feature_shape}{'' if chosen.data is not None else ' without data'}."
        )
    length = chosen.feature_shape[0]
    values = chosen.values[0].reshape(length, -1)
    data = np.asarray(chosen.data, dtype=np.float64)[0].reshape(length, -1)
    names = [f"channel {k}" for k in range(values.shape[1])] if channels is None else list(channels)
    if len(names) != values.shape[1]:
        raise InvalidInput(f"There are {len(names)} names for {values.shape[1]} channels.")
    labels = make_distinct([str(name) for name in names])
    main = np.sort(np.argsort(-np.abs(values).sum(axis=0), kind="stable")[:MOST_CHANNELS])
    along = np.arange(length) if times is None else np.asarray(times)
    at = spread_evenly(length, MOST_POINTS)
    figure = make_subplots(
        len(main),
        1,
        shared_xaxes=True,
        vertical_spacing=0.25 / max(len(main), 2),
        specs=[[{"secondary_y": True}]] * len(main),
    )
    reach = float(np.abs(values).max()) or 1.0
    # Of many samples, each drawn point stands for a stretch of them: the largest relevance of it is shown.
    peaks = np.maximum.reduceat(np.abs(values), at, axis=0)
    for k, channel in enumerate(main, start=1):
        bars = go.Bar(x=along[at], y=peaks[:, channel], marker_color=ODD, opacity=0.55, name="relevance")
        line = go.Scatter(x=along[at], y=data[at, channel], mode="lines", line={"color": INK, "width": 1.2})
        figure.add_trace(bars, k, 1, secondary_y=True)
        figure.add_trace(line, k, 1, secondary_y=False)
        figure.update_yaxes(title_text=labels[channel], row=k, col=1, secondary_y=False)
        figure.update_yaxes(
            range=[0, reach], showgrid=False, showticklabels=False, row=k, col=1, secondary_y=True
        )
    figure.update_layout(showlegend=False, bargap=0)
    return finish(figure, write_row_title(chosen, row), tell_method(chosen), height=180 + 130 * len(main))


def six_views(
    explanation: Explanation, row: int = 0, *, picture: Any = None, root: bool = False
) -> go.Figure:
    """Draw one picture in all six ways beside each other.

    Parameters
    ----------
    explanation
        Of pictures: features of shape (h, w), (h, w, channels) or (channels, h, w).
    row
        Which of the explained pictures, counted from 0.
    picture
        The picture, where `explanation.data` does not hold it.
    root
        Take the signed square root of values first.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> e = Explanation(values=np.ones((1, 4, 4)), scores=[16.0], method="Example", data=np.zeros((1, 4, 4)))
    >>> len(six_views(e).data)
    7
    """
    chosen = explanation[row]
    if picture is None and chosen.data is None:
        raise InvalidInput(
            "plot.six_views needs the picture: this explanation holds no data. Pass `picture=`."
        )
    seen = np.asarray(chosen.data[0] if picture is None else picture, dtype=np.float64)
    shown = [make_pixels(seen)]
    shown += [visualise(chosen.values[0], seen, how, root=root) for how in VISUALISATIONS]
    titles = ["the picture", *VISUALISATIONS]
    figure = make_subplots(2, 4, subplot_titles=titles, horizontal_spacing=0.02, vertical_spacing=0.1)
    for k, pixels in enumerate(shown):
        figure.add_trace(go.Image(z=pixels, hoverinfo="skip"), k // 4 + 1, k % 4 + 1)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return finish(figure, write_row_title(chosen, row), tell_method(chosen), height=560)
