"""From a table of readings in time to what happened in it: when, in which channel, of what kind, how sure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import versions
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.detectors.series import events as search
from tellwhy.detectors.series.evidence import is_flat
from tellwhy.detectors.series.monitoring import LEAST_KNOWN, SURE_FROM
from tellwhy.kinds.model import change_settings, kind
from tellwhy.kinds.readings import Readings, compute_fingerprint, read_readings, read_same
from tellwhy.kinds.table_rows import read_source
from tellwhy.results.notice import Notice
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Reason, Result, Value
from tellwhy.storage import clock
from tellwhy.storage.model_file import SavedAsFile

LEAST = 50  # readings that an event can be told from
MOST_KEPT = 200_000  # readings of the past that a model holds
MOST_DRAWN = 1_500  # points of a line
MOST_CHANNELS = 12  # of the chart
AROUND = 3  # lengths of an event, shown before and after it
LEAST_AROUND = 60


@dataclass(frozen=True)
class EventsRequest:
    """How a series is judged.

    Attributes
    ----------
    time
        Column of the time; rows are put in its order.
    columns, exclude
        Columns to use, or not to use, as channels; by default all that hold numbers.
    top
        How many events at most; more than five are never told.
    """

    time: str
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    top: int = search.MOST

    def _require(self) -> Iterator[Fit]:
        yield "time", isinstance(self.time, str), True
        yield "top", self.top >= 1, True


@dataclass(frozen=True, eq=False)
class EventsModel(SavedAsFile):
    """Readings of the past, which new ones are compared with.

    Attributes
    ----------
    source, fingerprint
        The table that they stood in, and the SHA-256 of its readings.
    request
        What was asked.
    channels
        Columns of readings.
    past
        (n, channels): the last 200,000 at most.
    step
        Seconds between two of them; None where times are plain numbers.
    is_clean
        Whether somebody says that they are ordinary.
    versions
        Of the packages that it was fitted with.
    """

    kind: ClassVar[str] = "events"

    source: str
    fingerprint: str
    request: EventsRequest
    channels: tuple[str, ...]
    past: Floats
    step: float | None
    is_clean: bool
    versions: Mapping[str, str]

    def _require(self) -> Iterator[Fit]:
        yield "request", isinstance(self.request, EventsRequest), True
        yield "channels", are_texts(*self.channels) and len(self.channels) > 0, True
        yield "past", self.past.shape[1:], (len(self.channels),)
        yield "source", are_texts(self.source, self.fingerprint), True


@dataclass(frozen=True, eq=False)
class Judging:
    """Readings to be judged, those before them, and what was found in both."""

    table: Table
    request: EventsRequest
    readings: Readings
    past: Floats  # (0, channels) where they are compared with themselves
    remembered: dict[str, search.Found] = field(default_factory=dict)


def explain_events(
    data: str | Path | TableLike, *, reference: str | Path | TableLike | None = None, **settings: Any
) -> Result:
    """Find what happened in readings over time, and tell when, where, what, and how sure it is.

    Parameters
    ----------
    data
        A table with a column of times and columns of readings.
    reference
        Another table of the same columns, of an ordinary time before; None: each reading is compared with
        those before it.
    settings
        See `EventsRequest`.

    Examples
    --------
    >>> import pandas as pd
    >>> load = np.sin(np.arange(2000) / 8) + 0.1 * np.random.default_rng(0).normal(size=2000)
    >>> load[1500] += 5
    >>> found = explain_events(pd.DataFrame({"second": np.arange(2000), "load": load}), time="second")
    >>> [(event.row, event.reasons[0].facts["what"]) for event in found.anomalies if event.is_alarm]
    [(1500, 'spike')]
    """
    judging = EventsKind()
    model = judging.fit(data if reference is None else reference, settings, clean=reference is not None)
    batch = judging.read(model, data, {})
    found = judging.explain(model, batch, judging.score(model, batch))
    given = None if reference is None else model.source
    return replace(found, settings={**found.settings, "reference": given})


CHANGEABLE = ("time", "top")


@kind("events")
class EventsKind:
    """Events of a series: readings at steps of time."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> EventsModel:
        """Keep readings of the past."""
        request = EventsRequest(**settings)
        stage("reading the series")
        table = read_source(source)
        readings = read_readings(table, request.time, columns=request.columns, exclude=request.exclude)
        _check_length(readings, table.source)
        return EventsModel(
            source=table.source,
            fingerprint=compute_fingerprint(readings),
            request=request,
            channels=tuple(readings.channels),
            past=readings.values[-MOST_KEPT:],
            step=readings.step,
            is_clean=clean,
            versions=versions(),
        )

    def read(self, model: EventsModel, source: Any, settings: Mapping[str, Any]) -> Judging:
        """Read the same channels of another table."""
        request = replace(model.request, **change_settings(model.request, settings, CHANGEABLE))
        stage("reading the series")
        table = read_source(source)
        readings = read_same(table, model.channels, request.time, "The series")
        is_own = not model.is_clean and compute_fingerprint(readings) == model.fingerprint
        if is_own or len(model.past) == 0:
            return Judging(table, request, readings, readings.values[:0])
        return Judging(table, request, readings, model.past)

    def check(self, _model: EventsModel, batch: Judging) -> Judging:
        """Return the batch: what is wrong with a reading is an event."""
        return batch

    def score(self, model: EventsModel, batch: Judging) -> Floats:
        """Score each reading: minus the logarithm of how many as strange a quiet series has."""
        stage("looking for events")
        n = len(batch.past)
        found = search.find_events(
            np.concatenate([batch.past, batch.readings.values]),
            step=batch.readings.step,
            before=n,
            is_clean=model.is_clean and n > 0,
            most=min(batch.request.top, search.MOST),
        )
        batch.remembered["found"] = found
        return found.score[n:]

    def explain(self, model: EventsModel, batch: Judging, scores: Floats) -> Result:
        """Tell the events, the surest first."""
        return _make_result(model, batch, scores)


