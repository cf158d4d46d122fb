"""Rows to explain in the columns that a score sees, what a method finds for them, and who shares the score.

Scores are asked a few rows at a time, in threads where that is wanted. Shares go to columns, to the raw
columns that encoded ones were made from, or to groups that the user names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rule, Rules, integer, none
from tellwhy.core.running import map_in_threads
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.distance_scores import find_recorded_rows


@dataclass(frozen=True)
class Rows:
    """Rows to explain, in the columns the score sees.

    Attributes
    ----------
    score
        The score in these columns: a `ScoreFunction` with whatever it can do besides (`core.capabilities`).
    X
        The rows as numbers.
    owner
        The user's column that each score column was made from; 0, 1, 2, … without an encoding.
    n_owners
        Number of the user's columns.
    shape
        What one row had as its shape, where rows are images or other arrays; they are laid flat in X.
    left_out
        The support point that each row does without, −1 for none: a row that the model was trained on is its
        own support point, which hides how odd it is. None where nothing is left out: the score has no such
        points, or the method does not leave rows out.
    output
        The output that each row has, of a model of several: it stays the same when the row is changed. None
        where there is one output, or the rows are not those that are explained.
    """

    score: Any
    X: Floats
    owner: Integers
    n_owners: int
    shape: tuple[int, ...] | None = None
    left_out: Integers | None = None
    output: Integers | None = None

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row: its own, or that of its columns."""
        return self.shape if self.shape is not None else self.X.shape[1:]

    @property
    def own(self) -> Integers | None:
        """What belongs to each row when the row is changed: what it leaves out, or the output it has."""
        return self.output if self.left_out is None else self.left_out

    @property
    def without(self) -> tuple[Integers, ...]:
        """What to pass to the score's `value` and `gradient` besides X: what is each row's own."""
        return () if self.own is None else (self.own,)

    @property
    def skipped(self) -> Integers:
        """`left_out` as numbers in any case: −1 for every row where nothing is left out."""
        return np.full(len(self.X), -1, dtype=np.int64) if self.left_out is None else self.left_out

    def scores(self) -> Floats:
        """Score of each row, without what it leaves out."""
        return np.asarray(self.score.value(self.X, *self.without))

    def recorded(self) -> Integers | None:
        """Return the training row that each row leaves out, as an explanation records it; None: none does."""
        return None if self.left_out is None else find_recorded_rows(self.left_out, self.score.remembered)

    def by_owner(self, values: Floats) -> Floats:
        """Sum values per score column over the user's columns."""
        # without an encoding, and for wide rows, nothing is copied
        if values.shape[1] == self.n_owners and np.array_equal(self.owner, np.arange(self.n_owners)):
            return values
        summed = np.zeros((len(values), self.n_owners))
        # column by column: summed[:, owner] += values would add only one of those with the same owner
        for column, owner in enumerate(self.owner):
            summed[:, owner] += values[:, column]
        return summed

    def shaped(self, values: Floats) -> Floats:
        """Give values per flat column the shape that the rows came in."""
        return values if self.shape is None else values.reshape(len(values), *self.shape)


@dataclass(frozen=True)
class Attribution:
    """What a method found.

    Attributes
    ----------
    values
        One number per row and score column; where `per_owner`, per column of the user's.
    scores
        What was explained.
    base_values
        The part of each score that belongs to no column.
    stderr
        Standard error of the values, in the user's columns.
    extras, params
        Further results, and settings as they were used.
    kind
        Where it depends on the score; None: the explainer's own.
    """

    values: Floats
    scores: Floats
    base_values: Floats | float = 0.0
    stderr: Floats | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    per_owner: bool = False
    kind: str | None = None


def average_rows(rows: Rows, background: Floats, weights: Floats | None = None) -> Floats | float:
    """Return the mean score of background rows: one number, or one per row where outputs differ."""
    if rows.output is None:
        return float(np.average(rows.score.value(background), weights=weights))
    means = {
        int(output): np.average(
            rows.score.value(background, np.full(len(background), output, dtype=np.int64)), weights=weights
        )
        for output in np.unique(rows.output)
    }
    return np.array([means[int(output)] for output in rows.output])


def read_replacement_row(name: str, given: Any, shape: tuple[int, ...]) -> Floats:
    """What replaces the cells of a row, from a number or an array like one input, cell by cell."""
    array = np.asarray(given, dtype=np.float64)
    size = int(np.prod(shape))
    if array.ndim and array.shape not in (shape, (size,)):
        raise InvalidParameter(
            f"The 'baseline' parameter of {name} must be a number, or an array like one input, of shape "
            f"{shape}. Got shape {array.shape} instead."
        )
    if not np.isfinite(array).all():
        raise InvalidParameter(f"The 'baseline' parameter of {name} must be finite. Got {given!r} instead.")
    return array.ravel() if array.ndim else np.full(size, float(array))


BATCH = 4096  # rows per call where threads are asked for, whatever their number: so are the sums


BATCH_PARAMETERS: dict[str, Rules] = {
    "batch_size": (none, integer(1)),
    "n_jobs": (none, Rule("a whole number other than 0", lambda v: integer().accepts(v) and v != 0)),
}


