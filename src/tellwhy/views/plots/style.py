"""Style; which class was explained.

Which class of a classifier figures speak of: one for all rows where that can be, else each row's own.

What all figures share: axes, titles, legends, and labels that plotly shows as they are.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from tellwhy.core.arrays import PandasRows
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import PREDICTED_CLASS, can_be_of_class
from tellwhy.core.score import Floats, Integers
from tellwhy.views.plots.colors import DIVERGING, INK, LOW_TO_HIGH
from tellwhy.words.wording import number, shorten


def list_classes(explanation: Explanation) -> list[str]:
    """Names of the classes that rows were explained for, in the order of the alphabet; none of other models.

    Examples
    --------
    >>> told = {"explained": np.array(["b", "a"])}
    >>> list_classes(Explanation(values=[[1.0], [2.0]], scores=[1.0, 2.0], method="Example", extras=told))
    ['a', 'b']
    """
    return sorted({str(name) for name in explanation.extras.get("explained", ())})


def turn_to_one_class(explanation: Explanation) -> Explanation:
    """Return the rows of a classifier of two classes in terms of the second, others as they are.

    Of each row the predicted class is explained by default. Drawn together, what speaks for one class and
    what speaks for the other would lie on the same side.
    """
    if len(list_classes(explanation)) < 2 or not can_be_of_class(explanation):
        return explanation
    return explanation.of_class(explanation.params["classes"][1])


def name_class(explanation: Explanation, words: str) -> str:
    """Return what is explained with the class by its name, where all rows are explained for the same one."""
    names = list_classes(explanation)
    if len(names) == 1:
        return words.replace(PREDICTED_CLASS, f"class {names[0]!r}")
    return words.replace(PREDICTED_CLASS, f"each row's predicted class (of {len(names)})") if names else words


def split_by_class(explanation: Explanation) -> dict[str, np.ndarray]:
    """Return which rows belong to each class, by its name."""
    of_row = np.array([str(name) for name in explanation.extras.get("explained", ())])
    return {name: of_row == name for name in list_classes(explanation)}


LABEL_LENGTH = 40
_SUBTITLE_LENGTH = 90
# words of what is explained where it is no anomaly score, of models that do not say so themselves
_PREDICTED = re.compile(
    r"prediction|predicted class|probability of (a |the )?(predicted )?class|log-odds|logit|margin|"
    r"\bof class\b|\boutput\b"
)
AXIS_TITLES = {
    "attribution": "contribution to the score",
    "sensitivity": "sensitivity of the score (not a share of it)",
    "signal": "signal (not a share of the score)",
    "ranking": "ranking weight (not a share of the score)",
    "relative": "times what is usual of the column (not a share of the score)",
    "probability": "probability of being wrong (not a share of the score)",
}


def label(text: str) -> str:
    """Return a text that plotly shows as it is: it would take tags in a name for its own.

    Examples
    --------
    >>> label("<b>TSH</b>")
    '&lt;b&gt;TSH&lt;/b&gt;'
    """
    return html.escape(shorten(text, LABEL_LENGTH), quote=False)


def make_distinct(names: Sequence[str]) -> list[str]:
    """Make labels unique, or plotly would draw columns of the same name on top of each other.

    Examples
    --------
    >>> make_distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, int] = {}
    made = []
    for name in names:
        short = label(name)
        seen[short] = seen.get(short, 0) + 1
        made.append(short if seen[short] == 1 else f"{short} ({seen[short]})")
    return made


def is_anomaly(explanation: Explanation) -> bool:
    """Whether an anomaly score was explained, not a prediction or an output of a network.

    Examples
    --------
    >>> e = Explanation(values=[[1.0]], scores=[1.0], method="Example", params={"task": "regression"})
    >>> is_anomaly(e)
    False
    """
    task = explanation.params.get("task")
    if task is not None:
        return str(task) == "anomaly"
    return _PREDICTED.search(str(explanation.params.get("explains", ""))) is None


def name_quantity(explanation: Explanation) -> str:
    """What the explained numbers are called: scores of anomalies, or outputs."""
    return "score" if is_anomaly(explanation) else "output"


def write_row_title(row: Explanation, position: int) -> str:
    """Return the title of a figure of one row."""
    said = number(float(row.scores[0]))
    name = name_row(row, position)
    return f"Why row {name} scores {said}" if is_anomaly(row) else f"Why the output for row {name} is {said}"


