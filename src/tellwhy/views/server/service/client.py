"""A client of the service, in Python's own library: rows out, results in."""

from __future__ import annotations

import http.client
import io
import json
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter, TellwhyError
from tellwhy.core.score import Floats, Integers
from tellwhy.data.table import TableLike, as_frame
from tellwhy.results.result import Result
from tellwhy.results.schema import from_plain

ARROW = "application/vnd.apache.arrow.stream"
TOO_MANY = 429
OK = 200
MOST_TRIES = 5
LONGEST_WAIT = 30.0  # seconds that the client waits where the service says it is busy


class ServiceError(TellwhyError):
    """The service refused a request.

    Attributes
    ----------
    status
        Of HTTP: 422 for rows that do not fit, 429 where too many wait, 504 where the time was over.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of rows: NaN for one that was dropped for its gaps."""

    scores: Floats
    is_alarm: NDArray[np.bool_]
    threshold: float
    version: str


@dataclass(frozen=True, eq=False)
class Attributions:
    """What each column contributes to the score of each row."""

    columns: list[str]
    rows: Integers
    scores: Floats
    values: Floats
    base_values: Floats
    method: str
    kind: str


class Client:
    """Ask a service, over one connection at a time; not for several threads.

    Parameters
    ----------
    address
        'http://127.0.0.1:8000'.
    key
        Of the file of keys, where the service has one.
    seconds
        That an answer may take.
    """

    def __init__(self, address: str, *, key: str | None = None, seconds: float = 60.0) -> None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidParameter(f"Give an address such as 'http://127.0.0.1:8000'. Got {address!r}.")
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = make(parts.hostname, parts.port, timeout=seconds)
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def score(self, rows: TableLike, *, model: str | None = None) -> Scores:
        """Score rows by the line drawn in fitting."""
        told = self._send("score", rows, {"model": model})
        numbers = [np.nan if each is None else each for each in told["scores"]]
        is_alarm = np.array(told["is_alarm"], dtype=bool)
        return Scores(np.array(numbers, dtype=np.float64), is_alarm, told["threshold"], told["version"])

    def explain(self, rows: TableLike, *, model: str | None = None, method: str = "auto") -> Attributions:
        """Share the score of each row among its columns."""
        told = self._send("explain", rows, {"model": model, "method": method})
        return Attributions(
            told["columns"],
            np.array(told["rows"], dtype=np.int64),
            np.array(told["scores"]),
            np.array(told["values"]),
            np.array(told["base_values"]),
            told["method"],
            told["kind"],
        )

    def judge(self, rows: TableLike, *, model: str | None = None, **settings: Any) -> Result:
        """Say which rows are odd, and why: top, method, id_column, first, most."""
        found: Result = from_plain(Result, self._send("judge", rows, {"model": model, **settings}))
        return found

    def diff(self, rows: TableLike, *, model: str | None = None) -> dict[str, Any]:
        """Tell what changed since the fitting."""
        return self._send("diff", rows, {"model": model})

    def models(self) -> list[str]:
        """Names of the models."""
        return list(self._ask("GET", "/v1/models")["models"])

    def card(self, model: str) -> dict[str, Any]:
        """What is known of a model."""
        return self._ask("GET", f"/v1/models/{urllib.parse.quote(model, safe='')}")

    def _send(self, endpoint: str, rows: TableLike, asked: Mapping[str, Any]) -> dict[str, Any]:
        query = urllib.parse.urlencode({name: value for name, value in asked.items() if value is not None})
        held = io.BytesIO()
        table = pa.Table.from_pandas(as_frame(rows), preserve_index=False)
        with pa.ipc.new_stream(held, table.schema) as stream:
            stream.write_table(table)
        return self._ask("POST", f"/v1/{endpoint}?{query}", held.getvalue(), {"Content-Type": ARROW})

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Ask, and ask again where the service is busy or a connection that was kept has been closed."""
        for n_before in range(MOST_TRIES):
            try:
                self._connection.request(method, path, body, {**self._headers, **(headers or {})})
                answer = self._connection.getresponse()
                content = answer.read()
            except (ConnectionError, http.client.RemoteDisconnected):
                self._connection.close()
                if n_before:
                    raise
                continue
            if answer.status != TOO_MANY or n_before == MOST_TRIES - 1:
                break
            time.sleep(min(float(answer.headers.get("retry-after", "1")), LONGEST_WAIT))
        told: dict[str, Any] = json.loads(content)
        if answer.status != OK:
            raise ServiceError(answer.status, str(told.get("error", {}).get("message", answer.reason)))
        return told
