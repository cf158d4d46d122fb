"""How much a page holds, so that it stays small for any input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from markupsafe import Markup

from tellwhy.views.page.svg import element
from tellwhy.words.wording import TITLE_LENGTH, shortened

MOST_BYTES = 8_000_000


@dataclass(frozen=True)
class Limits:
    """The most lines of each kind that a page shows."""

    listed: int = 1000  # anomalies in the ranked table
    cards: int = 200  # of them with charts
    factors: int = 12  # columns in a card
    reasons: int = 3  # in a line of the table
    columns: int = 10  # in the picture of all columns
    findings: int = 40
    groups: int = 9
    links: int = 20  # rows named in a group
    lines: int = 60  # notices, settings, versions

    def smaller(self) -> Limits:
        """Halve what takes most room."""
        return replace(self, listed=max(self.listed // 2, 1), cards=self.cards // 2)


def fitting(page_of: Callable[[int], str], n: int) -> str:
    """Return the page of the first n items, or of half as many until it is small enough."""
    page = page_of(n)
    while len(page.encode()) > MOST_BYTES and n > 1:
        n //= 2
        page = page_of(n)
    return page


def clipped(text: object, length: int = 40) -> Markup | str:
    """Return a text, or its beginning with the rest (up to a limit) shown when the pointer rests on it."""
    short = shortened(text, length)
    whole = shortened(text, TITLE_LENGTH)
    return short if whole == short else element("span", short, title=whole)
