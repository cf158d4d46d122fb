"""What a column's name tells of it: a code, a name of things, a point in time."""

from __future__ import annotations

import re

_CODES = {"status", "type", "category", "class", "kind", "kategorie", "typ"}
_THINGS = {"code", "codes", "id", "ids", "port", "sku", "phone", "fax"}
_PLACES = {"zip", "zipcode", "plz", "postal", "postcode", "postalcode"}
_TIMES = {
    *("ts", "time", "timestamp", "date", "datetime", "epoch", "unixtime", "datum", "zeit", "day", "created"),
    *("updated", "modified", "expires", "expiry", "deadline", "since", "until", "login", "seen"),
}


def words_of(column: str) -> list[str]:
    """Return the words of a column's name, in lower case.

    Examples
    --------
    >>> words_of("orderDate"), words_of("HTTP status-code"), words_of("created_at")
    (['order', 'date'], ['http', 'status', 'code'], ['created', 'at'])
    """
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", column)
    return [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]


def _last_word(column: str) -> str:
    """Return the word that says what a column is: 'class size' is a size, 'size class 2' a class."""
    return next((word for word in reversed(words_of(column)) if not word.isdigit()), "")


def names_a_time(column: str) -> bool:
    """Tell whether a column's name says that it holds points in time.

    Examples
    --------
    >>> names_a_time("created_at"), names_a_time("eventTs"), names_a_time("sometimes"), names_a_time("at")
    (True, True, False, False)
    """
    words = words_of(column)
    return not _TIMES.isdisjoint(words) or (words[-1:] == ["at"] and len(words) > 1)


def names_a_kind(column: str) -> bool:
    """Tell whether a column's name says that its numbers stand for a few kinds.

    Examples
    --------
    >>> names_a_kind("status"), names_a_kind("class_2"), names_a_kind("class_size")
    (True, True, False)
    """
    return _last_word(column) in _CODES


def names_a_place(column: str) -> bool:
    """Tell whether a column's name says that it holds postal codes."""
    words = words_of(column)
    return _last_word(column) in _PLACES or (words[-1:] == ["code"] and not _PLACES.isdisjoint(words))


def names_things(column: str) -> bool:
    """Tell whether a column's name says that its numbers are names of things, of which there may be many."""
    return _last_word(column) in _THINGS
