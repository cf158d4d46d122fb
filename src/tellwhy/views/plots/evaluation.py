"""Figures of how far explanations can be trusted: flipping of features and regions, random parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score import Floats
from tellwhy.views.plots.colors import CURVES, NEUTRAL
from tellwhy.views.plots.style import finish, label, legend_inside

if TYPE_CHECKING:
    from tellwhy.views.plots.drawn import Flipping, Randomisation, RegionFlipping

Found = TypeVar("Found")
Style = tuple[str, str]  # colour and dash

RANDOM_ORDER: Style = (NEUTRAL, "dot")
_ORDERS = {"most_relevant_first": "most relevant first", "least_relevant_first": "least relevant first"}
_FILLS = {"mean": "the input's mean", "zero": "zeros", "noise": "noise", "blur": "the blurred input"}
_COMPARED = {
    "rank": "rank correlation with the first explanation",
    "rank_abs": "rank correlation of absolute values",
    "ssim": "structural similarity",
}


def flipping(results: Flipping | Iterable[Flipping] | Mapping[str, Flipping | ArrayLike]) -> go.Figure:
    """Draw how fast scores fall as features are taken away, one mean curve per method: the lower, the better.

    Parameters
    ----------
    results
        A result of `tellwhy.evaluation.flipping`, several of them, or a mapping from a name to such a result
        or to its mean curve. Results of `region_flipping` are drawn by `plot.region_flipping`.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> figure = flipping({"OneClassDTD": [1.0, 0.2, 0.0], "RandomAttribution": [1.0, 0.6, 0.0]})
    >>> [trace.name for trace in figure.data]
    ['OneClassDTD', 'random order']
    """
    curves = _average_curves(results)
    figure = go.Figure()
    styles = iter(_choose_styles(len(curves)))
    for name, curve in curves.items():
        is_random = name == "RandomAttribution"  # it takes no colour from the others
        style = RANDOM_ORDER if is_random else next(styles)
        _add_curve(figure, range(len(curve)), curve, "random order" if is_random else name, style)
    legend_inside(figure)
    figure.update_traces(hovertemplate="%{fullData.name}: %{y:.3g} after %{x}<extra></extra>")
    figure.update_yaxes(title="mean score, untouched row = 1", rangemode="tozero")
    longest = max(len(curve) for curve in curves.values())
    figure.update_xaxes(tick0=0, dtick=-(-longest // 12))  # whole features, about twelve ticks
    title = "Do the named features carry the score?"
    subtitle = "The faster a curve falls, the better its order."
    return finish(figure, title, subtitle, x_title="features taken away, most relevant first", height=460)


def _average_curves(results: object) -> dict[str, Floats]:
    pairs = _list_pairs([results] if hasattr(results, "mean_curve") else results)
    curves = [np.asarray(f.mean_curve() if hasattr(f, "mean_curve") else f, dtype=float) for _, f in pairs]
    if not curves or any(curve.ndim != 1 for curve in curves):
        raise InvalidParameter(
            "The 'results' parameter of plot.flipping must be results of tellwhy.evaluation.flipping, or a "
            f"mapping from a name to a curve. Got {type(results).__name__} instead."
        )
    return _drop_repeats([name for name, _ in pairs], curves, "flipping")


def region_flipping(
    results: RegionFlipping | Iterable[RegionFlipping] | Mapping[str, RegionFlipping],
) -> go.Figure:
    """Draw how the score falls as regions are painted over, one mean curve per method.

    The curve of random orders, where the results hold one, is drawn beside them.

    Parameters
    ----------
    results
        A result of `tellwhy.evaluation.region_flipping`, several of them, or a mapping from names to them.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> from tellwhy.evaluation import RegionFlipping
    >>> curves = np.array([[3.0, 1.0, 0.0]])
    >>> result = RegionFlipping(curves, np.array([0.4]), "LRP", removed=np.array([0, 4, 8]))
    >>> region_flipping(result).data[0].x
    (0.0, 50.0, 100.0)
    """
    from tellwhy.views.plots.drawn import RegionFlipping

    named = _name_results(results, RegionFlipping, "region_flipping")
    figure = go.Figure()
    for (name, found), style in zip(named.items(), _choose_styles(len(named)), strict=True):
        _add_curve(figure, 100 * found.shares, found.mean_curve(), _name_with_area(name, found), style)
    chance = next((found.random for found in named.values() if found.random is not None), None)
    if isinstance(chance, RegionFlipping):
        words = _name_with_area("random order", chance)
        _add_curve(figure, 100 * chance.shares, chance.mean_curve(), words, RANDOM_ORDER)
    legend_inside(figure)
    figure.update_yaxes(title="mean score, untouched input = 1", rangemode="tozero")
    figure.update_xaxes(ticksuffix=" %", range=[0, 100])
    first = next(iter(named.values()))
    is_falling = first.order == "most_relevant_first"
    falls = "The faster a curve falls" if is_falling else "The longer a curve stays up"
    paint = _FILLS.get(first.fill, label(first.fill))
    subtitle = f"{falls}, the better its order. Regions are painted over with {paint}."
    x_title = f"regions painted over, {_ORDERS[first.order]}"
    return finish(figure, "Do the named regions carry the score?", subtitle, x_title=x_title, height=460)


def _name_with_area(name: str, found: Flipping) -> str:
    return f"{name} (area {found.area:.2f})"


def randomisation(
    results: Randomisation | Iterable[Randomisation] | Mapping[str, Randomisation],
) -> go.Figure:
    """Draw how similar explanations stay as the layers of a network become random, one curve per method.

    Parameters
    ----------
    results
        A result of `tellwhy.evaluation.parameter_randomisation`, several of them, or a mapping from names to
        them.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> from tellwhy.evaluation import Randomisation
    >>> found = Randomisation((("fc",), ("conv",)), np.array([[0.5], [0.1]]), "Gradient", "cascading", "rank")
    >>> randomisation(found).data[0].y
    (1.0, 0.5, 0.1)
    """
    from tellwhy.views.plots.drawn import Randomisation

    named = _name_results(results, Randomisation, "randomisation")
    first = next(iter(named.values()))
    if any(found.layers != first.layers for found in named.values()):
        raise InvalidParameter(
            "plot.randomisation draws results with the same layers, and these have different ones."
        )
    figure = go.Figure()
    for (name, found), style in zip(named.items(), _choose_styles(len(named)), strict=True):
        # The untouched network explains itself: every curve starts at 1.
        curve = [1.0, *(float(value) for value in found.mean_curve())]
        _add_curve(figure, range(len(curve)), curve, name, style, markers=True)
    legend_inside(figure)
    figure.add_hline(y=0, line_width=1, line_color=NEUTRAL)
    figure.update_yaxes(title=_COMPARED.get(first.similarity, f"similarity: {label(first.similarity)}"))
    _name_stages(figure, ["as it is", *(label(_name_stage(stage)) for stage in first.layers)])
    order = "from the output down, one after the other" if first.mode == "cascading" else "each one alone"
    title = "Does the explanation depend on the network?"
    subtitle = (
        "A method that shows what the network learned falls to 0; one that stays up shows something else."
    )
    return finish(figure, title, subtitle, x_title=f"layers made random, {order}", height=500)


def _name_stage(layers: Sequence[str]) -> str:
    """Name the layers that became random together."""
    shown = [name or "(own)" for name in layers]  # a network's own parameters belong to no named layer
    return shown[0] if len(shown) == 1 else f"{shown[0]} … {shown[-1]}"


def _name_stages(figure: go.Figure, names: list[str]) -> None:
    angle = -40 if len(names) > 6 else 0  # many names would run into each other
    places = list(range(len(names)))
    figure.update_xaxes(automargin=True, tickangle=angle, tickmode="array", tickvals=places, ticktext=names)


def _list_pairs(results: object) -> list[tuple[str, object]]:
    """Return results with their names: those of a mapping, else their methods'."""
    if isinstance(results, Mapping):
        return [(str(name), found) for name, found in results.items()]
    if isinstance(results, Iterable):
        return [(str(getattr(found, "method", "")), found) for found in results]
    return []


