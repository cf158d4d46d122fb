"""Slices, joins and extras of explanations; those of one-class scores.

Parts of an explanation, rows and columns, and several explanations as one.

Explanations of a classifier of two classes, all rows in terms of one of them.

Further results of an explanation; some are computed when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.arrays import Frame, PandasRows, take_rows
from tellwhy.core.errors import InvalidInput

if TYPE_CHECKING:
    from tellwhy.core.explanation import Explanation
    from tellwhy.core.score import Floats, Integers


@dataclass(frozen=True)
class Deferred:
    """A result to be computed for some rows.

    Attributes
    ----------
    compute
        Takes indices of rows, gives an array or a frame with one entry for each.
    rows
        The rows that are asked for.
    """

    compute: Callable[[Integers], Any]
    rows: Integers

    def taken(self, index: Integers) -> Deferred:
        """Return the result for a part of the rows."""
        return replace(self, rows=self.rows[index])

    def __call__(self) -> Any:
        """Compute it."""
        return self.compute(self.rows)


class Extras(Mapping[str, Any]):
    """Results by name. A `Deferred` one is computed at the first access and then kept.

    Looking whether a name is there, listing names, slicing an explanation and `extras | {...}` compute
    nothing; going through `values()` or `items()` computes everything. Files and pickled copies hold what has
    been computed.

    Examples
    --------
    >>> extras = Extras({"note": "kept", "squares": Deferred(np.square, np.array([2, 3, 4]))})
    >>> "squares" in extras, sorted(extras.computed())
    (True, ['note'])
    >>> extras.taken(np.array([2, 0]))["squares"]
    array([16,  4])
    >>> sorted(extras.computed())
    ['note']
    """

    def __init__(self, given: Mapping[str, Any] | None = None):
        self._held: dict[str, Any] = dict(given._held if isinstance(given, Extras) else given or {})

    def __getitem__(self, name: str) -> Any:
        held = self._held[name]
        if isinstance(held, Deferred):
            held = self._held[name] = held()
        return held

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __or__(self, others: Mapping[str, Any]) -> Extras:
        return Extras({**self._held, **Extras(others)._held})

    def __reduce__(self) -> Any:
        # What is still to be computed holds functions, which cannot be copied to another process.
        return Extras, (self.computed(),)

    def __repr__(self) -> str:
        shown = {
            k: "computed when asked for" if isinstance(v, Deferred) else v for k, v in self._held.items()
        }
        return f"Extras({shown})"

    def held(self) -> dict[str, Any]:
        """Return all results as they are held: what is to be computed, as a `Deferred`."""
        return dict(self._held)

    def computed(self) -> dict[str, Any]:
        """Return the results that need no more computing."""
        return {name: held for name, held in self._held.items() if not isinstance(held, Deferred)}

    def only(self, *names: str) -> Extras:
        """Return some of the results, those of these names that there are."""
        return Extras({name: self._held[name] for name in names if name in self._held})

    def taken(self, index: Integers) -> Extras:
        """Return the results of some rows; what does not belong to single rows is kept as it is."""
        return Extras({name: _take_extra_rows(held, index) for name, held in self._held.items()})


def is_per_row(held: object) -> bool:
    """Whether a result has one entry per row: an array or a frame."""
    return isinstance(held, (np.ndarray, Frame))


def _take_extra_rows(held: Any, index: Integers) -> Any:
    if isinstance(held, Deferred):
        return held.taken(index)
    return take_rows(held, index) if is_per_row(held) else held


TOKENS = "tokens"  # the parameter of an explanation that says into what texts were cut


def tokens_of(explanation: Explanation) -> list[list[str]] | None:
    """Return the words of each explained text, where features are words; None for other explanations.

    Examples
    --------
    >>> from tellwhy.core.explanation import Explanation
    >>> words = np.array([["not", "bad"], ["good", ""]], dtype=object)
    >>> said = {"data": words, "params": {"tokens": "words"}, "method": "Example"}
    >>> tokens_of(Explanation(values=np.zeros((2, 2)), scores=[0.0, 0.0], **said))
    [['not', 'bad'], ['good']]
    """
    if TOKENS not in explanation.params or explanation.data is None:
        return None
    rows = np.asarray(explanation.data, dtype=object)
    if rows.shape != explanation.values.shape:
        return None
    return [[str(word) for word in row[: _n_written(row)]] for row in rows]


def _n_written(row: Any) -> int:
    """How many words there are before the empty ones that fill up the row."""
    written = [place for place, word in enumerate(row) if word]
    return written[-1] + 1 if written else 0


def find_columns(explanation: Explanation, columns: Any) -> Integers:
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
    places = find_columns(explanation, columns)
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
        extras=_take_extras_of_columns(explanation.extras, len(names), places),
    )


def columns_of(data: Any, names: Sequence[str], places: Integers) -> Any:
    """Return some columns of the explained data, in the same type; None where they cannot be told."""
    if data is None:
        return None
    wanted = [names[j] for j in places]
    if isinstance(data, Frame):
        held = [str(column) for column in data.columns]
        if not set(wanted) <= set(held):
            return None if len(held) != len(names) else _take_frame_columns(data, places)
        return _take_frame_columns(data, np.array([held.index(name) for name in wanted], dtype=np.int64))
    array = np.asarray(data)
    return array[:, places] if array.ndim == 2 and array.shape[1] == len(names) else None


def _take_frame_columns(data: Any, places: Integers) -> Any:
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
        return _take_extra_columns("", self.compute(rows), self.n_columns, self.places)


def _take_extras_of_columns(extras: Extras, n_columns: int, places: Integers) -> Extras:
    return Extras(
        {name: _take_extra_columns(name, held, n_columns, places) for name, held in extras.held().items()}
    )


def _take_extra_columns(name: str, held: Any, n_columns: int, places: Integers) -> Any:
    if isinstance(held, Deferred):
        return Deferred(_ColumnsLater(held.compute, n_columns, places), held.rows)
    if isinstance(held, Frame):
        return _take_frame_columns(held, places) if len(list(held.columns)) == n_columns else held
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
        chosen = explanation[_find_labelled(explanation, rows)]
        is_all = isinstance(columns, slice) and columns == slice(None)
        return chosen if is_all else some_columns(chosen, columns)


def _find_labelled(explanation: Explanation, labels: Any) -> Integers:
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
        stderr=_join_arrays([part.stderr for part in parts]),
        data=_join_arrays([part.data for part in parts]),
        params={k: v for k, v in first.params.items() if all(_is_same(v, p.params.get(k)) for p in parts)},
        extras=_join_extras([part.extras for part in parts]),
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


def _join_arrays(held: Sequence[Any]) -> Any:
    """One array or frame after the other; None where one is missing, or they are of different types."""
    if any(part is None for part in held):
        return None
    if all(isinstance(part, PandasRows) for part in held):
        import pandas as pd

        return pd.concat(list(held))
    if all(isinstance(part, Frame) for part in held):
        return _stack_frames(held)
    return np.concatenate([np.asarray(part) for part in held])


def _stack_frames(frames: Sequence[Any]) -> Any:
    """Frames of polars, one below the other."""
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.vstack(frame)
    return whole


def _join_extras(parts: Sequence[Mapping[str, Any]]) -> Extras:
    """Results that all parts have: those of rows one after the other, others where they are equal."""
    held = [part.computed() if isinstance(part, Extras) else dict(part) for part in parts]
    common = [name for name in held[0] if all(name in part for part in held)]
    found: dict[str, Any] = {}
    for name in common:
        entries = [part[name] for part in held]
        if all(is_per_row(entry) for entry in entries):
            found[name] = _join_arrays(entries)
        elif all(_is_same(entries[0], entry) for entry in entries):
            found[name] = entries[0]
    return Extras(found)


PREDICTED_CLASS = "the predicted class"
_SAME_SUM = 1e-6  # outputs are in single precision in some libraries
_SIGNED = ("interactions", "group_values")  # extras that change sign with the values


def complement_of(outputs: Floats) -> float | None:
    """Return what the outputs of two classes add up to in every row; None where that differs.

    Margins add up to 0 and probabilities to 1: what speaks for one class then speaks as much against the
    other.

    Examples
    --------
    >>> complement_of(np.array([[0.2, 0.8], [0.5, 0.5]])), complement_of(np.array([[0.2, 0.1], [0.5, 0.5]]))
    (1.0, None)
    """
    sums = outputs.sum(axis=1)
    if outputs.shape[1] != 2 or np.ptp(sums) > _SAME_SUM * (1.0 + np.abs(outputs).max()):
        return None
    return float(np.round(sums.mean(), 6))


def can_be_of_class(explanation: Explanation) -> bool:
    """Whether rows can be told in terms of either class."""
    return explanation.params.get("classes_sum") is not None and "explained" in explanation.extras


def of_class(explanation: Explanation, label: Any) -> Explanation:
    """Return the explanation with every row in terms of one class of two."""
    classes = [str(name) for name in explanation.params.get("classes") or ()]
    if not can_be_of_class(explanation):
        raise InvalidInput(
            "This explanation is not one of a classifier of two classes whose outputs add up to a constant. "
            f"Explain the class itself: tellwhy.explain(model, X, target={label!r})."
        )
    place = _place_of_class(label, explanation.params["classes"])
    explained = np.array([str(name) for name in explanation.extras["explained"]])
    return _turn_rows(explanation, explained != classes[place], place)


def _place_of_class(label: Any, classes: Sequence[Any]) -> int:
    """Return the place of a class by its name, or by what equals it: True is the class 1."""
    written = [str(name) for name in classes]
    if str(label) in written:
        return written.index(str(label))
    for place, name in enumerate(classes):
        if not isinstance(label, str) and not isinstance(name, str) and label == name:
            return place
    raise InvalidInput(f"There is no class {label!r}. The classes are {', '.join(written)}.")


def _turn_rows(explanation: Explanation, is_other: Any, place: int) -> Explanation:
    """Turn rows of the other class around: its output is the constant less that of this one."""
    total = float(explanation.params["classes_sum"])
    sign = np.where(is_other, -1.0, 1.0)
    name = explanation.params["classes"][place]
    words = str(explanation.params.get("explains", ""))
    for told in (PREDICTED_CLASS, f"class {explanation.params['classes'][1 - place]!r}"):
        words = words.replace(told, f"class {name!r}")
    extras = {
        key: held * sign.reshape(-1, *[1] * (held.ndim - 1)) if key in _SIGNED else held
        for key, held in explanation.extras.held().items()
    }
    extras["explained"] = np.full(len(sign), name)
    if "output" in extras:
        extras["output"] = np.full(len(sign), place)
    return replace(
        explanation,
        values=explanation.values * sign.reshape(-1, *[1] * len(explanation.feature_shape)),
        scores=np.where(is_other, total - explanation.scores, explanation.scores),
        base_values=np.where(is_other, total - explanation.base_values, explanation.base_values),
        params={**explanation.params, "explains": words, "target": str(name)},
        extras=Extras(extras),
    )


def plain(name: Any) -> Any:
    """Return a class label as Python writes it: numpy's own numbers and texts are shown with their types."""
    return name.item() if isinstance(name, np.generic) else name


def measure_unattributed_share(explanation: Explanation) -> float:
    """Median over rows of |residual| / |score − base|; NaN where values are not shares of a score."""
    if explanation.residual is None:
        return float("nan")
    explained = np.abs(explanation.scores - explanation.base_values)
    known = explained > 0
    if not known.any():
        return float("nan")
    return float(np.median(np.abs(explanation.residual[known]) / explained[known]))
