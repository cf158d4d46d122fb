"""Tables of anything as numbers, and back: so that a user's function gets the table as the user has it.

Methods that mix cells of several rows work on numbers. Numbers stay what they are; any other column (texts,
categories, dates, truth values) is told by the number of its level. Made into a table again, the columns have
their names, their types and their levels.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.arrays import Frame, PandasRows
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats
from tellwhy.scoring.function_scores import EncodedScore
from tellwhy.scoring.predictions import PredictionScore

if TYPE_CHECKING:
    import pandas as pd

_EXACT = 2**53  # whole numbers beyond this have no float of their own


@dataclass(frozen=True, eq=False)
class TableCodes:
    """How the cells of a table are written as numbers.

    Attributes
    ----------
    names
        Names of the columns.
    dtypes
        Their types.
    levels
        For each column that is not numbers, the values that occur, without repetition; None for numbers.
    again
        Makes of a pandas frame what the user's tables are: itself, a polars frame or an array.
    """

    names: list[Any]
    dtypes: list[Any]
    levels: list[pd.Series | None]
    again: Callable[[pd.DataFrame], Any]

    @classmethod
    def of(cls, *tables: Any) -> TableCodes:
        """Learn the levels that occur in some tables of the same columns.

        Examples
        --------
        >>> import pandas as pd
        >>> shirts = pd.DataFrame({"size": [38, 40], "colour": ["red", "blue"]})
        >>> codes = TableCodes.of(shirts)
        >>> codes.encode(shirts)
        array([[38.,  0.],
               [40.,  1.]])
        >>> codes.decode(np.array([[40.0, 0.0]])).to_dict("records")
        [{'size': 40, 'colour': 'red'}]
        """
        import pandas as pd

        first = make_pandas(tables[0])
        names = list(first.columns)
        frames = [
            first,
            *(_rename_columns(make_pandas(table), names, "The background") for table in tables[1:]),
        ]
        together = first if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        levels = [_levels(together.iloc[:, c]) for c in range(together.shape[1])]
        return cls(names, list(first.dtypes), levels, _find_maker(tables[0]))

    @property
    def column_names(self) -> list[str] | None:
        """Names of the columns as texts; None for an array, whose columns have none."""
        is_array = isinstance(self.again, partial) and self.again.func is _array
        return None if is_array else [str(name) for name in self.names]

    @property
    def has_levels(self) -> bool:
        """Whether some column is not numbers."""
        return any(levels is not None for levels in self.levels)

    def encode(self, X: Any) -> Floats:
        """Write a table as numbers."""
        frame = _rename_columns(make_pandas(X), self.names, "X")
        if not len(frame):
            raise InvalidInput("X is empty: it has no rows; at least 1 row is needed.")
        columns = [self._coded(frame.iloc[:, c], c) for c in range(len(self.names))]
        return np.column_stack(columns)

    def _coded(self, column: pd.Series, at: int) -> Floats:
        levels = self.levels[at]
        if levels is None:
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        import pandas as pd

        found = pd.Index(levels).get_indexer(pd.Index(column))
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            raise InvalidInput(
                f"Column {self.names[at]!r} holds {column.iloc[row]!r} in row {row}, which neither X nor the "
                "background had when this explainer was made. Make a new one with these rows."
            )
        return np.asarray(found, dtype=np.float64)

    def decode(self, Z: Floats) -> Any:
        """Make a table of numbers again, in the user's columns and types."""
        import pandas as pd

        columns = [self._cells(np.asarray(Z)[:, c], c) for c in range(len(self.names))]
        frame = pd.concat(columns, axis=1)
        frame.columns = pd.Index(self.names)
        return self.again(frame)

    def _cells(self, codes: Floats, at: int) -> pd.Series:
        import pandas as pd

        levels = self.levels[at]
        if levels is not None:
            return levels.iloc[codes.astype(np.int64)].reset_index(drop=True)
        dtype = self.dtypes[at]
        whole = getattr(dtype, "kind", "f") in "iu"
        return pd.Series(np.rint(codes) if whole else codes).astype(dtype)


