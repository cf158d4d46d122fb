"""What a classifier or a regressor predicts, as a score: high is no more anomalous than low.

`PredictionScore` has one number per row, `ClassScores` one per row and class: its log-odds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError
from tellwhy.core.params import nearest
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.scoring.function_scores import private_rows

PREDICTED = "predicted"


@dataclass(frozen=True)
class LinearOutputs:
    """Outputs that are weights times the row, plus an intercept: shapes (k, d) and (k,)."""

    weights: Floats
    intercept: Floats

    def value(self, X: Floats) -> Floats:
        """Outputs of each row, shape (n, k)."""
        return np.asarray(X @ self.weights.T + self.intercept)


class PredictionScore:
    """One output of a model of several, for each row: that of the class it predicts, or of a chosen one.

    `fixed(X)` tells which output each row has; handing that to `value` keeps the same output when the row is
    changed.

    Parameters
    ----------
    function
        Takes rows, gives the outputs (n, k), or (n,) for a model of one output.
    names
        Names of the outputs: the classes; None for a regressor or a function.
    target
        "predicted" (of each row the class that the model predicts; of a single output that one), the name of
        a class, or the number of an output that has no name.
    describes
        Which number it is, with {which} in the place of the output.
    predicted
        Takes rows, gives the number of the predicted class; by default the largest output is predicted.
    feature_names, feature_shape
        Of the rows, where known.
    linear
        The outputs as weights, where the model is linear.
    model
        What it was read from, where that may have kept its training rows.

    Examples
    --------
    >>> score = PredictionScore(lambda X: np.column_stack([-X[:, 0], X[:, 0]]), ["no", "yes"])
    >>> score.value(np.array([[2.0], [-3.0]])), score.fixed(np.array([[2.0], [-3.0]]))[0]
    (array([2., 3.]), array([1, 0]))
    """

    is_prediction = True
    has_levels = False  # whether cells are numbers of levels in some columns (`TableCodes`)
    threshold: float | None = None

    def __init__(
        self,
        function: Callable[[Any], Any],
        names: Sequence[Any] | None = None,
        *,
        target: Any = PREDICTED,
        describes: str = "output {which} of the function",
        predicted: Callable[[Any], Any] | None = None,
        feature_names: Sequence[str] | None = None,
        feature_shape: tuple[int, ...] | None = None,
        linear: LinearOutputs | None = None,
        model: Any = None,
    ):
        self._function = function
        self._predicted = predicted
        self.names = None if names is None else list(names)
        self.target = target
        self.chosen = chosen_output(target, self.names)
        self.feature_names = feature_names
        self.feature_shape = feature_shape
        self.linear = linear
        self.model = model
        self._words = describes

    @property
    def describes(self) -> str:
        """Which number it is."""
        if self.chosen is None:
            return self._words.format(which="the predicted class")
        which = self.chosen if self.names is None else f"class {plain(self.names[self.chosen])!r}"
        return self._words.format(which=which)

    def outputs(self, X: Any) -> Floats:
        """All outputs of each row, finite, shape (n, k)."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        found = np.asarray(self._applied(self._function, X))
        if found.ndim == 1:
            found = found[:, None]
        if found.ndim != 2 or len(found) != n or found.shape[1] == 0:
            raise InvalidInput(
                f"The model gives outputs of shape {np.shape(found)} for {n} rows; expected one number per "
                f"row, or one row of {n} per class. Wrap it in a function that picks what you mean."
            )
        return self._finite(found)

    def _applied(self, function: Callable[[Any], Any], X: Any) -> Any:
        """What a function of the model gives, or an error that says that the model refused the rows."""
        try:
            return function(private_rows(X))
        except ValueError as error:
            if self.model is None or isinstance(
                error, TellwhyError
            ):  # a user's own function: a user's own error
                raise
            name = type(self.model).__name__
            raise InvalidInput(f"{name} cannot be applied to these rows: {error}") from error

    def _finite(self, found: Any) -> Floats:
        if found.dtype.kind not in "biuf":
            raise InvalidInput(
                f"The model gives values of dtype {found.dtype}, such as {found.flat[0]!r}; expected "
                "numbers. Pass the classifier itself, or its predict_proba."
            )
        bad = ~np.isfinite(found).all(axis=1)
        if bad.any():
            raise InvalidInput(
                f"The model gives {found[np.argmax(bad)]} for row {int(np.argmax(bad))} ({int(bad.sum())} "
                "such rows in all); expected finite numbers. Leave those rows out, or mend the model."
            )
        return np.asarray(found, dtype=np.float64)

    def fixed(self, X: Any) -> tuple[Integers, ...]:
        """Further argument of `value` that keeps each row's output: its number."""
        if self.chosen is not None and self.names is None:
            self._check_range(self.outputs(X[:1]).shape[1])
        return (self._numbers(X, None),)

    def _check_range(self, n_outputs: int) -> None:
        if self.chosen is not None and self.chosen >= n_outputs:
            raise InvalidParameter(
                f"target={self.target!r} is out of range: the model has outputs 0 to {n_outputs - 1}."
            )

    def _numbers(self, X: Any, found: Floats | None) -> Integers:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if self.chosen is not None:
            return np.full(n, self.chosen, dtype=np.int64)
        if self._predicted is not None:
            return np.asarray(self._applied(self._predicted, X), dtype=np.int64)
        outputs = self.outputs(X) if found is None else found
        if self.names is None and outputs.shape[1] > 1:
            raise InvalidParameter(
                f"The model gives {outputs.shape[1]} outputs per row: say which one is explained with "
                f"target=0, …, target={outputs.shape[1] - 1}."
            )
        return np.asarray(outputs.argmax(axis=1), dtype=np.int64)

    def value(self, X: Any, outputs: Integers | None = None) -> Floats:
        """Return the explained output of each row."""
        found = self.outputs(X)
        wanted = self._numbers(X, found) if outputs is None else np.asarray(outputs)
        self._check_range(found.shape[1])
        return np.asarray(found[np.arange(len(found)), wanted])

    def output_names(self, numbers: Integers) -> Any:
        """Names of outputs by their numbers; None where they have none."""
        if self.names is None:
            return None
        named = np.asarray(self.names)
        return (named.astype(str) if named.dtype.kind == "O" else named)[numbers]


