"""Groups of explanations that are alike, and how they are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellwhy.core.score_function import Floats, Integers

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Group:
    """Explanations of one class that are alike.

    Attributes
    ----------
    of
        The class.
    rows
        Rows of the explanation that are in it.
    share
        Part of the class that it is.
    map
        Mean share of relevance that each cell of the coarse map has, shape (cells, cells).
    box
        The place that sets it apart, in pixels: top, bottom, left, right (ends excluded).
    inside, elsewhere
        Part of the relevance in that place: in the group, and in all other pictures.
    alike
        Mean correlation of the group's pictures in that place; None without pictures.
    is_odd
        Whether that place reveals an odd strategy.
    """

    of: Any
    rows: Integers
    share: float
    map: Floats
    box: tuple[int, int, int, int]
    inside: float
    elsewhere: float
    alike: float | None
    is_odd: bool

    def words(self) -> str:
        """What sets the group apart, in a sentence."""
        (top, bottom), (left, right) = self.box[:2], self.box[2:]
        where = f"rows {top}–{bottom - 1}, columns {left}–{right - 1}"
        same = "" if self.alike is None else f" What they show there is alike (correlation {self.alike:.2f})."
        return (
            f"{len(self.rows)} pictures ({self.share:.0%} of class {self.of}) have {self.inside:.0%} of "
            f"their relevance at {where}; all other pictures have {self.elsewhere:.1%} there.{same}"
        )


@dataclass(frozen=True, eq=False)
class Strategies:
    """Groups of explanations, class by class; `odd` are those that stand apart, the clearest first."""

    groups: Sequence[Group]

    @property
    def odd(self) -> list[Group]:
        """Groups that reveal an odd strategy."""
        found = [group for group in self.groups if group.is_odd]
        return sorted(found, key=lambda group: group.elsewhere - group.inside)

    def to_frame(self) -> pd.DataFrame:
        """One line per group."""
        import pandas as pd

        lines = [
            (g.of, len(g.rows), g.share, g.inside, g.elsewhere, g.alike, *g.box, g.is_odd)
            for g in self.groups
        ]
        names = ["class", "pictures", "share", "inside", "elsewhere", "alike"]
        names += ["top", "bottom", "left", "right", "odd"]
        return pd.DataFrame(lines, columns=names)
