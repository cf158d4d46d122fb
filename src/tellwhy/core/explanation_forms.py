"""An explanation as shap has it, and as a notebook shows it.

Explanations to and from those of the shap package.

An explanation as a plain table, for notebooks.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.arrays import Frame, PandasRows
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation_parts import columns_of
from tellwhy.core.optional import require
from tellwhy.core.score import Floats

if TYPE_CHECKING:
    from tellwhy.core.explanation import Explanation


REST = "(not attributed)"
_SMALL = 1e-9  # of the largest value: what rounding leaves


def to_shap(explanation: Explanation) -> Any:
    """Return a `shap.Explanation` whose values and base value sum to the score."""
    shap = require("shap", "Explanation.to_shap")
    is_table = len(explanation.feature_shape) == 1
    if not is_table:
        base = explanation.base_values + (0.0 if explanation.residual is None else explanation.residual)
        return shap.Explanation(values=explanation.values, base_values=base, data=_array(explanation.data))
    names = explanation.names()
    shown = _array(columns_of(explanation.data, names, np.arange(len(names))))
    values = explanation.values
    rest = explanation.residual
    if rest is not None and np.abs(rest).max(initial=0.0) > _SMALL * np.abs(values).max(initial=0.0):
        values = np.column_stack([values, rest])
        names = [*names, REST]
        shown = None if shown is None else np.column_stack([shown.astype(object), np.full(len(rest), "")])
    return shap.Explanation(
        values=values,
        base_values=explanation.base_values,
        data=None if shown is None else _coded(shown),
        display_data=shown,
        feature_names=names,
    )


def _array(data: Any) -> Any:
    if data is None:
        return None
    return data.to_numpy() if isinstance(data, Frame) and hasattr(data, "to_numpy") else np.asarray(data)


def _coded(shown: Any) -> Any:
    """Cells as numbers, which shap's colours need: texts become codes, in the order of the alphabet."""
    if shown.dtype.kind in "fiub":
        return shown
    columns = [_numbers(column) for column in shown.T]
    return np.column_stack(columns) if columns else shown


def _numbers(column: Any) -> Floats:
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        texts = np.array([str(cell) for cell in column])
        return np.unique(texts, return_inverse=True)[1].astype(np.float64)


def from_shap(theirs: Any, output: int | None = None, method: str = "shap") -> dict[str, Any]:
    """Return the fields of an `Explanation` that says what a `shap.Explanation` does."""
    values = np.asarray(theirs.values, dtype=np.float64)
    base = np.asarray(theirs.base_values, dtype=np.float64)
    data = theirs.data if theirs.display_data is None else theirs.display_data
    data = None if data is None else np.asarray(data)
    if base.ndim == 0 and values.ndim > 1:  # one base value for all rows
        base = np.full(len(values), base)
    if values.ndim == 1 or (data is not None and data.ndim == 1):  # one row, without an axis for rows
        values = values[None]
        base = base[None]
        data = None if data is None else data[None]
    values, base = _one_output(values, base, output)
    names = theirs.feature_names
    return {
        "values": values,
        "scores": base + values.reshape(len(values), -1).sum(axis=1),
        "base_values": base,
        "data": data,
        "feature_names": None if names is None or values.ndim != 2 else [str(name) for name in names],
        "method": method,
        "params": {"explains": "the output that shap explained", "task": "prediction"},
    }


def _one_output(values: Floats, base: Floats, output: int | None) -> tuple[Floats, Floats]:
    """Values and base values of one output, where there is an axis for several."""
    if base.ndim == 2 and base.shape[1] == 1 and values.ndim == 2:
        return values, base[:, 0]
    if base.ndim != 2:
        return values, base
    chosen = _checked(output, base.shape[1])
    return values[..., chosen], base[:, chosen]


def _checked(output: int | None, n: int) -> int:
    if output is None or not 0 <= output < n:
        raise InvalidInput(
            f"This shap.Explanation holds values of {n} outputs. Say which one to take: "
            f"Explanation.from_shap(theirs, output=0), up to {n - 1}. Got {output!r}."
        )
    return output


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
