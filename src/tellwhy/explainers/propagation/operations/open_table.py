"""Tables of names that grow by a function call only, so that no assignment changes them by accident."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.registry import load_entry_points

T = TypeVar("T")

ENTRY_POINTS = "tellwhy.rules"  # group in which other packages declare the modules that add names


class OpenTable(Mapping[str, T], Generic[T]):
    """A read-only mapping from names to entries, to which `add` adds further names.

    Reading it first loads the packages that declare an entry point in the group `tellwhy.rules`: they add
    their names when they are imported.

    Examples
    --------
    >>> colours = OpenTable("colour", {"red": 1})
    >>> with colours.temporary():
    ...     colours.add("blue", 2)
    ...     print(dict(colours))
    {'red': 1, 'blue': 2}
    >>> "blue" in colours
    False
    """

    def __init__(self, what: str, built_in: Mapping[str, T]):
        self._what = what  # what an entry is, for messages
        self._built_in = frozenset(built_in)
        self._entries = dict(built_in)

    def __getitem__(self, name: str) -> T:
        load_entry_points(ENTRY_POINTS)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        load_entry_points(ENTRY_POINTS)
        return iter(self._entries)

    def __len__(self) -> int:
        load_entry_points(ENTRY_POINTS)
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<read-only table of {self._what}s: {', '.join(self)}>"

    def copy(self) -> dict[str, T]:
        """Return all entries; much faster than looking them up one by one."""
        load_entry_points(ENTRY_POINTS)
        return dict(self._entries)

    def add(self, name: str, entry: T, *, replace: bool = False) -> None:
        """Add a name, or raise: built-in names are never replaced, others only with `replace=True`."""
        # Entry points are not loaded here: the module that adds this name may be one of them, half imported.
        if name in self._built_in:
            raise InvalidParameter(f"The {self._what} {name!r} is built in, and stays as it is.")
        if name in self._entries and self._entries[name] != entry and not replace:
            raise InvalidParameter(
                f"The {self._what} {name!r} is registered already. Use another name, or pass replace=True."
            )
        self._entries[name] = entry

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Take out again, at the end of this block, what was added inside it."""
        # Loaded before, not inside: a package is imported once only, and its names are to stay.
        load_entry_points(ENTRY_POINTS)
        before = dict(self._entries)
        try:
            yield
        finally:
            self._entries = before
