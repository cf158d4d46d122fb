"""Times, and what they usually have, in words."""

from __future__ import annotations

import numpy as np

from tellwhy.workflow.series.stamps import Moments, stamp_words

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("night", "morning", "afternoon", "evening")  # six hours each, from midnight on


def span_words(moments: Moments, start: int, end: int) -> str:
    """'2024-03-04 from 03:10 to 04:20' of the readings from `start` up to, not including, `end`."""
    first = stamp_words(moments[start])
    last = stamp_words(moments[end - 1])
    if first == last:
        return first
    day = first[:10]
    if last.startswith(day) and len(last) > 10:
        return f"{day} from {first[11:] or '00:00'} to {last[11:]}"
    return f"from {first} to {last}"


def usual_time(moment: np.datetime64, kind: str) -> str:
    """What readings of the same time are called: 'Monday nights'.

    Examples
    --------
    >>> usual_time(np.datetime64("2024-03-04T03:10"), "hour of the week")
    'Monday nights'
    >>> usual_time(np.datetime64("2024-03-04T03:10"), "hour of the day")
    'nights'
    """
    seconds = int(moment.astype("datetime64[s]").astype(np.int64))
    day = f"{DAYS[(seconds // 86_400 + 3) % 7]}"
    part = f"{PARTS[seconds % 86_400 // 21_600]}s"
    return {"hour of the week": f"{day} {part}", "hour of the day": part, "day of the week": f"{day}s"}[kind]
