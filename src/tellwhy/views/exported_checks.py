"""What a model learned of the columns of a table, as a schema for pandera: a Python file to edit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tellwhy.kinds.table_model import TableModel

MOST_LABELS = 50  # of a column; one with more is no list of codes
_HEAD = '''"""Checks of {source}, written by `tellwhy fit --export-checks`.

    schema.validate(frame, lazy=True)

They hold ranges, labels and orders that were seen. A value beyond a range, or a label that is not listed, is
not wrong by itself: no row of the fitting had it. Edit what you know better. Needs `pip install pandera`.
"""

import pandas as pd
import pandera.pandas as pa

'''


def write_checks(model: TableModel) -> str:
    """Return the file. Names and labels stand in it as Python's own literals, whatever they hold."""
    columns = "".join(
        f"        {_literal(name)}: {_column(model, name)},\n" for name in model.encoder.columns_
    )
    orders = "".join(f"        {check},\n" for check in _orders(model))
    head = _HEAD.format(source=ascii(model.source.rpartition("/")[2])[1:-1].replace('"', "'"))
    return f"{head}schema = pa.DataFrameSchema(\n    {{\n{columns}    }},\n    checks=[\n{orders}    ],\n)\n"


def _column(model: TableModel, name: str) -> str:
    """One column: what may be in it, and whether it may be missing."""
    seen = model.seen[name]
    nullable = f"nullable={seen.n_missing > 0}"
    if seen.labels is not None and 0 < len(seen.labels) + seen.n_more <= MOST_LABELS:
        labels = ", ".join(_literal(label) for label in sorted(seen.labels))
        test = f"s.astype(str).isin([{labels}])"
        return f"pa.Column(checks={_check(test, 'a label that was seen')}, {nullable})"
    if seen.has_range and seen.kind == "number":
        test = f"pd.to_numeric(s).between({seen.low!r}, {seen.high!r})"
        return f"pa.Column(checks={_check(test, f'{seen.low:.6g} to {seen.high:.6g}')}, {nullable})"
    if seen.has_range and seen.kind == "date" and not model.roles[name].orders:
        low, high = (str(np.datetime64(int(day * 86_400), "s")) for day in (seen.low, seen.high))
        test = f"pd.to_datetime(s).between(pd.Timestamp({low!r}), pd.Timestamp({high!r}))"
        return f"pa.Column(checks={_check(test, f'{low} to {high}')}, {nullable})"
    return f"pa.Column({nullable})"


def _check(test: str, words: str) -> str:
    """A check of every cell that is not missing."""
    return f"pa.Check(lambda s: {test}, error={_literal(words)})"


def _orders(model: TableModel) -> Iterator[str]:
    """Columns of which one is never above the other."""
    for order in model.rules.get("learn_orders", ()):
        test = f"~(frame[{_literal(order.low)}] > frame[{_literal(order.high)}])"
        yield f"pa.Check(lambda frame: {test}, error={_literal(f'{order.low} <= {order.high}')})"


def _literal(value: Any) -> str:
    """A text as Python writes it, in plain characters: nothing in it can end it."""
    return ascii(str(value))
