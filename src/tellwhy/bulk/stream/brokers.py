"""Events out of a Redis stream or a Kafka topic, from the place that the watch itself remembers.

Neither broker is told how far the watch has come: what was read and what was found are kept together here.
"""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

from tellwhy.bulk.stream.sources import Event
from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.core.optional import require

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