def _name_results(results: object, kind: type[Found], owner: str) -> dict[str, Found]:
    pairs = _list_pairs([results] if isinstance(results, kind) else results)
    found = [result for _, result in pairs if isinstance(result, kind)]
    if not pairs or len(found) < len(pairs):
        raise InvalidParameter(
            f"The 'results' parameter of plot.{owner} must be results of tellwhy.evaluation, of type "
            f"{kind.__name__}, or a mapping from names to them. Got {type(results).__name__} instead."
        )
    return _drop_repeats([name for name, _ in pairs], found, owner)


def _drop_repeats(names: Sequence[str], found: Sequence[Found], owner: str) -> dict[str, Found]:
    named = dict(zip(names, found, strict=True))
    if len(named) < len(names):  # one of them would not be drawn
        raise InvalidParameter(
            f"plot.{owner} was given several results of one method: pass a mapping from names."
        )
    return named


def _choose_styles(n: int) -> list[Style]:
    return (CURVES * (n // len(CURVES) + 1))[:n]


def _add_curve(
    figure: go.Figure,
    x: Iterable[float],
    y: Iterable[float],
    name: str,
    style: Style,
    *,
    markers: bool = False,
) -> None:
    words = "%{fullData.name}: %{y:.3g}<extra></extra>"
    line = {"color": style[0], "dash": style[1], "width": 2.5}
    mode = "lines+markers" if markers else "lines"
    figure.add_scatter(x=list(x), y=list(y), mode=mode, name=label(name), hovertemplate=words, line=line)
