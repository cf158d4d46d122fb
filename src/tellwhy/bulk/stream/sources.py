"""Where events come from: a file that grows, a pipe, a Redis stream, a Kafka topic.

Neither broker is told how far the watch has come: what was read and what was found are kept together here.
"""

from __future__ import annotations

import csv
import io
import json
import os
import select
import stat
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.core.optional import require

STANDARD_INPUT = "-"
LOOK_SECONDS = 0.02  # between two looks at a file that has not grown
PIECE = 1 << 18  # bytes that are read at a time: what waits beyond stays where it is
LONGEST_EVENT = 1 << 22  # bytes of one line
_DELIMITERS = (",", ";", "\t", "|")
_JSON_NAMES = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class Event:
    """One event: its cells, or why it cannot be read; and where the next one begins."""

    cells: Mapping[str, Any] | None
    after: Any
    why: str = ""


class Source(Protocol):
    """A stream of events."""

    @property
    def is_ended(self) -> bool:
        """Whether nothing more can come."""

    def start(self, offset: Any) -> None:
        """Begin where an earlier watch ended; None: at the beginning."""

    def read(self, most: int, seconds: float) -> list[Event]:
        """Return the events that are there, waiting for the first at most so long."""

    def close(self) -> None:
        """Let go of what is held."""


class Lines:
    """Lines of delimited text or JSON, from a file that grows, a pipe or standard input.

    The offset is the byte at which the next line begins. Of a pipe nothing can be read twice: it begins
    anew with whatever comes.
    """

    def __init__(self, name: str, *, follow: bool = True, form: str | None = None) -> None:
        self.name = name
        self.follow = follow
        self.is_ended = False
        self._form = form
        self._file: IO[bytes] = self._open()
        self._is_pipe = not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        self._held = b""
        self._at = 0  # place of the first byte that is held
        self._columns: list[str] | None = None
        self._delimiter = ","

    def _open(self) -> IO[bytes]:
        if self.name == STANDARD_INPUT:
            return os.fdopen(os.dup(0), "rb", buffering=0)
        try:
            return Path(self.name).open("rb", buffering=0)
        except OSError as error:
            raise UnreadableFile(f"{self.name} cannot be read: {error.strerror or error}.") from error

    def start(self, offset: Any) -> None:
        """Read the names of the columns, and go to where an earlier watch ended."""
        if self._is_pipe or offset is None:
            return
        if os.fstat(self._file.fileno()).st_size < int(offset):
            raise UnreadableFile(
                f"{self.name} is shorter than it was when it was watched before: it was replaced. Watch it "
                "with another --state."
            )
        while self._columns is None and not self._is_json() and self._take():
            self._take_header()
        self._held = b""
        self._at = int(offset)
        self._file.seek(self._at)

    def read(self, most: int, seconds: float) -> list[Event]:
        """Return the whole lines that are there."""
        until = time.monotonic() + seconds
        while True:
            events = self._events(most)
            if events or self.is_ended or time.monotonic() > until:
                return events
            if not self._take(max(until - time.monotonic(), 0)):
                self._look_for_the_end()
                if not self._is_pipe and not self.is_ended:
                    time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _take(self, seconds: float = 0.0) -> bool:
        """Read a piece, if there is any."""
        if self._is_pipe and not select.select([self._file], [], [], seconds)[0]:
            return False
        piece = self._file.read(PIECE)
        if self._is_pipe and not piece:
            self.is_ended = not self._held
            self._held += b"" if self._held.endswith(b"\n") or not self._held else b"\n"
        self._held += piece
        if len(self._held) > LONGEST_EVENT and b"\n" not in self._held:
            raise UnreadableFile(f"{self.name} holds a line of more than {LONGEST_EVENT:,} bytes.")
        return bool(piece)

    def _look_for_the_end(self) -> None:
        if self._is_pipe:
            return
        if os.fstat(self._file.fileno()).st_size < self._at + len(self._held):
            raise UnreadableFile(f"{self.name} became shorter while it was watched: it was replaced.")
        self.is_ended = not self.follow

    def _is_json(self) -> bool:
        if self._form is None and self.name.lower().endswith(_JSON_NAMES):
            self._form = "json"
        if self._form is None and self._held.strip():
            self._form = "json" if self._held.lstrip().startswith(b"{") else "text"
        return self._form == "json"

    def _take_header(self) -> None:
        end = self._held.find(b"\n") + 1
        if not end:
            return
        line = self._held[: end - 1]
        text = line.decode("utf-8-sig", errors="replace").rstrip("\r")
        self._delimiter = max(_DELIMITERS, key=text.count)
        self._columns = next(csv.reader([text], delimiter=self._delimiter), [])
        if len(set(self._columns)) < len(self._columns) or not any(self._columns):
            raise InvalidParameter(f"{self.name} begins with no header of different names: {text[:80]!r}.")
        self._held = self._held[end:]
        self._at += end

    def _events(self, most: int) -> list[Event]:
        """Cut whole lines off what is held; a quoted cell may hold line ends."""
        is_json = self._is_json()
        if not is_json and self._columns is None:
            self._take_header()
            if self._columns is None:
                return []
        events: list[Event] = []
        begin = 0
        while len(events) < most:
            end = self._held.find(b"\n", begin) + 1
            while end and not is_json and self._held.count(b'"', begin, end) % 2:
                end = self._held.find(b"\n", end) + 1
            if not end:
                break
            line = self._held[begin:end]
            begin = end
            if line.strip():
                events.append(self._event(line, self._at + end, is_json))
        self._held = self._held[begin:]
        self._at += begin
        return events

    def _event(self, line: bytes, after: int, is_json: bool) -> Event:
        try:
            text = line.decode("utf-8")
            cells = json.loads(text) if is_json else self._cells(text)
        except (ValueError, RecursionError) as error:
            return Event(None, after, f"{type(error).__name__}: {str(error)[:100]}")
        if not isinstance(cells, dict):
            return Event(None, after, "it is no object of names and values")
        return Event(cells, after)

    def _cells(self, text: str) -> dict[str, str]:
        columns: Sequence[str] = self._columns or ()
        found = next(csv.reader(io.StringIO(text), delimiter=self._delimiter), [])
        if len(found) != len(columns):
            raise ValueError(f"{len(found)} cells instead of {len(columns)}")
        return dict(zip(columns, found, strict=True))


