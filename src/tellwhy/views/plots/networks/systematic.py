"""Explanations of a whole data set: odd groups, and relevance on the objects of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.views.plots.colors import NEUTRAL, ODD, USUAL
from tellwhy.views.plots.media.visualisations import as_picture, visualise
from tellwhy.views.plots.style import finish, label

if TYPE_CHECKING:
    from tellwhy.workflow.results import BoxRatios, Strategies

EXAMPLES = 6
MOST_GROUPS = 6


def strategies(found: Strategies, explanation: Explanation) -> go.Figure:
    """Draw groups of explanations: the mean map of each, then some of its pictures below their relevance.

    Parameters
    ----------
    found
        Of `tellwhy.evaluation.strategies`: its odd groups; where it has none, the largest groups.
    explanation
        What was grouped, with its data.

    Examples
    --------
    >>> from tellwhy.evaluation import strategies as grouped
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((20, 6, 6))
    >>> e = Explanation(values=X, scores=np.ones(20), method="LRP", data=X)
    >>> strategies(grouped(e), e).layout.title.text
    'No group of explanations looks where others do not'
    """
    if explanation.data is None:
        raise InvalidInput("plot.strategies needs the pictures: this explanation holds no data.")
    shown = list(found.odd) or sorted(found.groups, key=lambda group: -len(group.rows))
    shown = shown[:MOST_GROUPS]
    if not shown:
        raise InvalidInput("plot.strategies needs groups: every class has fewer pictures than are grouped.")
    data = np.asarray(explanation.data, dtype=np.float64)
    titles = [f"class {label(str(group.of))}: {len(group.rows)} pictures" for group in shown]
    figure = make_subplots(
        len(shown), EXAMPLES + 1, row_titles=titles, horizontal_spacing=0.01, vertical_spacing=0.04
    )
    for i, group in enumerate(shown, start=1):
        figure.add_trace(go.Image(z=visualise(group.map), hoverinfo="skip"), i, 1)
        for j, row in enumerate(group.rows[:EXAMPLES], start=2):
            pixels = visualise(explanation.values[row], data[row], "blend")
            figure.add_trace(
                go.Image(z=pixels if group.is_odd else as_picture(data[row]), hoverinfo="skip"), i, j
            )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.update_annotations(font_size=12, textangle=0, xanchor="left")
    title = "Groups of explanations that look where others do not"
    if not found.odd:
        title = "No group of explanations looks where others do not"
    subtitle = label_words(found)
    height = 130 + 140 * len(shown)
    return finish(figure, title, subtitle, height=height).update_layout(margin={"r": 170, "l": 20, "b": 20})


def label_words(found: Strategies) -> str:
    """What the first group does, or how groups are shown."""
    if found.odd:
        return found.odd[0].words()
    return "Left: mean share of relevance. Largest groups, with some of their pictures."


def box_ratios(found: BoxRatios, *, names: Any = None) -> go.Figure:
    """Draw the share of relevance inside the objects' boxes, class by class, with 95 % intervals.

    Parameters
    ----------
    found
        Of `tellwhy.evaluation.box_ratios`.
    names
        Of the classes, where these are numbers.

    Examples
    --------
    >>> from tellwhy.evaluation import BoxRatios
    >>> figure = box_ratios(BoxRatios(np.array([0.2, 0.8]), np.array([0.3, 0.3]), np.array([0, 1])))
    >>> list(figure.data[0].y)
    ['0', '1']
    """
    table = found.by_class()
    said = [str(k) if names is None else str(names[int(k)]) for k in table["class"]]
    even = float(np.nanmean(found.area))
    figure = go.Figure(
        go.Bar(
            x=table["inside"],
            y=[label(name) for name in said],
            orientation="h",
            marker_color=[ODD if inside < even else USUAL for inside in table["inside"]],
            error_x={
                "type": "data",
                "symmetric": False,
                "array": table["high"] - table["inside"],
                "arrayminus": table["inside"] - table["low"],
            },
            hovertemplate="%{y}: %{x:.1%} inside<extra></extra>",
        )
    )
    place = {"annotation_text": "even spread", "annotation_position": "top", "annotation_font_size": 12}
    figure.add_vline(x=even, line={"color": NEUTRAL, "dash": "dash"}, **place)
    figure.update_xaxes(range=[0, 1], tickformat=".0%")
    figure.update_yaxes(autorange="reversed", automargin=True)
    subtitle = "A class with much of it outside is recognised by something else. Whiskers: 95 % intervals."
    title = "Relevance inside the boxes of objects"
    return finish(
        figure, title, subtitle, x_title="share of absolute relevance inside", height=190 + 30 * len(said)
    )
