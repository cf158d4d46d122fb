"""Figures of what a model has learned: a gallery of patterns, as heat maps, bars or lists of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import integer, one_of, validate_value
from tellwhy.core.score import Floats
from tellwhy.views.plots.colors import DIVERGING, INK, ODD, USUAL
from tellwhy.views.plots.style import finish, label, make_distinct
from tellwhy.views.plots.visualisations import find_channel_axis
from tellwhy.words.wording import between, count, number

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.insight import Insight

STYLES = ("auto", "heatmap", "bars", "words")
MOST_FEATURES = 12  # bars or words of a panel, unless told otherwise
WINDOW = 1100.0  # pixels across a usual window
LETTER = 6.6  # pixels across a letter of a feature's name
LEAST_BARS = 0.17  # part of the window that bars need to be told apart
PALE = 0.35


def insights(
    found: Sequence[Insight], *, style: str = "auto", max_features: int | None = None, columns: int = 4
) -> go.Figure:
    """Draw the patterns that `DMMMEN.insights` found, one panel each.

    Orange raises the output, blue lowers it.

    Parameters
    ----------
    found
        Insights, of one class or several.
    style
        "heatmap" for images: the main pixels, the others left blank. "bars": effects (coefficient × standard
        deviation of the feature) with their credible intervals. "words": main features in order, with their
        coefficients and intervals. "auto": heat maps for images, else bars.
    max_features
        The most features per panel; by default all main features of a heat map, 12 bars or words.
    columns
        Panels side by side.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> from tellwhy.explainers import DMMMEN
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> explainer = DMMMEN(lambda X: X[:, 0] - X[:, 2], n_components=1, n_sweeps=50, n_burn=20).fit(X)
    >>> [str(name) for name in insights(explainer.insights(2)).data[0].y]
    ['x2', 'x0']
    """
    validate_value("plot.insights", "style", style, one_of(*STYLES))
    validate_value("plot.insights", "columns", columns, integer(1))
    if max_features is not None:
        validate_value("plot.insights", "max_features", max_features, integer(1))
    if not len(found):
        raise InvalidInput("plot.insights needs at least one insight. Got an empty list.")
    images = [_make_image(insight.coefficients) for insight in found]
    if style == "auto":
        style = "bars" if any(image is None for image in images) else "heatmap"
    if style == "heatmap":
        if any(image is None for image in images):
            raise InvalidInput(
                "Heat maps need insights into images; these are about columns. Use style='bars'."
            )
        return _draw_heatmaps(found, max_features, columns)
    most = max_features or MOST_FEATURES
    return _draw_bars(found, most, columns) if style == "bars" else _draw_words(found, most)


def _make_image(values: Floats) -> Floats | None:
    """Return values as (height, width), channels added up; None for what is not an image."""
    if values.ndim == 3:
        return np.asarray(values.sum(axis=find_channel_axis(values.shape)))
    return values if values.ndim == 2 else None


def _write_panel_title(insight: Insight) -> str:
    target = label(str(insight.target))
    if insight.component < 0:  # the average over the rows of its target
        return f"{target}: all rows"
    low, high = (100 * s for s in insight.share_interval)
    limits = "" if high - low < 0.5 else f" ({low:.0f}–{high:.0f})"  # 40 (40–40) would say nothing
    return f"{target}: {100 * insight.share:.0f} % of its rows{limits}"


def _make_panels(titles: Sequence[str], across: int, spacing: float) -> tuple[go.Figure, int]:
    down = -(-len(titles) // across)
    gap = min(0.5 / max(down, 1), 0.09)
    figure = make_subplots(
        down, across, subplot_titles=titles, horizontal_spacing=spacing, vertical_spacing=gap
    )
    figure.update_annotations(font_size=12)
    return figure, down


def _draw_heatmaps(found: Sequence[Insight], max_features: int | None, columns: int) -> go.Figure:
    across = min(columns, len(found))
    figure, down = _make_panels([_write_panel_title(insight) for insight in found], across, 0.03)
    for i, insight in enumerate(found):
        where = {"row": i // across + 1, "col": i % across + 1}
        figure.add_trace(_draw_heatmap(insight, max_features), **where)
        figure.update_xaxes(visible=False, **where)
        axis = "x" if i == 0 else f"x{i + 1}"
        figure.update_yaxes(visible=False, autorange="reversed", scaleanchor=axis, **where)
    n_main = max(len(insight.top) for insight in found)
    kept = n_main if max_features is None else min(max_features, n_main)
    subtitle = (
        f"The {count(kept, 'main pixel')} of each pattern; each panel has its own scale. Hover for intervals."
    )
    return finish(figure, "What the model has learned", subtitle, height=120 + 230 * down)


def _draw_heatmap(insight: Insight, max_features: int | None) -> go.Heatmap:
    flat = np.zeros(insight.coefficients.size, dtype=bool)
    flat[insight.top[:max_features]] = True
    main = flat.reshape(insight.coefficients.shape)

    def summed(values: Floats | float) -> Floats:
        """The values of the main pixels, channels added up, as an image."""
        return np.asarray(_make_image(np.where(main, values, 0.0)))

    is_main = summed(1.0) > 0
    shown = np.where(is_main, summed(insight.effects), np.nan)
    limits = [summed(insight.interval[..., 0]), summed(insight.interval[..., 1])]
    reach = float(np.nanmax(np.abs(shown), initial=0.0)) or 1.0
    return go.Heatmap(
        z=shown,
        zmin=-reach,
        zmax=reach,
        colorscale=DIVERGING,
        showscale=False,
        customdata=np.stack(limits, axis=-1),
        hovertemplate="row %{y}, column %{x}: effect %{z:.3g}<br>coefficient within "
        "[%{customdata[0]:.3g}, %{customdata[1]:.3g}]<extra></extra>",
        hoverongaps=False,
    )


def _draw_bars(found: Sequence[Insight], max_features: int, columns: int) -> go.Figure:
    names = [make_distinct(insight.names[:max_features])[::-1] for insight in found]
    across, spacing = _measure_room_for_names(names, min(columns, 3, len(found)))
    figure, down = _make_panels([_write_panel_title(i) + _place_line(i) for i in found], across, spacing)
    for i, insight in enumerate(found):
        where = {"row": i // across + 1, "col": i % across + 1}
        figure.add_trace(_draw_bar(insight, names[i]), **where)
        figure.add_vline(x=0, line_width=1, line_color=INK, **where)
        figure.update_yaxes(automargin=True, ticksuffix="  ", **where)
    tallest = max(1, *(len(shown) for shown in names))
    figure.update_layout(showlegend=False)
    level = f"{100 * found[0].credibility:.0f} %"
    subtitle = (
        f"Change of the output per standard deviation of each feature; whiskers hold it with {level} "
        "probability, pale bars may be 0"
    )
    figure = finish(figure, "What the model has learned", subtitle, height=165 + down * (90 + 24 * tallest))
    return figure.update_layout(margin_t=140)


def _measure_room_for_names(names: Sequence[Sequence[str]], across: int) -> tuple[int, float]:
    """How many panels fit side by side, and the part of the width that names take between them."""
    longest = max((len(name) for shown in names for name in shown), default=0)
    part = (30.0 + LETTER * longest) / WINDOW
    across = max(1, min(across, int(1.0 / (part + LEAST_BARS))))
    return across, min(part, 0.9 / max(across - 1, 1))


def _place_line(insight: Insight) -> str:
    """Where the pattern applies, as a second line of its title."""
    if not insight.applies:
        return ""
    name, *limits = insight.applies[0]
    return f'<br><span style="font-size:11px">where {label(name)} is {between(*limits)}</span>'


def _draw_bar(insight: Insight, names: Sequence[str]) -> go.Bar:
    top = insight.top[: len(names)][::-1]
    effects = insight.effects.ravel()[top]
    # Intervals are of coefficients, bars are effects: coefficient × standard deviation of the feature.
    deviations = effects / insight.coefficients.ravel()[top]
    low, high = insight.interval.reshape(-1, 2)[top].T * deviations
    return go.Bar(
        x=effects,
        y=list(names),
        orientation="h",
        marker={
            "color": [ODD if effect > 0 else USUAL for effect in effects],
            "opacity": np.where((low > 0) | (high < 0), 1.0, PALE),
        },
        error_x={"type": "data", "symmetric": False, "array": high - effects, "arrayminus": effects - low},
        hovertemplate="%{y}: %{x:.4g}<extra></extra>",
    )


def _draw_words(found: Sequence[Insight], max_features: int) -> go.Figure:
    lists = [_list_words(insight, max_features) for insight in found]
    longest = max(len(words) for words in lists)
    cells = [words + [""] * (longest - len(words)) for words in lists]
    colors = [_choose_word_colors(insight, max_features, longest) for insight in found]
    table = go.Table(
        header={
            "values": [f"<b>{_write_panel_title(i)}</b>" for i in found],
            "align": "left",
            "fill_color": "#eef1f4",
        },
        cells={
            "values": cells,
            "align": "left",
            "font": {"color": colors},
            "fill_color": "white",
            "height": 24,
        },
    )
    subtitle = f"Main features with their coefficients and {100 * found[0].credibility:.0f} % intervals"
    return finish(go.Figure(table), "What the model has learned", subtitle, height=240 + 36 * longest)


def _list_words(insight: Insight, max_features: int) -> list[str]:
    """The main features of a pattern, each with its coefficient and interval."""
    top = insight.top[:max_features]
    slopes = insight.coefficients.ravel()[top]
    limits = insight.interval.reshape(-1, 2)[top]
    made = []
    for name, slope, (low, high) in zip(insight.names, slopes, limits, strict=False):
        interval = f"[{number(float(low), 2)}, {number(float(high), 2)}]"
        made.append(f"<b>{label(name)}</b>  {number(float(slope), 2)} {interval}")
    return made


def _choose_word_colors(insight: Insight, max_features: int, longest: int) -> list[str]:
    slopes = insight.coefficients.ravel()[insight.top[:max_features]]
    return [ODD if slope > 0 else USUAL for slope in slopes] + [INK] * (longest - len(slopes))
