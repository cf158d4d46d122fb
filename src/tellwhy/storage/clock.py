"""What time it is; for runs that must have the same bytes, whatever time the user says."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from tellwhy.core.errors import InvalidParameter

VARIABLE = "SOURCE_DATE_EPOCH"  # as programs that build packages call it: whole seconds since 1970


def now() -> datetime:
    """The present moment, or the one that SOURCE_DATE_EPOCH names.

    Examples
    --------
    >>> from unittest.mock import patch
    >>> with patch.dict("os.environ", SOURCE_DATE_EPOCH="86400"):
    ...     now().isoformat()
    '1970-01-02T00:00:00+00:00'
    """
    told = os.environ.get(VARIABLE)
    if not told:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(told), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidParameter(f"{VARIABLE} must be whole seconds since 1970. Got {told!r}.") from error


def stamp() -> str:
    """The same as ISO text, to the second."""
    return now().isoformat(timespec="seconds")