PAYLOAD = "event"  # field of an entry of Redis that may hold all of an event as JSON
_START = "0"


class RedisStream:
    """A stream of Redis: 'redis://host:6379/0?stream=orders'. Entries are fields, or JSON in `event`."""

    def __init__(self, address: str) -> None:
        redis = require("redis", "Watching Redis")
        parts = urllib.parse.urlsplit(address)
        named = urllib.parse.parse_qs(parts.query).get("stream", [])
        if len(named) != 1:
            raise InvalidParameter("Say which stream to watch: redis://HOST:PORT/0?stream=NAME.")
        self.is_ended = False
        self._stream = named[0]
        self._errors = redis.RedisError
        self._words = f"redis://{parts.hostname}:{parts.port or 6379}, stream {self._stream}"
        self._client = redis.Redis.from_url(parts._replace(query="").geturl(), decode_responses=True)
        self._at = _START

    def start(self, offset: Any) -> None:
        """Begin behind the entry that was read last."""
        self._at = _START if offset is None else str(offset)

    def read(self, most: int, seconds: float) -> list[Event]:
        """Return the next entries."""
        wait = max(1, int(1000 * seconds))
        try:
            found = self._client.xread({self._stream: self._at}, count=most, block=wait)
        except self._errors as error:
            raise UnreadableFile(f"{self._words} cannot be read: {type(error).__name__}.") from error
        pairs: list[Any] = list(found.items() if isinstance(found, dict) else found or [])
        entries: list[Any] = pairs[0][1] if pairs else []
        if entries and isinstance(entries[0], list):  # as version 3 of the protocol nests them
            entries = entries[0]
        events = [self._event(number, fields) for number, fields in entries]
        if events:
            self._at = events[-1].after
        return events

    def _event(self, number: str, fields: dict[str, str]) -> Event:
        if set(fields) != {PAYLOAD}:
            return Event(dict(fields), number)
        return read_json_event(fields[PAYLOAD], number)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class KafkaTopic:
    """A topic of Kafka: 'kafka://host:9092/orders'; messages are JSON. Each partition has its offset."""

    def __init__(self, address: str) -> None:
        self._kafka = require("confluent_kafka", "Watching Kafka")
        parts = urllib.parse.urlsplit(address)
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic:
            raise InvalidParameter("Say which topic to watch: kafka://HOST:PORT/TOPIC.")
        self.is_ended = False
        self._words = f"kafka://{parts.netloc}/{self._topic}"
        settings = {
            "bootstrap.servers": parts.netloc,
            "group.id": "tellwhy-watch",  # needed, and never used: offsets are kept here
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "queued.max.messages.kbytes": 16_384,  # what waits beyond stays at the broker
        }
        self._consumer = self._kafka.Consumer(settings)
        self._next: dict[str, int] = {}

    def start(self, offset: Any) -> None:
        """Begin at the messages that come next in each partition."""
        self._next = {str(key): int(value) for key, value in (offset or {}).items()}
        try:
            known = self._consumer.list_topics(self._topic, timeout=10).topics[self._topic]
        except self._kafka.KafkaException as error:
            raise UnreadableFile(f"{self._words} cannot be reached: {error.args[0].str()}.") from error
        if known.error is not None or not known.partitions:
            raise UnreadableFile(f"{self._words}: there is no such topic.")
        beginning = self._kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [
                self._kafka.TopicPartition(self._topic, number, self._next.get(str(number), beginning))
                for number in known.partitions
            ]
        )

    def read(self, most: int, seconds: float) -> list[Event]:
        """Return the next messages."""
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(most - 1, timeout=0.0)] if most > 1 else [first]
        events = []
        for message in messages:
            if message.error() is not None:
                continue  # the library goes on by itself; what it cannot mend it raises
            self._next[str(message.partition())] = message.offset() + 1
            events.append(read_json_event(message.value() or b"", dict(self._next)))
        return events

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def read_json_event(text: str | bytes, after: Any) -> Event:
    """An event that is written as JSON."""
    try:
        cells = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Event(None, after, f"{type(error).__name__}: {str(error)[:100]}")
    if not isinstance(cells, dict):
        return Event(None, after, "it is no object of names and values")
    return Event(cells, after)
