"""What a service counts and logs: how many, how long, of which model; never what rows hold."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

from tellwhy.core.optional import is_there
from tellwhy.storage import clock

LOG = logging.getLogger("tellwhy.service.requests")
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # where several processes add up what they counted
HAS_SPANS = is_there("opentelemetry")  # looked for once: that reads folders
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Counts:
    """The metrics of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        of: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(
            "tellwhy_requests", "Requests by endpoint and status.", ["endpoint", "status"], **of
        )
        self.seconds = Histogram(
            "tellwhy_request_seconds", "Time to answer.", ["endpoint"], buckets=_SECONDS, **of
        )
        self.rows = Counter("tellwhy_rows", "Rows that were taken.", ["endpoint", "model"], **of)
        self.alarms = Counter("tellwhy_alarms", "Rows that were alarms.", ["model"], **of)
        self.working = Gauge(
            "tellwhy_working", "Requests in work or waiting.", multiprocess_mode="livesum", **of
        )

    def text(self) -> tuple[bytes, str]:
        """All metrics as Prometheus reads them, with their media type."""
        if SHARED in os.environ:
            whole = CollectorRegistry()
            multiprocess.MultiProcessCollector(whole)
            return generate_latest(whole), CONTENT_TYPE_LATEST
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class JsonLines(logging.Formatter):
    """A log of one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; what `extra={"told": …}` holds stands beside the message."""
        told = {
            "time": clock.stamp(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "told", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = record.exc_info[0].__name__  # its words may hold cells
            told["at"] = _last_place(record.exc_info[2])
        return json.dumps(told, ensure_ascii=True, default=str)


def _last_place(traceback: Any) -> str:
    """File and line where an error was raised."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    return f"{os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"


def log_as_json(*, quiet: bool) -> None:
    """Send what the service logs to stderr, one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    ours = logging.getLogger("tellwhy")
    ours.handlers = [handler]
    ours.propagate = False
    ours.setLevel(logging.WARNING if quiet else logging.INFO)


def log_request(told: Mapping[str, Any]) -> None:
    """Write the line of one request."""
    LOG.info("request", extra={"told": dict(told)})


@contextmanager
def spanned(method: str, headers: Mapping[str, str]) -> Iterator[Callable[[str, int], None]]:
    """Make a span of OpenTelemetry of what happens inside, where its package is installed.

    What is given is to be told the endpoint and the status, once they are known.
    """
    if not HAS_SPANS:
        yield lambda _endpoint, _status: None
        return
    from opentelemetry import propagate, trace

    context = propagate.extract(dict(headers))
    with trace.get_tracer("tellwhy").start_as_current_span(method, context=context) as span:

        def tell(endpoint: str, status: int) -> None:
            span.update_name(f"{method} {endpoint}")
            span.set_attributes({"http.route": endpoint, "http.response.status_code": status})

        yield tell


def now() -> float:
    """Seconds of a clock that only goes forward."""
    return time.perf_counter()
