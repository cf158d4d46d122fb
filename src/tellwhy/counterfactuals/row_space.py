"""Rows of a table as numbers that can be changed, and back: for scores that encode the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import Frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RowSpace:
    """Columns of numbers stay as they are; any other becomes one column of 0 and 1 per value that was seen.

    Examples
    --------
    >>> import pandas as pd
    >>> shirts = pd.DataFrame({"size": ["S", "M", "S"], "price": [9, 12, 10]})
    >>> space = RowSpace.of([shirts])
    >>> space.numbers(shirts)[1], space.owner
    (array([ 0.,  1., 12.]), array([0, 0, 1]))
    >>> space.rows(np.array([[1.0, 0.0, 8.0]])).to_dict("records")
    [{'size': 'S', 'price': 8}]
    """

    names: Sequence[Any]
    types: Sequence[Any]
    seen: Sequence[Any]  # values of each column that is not made of numbers, None for the others
    owner: Integers
    is_frame: bool

    @classmethod
    def of(cls, tables: Sequence[Any]) -> RowSpace:
        """Learn the columns from all the rows that are to be told in numbers."""
        import pandas as pd

        frames = [as_pandas(table) for table in tables]
        every = pd.concat([f.set_axis(range(f.shape[1]), axis=1) for f in frames], ignore_index=True)
        columns = [every.iloc[:, i] for i in range(every.shape[1])]
        is_number = [pd.api.types.is_numeric_dtype(column.dtype) for column in columns]
        seen = [None if plain else column.unique() for column, plain in zip(columns, is_number, strict=True)]
        widths = [1 if values is None else len(values) for values in seen]
        owner = np.repeat(np.arange(len(widths)), widths)
        return cls(list(frames[-1].columns), list(every.dtypes), seen, owner, isinstance(tables[-1], Frame))

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return all(values is None for values in self.seen)

    def numbers(self, table: Any) -> Floats:
        """Return rows as numbers; a missing number stays NaN."""
        import pandas as pd

        frame = as_pandas(table)
        parts = []
        for i, values in enumerate(self.seen):
            column = frame.iloc[:, i]
            if values is None:
                parts.append(column.to_numpy(dtype=np.float64, na_value=np.nan)[:, None])
            else:
                codes = pd.Index(values).get_indexer(pd.Index(column))
                parts.append((codes[:, None] == np.arange(len(values))).astype(np.float64))
        return np.hstack(parts)

    def rows(self, Y: Floats) -> Any:
        """Return rows of numbers as rows of the table: a frame, or an array where an array was given."""
        import pandas as pd

        cells: dict[Any, Any] = {}
        for i, (kind, values) in enumerate(zip(self.types, self.seen, strict=True)):
            block = Y[:, self.owner == i]
            cells[i] = pd.Series(block[:, 0]).astype(kind) if values is None else values[block.argmax(axis=1)]
        frame = pd.DataFrame(cells)
        frame.columns = pd.Index(self.names)
        return frame if self.is_frame else frame.to_numpy()


def named_columns(table: Any, names: Sequence[str] | None) -> Any:
    """Return the columns of these names; an array, which has none, as a frame with them."""
    if names is None:
        return table
    frame = as_pandas(table)
    return frame[list(names)] if isinstance(table, Frame) else frame.set_axis(list(names), axis=1)


def as_pandas(table: Any) -> pd.DataFrame:
    """Return an array or a frame as a pandas frame, its columns typed by what they hold."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, Frame):  # polars
        return table.to_pandas()  # type: ignore[attr-defined]
    return pd.DataFrame(np.asarray(table)).infer_objects()