class InBatches:
    """A score that gets at most `batch_size` rows per call, and several calls at once where `n_jobs` says so.

    All its other members are those of the score itself.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> calls = []
    >>> score = FunctionScore(lambda X: (calls.append(len(X)), X.sum(axis=1))[1])
    >>> InBatches(score, batch_size=2).value(np.ones((5, 2))), calls
    (array([2., 2., 2., 2., 2.]), [2, 2, 1])
    """

    def __init__(self, score: Any, *, batch_size: int | None = None, n_jobs: int | None = None):
        self._score = score
        self._size = batch_size or BATCH
        self._n_jobs = n_jobs or 1  # a model of the user's may not bear several calls at a time

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling ask before `_score` is there: handing that on would never end.
        if name.startswith("__") or name == "_score":
            raise AttributeError(name)
        return getattr(self._score, name)

    def value(self, X: Any, *further: Any) -> Floats:
        """Return one number per row."""
        return self._called(self._score.value, X, *further)

    @property
    def gradient(self) -> Callable[..., Floats] | None:
        """The gradient, in batches too; None where the score has none."""
        whole = getattr(self._score, "gradient", None)
        return None if whole is None else partial(self._called, whole)

    def _called(self, function: Callable[..., Any], X: Any, *further: Any) -> Floats:
        batches = [slice(start, start + self._size) for start in range(0, max(len(X), 1), self._size)]
        found = map_in_threads(
            lambda rows: function(X[rows], *(each[rows] for each in further)), batches, self._n_jobs
        )
        return found[0] if len(found) == 1 else np.concatenate(found)


def in_batches(score: Any, batch_size: int | None, n_jobs: int | None) -> Any:
    """Return the score itself, or one that is computed in batches where somebody asked for that."""
    if batch_size is None and n_jobs in (None, 1):
        return score
    return InBatches(score, batch_size=batch_size, n_jobs=n_jobs)


Groups = Sequence[Any] | Integers
"""Lists of columns, each by number or name, or one number per column: that of its group."""


groups_rule = Rule(
    "None, a list of lists of columns, or one group number per column",
    lambda value: value is None or (isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)),
)


def group_numbers(groups: Groups, n_columns: int, names: Sequence[str] | None) -> Integers:
    """Return the number of each column's group.

    Columns that are in no group become groups of their own, after the given ones.

    Examples
    --------
    >>> group_numbers([["a", "c"]], 4, ["a", "b", "c", "d"])
    array([0, 1, 0, 2])
    >>> group_numbers([7, 7, 5], 3, None)
    array([1, 1, 0])
    """
    if isinstance(groups, np.ndarray) and groups.ndim > 1:  # of pictures: one number for each cell
        groups = groups.ravel()
    # one number per column; in a list of as many lists each item has an axis of its own
    if len(groups) == n_columns and all(np.ndim(item) == 0 for item in groups):
        return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    found = np.full(n_columns, -1, dtype=np.int64)
    for number, columns in enumerate(groups):
        if np.ndim(columns) != 1 or len(columns) == 0:
            raise InvalidParameter(
                f"groups[{number}] is {columns!r}; expected a list of columns (or, for all of groups, one "
                f"group number for each of the {n_columns} columns)."
            )
        for column in columns:
            position = find_position(column, n_columns, names, number)
            if found[position] >= 0:
                raise InvalidParameter(
                    f"Column {column!r} is in groups[{found[position]}] and in groups[{number}]."
                )
            found[position] = number
    alone = np.flatnonzero(found < 0)
    found[alone] = len(groups) + np.arange(len(alone))
    return found


def find_position(column: Any, n_columns: int, names: Sequence[str] | None, number: int) -> int:
    """Return the place of a column that a group names."""
    if isinstance(column, str):
        if names is None or column not in names:
            known = (
                "the rows have no column names" if names is None else f"the columns are {list(names)[:10]}"
            )
            raise InvalidParameter(f"groups[{number}] names the column {column!r}, but {known}.")
        return list(names).index(column)
    if not isinstance(column, (int, np.integer)) or not 0 <= column < n_columns:
        raise InvalidParameter(
            f"groups[{number}] holds {column!r}; expected a name or a number below {n_columns}."
        )
    return int(column)


@dataclass(frozen=True)
class Players:
    """Groups of the user's columns; those of which the score sees no column take no part.

    `of_column[t]` is the player that score column t belongs to; `group[c]` is the group of the user's column
    c, and `playing` lists the groups that play, in the order of the players.
    """

    of_column: Integers
    group: Integers
    playing: Integers

    @property
    def n(self) -> int:
        """How many take part."""
        return len(self.playing)

    def group_values(self, values: Floats) -> Floats:
        """Values per group from values per player: 0 for a group that takes no part."""
        found = np.zeros((len(values), int(self.group.max()) + 1))
        found[:, self.playing] = values
        return found

    def per_column(self, values: Floats) -> Floats:
        """Values per user's column: a group's value in equal parts."""
        sizes = np.bincount(self.group)
        return np.asarray((self.group_values(values) / sizes)[:, self.group])


def find_players(rows: Rows, groups: Groups | None, names: Sequence[str] | None) -> Players:
    """Return the players among some rows: one per user's column, or one per group of them."""
    group = np.arange(rows.n_owners) if groups is None else group_numbers(groups, rows.n_owners, names)
    # Groups none of whose columns the score sees, such as dropped ones, get no player and the value 0.
    playing, of_column = np.unique(group[rows.owner], return_inverse=True)
    return Players(of_column.reshape(-1), group, playing)
