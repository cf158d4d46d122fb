"""Explanations whose numbers left the range of floating-point numbers are errors, not results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats


def check_finite(method: str, names: Sequence[str] | None, **found: Floats | float | None) -> None:
    """Raise with the first number that is infinite or none; `found` is told by its names.

    Examples
    --------
    >>> check_finite("Occlusion", ["a", "b"], values=np.array([[1.0, np.inf]]))
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: Occlusion gives inf in its values for row 0, column 'b': ...
    """
    for what, numbers in found.items():
        if numbers is None or np.isfinite(numbers).all():
            continue
        array = np.atleast_1d(np.asarray(numbers))
        at = np.argwhere(~np.isfinite(array))[0]
        raise InvalidInput(
            f"{method} gives {array[tuple(at)]} in its {what} for row {at[0]}{_column(at[1:], names)}: "
            "numbers so large or so small, or so far from the others, leave the range of floating-point "
            "numbers. Scale the columns, say by their standard deviations, and leave out rows that are out "
            "of all proportion."
        )


def _column(place: Any, names: Sequence[str] | None) -> str:
    if len(place) != 1:
        return f", cell {tuple(map(int, place))}" if len(place) else ""
    column = int(place[0])
    return (
        f", column {names[column]!r}" if names is not None and column < len(names) else f", column {column}"
    )
