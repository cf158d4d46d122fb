"""What somebody may have meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the name most like the given one, or "." where none is like it.

    Examples
    --------
    >>> nearest("backgroud", ["background", "task"]), nearest("zzz", ["background", "task"])
    ("; did you mean 'background'?", '.')
    """
    by_plain = {plain_name(known): known for known in names}
    found = difflib.get_close_matches(plain_name(name), by_plain, n=1, cutoff=0.6)
    return f"; did you mean {by_plain[found[0]]!r}?" if found else "."


def plain_name(name: str) -> str:
    """Return a name without what people spell in several ways: case, underscores, hyphens."""
    return name.replace("_", "").replace("-", "").lower()
