"""An explanation as a plain table, for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.results.selection import columns_of
from tellwhy.core.tables import PandasRows

if TYPE_CHECKING:
    from tellwhy.core.explanation import Explanation

_MOST_ROWS = 10
_MOST_FEATURES = 3
_LONGEST = 24
_RAISES = "color:#c65307"
_LOWERS = "color:#2f6ea8"


def to_html(explanation: Explanation) -> str:
    """Return the highest scores with the features that did most to them, in either direction."""
    is_shares = explanation.kind == "attribution"
    caption = html.escape(repr(explanation)[1:-1])
    of_class = "<th>class</th>" if "explained" in explanation.extras else ""
    head = f"<tr><th>row</th>{of_class}<th>score</th><th>main features</th></tr>"
    lines = "".join(_line(row, is_shares) for row in explanation.top(_MOST_ROWS))
    key = ""
    if is_shares:
        key = (
            f'<p><span style="{_RAISES}">+ raises</span> the score, '
            f'<span style="{_LOWERS}">− lowers</span> it.</p>'
        )
    if "chosen" in explanation.params:  # how the method came to be the one
        key += f"<p>Method chosen {html.escape(str(explanation.params['chosen']))}.</p>"
    return f"<table><caption>{caption}</caption>{head}{lines}</table>{key}"


def _line(row: Explanation, is_shares: bool) -> str:
    """One row of the table."""
    flat = row.values.ravel()
    names = row.names()
    cells = _cells(row)
    order = np.argsort(-np.abs(flat), kind="stable")[:_MOST_FEATURES]
    words = [_driver(names[j], None if cells is None else cells[j], float(flat[j]), is_shares) for j in order]
    label = row.extras["row"][0]
    if isinstance(row.data, PandasRows):
        label = row.data.index[0]
    shown = html.escape(str(label))
    if "explained" in row.extras:
        shown += f"</td><td>{html.escape(_short(str(row.extras['explained'][0])))}"
    return f"<tr><td>{shown}</td><td>{row.scores[0]:.4g}</td><td>{', '.join(words)}</td></tr>"


def _cells(row: Explanation) -> Any:
    """What the row holds in each column, where features are columns."""
    if len(row.feature_shape) != 1:
        return None
    names = row.names()
    data = columns_of(row.data, names, np.arange(len(names)))
    return None if data is None else np.asarray(data)[0]


def _driver(name: str, cell: Any, amount: float, is_shares: bool) -> str:
    """One feature: its name, its cell, and what it did."""
    what = _short(name)
    if cell is not None:
        what += f" = {_short(f'{cell:.4g}' if isinstance(cell, (float, np.floating)) else str(cell))}"
    sign = "−" if amount < 0 else "+"
    style = _LOWERS if amount < 0 else _RAISES
    said = f"{sign}{abs(amount):.3g}"
    shown = f'<span style="{style}">{said}</span>' if is_shares else said
    return f"{html.escape(what)} {shown}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
