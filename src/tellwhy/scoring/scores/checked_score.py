"""Score functions of the user's own, with their output checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.core.capabilities import HasGradient
from tellwhy.core.score_function import Floats
from tellwhy.scoring.scores.function_score import one_per_cell, one_per_row, private_rows


class CheckedScore:
    """A score function whose values and gradients are finite and of the right shape, or an error tells.

    All its other members are those of the score itself.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.scoring import FunctionScore
    >>> class Twice(FunctionScore):
    ...     def value(self, X):
    ...         return np.ones((len(X), 2))
    >>> CheckedScore(Twice(len, describes="a pair")).value(np.zeros((3, 1)))
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: A score must give one number per row: for 3 rows, a pair has shape ...
    """

    def __init__(self, score: Any):
        self._score = score

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling ask before `_score` is there: handing that on would never end.
        if name.startswith("__") or name == "_score":
            raise AttributeError(name)
        return getattr(self._score, name)

    def value(self, X: Any, *left_out: Any) -> Floats:
        """One finite number per row."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        return one_per_row(self._score.value(private_rows(X), *left_out), n, self._score.describes)

    @property
    def gradient(self) -> Callable[..., Floats] | None:
        """Derivative of each row's number by each of its cells, where the score has one."""
        return self._checked_gradient if isinstance(self._score, HasGradient) else None

    def _checked_gradient(self, X: Any, *left_out: Any) -> Floats:
        slopes = self._score.gradient(private_rows(X), *left_out)
        return one_per_cell(slopes, X, self._score.describes)
