"""What a column's name tells of it (a code, a name of things, a point in time), and digits that are codes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_CODES = {"status", "type", "category", "class", "kind", "kategorie", "typ", "account", "konto"}
_THINGS = {"code", "codes", "id", "ids", "port", "sku", "phone", "fax"}
_PLACES = {"zip", "zipcode", "plz", "postal", "postcode", "postalcode"}
_IDENTIFIERS = {
    *("id", "ids", "uuid", "guid", "key", "pk", "iban", "isbn", "ean", "gtin", "upc", "imei", "barcode"),
    *("serial", "ssn", "vin"),
}
_ROW_NAMES = {"id", "uuid", "guid", "index", "idx", "key", "rowid", "pk"}
_TIMES = {
    *("ts", "time", "timestamp", "date", "datetime", "epoch", "unixtime", "datum", "zeit", "day", "created"),
    *("updated", "modified", "expires", "expiry", "deadline", "since", "until", "login", "seen"),
}


def split_name(column: str) -> list[str]:
    """Return the words of a column's name, in lower case.

    Examples
    --------
    >>> split_name("orderDate"), split_name("HTTP status-code"), split_name("created_at")
    (['order', 'date'], ['http', 'status', 'code'], ['created', 'at'])
    """
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", column)
    return [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]


def _find_last_word(column: str) -> str:
    """Return the word that says what a column is: 'class size' is a size, 'size class 2' a class."""
    return next((word for word in reversed(split_name(column)) if not word.isdigit()), "")


def names_a_time(column: str) -> bool:
    """Tell whether a column's name says that it holds points in time.

    Examples
    --------
    >>> names_a_time("created_at"), names_a_time("eventTs"), names_a_time("sometimes"), names_a_time("at")
    (True, True, False, False)
    """
    words = split_name(column)
    return not _TIMES.isdisjoint(words) or (words[-1:] == ["at"] and len(words) > 1)


def names_a_kind(column: str) -> bool:
    """Tell whether a column's name says that its numbers stand for a few kinds.

    Examples
    --------
    >>> names_a_kind("status"), names_a_kind("class_2"), names_a_kind("class_size")
    (True, True, False)
    """
    return _find_last_word(column) in _CODES


def names_a_place(column: str) -> bool:
    """Tell whether a column's name says that it holds postal codes."""
    words = split_name(column)
    return _find_last_word(column) in _PLACES or (words[-1:] == ["code"] and not _PLACES.isdisjoint(words))


def names_things(column: str) -> bool:
    """Tell whether a column's name says that its numbers are names of things, of which there may be many."""
    return _find_last_word(column) in _THINGS


def names_identifiers(column: str) -> bool:
    """Tell whether a column's name says that its cells are names of things, whose every digit counts.

    Examples
    --------
    >>> names_identifiers("customer_id"), names_identifiers("IBAN"), names_identifiers("paid")
    (True, True, False)
    """
    return not _IDENTIFIERS.isdisjoint(split_name(column)) or names_things(column)


def are_zero_led(cells: Sequence[str], column: str) -> bool:
    """Tell whether digits name things: some begin with zeros, and all are as long or the name says so.

    Two digits do not tell: 07 may be an hour or a month as well.

    Examples
    --------
    >>> are_zero_led(["01067", "80331"], "x"), are_zero_led(["07", "12"], "hour")
    (True, False)
    """
    digits = [cell for cell in cells if cell.isdigit()]
    if len(digits) < 0.9 * len(cells) or not any(cell[0] == "0" and len(cell) > 1 for cell in digits):
        return False
    width, n_wide = Counter(map(len, digits)).most_common(1)[0]
    return says_zeros_count(column, width, n_wide / len(digits))


def says_zeros_count(column: str, width: int, share: float) -> bool:
    """Tell whether zeros before digits count: by the column's name, or as nearly all cells have one width."""
    is_named = names_a_place(column) or names_identifiers(column) or names_a_kind(column)
    return is_named or (width >= 3 and share >= 0.98)


def has_id_name(column: str) -> bool:
    """Tell whether a column's name says that it identifies rows.

    Examples
    --------
    >>> has_id_name("customerId"), has_id_name("row index"), has_id_name("paid")
    (True, True, False)
    """
    return not _ROW_NAMES.isdisjoint(split_name(column))


def list_names(names: Sequence[str], limit: int = 20) -> str:
    """Name columns for an error, and say how many there are where they are many.

    Examples
    --------
    >>> list_names(["a", "b"]), list_names(["a", "b", "c"], 2)
    ("'a', 'b'", "'a', 'b', … (3 in all)")
    """
    more = f", … ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more
