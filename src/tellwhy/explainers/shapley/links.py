"""Link functions: Shapley values of a function of the mean that a set is worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats


class Link(NamedTuple):
    """A function of the mean that a set is worth, and its slope; what is explained is on its scale."""

    of: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]


LINKS = {
    "identity": Link(lambda mean: mean, np.ones_like),
    "logit": Link(lambda mean: np.log(mean) - np.log1p(-mean), lambda mean: 1.0 / (mean * (1.0 - mean))),
    "log": Link(np.log, lambda mean: 1.0 / mean),
}
_RANGES = {"logit": "between 0 and 1", "log": "above 0"}


def apply_link(link: str, means: Floats) -> Floats:
    """Return means on the scale of a link function, or say that they have no place there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = LINKS[link].of(means)
    if not np.isfinite(found).all():
        bad = means[~np.isfinite(found)].flat[0]
        if link == "identity":
            raise InvalidInput(f"The model gives {bad} where columns are absent; expected finite numbers.")
        raise InvalidInput(
            f"link={link!r} takes numbers {_RANGES[link]}, and the model gives {bad:.4g} where columns are "
            "absent. Leave the link out, or explain a probability (output='probability')."
        )
    return found
