"""Explanations in rows and columns, as pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.score_function import Floats
from tellwhy.views.plots.media.visualisations import VISUALISATIONS, Pixels, as_picture, visualise
from tellwhy.views.plots.style import finish, label

if TYPE_CHECKING:
    from tellwhy.workflow.networks.grids import ExplanationGrid

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

    Examples
    --------
    >>> from tellwhy.workflow.networks.grids import ExplanationGrid
    >>> e = Explanation(values=np.ones((1, 4, 4)), scores=[1.0], method="LRP")
    >>> made = ExplanationGrid("Outputs", ["cat"], ["LRP", "Other"], [[e, None]], ["1.0"], [np.zeros((4, 4))])
    >>> figure = grid(made)
    >>> len(figure.data), [note.text for note in figure.layout.annotations]
    (3, ['the input', 'LRP', 'Other', 'cat', '1.0', 'refused'])
    """
    validate_value("plot.grid", "how", how, one_of("auto", *VISUALISATIONS))
    down, across = len(explained.rows), len(explained.columns) + 1
    left = _room(explained.rows)
    right = max(_room(explained.notes), LEAST - left - SIDE * across)
    width = left + right + SIDE * across
    height = 130 + SIDE * down
    figure = make_subplots(
        down,
        across,
        column_titles=["the input", *(_in_lines(name) for name in explained.columns)],
        horizontal_spacing=6 / width,
        vertical_spacing=6 / height,
    )
    for i, picture in enumerate(explained.pictures):
        _add(figure, i, 0, as_picture(_as_image(picture)))
        _beside(figure, i, down, (explained.rows[i], explained.notes[i]))
        for j, cell in enumerate(explained.cells[i], start=1):
            _add(figure, i, j, _shown(cell, picture, how, root))
            if words := _missing(cell):
                _write_in(figure, words, i * across + j + 1)
    figure.update_annotations(font_size=12)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    finish(figure, explained.title, _words(explained, root), height=height)
    margin = {"l": left, "r": right, "t": 120, "b": 10}
    return figure.update_layout(width=width, margin=margin, plot_bgcolor="white")


def _room(words: Sequence[str]) -> int:
    """Pixels that the longest of some texts takes beside the grid."""
    return 30 + round(LETTER * max(len(label(word)) for word in words))


def _in_lines(name: str) -> str:
    """The name of a column in lines that fit above it."""
    return "<br>".join(label(line) for line in textwrap.wrap(name, ACROSS, break_long_words=False)[:3])


def _add(figure: go.Figure, row: int, column: int, pixels: Pixels) -> None:
    figure.add_trace(go.Image(z=pixels, hoverinfo="skip"), row + 1, column + 1)


def _beside(figure: go.Figure, row: int, down: int, words: tuple[str, str]) -> None:
    """Write the name of a row at its left, and what is said of it at its right."""
    y = 1 - (row + 0.5) / down
    shared = {"xref": "paper", "yref": "paper", "y": y, "showarrow": False, "yanchor": "middle"}
    figure.add_annotation(text=label(words[0]), x=0, xanchor="right", xshift=-8, **shared)
    if words[1]:
        figure.add_annotation(text=label(words[1]), x=1, xanchor="left", xshift=8, **shared)


def _missing(cell: Explanation | None) -> str:
    """Why a cell is empty; '' for one that is not."""
    if cell is None:
        return "refused"
    undefined = cell.extras.get("undefined")
    return "not defined" if undefined is not None and bool(np.asarray(undefined)[0]) else ""


def _write_in(figure: go.Figure, words: str, k: int) -> None:
    """Write into cell number k, counted from 1 along the rows."""
    place = {"xref": f"x{k} domain", "yref": f"y{k} domain", "x": 0.5, "y": 0.5, "showarrow": False}
    figure.add_annotation(text=words, **place)


def _shown(cell: Explanation | None, picture: Floats, how: str, root: bool) -> Pixels:
    if cell is None:  # blank, for without anything in it plotly leaves out the place that words stand in
        return np.full_like(as_picture(_as_image(picture)), 255)
    kind = how
    if how == "auto":
        kind = "projection" if cell.method in PROJECTED else "heatmap"
    return visualise(_as_image(cell.values[0]), _as_image(picture), kind, root=root)


def _as_image(values: Floats) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (2, 3):
        raise InvalidInput(
            f"plot.grid draws pictures: inputs of shape (h, w), (h, w, channels) or (channels, h, w). Got "
            f"{array.shape}."
        )
    return array


def _words(explained: ExplanationGrid, root: bool) -> str:
    said = "Orange speaks for the explained output, blue against it; each cell has its own scale."
    if root:
        said += " Signed square roots of values."
    if explained.refusals:
        said += " Refused: not defined for this network."
    return said