def _check_length(readings: Readings, source: str) -> None:
    if len(readings.values) < LEAST:
        raise InvalidInput(
            f"{source} has {len(readings.values):,} moments; events can be told from {LEAST} on. Leave out "
            "--time to judge the rows as they are, or pass a longer series."
        )


def _make_result(model: EventsModel, batch: Judging, scores: Floats) -> Result:
    found = batch.remembered["found"]
    readings = batch.readings
    anomalies = [_make_anomaly(batch, found.events, k) for k in range(len(found.events))]
    alarms = AlarmRule(_RULE, sum(event.is_told for event in found.events), search.TOLD)
    n_moments, n_channels = readings.values.shape
    done = {
        "n_moments": n_moments,
        "n_channels": n_channels,
        "n_before": len(batch.past),
        "is_clean": model.is_clean,
        "told": search.TOLD,
        "watched": search.MOST_EXPECTED,
        "most": search.MOST,
    }
    return Result(
        kind="events",
        source=batch.table.source,
        settings={**asdict(batch.request), "threshold_rule": _RULE},
        anomalies=anomalies,
        scores=scores,
        threshold=float(-np.log10(search.TOLD)),
        alarms=alarms,
        columns=readings.channels,
        opening=Headline(n_moments, alarms, is_written=True, more=[_make_opening(anomalies, n_moments)]),
        done=Notice("events_looked_for", done),
        notices=[*readings.said, *_collect_notices(model, batch, found)],
        table_rows=_make_table(anomalies),
        arrays=_draw_series(batch, found.events),
        own={"times": _choose_ticks(readings), "n": n_moments},
        versions=versions(),
        fingerprint=batch.table.fingerprint,
        created=clock.stamp(),
    )


_RULE = "fewer than one false event in three quiet series of this length"


def _make_opening(anomalies: Sequence[Anomaly], n_moments: int) -> Notice:
    first = anomalies[0] if anomalies else None
    facts: dict[str, Value] = {
        "n_moments": n_moments,
        "n_told": sum(event.is_alarm for event in anomalies),
        "n_watched": sum(not event.is_alarm for event in anomalies),
    }
    if first is not None:
        reason = first.reasons[0]
        facts |= {"feature": reason.feature, "value": reason.value, "typical": list(reason.typical)}
        facts["facts"] = dict(reason.facts)
    return Notice("events_found", facts)


