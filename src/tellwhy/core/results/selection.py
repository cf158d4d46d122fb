"""Parts of an explanation, rows and columns, and several explanations as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.extras import Deferred, Extras, is_per_row
from tellwhy.core.score_function import Integers
from tellwhy.core.tables import Frame, PandasRows

if TYPE_CHECKING:
    from tellwhy.core.explanation import Explanation


def column_places(explanation: Explanation, columns: Any) -> Integers:
    """Return the places of columns that are asked for by name, place, slice or mask."""
    if len(explanation.feature_shape) != 1:
        raise InvalidInput(
            f"Columns can be chosen where features are columns; here one row has the shape "
            f"{explanation.feature_shape}."
        )
    names = explanation.names()
    asked: Any = [columns] if isinstance(columns, (str, int, np.integer)) else columns
    if isinstance(asked, slice):
        return np.arange(len(names))[asked]
    if getattr(asked, "dtype", None) == np.bool_:
        return np.flatnonzero(asked)
    return np.array([_place(names, column) for column in asked], dtype=np.int64)


def _place(names: Sequence[str], column: Any) -> int:
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
        if -len(names) <= column < len(names):
            return int(column) % len(names)
    elif str(column) in names:
        return list(names).index(str(column))
    shown = ", ".join(list(names)[:10]) + (", …" if len(names) > 10 else "")
    raise InvalidInput(f"There is no column {column!r} in this explanation. There are: {shown}.")


def some_columns(explanation: Explanation, columns: Any) -> Explanation:
    """Return the explanation of some columns; what the others contributed becomes part of the base value."""
    places = column_places(explanation, columns)
    names = explanation.names()
    left_out = explanation.values.sum(axis=1) - explanation.values[:, places].sum(axis=1)
    keeps_sums = explanation.kind == "attribution"
    return replace(
        explanation,
        values=explanation.values[:, places],
        base_values=explanation.base_values + left_out if keeps_sums else explanation.base_values,
        stderr=None if explanation.stderr is None else explanation.stderr[:, places],
        data=columns_of(explanation.data, names, places),
        feature_names=[names[j] for j in places],
        extras=_extras_of_columns(explanation.extras, len(names), places),
    )


def columns_of(data: Any, names: Sequence[str], places: Integers) -> Any:
    """Return some columns of the explained data, in the same type; None where they cannot be told."""
    if data is None:
        return None
    wanted = [names[j] for j in places]
    if isinstance(data, Frame):
        held = [str(column) for column in data.columns]
        if not set(wanted) <= set(held):
            return None if len(held) != len(names) else _frame_columns(data, places)
        return _frame_columns(data, np.array([held.index(name) for name in wanted], dtype=np.int64))
    array = np.asarray(data)
    return array[:, places] if array.ndim == 2 and array.shape[1] == len(names) else None


def _frame_columns(data: Any, places: Integers) -> Any:
    if isinstance(data, PandasRows):
        return data.iloc[:, places]
    columns = list(data.columns)
    return data[[columns[j] for j in places]]


@dataclass(frozen=True)
class _ColumnsLater:
    """Some columns of a result that is computed when it is asked for."""

    compute: Callable[[Integers], Any]
    n_columns: int
    places: Integers

    def __call__(self, rows: Integers) -> Any:
        return _taken("", self.compute(rows), self.n_columns, self.places)


def _extras_of_columns(extras: Extras, n_columns: int, places: Integers) -> Extras:
    return Extras({name: _taken(name, held, n_columns, places) for name, held in extras.held().items()})


def _taken(name: str, held: Any, n_columns: int, places: Integers) -> Any:
    if isinstance(held, Deferred):
        return Deferred(_ColumnsLater(held.compute, n_columns, places), held.rows)
    if isinstance(held, Frame):
        return _frame_columns(held, places) if len(list(held.columns)) == n_columns else held
    if not isinstance(held, np.ndarray) or held.ndim < 2 or held.shape[1] != n_columns:
        return held
    found = held[:, places]
    return found[:, :, places] if name == "interactions" else found


class ByLabel:
    """Rows by the labels of the data's index, and columns by name: `explanation.loc["order 17", "price"]`."""

    def __init__(self, explanation: Explanation):
        self._explanation = explanation

    def __getitem__(self, asked: Any) -> Explanation:
        """Return the rows with these labels, and of these the columns asked for after a comma."""
        explanation = self._explanation
        rows, columns = asked if isinstance(asked, tuple) and len(asked) == 2 else (asked, slice(None))
        chosen = explanation[_labelled(explanation, rows)]
        is_all = isinstance(columns, slice) and columns == slice(None)
        return chosen if is_all else some_columns(chosen, columns)


