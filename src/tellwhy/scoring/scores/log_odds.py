"""One number per row and class: the log-odds of the classes of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, ScoreFunction

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