def _collect_notices(model: EventsModel, batch: Judging, found: search.Found) -> list[Notice]:
    """What is to be known of channels and of the reference."""
    readings = batch.readings
    resting = [name for name, x in zip(readings.channels, readings.values.T, strict=True) if is_flat(x)]
    told = [Notice("channels_at_rest", {"channels": resting})] if resting else []
    n_known = len(batch.past)
    if model.is_clean and n_known:
        drifting = [readings.channels[k] for k in found.drifting]
        facts = {"n": n_known, "least": LEAST_KNOWN, "sure": SURE_FROM, "drifting": drifting}
        if n_known < SURE_FROM or drifting:
            told.append(Notice("no_promise", facts))
    return told


def _make_anomaly(batch: Judging, events: Sequence[search.Event], k: int) -> Anomaly:
    event = events[k]
    readings = batch.readings
    n_before = len(batch.past)
    start = event.start - n_before
    end = event.end - n_before
    first, last = readings.times[start], readings.times[end]
    named = event.named
    channel = readings.channels[event.channel]
    facts: dict[str, Value] = {
        "what": named.kind,
        "first": first,
        "last": last,
        "n": end - start + 1,
        "size": named.size,
        "expected": named.expected,
        "expected_false": event.expected_false,
        "others": [readings.channels[other] for other in event.others],
    }
    low, high = _find_surroundings(batch, event)
    return Anomaly(
        Part("span", row=int(readings.rows[start]), name=first if start == end else f"{first} to {last}"),
        score=float(-np.log10(event.expected_false)),
        p_value=float(-np.expm1(-event.expected_false)),
        is_alarm=event.is_told,
        reasons=[
            Reason(
                channel,
                named.value,
                [named.low, named.high],
                1.0,
                kind="event",
                facts=facts,
                is_share=False,
                part=Part("span", column=channel, box=(start, end + 1, event.channel)),
            )
        ],
        shown={"labels": [channel], "ends": [readings.times[low], readings.times[high - 1]]},
    )


def _find_surroundings(batch: Judging, event: search.Event) -> tuple[int, int]:
    """First and last (exclusive) of the readings that are shown with an event."""
    n_before = len(batch.past)
    start, end = event.start - n_before, event.end - n_before
    reach = max(AROUND * (end - start + 1), LEAST_AROUND)
    return max(0, start - reach), min(len(batch.readings.values), end + 1 + reach)


def _make_table(anomalies: Sequence[Anomaly]) -> pd.DataFrame:
    """One line for each event, as spreadsheets hold it."""
    lines = []
    for event in anomalies:
        reason = event.reasons[0]
        f = reason.facts
        lines.append(
            {
                "start": f["first"],
                "end": f["last"],
                "channel": reason.feature,
                "kind": f["what"],
                "readings": f["n"],
                "size": f["size"],
                "value": reason.value,
                "expected": f["expected"],
                "usual_low": reason.typical[0],
                "usual_high": reason.typical[1],
                "expected_false": f["expected_false"],
                "told": event.is_alarm,
                "other_channels": ", ".join(f["others"]),
            }
        )
    return pd.DataFrame(lines, columns=RECORD)


RECORD = (
    "start",
    "end",
    "channel",
    "kind",
    "readings",
    "size",
    "value",
    "expected",
    "usual_low",
    "usual_high",
    "expected_false",
    "told",
    "other_channels",
)


def _draw_series(batch: Judging, events: Sequence[search.Event]) -> dict[str, Any]:
    """The whole series, coarsely, the channels with events first; and the readings around each event."""
    values = batch.readings.values
    moved = list(dict.fromkeys(event.channel for event in events))
    order = [*moved, *(k for k in range(values.shape[1]) if k not in moved)][:MOST_CHANNELS]
    size = max(1, -(-len(values) // (MOST_DRAWN // 2)))
    firsts = np.arange(0, len(values), size)
    low = np.minimum.reduceat(values[:, order], firsts)
    high = np.maximum.reduceat(values[:, order], firsts)
    arrays: dict[str, Any] = {"low": low, "high": high, "firsts": firsts, "order": np.array(order)}
    for k, event in enumerate(events):
        first, last = _find_surroundings(batch, event)
        at = first + spread_evenly(last - first, MOST_DRAWN)
        arrays[f"data.{k}"] = values[at, event.channel]
        arrays[f"at.{k}"] = at
    return arrays


def _choose_ticks(readings: Readings) -> list[str]:
    """Times at the ends of the series and at its quarters."""
    return [readings.times[int(at)] for at in np.linspace(0, len(readings.values) - 1, 5)]
