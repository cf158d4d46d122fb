"""A row's value beside what is usual in its column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from tellwhy.views import wording
from tellwhy.views.report.svg import Quantiles, bar, range_strip
from tellwhy.workflow.run import Typical

SHOWN_CATEGORIES = 4


@dataclass(frozen=True)
class Category:
    """One usual value of a column and how often it occurs."""

    value: str
    bar: Markup
    share: str
    is_this_row: bool


@dataclass(frozen=True)
class BesideUsual:
    """A strip for numbers and dates, bars for categories, and the same in words."""

    words: str
    strip: Markup | None
    categories: list[Category]


def shown(value: object, usual: Typical | None) -> str:
    """Write a cell as its column is read: dates without midnight."""
    is_date = usual is not None and usual.kind == "date" and not wording.is_missing(value)
    return wording.moment(value) if is_date else wording.cell(value)


def beside_usual(usual: Typical, value: object, normal: object) -> BesideUsual:
    """Show a value, and the nearest normal one if there is one, beside what is usual."""
    return BesideUsual(_words(usual), _strip(usual, value, normal), _categories(usual, value))


def _words(usual: Typical) -> str:
    """Say what is usual: the range of nine rows in ten, which the strip draws as its bar."""
    if usual.kind == "date" and len(usual.labels) == 7:
        low, high = (wording.shortened(wording.moment(usual.labels[k])) for k in (1, 5))
        return f"usually {wording.between(low, high)}"
    if len(usual.quantiles) == 7:
        found = Quantiles(*usual.quantiles)
        return f"usually {wording.between(found.q5, found.q95)}, median {wording.number(found.middle)}"
    return ""


def _strip(usual: Typical, value: object, normal: object) -> Markup | None:
    place = _timestamp if usual.kind == "date" else _float
    known = [place(q) for q in (usual.labels if usual.kind == "date" else usual.quantiles)]
    quantiles = [q for q in known if q is not None]
    if len(quantiles) != 7:
        return None
    words = f"{wording.shortened(shown(value, usual))}; {_words(usual)}"
    return range_strip(Quantiles(*quantiles), place(value), place(normal), words)


def _float(value: object) -> float | None:
    try:
        x = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return x if math.isfinite(x) else None


def _timestamp(value: object) -> float | None:
    """Seconds since 1970 of a date, or of its ISO text; any fixed zone will do to place it on a strip."""
    if wording.is_missing(value):
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    except ValueError:
        return None


def _own_category(usual: Typical, value: object) -> str | None:
    """Return the row's value as it is written in `usual.shares`; None where the cell is missing."""
    if wording.is_missing(value):
        return None
    # Readers differ in how they spell 2.0 and True; the column knows one of these spellings.
    spellings = (str(value), wording.cell(value), str(value).lower())
    return next((text for text in spellings if text in usual.shares), spellings[1])


def _categories(usual: Typical, value: object) -> list[Category]:
    """Return the most common values, the row's own among them."""
    if not usual.shares:
        return []
    own = _own_category(usual, value)
    lines = list(usual.shares.items())[:SHOWN_CATEGORIES]
    if own is not None and own not in dict(lines):
        lines = [*lines[: SHOWN_CATEGORIES - 1], (own, usual.shares.get(own, 0.0))]
    highest = max([1e-12, *(share for _, share in lines)])
    # Where listed shares fill all rows, a value beside them was never seen; else it may be an unlisted one.
    unlisted = "new" if sum(usual.shares.values()) > 0.9999 else "rare"
    made = []
    for text, share in lines:
        is_own = text == own
        words = f"{wording.shortened(text)}: {wording.share(share)} of rows"
        drawn = bar(share, 0.0, highest, words, class_="odd" if is_own else "usual")
        part = wording.share(share) if share else unlisted
        made.append(Category(wording.shortened(text, 24), drawn, part, is_own))
    return made
