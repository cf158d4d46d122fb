"""Permutation importance: how much worse a model predicts when a column's cells stand in other rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from tellwhy.core.arrays import Frame, list_columns, take_rows
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import (
    Rule,
    Rules,
    Seed,
    generator,
    integer,
    none,
    one_of,
    real,
    seed,
    validate_value,
)
from tellwhy.core.progress import track
from tellwhy.core.score import Floats
from tellwhy.scoring.model_rows import find_estimator_kind

Loss = Callable[[Any, Any], Any]
_ACCEPTED: dict[str, Rules] = {
    "loss": (one_of("auto", "squared", "absolute", "log", "zero_one"), Rule("a function", callable)),
    "groups": (none, Rule("lists of columns, by number or name", lambda v: isinstance(v, (list, tuple)))),
    "n_repeats": integer(1),
    "confidence": real(0.5, 1),
    "random_state": seed,
}


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """How much a loss grows when columns are mixed up, with what is not known of it.

    Attributes
    ----------
    values
        Mean growth of the loss for each column or group.
    stderr
        Standard errors, by the rows: of the mean over as many rows from where these come from.
    lower, upper
        Ends of the intervals.
    loss
        Mean loss of the model as it is.
    names
        Names of the columns or groups.
    """

    values: Floats
    stderr: Floats
    lower: Floats
    upper: Floats
    loss: float
    names: list[str]

    def to_frame(self) -> Any:
        """Return a table, the most important column first.

        Returns
        -------
        pandas.DataFrame
            With the columns "importance", "stderr", "lower" and "upper".

        Examples
        --------
        >>> one = np.ones(2)
        >>> found = PermutationImportance(np.array([1.0, 2.0]), one, 0 * one, 3 * one, 0.5, ["a", "b"])
        >>> list(found.to_frame().index)
        ['b', 'a']
        """
        import pandas as pd

        table = {"importance": self.values, "stderr": self.stderr, "lower": self.lower, "upper": self.upper}
        return pd.DataFrame(table, index=self.names).sort_values("importance", ascending=False)


def permutation_importance(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: str | Loss = "auto",
    groups: Sequence[Any] | None = None,
    n_repeats: int = 10,
    confidence: float = 0.95,
    random_state: Seed = 0,
) -> PermutationImportance:
    """Mix up one column after the other, and tell how much the model's loss grows.

    The loss of each row with its cell from another row, less its loss as it is, is averaged over `n_repeats`
    mixtures; intervals come from the spread, over the rows, of what each row adds to that. They say what
    other rows from the same source would give, for this very model. Columns that say the same stand in for
    each other: put them into one group. Breiman, Machine Learning 45 (2001); Fisher, Rudin, Dominici, Journal
    of Machine Learning Research 20 (2019).

    Parameters
    ----------
    model
        A classifier, a regressor, or a function from rows to numbers (or to one row of probabilities each).
    X
        Rows that the model was not fitted on: an array or a frame.
    y
        What is true of them.
    loss
        "squared", "absolute", "log" (of the true class's probability), "zero_one", or a function of y and of
        what the model gives, to one number per row. "auto": log for classifiers with probabilities, zero-one
        for others, squared for numbers.
    groups
        Columns that are mixed up together: lists of columns. Others stay by themselves.
    n_repeats
        Mixtures for each column.
    confidence
        Of the intervals.
    random_state
        Seed of the mixtures.

    Returns
    -------
    PermutationImportance
        One number for each column or group, with its interval.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> found = permutation_importance(lambda rows: 2 * rows[:, 0], X, 2 * X[:, 0])
    >>> found.values.round(), found.lower[0] < 8 < found.upper[0]
    (array([8., 0.]), np.True_)
    """
    given = {
        "loss": loss,
        "groups": groups,
        "n_repeats": n_repeats,
        "confidence": confidence,
        "random_state": random_state,
    }
    for name, value in given.items():
        validate_value("permutation_importance", name, value, _ACCEPTED[name])
    n = np.shape(X)[0]
    truth = np.asarray(y)
    if truth.shape != (n,):
        raise InvalidInput(f"y has shape {truth.shape} for {n} rows of X; expected one entry per row.")
    if n < 2:
        raise InvalidInput("Cells cannot be mixed up in a single row: pass more.")
    predict, of_rows = _read_model(model, truth, loss)
    plain = of_rows(predict(X))
    names = list_columns(X) or [str(k) for k in range(np.shape(X)[1])]
    players = _read_groups(groups, names)
    rng = generator(random_state)
    grown = np.zeros((len(players), n))
    lent = np.zeros((len(players), n))
    for k in track(range(len(players)), len(players), "mixing up columns"):
        for _ in range(n_repeats):
            taken = _derange(n, rng)
            change = (of_rows(predict(_mix(X, players[k], taken))) - plain) / n_repeats
            grown[k] += change
            lent[k, taken] += change
    values = grown.mean(axis=1)
    # a row counts twice: where it gets a cell, and where it lends its own
    stderr = (grown + lent).std(axis=1, ddof=1) / np.sqrt(n)
    width = float(ndtri(0.5 + confidence / 2)) * stderr
    called = [" & ".join(names[column] for column in columns) for columns in players]
    return PermutationImportance(values, stderr, values - width, values + width, float(plain.mean()), called)


def _derange(n: int, rng: np.random.Generator) -> Any:
    """Other rows for all rows: a random order's next one, so that no row keeps its own cell."""
    order = rng.permutation(n)
    taken = np.empty(n, dtype=np.int64)
    taken[order] = np.roll(order, 1)
    return taken


def _mix(X: Any, columns: list[int], taken: Any) -> Any:
    """Rows with some columns from other rows."""
    other = take_rows(X, taken)
    if not isinstance(X, Frame):
        mixed = np.array(X)
        mixed[:, columns] = np.asarray(other)[:, columns]
        return mixed
    table: Any = X
    if hasattr(table, "iloc"):
        mixed = table.copy()
        for column in columns:
            mixed.isetitem(column, other.iloc[:, column].to_numpy())
        return mixed
    names = [table.columns[column] for column in columns]
    return table.with_columns(other.select(names))


def _read_groups(groups: Sequence[Any] | None, names: list[str]) -> list[list[int]]:
    """Lists of columns, by their numbers, then each of the others by itself."""
    found = []
    for group in groups or []:
        known = [names.index(c) if c in names else c for c in group]
        if not known or not all(isinstance(c, (int, np.integer)) and 0 <= c < len(names) for c in known):
            raise InvalidParameter(
                f"groups holds {group!r}; expected a list of columns, by name or by a number below "
                f"{len(names)}."
            )
        found.append([int(c) for c in known])
    taken = [column for group in found for column in group]
    if len(set(taken)) < len(taken):
        raise InvalidParameter("A column stands in two groups, or twice in one. Leave it in one of them.")
    return found + [[column] for column in range(len(names)) if column not in taken]


def _read_model(model: Any, truth: Any, loss: str | Loss) -> tuple[Any, Callable[[Any], Floats]]:
    """What is asked of the model, and the loss of each row of what it gives."""
    kind = find_estimator_kind(model)
    has_chances = kind == "classifier" and hasattr(model, "predict_proba")
    chosen = loss
    if loss == "auto":
        chosen = "log" if has_chances else "zero_one" if kind == "classifier" else "squared"
    if chosen == "log" and kind is not None and not has_chances:
        raise InvalidParameter(f"loss='log' needs probabilities, and {type(model).__name__} has none.")
    if kind is None:
        predict = model if callable(model) else model.predict
    else:
        predict = model.predict_proba if chosen == "log" else model.predict
    classes = getattr(model, "classes_", None)

    def of_rows(found: Any) -> Floats:
        given = np.asarray(found)
        if callable(chosen):
            losses = np.asarray(chosen(truth, given), dtype=np.float64)
        else:
            losses = _LOSSES[chosen](truth, given, classes)
        if losses.shape != truth.shape or not np.isfinite(losses).all():
            raise InvalidInput(
                f"The loss has shape {losses.shape} for {len(truth)} rows, or is not finite; expected one "
                "finite number per row."
            )
        return losses

    return predict, of_rows


def _log_loss(truth: Any, given: Any, classes: Any) -> Floats:
    known = np.unique(truth) if classes is None else np.asarray(classes)
    column = {label: k for k, label in enumerate(known.tolist())}
    missing = [label for label in np.unique(truth).tolist() if label not in column]
    if missing:
        raise InvalidInput(f"y holds {missing[0]!r}, a class that the model does not know.")
    chances = given if given.ndim == 2 else np.column_stack([1.0 - given, given])
    own = chances[np.arange(len(truth)), [column[label] for label in truth.tolist()]]
    return np.asarray(-np.log(np.maximum(own, 1e-12)))


_LOSSES: dict[Any, Callable[[Any, Any, Any], Floats]] = {
    "squared": lambda truth, given, _: np.asarray((truth - given.reshape(truth.shape)) ** 2, dtype=float),
    "absolute": lambda truth, given, _: np.asarray(np.abs(truth - given.reshape(truth.shape)), dtype=float),
    "zero_one": lambda truth, given, _: np.asarray(truth != given.reshape(truth.shape), dtype=float),
    "log": _log_loss,
}