def chosen_output(target: Any, names: Sequence[Any] | None) -> int | None:
    """Return the number of the output that is explained for all rows; None: of each row the predicted one.

    Examples
    --------
    >>> chosen_output("yes", ["no", "yes"])
    1
    >>> chosen_output("yess", ["no", "yes"])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: There is no class 'yess'; did you mean 'yes'? ...
    """
    if isinstance(target, str) and target == PREDICTED and PREDICTED not in (names or ()):
        return None
    if names is None:
        if isinstance(target, (int, np.integer)) and not isinstance(target, bool) and target >= 0:
            return int(target)
        raise InvalidParameter(
            f"target must be 'predicted' or the number of an output, 0, 1, …. Got {target!r} instead."
        )
    for number, name in enumerate(names):
        if plain(name) == target or str(name) == target:
            return number
    listed = ", ".join(repr(plain(name)) for name in list(names)[:8])
    raise InvalidParameter(
        f"There is no class {target!r}{nearest(str(target), [str(name) for name in names])} The classes are "
        f"{listed}; 'predicted' explains of each row the class that the model predicts."
    )


def plain(name: Any) -> Any:
    """Return a class label as Python writes it: numpy's own numbers and texts are shown with their types."""
    return name.item() if isinstance(name, np.generic) else name


CLIP = 1e-6  # probabilities nearer to 0 or 1 than this count as this near, so that their log-odds are finite


class ClassScores:
    """Log-odds of every class of a model. As a score, it is the number of the class with the highest.

    Parameters
    ----------
    function
        Takes rows as the model takes them, gives the log-odds (n, classes).
    names
        Names of the classes.
    feature_names, feature_shape
        Of the rows, where known.
    place
        Of a network: puts rows where it computes; what is made of them there can be handed to `outputs`.

    Examples
    --------
    >>> scores = ClassScores(lambda X: np.column_stack([-X, X]), ["no", "yes"])
    >>> scores.outputs(np.array([2.0, -1.0])), scores.value(np.array([2.0, -1.0]))
    (array([[-2.,  2.],
           [ 1., -1.]]), array([2., 1.]))
    """

    threshold: float | None = None
    describes = "log-odds of the class that the model prefers"

    def __init__(
        self,
        function: Callable[[Any], Floats],
        names: Sequence[str],
        *,
        feature_names: Sequence[str] | None = None,
        feature_shape: tuple[int, ...] | None = None,
        place: Callable[[Any], Any] | None = None,
    ):
        self._function = function
        self.place = place
        self.names = list(names)
        self.feature_names = feature_names
        self.feature_shape = feature_shape

    def outputs(self, X: Any) -> Floats:
        """Log-odds of each row and class: finite, or an error that names the first row where they are not."""
        found = np.asarray(self._function(X), dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.names):
            raise InvalidInput(
                f"The model gives outputs of shape {found.shape}; expected one row per input and one column "
                f"for each of its {len(self.names)} classes."
            )
        bad = ~np.isfinite(found).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidInput(
                f"The model gives {found[row]} for row {row} ({int(bad.sum())} such rows in all); expected "
                "finite probabilities of the classes. Leave those rows out, or mend the model."
            )
        return found

    def value(self, X: Any) -> Floats:
        """Log-odds of the preferred class of each row."""
        return np.asarray(self.outputs(X).max(axis=1))


class SingleScore:
    """A score of one number per row, read as a model with one column of outputs.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> SingleScore(FunctionScore(lambda X: X[:, 0])).outputs(np.array([[3.0], [4.0]]))
    array([[3.],
           [4.]])
    """

    place: Callable[[Any], Any] | None = None

    def __init__(self, score: ScoreFunction):
        self.score = score
        self.names = ["score"]

    def outputs(self, X: Any) -> Floats:
        """Return the score as a single column."""
        return np.asarray(self.score.value(X))[:, None]


def log_odds(probabilities: Floats) -> Floats:
    """Return log p/(1 − p), with p clipped to [1e-6, 1 − 1e-6]; not a number where p is not finite.

    Examples
    --------
    >>> log_odds(np.array([[0.0, 1.0], [0.5, 0.5]])).round(2)
    array([[-13.82,  13.82],
           [  0.  ,   0.  ]])
    """
    # Clipping alone would turn an infinite p into a believable one; NaN is refused by `ClassScores`.
    clipped = np.where(np.isfinite(probabilities), np.clip(probabilities, CLIP, 1.0 - CLIP), np.nan)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def log_odds_of_logits(logits: Floats) -> Floats:
    """Return z_c − log Σ_{k≠c} exp z_k: the log-odds of a softmax, exact however near to 0 or 1 it is.

    Examples
    --------
    >>> log_odds_of_logits(np.array([[40.0, 0.0]]))
    array([[ 40., -40.]])
    """
    found = np.empty_like(logits)
    for c in range(logits.shape[1]):
        others = np.delete(logits, c, axis=1)
        # The largest of the others is taken out of the sum, whose exponentials would overflow otherwise.
        high = others.max(axis=1)
        found[:, c] = logits[:, c] - high - np.log(np.exp(others - high[:, None]).sum(axis=1))
    return found