def write_contribution_title(explanation: Explanation) -> str:
    """Name of the axis that values are drawn on."""
    words = AXIS_TITLES[explanation.kind]
    if is_anomaly(explanation):
        return words
    names = list_classes(explanation)
    if len(names) > 1:
        return words.replace("score", "output for each row's own class")
    return words.replace("score", f"output for {label(names[0])!r}" if names else "output")


def name_row(row: Explanation, position: int) -> str:
    """Label of a row in the user's table, where it is a word; else its place before `top`, or its place."""
    index = row.data.index if isinstance(row.data, PandasRows) else None
    if index is not None and index.dtype.kind not in "iu":
        return label(str(index[0]))
    where = row.extras.get("row")
    return str(position if where is None else int(np.asarray(where)[0]))


def find_main_features(flat: Floats, most: int) -> Integers:
    """Numbers of the features with the largest mean absolute value, largest first."""
    return np.argsort(-np.abs(flat).mean(axis=0), kind="stable")[:most]


def need_rows(explanation: Explanation, owner: str) -> None:
    """Raise where there is nothing to draw."""
    if not len(explanation):
        raise InvalidInput(f"{owner} needs at least one explained row. Got an explanation of none.")


def make_signed_axis(values: Floats, explanation: Explanation) -> dict[str, Any]:
    """Return a colour axis centred at zero."""
    reach = float(np.abs(values).max(initial=0.0)) or 1.0
    bar_of_colors = {
        "title": {"text": write_contribution_title(explanation), "side": "right"},
        "thickness": 12,
    }
    return {"colorscale": DIVERGING, "cmin": -reach, "cmax": reach, "cmid": 0, "colorbar": bar_of_colors}


def pad_range(values: Any, part: float = 0.12) -> list[float]:
    """Return the range of an axis with room on both sides, for numbers beside bars.

    Examples
    --------
    >>> pad_range([0.0, 10.0], 0.1)
    [-1.0, 11.0]
    """
    low = float(np.min(values))
    high = float(np.max(values))
    room = part * (high - low) or 1.0
    return [low - room, high + room]


def make_level_axis(has_gaps: bool = False) -> dict[str, Any]:
    """Return a colour axis from a feature's lowest to its highest value; empty cells are black."""
    ticks = {
        "tickvals": [0, 1],
        "ticktext": ["low", "high"],
        "title": f"value in row<br>{'(black: none)<br>' if has_gaps else ''} ",  # a line above "high"
        "thickness": 12,
        "len": 0.6,
    }
    return {"colorscale": LOW_TO_HIGH, "cmin": 0, "cmax": 1, "colorbar": ticks}


def legend_inside(figure: go.Figure) -> None:
    """Put the legend into the upper right corner, where falling curves leave room."""
    place = {"x": 0.99, "xanchor": "right", "y": 0.99, "bgcolor": "rgba(255, 255, 255, 0.8)"}
    figure.update_layout(showlegend=True, legend=place)


def finish(
    figure: go.Figure, title: str, subtitle: str, *, x_title: str | None = None, height: int
) -> go.Figure:
    """Give a figure its title, its fonts and the name of its x axis."""
    figure.update_layout(
        template="plotly_white",
        title={"text": title, "subtitle": {"text": subtitle}, "x": 0.02, "xanchor": "left"},
        font={"family": "system-ui, Segoe UI, Roboto, Helvetica, Arial, sans-serif", "color": INK},
        height=height,
        margin={"t": 100, "r": 40, "b": 60, "l": 60},
    )
    # a little off the axes: the first labels of both would meet in the corner
    figure.update_xaxes(ticklabelstandoff=4)
    figure.update_yaxes(ticklabelstandoff=4)
    if x_title is not None:
        figure.update_xaxes(title=x_title)
    return figure


def tell_method(explanation: Explanation) -> str:
    """Say which method explained what."""
    explains = name_class(explanation, str(explanation.params.get("explains", "the score")))
    if len(explains) > _SUBTITLE_LENGTH:  # what comes after a colon says it once more, in detail
        explains = explains.partition(": ")[0]
    words = html.escape(shorten(explains, _SUBTITLE_LENGTH), quote=False)
    return f"{label(explanation.method)} explains: {words}"