def _labelled(explanation: Explanation, labels: Any) -> Integers:
    """Places of the rows with these labels."""
    import pandas as pd

    data = explanation.data
    index = data.index if isinstance(data, PandasRows) else pd.RangeIndex(len(explanation))
    try:
        found = pd.Series(np.arange(len(explanation)), index=index).loc[labels]
    except KeyError:
        shown = ", ".join(repr(label) for label in index[:5])
        raise InvalidInput(
            f"There is no row labelled {labels!r} in this explanation. Its labels begin with {shown}."
        ) from None
    return np.atleast_1d(np.asarray(found, dtype=np.int64))


def joined(parts: Sequence[Explanation]) -> Explanation:
    """Return explanations of several lots of rows as one, in their order."""
    parts = list(parts)
    if not parts:
        raise InvalidInput("Explanation.concat needs at least one explanation. Got none.")
    first = parts[0]
    for place, part in enumerate(parts[1:], start=1):
        _check_alike(first, part, place)
    return replace(
        first,
        values=np.concatenate([part.values for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        base_values=np.concatenate([part.base_values for part in parts]),
        stderr=_joined_arrays([part.stderr for part in parts]),
        data=_joined_arrays([part.data for part in parts]),
        params={k: v for k, v in first.params.items() if all(_is_same(v, p.params.get(k)) for p in parts)},
        extras=_joined_extras([part.extras for part in parts]),
    )


def _check_alike(first: Explanation, part: Explanation, place: int) -> None:
    for what in ("kind", "method", "feature_shape"):
        if getattr(first, what) != getattr(part, what):
            raise InvalidInput(
                f"Explanation.concat joins explanations of the same {what.replace('_', ' ')}. The first has "
                f"{getattr(first, what)!r}, number {place} (counted from 0) has {getattr(part, what)!r}."
            )
    if first.names() != part.names():
        raise InvalidInput(
            f"Explanation.concat joins explanations of the same columns. The first has {first.names()[:5]}, "
            f"number {place} (counted from 0) has {part.names()[:5]}."
        )


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b))


def _joined_arrays(held: Sequence[Any]) -> Any:
    """One array or frame after the other; None where one is missing, or they are of different types."""
    if any(part is None for part in held):
        return None
    if all(isinstance(part, PandasRows) for part in held):
        import pandas as pd

        return pd.concat(list(held))
    if all(isinstance(part, Frame) for part in held):
        return _stacked(held)
    return np.concatenate([np.asarray(part) for part in held])


def _stacked(frames: Sequence[Any]) -> Any:
    """Frames of polars, one below the other."""
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.vstack(frame)
    return whole


def _joined_extras(parts: Sequence[Mapping[str, Any]]) -> Extras:
    """Results that all parts have: those of rows one after the other, others where they are equal."""
    held = [part.computed() if isinstance(part, Extras) else dict(part) for part in parts]
    common = [name for name in held[0] if all(name in part for part in held)]
    found: dict[str, Any] = {}
    for name in common:
        entries = [part[name] for part in held]
        if all(is_per_row(entry) for entry in entries):
            found[name] = _joined_arrays(entries)
        elif all(_is_same(entries[0], entry) for entry in entries):
            found[name] = entries[0]
    return Extras(found)
