"""`Watch`: events as they come, judged by a model; alarms told once each, the model renewed on the way."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.bulk.stream.journal import Journal, Outlet, State
from tellwhy.bulk.stream.sources import Event, Source
from tellwhy.core.errors import InvalidParameter, TellwhyError
from tellwhy.core.running import one_thread_for_products
from tellwhy.core.score import Floats
from tellwhy.data.reading.cells import make_frame
from tellwhy.data.table import Table
from tellwhy.kinds.new_data import compare_with_model
from tellwhy.kinds.table import change_request, explain_judged, judge_unchecked, read_rows, score_rows
from tellwhy.kinds.table_model import TableModel, fit, load_table_model
from tellwhy.results.result import Anomaly
from tellwhy.storage import clock
from tellwhy.storage.documents import make_plain
from tellwhy.storage.model_file import save
from tellwhy.verdicts.online import OnlineRule

BLOCK = 1_000  # events that are judged together, where so many wait
WAIT_SECONDS = 0.05
DRIFT_LEVEL = 0.001  # chance that a look at events like those of the fitting finds that something drifted
LEAST_WINDOW = 200  # events from which a model may be learned
MOST_TOLD = 3  # reasons of an alarm


@dataclass(frozen=True)
class Settings:
    """How a stream is watched.

    Attributes
    ----------
    rule, level
        Which events are alarms: see `verdicts.online`.
    id_column
        Column that names events.
    window
        Events, alarms left out, that are kept to learn a new model from.
    refit_every
        Learn a new model after so many events; 0: never.
    drift_every
        Look after so many events whether something drifted since the model was fitted; 0: never.
    refits_on_drift
        Whether a new model is learned then.
    """

    rule: str = "lord"
    level: float = 0.1
    id_column: str | None = None
    window: int = 5_000
    refit_every: int = 0
    drift_every: int = 0
    refits_on_drift: bool = False


class Watch:
    """A stream that is watched; stopped or killed, it goes on where it was.

    Parameters
    ----------
    name
        What is watched, as the journal knows it.
    source
        Its events.
    model
        The file of a model of a table.
    folder
        Where the journal stands, and models that are learned on the way.
    outlet
        Where alarms are told.
    settings
        How it is watched.
    """

    def __init__(
        self, name: str, source: Source, *, model: Path, folder: Path, outlet: Outlet, settings: Settings
    ) -> None:
        self.source = source
        self.settings = settings
        self.outlet = outlet
        self.folder = folder
        self.rule = OnlineRule(settings.rule, settings.level)
        self.journal = Journal(folder)
        try:
            self.state = self._state_before(name) or State(
                name, str(model.resolve()), rule=self.rule.record()
            )
            self.model = load_table_model(self.state.model)
        except BaseException:
            self.journal.close()
            raise
        # A model for the future is learned from what was ordinary; whether anything drifted, from all events.
        self.window: deque[Mapping[str, Any]] = deque(maxlen=settings.window)
        self.recent: deque[Mapping[str, Any]] = deque(maxlen=max(settings.drift_every, LEAST_WINDOW))
        self._worker = ThreadPoolExecutor(1)
        self._learning: Future[_Learned] | None = None
        self._looked_at = self.state.n_events

    def _state_before(self, name: str) -> State | None:
        """How far an earlier watch of the same stream came, by the same rule."""
        kept = self.journal.read()
        if kept is None:
            return None
        if kept.source != name:
            raise InvalidParameter(f"{self.folder} holds the journal of {kept.source}; use another --state.")
        rule = OnlineRule.of_record(kept.rule)
        if (rule.kind, rule.level) != (self.rule.kind, self.rule.level):
            raise InvalidParameter(
                f"{self.folder} was begun with --rule {rule.kind} --level {rule.level:g}, which holds for a "
                "whole stream. Keep them, or begin another --state."
            )
        self.rule = rule
        return kept

    def run(self, *, most: int | None = None) -> State:
        """Watch until the source ends, or so many events were read."""
        self.outlet.resume(self.journal)
        self.source.start(self.state.offset)
        n_read = 0
        while not self.source.is_ended and (most is None or n_read < most):
            wanted = BLOCK if most is None else min(BLOCK, most - n_read)
            events = self.source.read(wanted, WAIT_SECONDS)
            n_read += len(events)
            if events:
                self.step(events)
        return self.state

    def close(self) -> None:
        """Let go of everything; what was found is kept already."""
        self._worker.shutdown(cancel_futures=True)
        self.journal.close()
        self.outlet.close()
        self.source.close()

    def step(self, events: Sequence[Event]) -> None:
        """Judge some events, keep what was found and how far it went, and tell it."""
        renewed = self._renew()
        readable = [event for event in events if event.cells is not None]
        lines = [*renewed, *(_tell_unreadable(event) for event in events if event.cells is None)]
        is_alarm = np.zeros(0, dtype=bool)
        if readable:
            frame = self._make_rows(readable)
            scores = self._score(frame)
            is_alarm, self.rule = self.rule.decide(self._find_p_values(scores))
            lines += self._explain(readable, frame, scores, np.flatnonzero(is_alarm))
        self.recent.extend(event.cells for event in readable if event.cells)
        self.window.extend(
            event.cells for event, odd in zip(readable, is_alarm, strict=True) if event.cells and not odd
        )
        state = replace(
            self.state,
            offset=events[-1].after,
            n_events=self.state.n_events + len(readable),
            n_unreadable=self.state.n_unreadable + len(events) - len(readable),
            rule=self.rule.record(),
        )
        first = state.n_lines + 1
        told = [json.dumps({"n": n, **line}, ensure_ascii=False) for n, line in enumerate(lines, start=first)]
        self.state = self.journal.keep(state, told)
        self.outlet.tell(told)
        if told:
            self.outlet.mark(self.journal, self.state.n_lines)
        self._look_at_window()

    def _make_rows(self, events: Sequence[Event]) -> pd.DataFrame:
        """Events as rows, in the columns of the model; what an event lacks is missing."""
        frame = make_frame([event.cells for event in events if event.cells is not None])
        needed = [*self.model.table_columns, *self.model.by_roles]
        return frame.reindex(columns=list(dict.fromkeys([*needed, *frame.columns])))

    def _score(self, frame: pd.DataFrame) -> Floats:
        return score_rows(self.model, read_rows(self.model, Table(frame, "stream"), self.model.request))

    def _find_p_values(self, scores: Floats) -> Floats:
        """Chance that an ordinary event scores as high; 1 for one that has no score."""
        surprises = self.model.calibration.surprises(np.where(np.isnan(scores), 0.0, scores))
        return np.asarray(np.where(np.isnan(scores), 1.0, np.exp(-np.maximum(surprises, 0.0))))

    def _explain(
        self, events: Sequence[Event], frame: pd.DataFrame, scores: Floats, rows: np.ndarray
    ) -> list[dict[str, Any]]:
        """The line of each alarm, in the order of the events."""
        if not len(rows):
            return []
        odd = Table(frame.iloc[rows].reset_index(drop=True), "stream")
        request = change_request(self.model, {"top": len(rows), **self._named()})
        with one_thread_for_products():
            found = explain_judged(self.model, judge_unchecked(self.model, odd, request))
        reasons = {anomaly.row: anomaly for anomaly in found.anomalies}
        p_values = self._find_p_values(scores)
        return [
            {
                "event": "alarm",
                "number": self.state.n_events + int(row) + 1,
                "offset": events[row].after,
                "score": float(scores[row]),
                "p_value": float(p_values[row]),
                **_tell_reasons(reasons.get(k)),
                "cells": make_plain(dict(events[row].cells or {})),
                "time": clock.stamp(),
            }
            for k, row in enumerate(rows)
        ]

    def _named(self) -> dict[str, Any]:
        return {} if self.settings.id_column is None else {"id_column": self.settings.id_column}

    def _look_at_window(self) -> None:
        """Begin to learn a new model, or to look for drift, where it is time; events go on meanwhile."""
        n = self.state.n_events - self._looked_at
        is_due = 0 < self.settings.refit_every <= n
        looks = 0 < self.settings.drift_every <= n
        if not (is_due or looks) or self._learning is not None or len(self.recent) < LEAST_WINDOW:
            return
        self._looked_at = self.state.n_events
        rows = list(self.window)
        recent = list(self.recent) if looks else []
        self._learning = self._worker.submit(_learn, self.model, rows, recent, is_due, self.settings)

    def _renew(self) -> list[dict[str, Any]]:
        """Take a model that was learned in the meantime; return the lines that tell of it."""
        if self._learning is None or not self._learning.done():
            return []
        learned = self._learning.result()
        self._learning = None
        lines = []
        if learned.drifted:
            lines.append({"event": "drift", "columns": learned.drifted, "time": clock.stamp()})
        if learned.why:
            lines.append({"event": "not_renewed", "why": learned.why, "time": clock.stamp()})
        if learned.model is not None:
            place = self.folder / f"model-{self.state.n_events}.tellwhy"
            save(learned.model, place)
            self.model = learned.model
            self.state = replace(self.state, model=str(place.resolve()))
            lines.append({"event": "model", "file": place.name, "time": clock.stamp()})
        return lines


@dataclass(frozen=True, eq=False)
class _Learned:
    """What was learned from a window of events."""

    model: TableModel | None = None
    drifted: Sequence[str] = ()
    why: str = ""


def _learn(
    model: TableModel,
    rows: list[Mapping[str, Any]],
    recent: list[Mapping[str, Any]],
    is_due: bool,
    settings: Settings,
) -> _Learned:
    """Look whether recent events drifted, and learn a new model where one is wanted."""
    drifted: list[str] = []
    try:
        if recent:
            found = compare_with_model(model, make_frame(recent), level=DRIFT_LEVEL)
            drifted = [drift.column for drift in found.difference.drifted]
        if not is_due and not (drifted and settings.refits_on_drift):
            return _Learned(drifted=drifted)
        # Of a stream that drifted, what came before the drift is no longer ordinary, and alarms may be.
        table = Table(make_frame(recent if drifted else rows), "stream")
        return _Learned(fit(table, replace(model.request, normal=None), clean=False), drifted)
    except TellwhyError as error:
        return _Learned(drifted=drifted, why=str(error))


def _tell_unreadable(event: Event) -> dict[str, Any]:
    return {"event": "unreadable", "offset": event.after, "why": event.why, "time": clock.stamp()}


def _tell_reasons(anomaly: Anomaly | None) -> dict[str, Any]:
    """Its name, and the reasons of an alarm."""
    if anomaly is None:
        return {"id": None, "reasons": []}
    reasons = [
        {
            "feature": reason.feature,
            "value": make_plain(reason.value),
            "share": reason.share,
            "text": reason.text,
        }
        for reason in anomaly.reasons[:MOST_TOLD]
    ]
    return {"id": anomaly.id, "reasons": reasons}
