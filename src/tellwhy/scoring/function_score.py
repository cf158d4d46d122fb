"""Any function of rows as a score, with its output checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats


class FunctionScore:
    """A callable that gives one number per row, optionally with its gradient."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        gradient: Callable[[Any], Floats] | None = None,
        feature_shape: tuple[int, ...] | None = None,
        feature_names: Sequence[str] | None = None,
        describes: str = "",
        threshold: float | None = None,
    ):
        self._function = function
        name = getattr(function, "__qualname__", type(function).__name__)
        self.feature_shape = feature_shape
        self.feature_names = feature_names
        self.describes = describes or f"the value of {name}"
        self.threshold = threshold
        if gradient is not None:
            self.gradient = gradient

    def value(self, X: Any) -> Floats:
        """One finite number per row, or an error that says what the function returned."""
        returned = np.asarray(self._function(X))
        if returned.shape != (len(X),):
            if returned.shape == (len(X), 1):
                return self._finite(returned[:, 0])
            raise InvalidInput(
                f"A score must give one number per row: for {len(X)} rows, {self.describes} has shape "
                f"{returned.shape}; expected ({len(X)},). Wrap it in a function that picks one output."
            )
        return self._finite(returned)

    def _finite(self, returned: Any) -> Floats:
        try:
            scores = returned.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{self.describes} gave {returned.dtype} values; expected numbers.") from error
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise InvalidInput(f"{self.describes} is {scores[row]} for row {row}; expected a finite number.")
        return np.asarray(scores)
