"""Grids, systematic errors.

Explanations in rows and columns, as pictures.

Explanations of a whole data set: odd groups, and relevance on the objects of each class.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.score import Floats
from tellwhy.views.plots.colors import NEUTRAL, ODD, USUAL
from tellwhy.views.plots.style import finish, label
from tellwhy.views.plots.visualisations import VISUALISATIONS, Pixels, make_pixels, visualise

if TYPE_CHECKING:
    from tellwhy.kinds.networks.grids import ExplanationGrid
    from tellwhy.views.plots.drawn import BoxRatios, Strategies


SIDE = 118  # pixels of a cell
LEAST = 640  # pixels across, which the line below the title takes
LETTER = 6.6  # pixels of a letter, on average
ACROSS = 15  # letters of a line above a column
PROJECTED = ("PatternNet",)  # methods that extract a signal, shown as pixel values (thesis, section V.4)


def grid(explained: ExplanationGrid, *, how: str = "auto", root: bool = False) -> go.Figure:
    """Draw explanations in rows and columns: outputs, pictures, networks or settings against methods.

    Parameters
    ----------
    explained
        Of `tellwhy.workflow.neuron_grid`, `image_grid`, `architecture_grid`, `batch_norm_grid` or
        `sweep_grid`.
    how
        A way to show relevance, as in `plot.visualise`; "auto": heat maps, and projections of PatternNet.
    root
        Take the signed square root of values first: small ones are seen better.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

    Examples
    --------
    >>> from tellwhy.kinds.networks.grids import ExplanationGrid
    >>> e = Explanation(values=np.ones((1, 4, 4)), scores=[1.0], method="LRP")
    >>> made = ExplanationGrid("Outputs", ["cat"], ["LRP", "Other"], [[e, None]], ["1.0"], [np.zeros((4, 4))])
    >>> figure = grid(made)
    >>> len(figure.data), [note.text for note in figure.layout.annotations]
    (3, ['the input', 'LRP', 'Other', 'cat', '1.0', 'refused'])
    """
    validate_value("plot.grid", "how", how, one_of("auto", *VISUALISATIONS))
    down, across = len(explained.rows), len(explained.columns) + 1
    left = _measure_room(explained.rows)
    right = max(_measure_room(explained.notes), LEAST - left - SIDE * across)
    width = left + right + SIDE * across
    height = 130 + SIDE * down
    figure = make_subplots(
        down,
        across,
        column_titles=["the input", *(_break_lines(name) for name in explained.columns)],
        horizontal_spacing=6 / width,
        vertical_spacing=6 / height,
    )
    for i, picture in enumerate(explained.pictures):
        _add(figure, i, 0, make_pixels(_make_image(picture)))
        _write_beside(figure, i, down, (explained.rows[i], explained.notes[i]))
        for j, cell in enumerate(explained.cells[i], start=1):
            _add(figure, i, j, _show_cell(cell, picture, how, root))
            if words := _tell_missing(cell):
                _write_in(figure, words, i * across + j + 1)
    figure.update_annotations(font_size=12)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    finish(figure, explained.title, _write_words(explained, root), height=height)
    margin = {"l": left, "r": right, "t": 120, "b": 10}
    return figure.update_layout(width=width, margin=margin, plot_bgcolor="white")


def _measure_room(words: Sequence[str]) -> int:
    """Pixels that the longest of some texts takes beside the grid."""
    return 30 + round(LETTER * max(len(label(word)) for word in words))


def _break_lines(name: str) -> str:
    """The name of a column in lines that fit above it."""
    return "<br>".join(label(line) for line in textwrap.wrap(name, ACROSS, break_long_words=False)[:3])


def _add(figure: go.Figure, row: int, column: int, pixels: Pixels) -> None:
    figure.add_trace(go.Image(z=pixels, hoverinfo="skip"), row + 1, column + 1)


def _write_beside(figure: go.Figure, row: int, down: int, words: tuple[str, str]) -> None:
    """Write the name of a row at its left, and what is said of it at its right."""
    y = 1 - (row + 0.5) / down
    shared = {"xref": "paper", "yref": "paper", "y": y, "showarrow": False, "yanchor": "middle"}
    figure.add_annotation(text=label(words[0]), x=0, xanchor="right", xshift=-8, **shared)
    if words[1]:
        figure.add_annotation(text=label(words[1]), x=1, xanchor="left", xshift=8, **shared)


def _tell_missing(cell: Explanation | None) -> str:
    """Why a cell is empty; '' for one that is not."""
    if cell is None:
        return "refused"
    undefined = cell.extras.get("undefined")
    return "not defined" if undefined is not None and bool(np.asarray(undefined)[0]) else ""


def _write_in(figure: go.Figure, words: str, k: int) -> None:
    """Write into cell number k, counted from 1 along the rows."""
    place = {"xref": f"x{k} domain", "yref": f"y{k} domain", "x": 0.5, "y": 0.5, "showarrow": False}
    figure.add_annotation(text=words, **place)


def _show_cell(cell: Explanation | None, picture: Floats, how: str, root: bool) -> Pixels:
    if cell is None:  # blank, for without anything in it plotly leaves out the place that words stand in
        return np.full_like(make_pixels(_make_image(picture)), 255)
    kind = how
    if how == "auto":
        kind = "projection" if cell.method in PROJECTED else "heatmap"
    return visualise(_make_image(cell.values[0]), _make_image(picture), kind, root=root)


def _make_image(values: Floats) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (2, 3):
        raise InvalidInput(
            f"plot.grid draws pictures: inputs of shape (h, w), (h, w, channels) or (channels, h, w). Got "
            f"{array.shape}."
        )
    return array


def _write_words(explained: ExplanationGrid, root: bool) -> str:
    said = "Orange speaks for the explained output, blue against it; each cell has its own scale."
    if root:
        said += " Signed square roots of values."
    if explained.refusals:
        said += " Refused: not defined for this network."
    return said


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

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

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
                go.Image(z=pixels if group.is_odd else make_pixels(data[row]), hoverinfo="skip"), i, j
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

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, to show or to write to a file.

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
