"""Figures of the checks of network explanations: region flipping and parameter randomisation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from tellwhy.core.errors import InvalidParameter
from tellwhy.evaluation import Randomisation, RegionFlipping
from tellwhy.views.plots.style import CURVES, NEUTRAL, finish, label

_ORDERS = {"most_relevant_first": "most relevant first", "least_relevant_first": "least relevant first"}
_FILLS = {"mean": "the input's mean", "zero": "zeros", "noise": "noise", "blur": "the blurred input"}
_COMPARED = {
    "rank": "rank correlation with the first explanation",
    "rank_abs": "rank correlation of absolute values",
    "ssim": "structural similarity",
}


def region_flipping(results: Any) -> go.Figure:
    """Draw how the score falls as regions are painted over, one mean curve per method, with random orders beside them.

    Parameters
    ----------
    results
        A result of `tellwhy.evaluation.networks.region_flipping`, several of them, or a mapping from names to
        them.

    Examples
    --------
    >>> import numpy as np
    >>> result = RegionFlipping(np.array([[3.0, 1.0, 0.0]]), np.array([0.4]), "LRP", removed=np.array([0, 4, 8]))
    >>> region_flipping(result).data[0].x
    (0.0, 50.0, 100.0)
    """
    named = _named(results, RegionFlipping, "region_flipping")
    figure = go.Figure()
    for (name, found), style in zip(named.items(), _styles(named), strict=True):
        _add_curve(figure, 100 * found.shares, found.mean_curve(), f"{name} (area {found.area:.2f})", style)
    chance = next((found.random for found in named.values() if found.random is not None), None)
    if chance is not None:
        style = (NEUTRAL, "dot")
        _add_curve(
            figure, 100 * chance.shares, chance.mean_curve(), f"random order (area {chance.area:.2f})", style
        )
    _legend(figure)
    figure.update_yaxes(title="mean score, untouched input = 1", rangemode="tozero")
    figure.update_xaxes(ticksuffix=" %", range=[0, 100])
    first = next(iter(named.values()))
    falls = (
        "The faster a curve falls" if first.order == "most_relevant_first" else "The longer a curve stays up"
    )
    subtitle = f"{falls}, the better its order. Regions are painted over with {_FILLS.get(first.fill, label(first.fill))}."
    x_title = f"regions painted over, {_ORDERS[first.order]}"
    return finish(figure, "Do the named regions carry the score?", subtitle, x_title=x_title, height=460)


def randomisation(results: Any) -> go.Figure:
    """Draw how similar explanations stay as the layers of a network become random, one curve per method.

    Parameters
    ----------
    results
        A result of `tellwhy.evaluation.parameter_randomisation`, several of them, or a mapping from names to
        them.

    Examples
    --------
    >>> import numpy as np
    >>> found = Randomisation((("fc",), ("conv",)), np.array([[0.5], [0.1]]), "Gradient", "cascading", "rank")
    >>> randomisation(found).data[0].y
    (1.0, 0.5, 0.1)
    """
    named = _named(results, Randomisation, "randomisation")
    first = next(iter(named.values()))
    if any(found.layers != first.layers for found in named.values()):
        raise InvalidParameter(
            "plot.randomisation draws results with the same layers, and these have different ones."
        )
    cascading = first.mode == "cascading"
    names = ["as it is", *(label(_stage(stage)) for stage in first.layers)]
    figure = go.Figure()
    for (name, found), style in zip(named.items(), _styles(named), strict=True):
        curve = [1.0, *(float(value) for value in found.mean_curve())]
        _add_curve(figure, list(range(len(curve))), curve, name, style, markers=True)
    _legend(figure)
    figure.add_hline(y=0, line_width=1, line_color=NEUTRAL)
    figure.update_yaxes(title=_COMPARED.get(first.similarity, f"similarity: {label(first.similarity)}"))
    ticks = {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names}
    figure.update_xaxes(automargin=True, tickangle=-40 if len(names) > 6 else 0, **ticks)
    x_title = f"layers made random, {'from the output down, one after the other' if cascading else 'each one alone'}"
    subtitle = (
        "A method that shows what the network learned falls to 0; one that stays up shows something else."
    )
    return finish(
        figure, "Does the explanation depend on the network?", subtitle, x_title=x_title, height=500
    )


def _stage(layers: tuple[str, ...]) -> str:
    shown = [name or "(own)" for name in layers]
    return shown[0] if len(shown) == 1 else f"{shown[0]} … {shown[-1]}"


def _named(results: Any, kind: type, owner: str) -> dict[str, Any]:
    if isinstance(results, Mapping):
        pairs = [(str(name), found) for name, found in results.items()]
    else:
        listed = (
            [results] if isinstance(results, kind) else list(results) if isinstance(results, Iterable) else []
        )
        pairs = [(str(getattr(found, "method", "")), found) for found in listed]
    if not pairs or not all(isinstance(found, kind) for _, found in pairs):
        raise InvalidParameter(
            f"The 'results' parameter of plot.{owner} must be results of tellwhy.evaluation, of type {kind.__name__}, "
            f"or a mapping from names to them. Got {type(results).__name__} instead."
        )
    named = dict(pairs)
    if len(named) < len(pairs):
        raise InvalidParameter(
            f"plot.{owner} was given several results of one method: pass a mapping from names."
        )
    return named


def _styles(named: Mapping[str, Any]) -> list[tuple[str, str]]:
    return (CURVES * (len(named) // len(CURVES) + 1))[: len(named)]


def _add_curve(
    figure: go.Figure, x: Any, y: Any, name: str, style: tuple[str, str], *, markers: bool = False
) -> None:
    words = "%{fullData.name}: %{y:.3g}<extra></extra>"
    line = {"color": style[0], "dash": style[1], "width": 2.5}
    mode = "lines+markers" if markers else "lines"
    figure.add_scatter(x=list(x), y=list(y), mode=mode, name=label(name), hovertemplate=words, line=line)


def _legend(figure: go.Figure) -> None:
    figure.update_layout(
        showlegend=True,
        legend={"x": 0.99, "xanchor": "right", "y": 0.99, "bgcolor": "rgba(255, 255, 255, 0.8)"},
    )