def _levels(column: pd.Series) -> pd.Series | None:
    """Values that occur in a column; None for one of numbers that floats can hold."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        if column.dtype.kind == "c":
            raise InvalidInput(f"Column {column.name!r} holds complex numbers; expected real ones.")
        large = column.dtype.kind in "iu" and len(column) and column.abs().max() > _EXACT
        if not large:
            return None
    try:
        set(column.head(1).map(hash))  # pandas itself compares lists by their looks
        return column.drop_duplicates().reset_index(drop=True)
    except TypeError as error:
        raise InvalidInput(
            f"Column {column.name!r} holds {type(column.iloc[0]).__name__} values, which cannot be compared; "
            "expected numbers, texts, categories, dates or truth values."
        ) from error


def make_pandas(table: Any) -> pd.DataFrame:
    """Return an array or a frame as a pandas frame, its columns typed by what they hold."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, Frame):
        return table.to_pandas()  # type: ignore[attr-defined]  # polars
    return pd.DataFrame(np.asarray(table)).infer_objects()


def _rename_columns(frame: pd.DataFrame, names: list[Any], what: str) -> pd.DataFrame:
    """Return a frame under the given names, or say which columns it has instead; arrays have no names."""
    own = list(frame.columns)
    if own == names:
        return frame
    unnamed = list(range(len(names)))
    if unnamed in (own, names) and len(own) == len(names):
        return frame.set_axis(names, axis=1)
    raise InvalidInput(
        f"{what} has {len(own)} columns, {own[:6]}; expected {len(names)}, {names[:6]}, in the same order."
    )


def _find_maker(table: Any) -> Callable[[pd.DataFrame], Any]:
    """Return what makes a table like this one of a pandas frame."""
    if isinstance(table, PandasRows):
        return _return_itself
    if isinstance(table, Frame):
        return partial(_make_polars, table.schema)  # type: ignore[attr-defined]
    return partial(_array, np.asarray(table).dtype)


def _return_itself(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def _array(dtype: Any, frame: pd.DataFrame) -> Any:
    return frame.to_numpy(dtype=dtype)


def _make_polars(schema: Any, frame: pd.DataFrame) -> Any:
    import polars

    return polars.from_pandas(frame).cast(dict(schema))


def needs_codes(X: Any) -> bool:
    """Whether rows have to be written as numbers first: a frame, texts, missing cells."""
    if isinstance(X, Frame):
        return True
    array = np.asarray(X)
    if array.ndim != 2 or array.size == 0:
        return False
    return array.dtype.kind in "OUSM" or (array.dtype.kind == "f" and bool(np.isnan(array).any()))


def encode_score(score: Any, codes: TableCodes) -> EncodedScore:
    """Return a score of tables as one of numbers: the table is made again before the score sees it.

    `score` is a `FunctionScore` or a `PredictionScore`.
    """
    inner = copy(score)
    inner._function = _Decoded(codes, score._function)
    inner.has_levels = codes.has_levels
    inner.linear = None  # the weights belong to the columns of the model, these are numbers of levels
    if isinstance(inner, PredictionScore) and inner._predicted is not None:
        inner._predicted = _Decoded(codes, inner._predicted)
    n = len(codes.names)
    return EncodedScore(
        inner=inner,
        encode=codes.encode,
        owner=np.arange(n),
        n_columns=n,
        feature_names=codes.column_names or score.feature_names,
        describes=score.describes,
        decode=codes.decode,
    )


@dataclass(frozen=True, eq=False)
class _Decoded:
    """A function of tables as one of numbers; an object, which unlike a lambda can be sent elsewhere."""

    codes: TableCodes
    function: Callable[[Any], Any]

    def __call__(self, Z: Floats) -> Any:
        return self.function(self.codes.decode(Z))
