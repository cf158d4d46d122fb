"""Whether explanations lie on the object: relevance inside and outside of its box, per class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.score_function import Floats
from tellwhy.evaluation.systematic.maps import class_of_rows, picture_maps

if TYPE_CHECKING:
    import pandas as pd

_DRAWS = 1_000


@dataclass(frozen=True, eq=False)
class BoxRatios:
    """How the relevance of each picture is shared between the inside and the outside of its box.

    Attributes
    ----------
    inside
        Share of absolute relevance inside the box, of each picture; NaN where there is no relevance.
    area
        Share of the picture that the box covers.
    classes
        Class of each picture.
    """

    inside: Floats
    area: Floats
    classes: np.ndarray

    @property
    def ratios(self) -> Floats:
        """Relevance inside divided by that outside, of each picture."""
        outside = 1.0 - self.inside
        return np.divide(self.inside, outside, out=np.full_like(outside, np.inf), where=outside > 0)

    def by_class(self, *, random_state: int = 0) -> pd.DataFrame:
        """One line per class, the one that looks at its objects least first.

        `inside` is the mean share inside the box with a 95 % bootstrap interval (`low`, `high`), `ratio` that
        share over the rest, `times_area` the share over what an even spread would give.
        """
        import pandas as pd

        rng = np.random.default_rng(random_state)
        lines = []
        for name in np.unique(self.classes):
            known = (self.classes == name) & np.isfinite(self.inside)
            if not known.any():
                continue
            shares = self.inside[known]
            draws = rng.integers(0, len(shares), size=(_DRAWS, len(shares)))
            low, high = np.quantile(shares[draws].mean(axis=1), [0.025, 0.975])
            mean = float(shares.mean())
            ratio = mean / (1.0 - mean) if mean < 1 else np.inf
            lines.append((name, len(shares), mean, low, high, ratio, mean / float(self.area[known].mean())))
        names = ["class", "pictures", "inside", "low", "high", "ratio", "times_area"]
        return pd.DataFrame(lines, columns=names).sort_values("ratio", ignore_index=True)


def box_ratios(explanation: Explanation, boxes: ArrayLike, classes: Any = None) -> BoxRatios:
    """Compare the relevance inside the objects' boxes with that outside, picture by picture and by class.

    A class whose relevance lies outside its boxes is recognised by something else than the object: its
    ground, a caption, a watermark.

    Parameters
    ----------
    explanation
        Of pictures.
    boxes
        One box per picture: first row, row after the last, first column, column after the last.
    classes
        Class of each picture; by default the output that was explained.

    Examples
    --------
    >>> values = np.zeros((1, 4, 4))
    >>> values[0, :2, :2] = 3.0
    >>> values[0, 3, 3] = -4.0
    >>> e = Explanation(values=values, scores=[8.0], method="Example")
    >>> box_ratios(e, [[0, 2, 0, 2]]).ratios
    array([3.])
    """
    size = np.abs(picture_maps(explanation, "box_ratios")).sum(axis=3)
    limits = np.asarray(boxes)
    n = len(size)
    height, width = size.shape[1:]
    if limits.shape != (n, 4) or limits.dtype.kind not in "iu":
        raise InvalidInput(
            f"box_ratios needs one box of four whole numbers per picture (top, bottom, left, right): shape "
            f"({n}, 4). Got shape {limits.shape} of {limits.dtype}."
        )
    rows, columns = np.mgrid[:height, :width]
    edges = limits[:, :, None, None]
    within = (rows >= edges[:, 0]) & (rows < edges[:, 1])
    within &= (columns >= edges[:, 2]) & (columns < edges[:, 3])
    if not within.any(axis=(1, 2)).all():
        bad = int(np.argmin(within.any(axis=(1, 2))))
        raise InvalidInput(
            f"The box of picture {bad}, {limits[bad].tolist()}, holds none of its {height} × {width} pixels."
        )
    total = size.sum(axis=(1, 2))
    inside = np.divide((size * within).sum(axis=(1, 2)), total, out=np.full(n, np.nan), where=total > 0)
    return BoxRatios(inside, within.mean(axis=(1, 2)), class_of_rows(explanation, classes, "box_ratios"))
