"""Whether numbers can be squared: distances and errors of extreme columns would be 0 or infinite."""

from __future__ import annotations

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.kernels.distances import centre_and_unit

# Squares then lie between 1e-280 and 1e280, which leaves room for sums over columns and for differences.
LEAST = 1e-140
MOST = 1e140


def squarable_centre_and_unit(X: Floats, what: str) -> tuple[Floats, float]:
    """Return the mean of rows and their largest deviation from it, or say that `what` would not be finite.

    Examples
    --------
    >>> import numpy as np
    >>> squarable_centre_and_unit(np.array([[1.0], [3.0]]), "squared errors")
    (array([2.]), 1.0)
    """
    centre, unit = centre_and_unit(X)
    if not LEAST < unit < MOST:
        raise InvalidInput(
            f"The columns spread over {unit:.1e}, and {what} would leave the range of floating-point "
            "numbers. Scale the columns first, for example with a StandardScaler."
        )
    return centre, unit
