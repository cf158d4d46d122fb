"""What a service takes in, and how long it works on it."""

from __future__ import annotations

from dataclasses import dataclass

from tellwhy.views.server.http import MEBIBYTE


@dataclass(frozen=True)
class Limits:
    """Limits of every request.

    Attributes
    ----------
    most_bytes
        Of its body.
    most_rows, most_columns
        Of the table in it.
    seconds
        From its arrival to its answer; a request may ask for fewer.
    body_seconds
        For its body to come in.
    threads
        Requests that are worked on at a time.
    most_waiting
        Requests that wait for a thread; further ones are refused at once.
    """

    most_bytes: int = 64 * MEBIBYTE
    most_rows: int = 100_000
    most_columns: int = 2_000
    seconds: float = 30.0
    body_seconds: float = 20.0
    threads: int = 2
    most_waiting: int = 64
