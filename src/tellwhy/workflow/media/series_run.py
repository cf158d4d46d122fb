"""From a table of readings in time to its odd stretches, and the channels that make them so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import stage
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.storage import clock
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.detectors import PatchModel
from tellwhy.explainers import PatchRelevance
from tellwhy.workflow.media.foretold import ForetoldHeights
from tellwhy.workflow.media.media_run import Item, MediaRun, Place
from tellwhy.workflow.media.ordinary import Judged, judge
from tellwhy.workflow.media.series_readings import (
    Readings,
    SeriesRequest,
    read_readings,
    reference_readings,
)
from tellwhy.workflow.tables.selection import as_source
from tellwhy.workflow.tables.table_run import versions

TRIMMED = 0.05  # share of the windows left out where a series is its own reference
FOLDS = 3  # parts of the reference that are judged by the others
AROUND = 2  # windows shown before and after a stretch
LEAST_SHARE = 0.1  # of a stretch's relevance, for a channel to be named


def explain_series(data: str | Path | TableLike, **settings: Any) -> MediaRun:
    """Find stretches of a series that look like no other, and tell when and in which channels.

    Parameters
    ----------
    data
        A table with a column of times and columns of readings.
    settings
        See `SeriesRequest`.

    Examples
    --------
    >>> import pandas as pd
    >>> wave = np.sin(np.arange(2000) / 5) + 0.05 * np.random.default_rng(0).normal(size=2000)
    >>> wave[900:920] = wave[900:920][::-1].copy()
    >>> frame = pd.DataFrame({"second": np.arange(2000), "level": wave})
    >>> found = explain_series(frame, time="second", window=20, top=1)
    >>> bool(abs(found.items[0].start - 900) < 20), found.items[0].is_alarm
    (True, True)
    """
    request = SeriesRequest(**settings)
    stage("reading the series")
    table = as_source(data)
    readings = read_readings(table, request)
    other = request.reference
    ordinary = readings if other is None else reference_readings(other, readings, request)
    readings.notices.extend(_at_rest(ordinary, "" if other is None else " in the reference"))
    stage("learning what is ordinary")
    model = _model(request).fit(ordinary.values[None])
    stage("explaining windows")
    told = PatchRelevance(model).explain(readings.values[None])
    scores = told.extras["positions"][0]
    chosen = peaks(scores, request.window)
    own = _Usual(scores[chosen], usual_of(told.values[0], request.window), told.values[0].sum(axis=1))
    usual = own if other is None else _held_out(request, ordinary)
    judged = _judged(scores[chosen], usual, request)
    found = _Found(readings, told.values[0], usual.relevance, scores, chosen, judged)
    items = [_item(found, k, request.window) for k in range(found.n_told(request))]
    return _run(table, request, found, items)


def _at_rest(ordinary: Readings, where: str) -> list[str]:
    """Name channels that never change; an error where none does."""
    resting = [
        c for c, moves in zip(ordinary.channels, np.ptp(ordinary.values, axis=0), strict=True) if not moves
    ]
    if len(resting) == len(ordinary.channels):
        raise InvalidInput(
            f"No channel ever changes{where} ({', '.join(resting[:5])}), so that nothing tells what a small "
            "difference is. Pass readings that vary."
        )
    return [f"Never changes{where}: {', '.join(resting[:10])}."] if resting else []


def _judged(heights: Floats, usual: _Usual, request: SeriesRequest) -> Judged:
    """Judge stretches by each other, or by those of a reference, whose tail has to be foretold."""
    if request.reference is None:
        return judge(heights, usual.peaks, fdr=request.fdr, is_clean=False, few="rank")
    learn = partial(ForetoldHeights.learn, readings=usual.readings)
    return judge(heights, usual.peaks, fdr=request.fdr, few="rank", learn=learn)


def _model(request: SeriesRequest) -> PatchModel:
    return PatchModel(
        patch_size=(request.window,),
        n_train_patches=request.n_windows,
        trim=TRIMMED if request.reference is None else 0.0,
        random_state=request.random_state,
    )


@dataclass(frozen=True, eq=False)
class _Usual:
    """Ordinary stretches."""

    peaks: Floats  # their highest points; of a reference: in the order of time
    relevance: Floats  # that a reading of each channel usually has
    readings: Floats  # relevance of each reading, all channels together


def _held_out(request: SeriesRequest, ordinary: Readings) -> _Usual:
    """Judge each third of the reference by the others.

    A window that overlaps one that was learned from is almost that one: only parts that were not learned from
    at all tell how new readings score.
    """
    parts = np.array_split(ordinary.values, FOLDS)
    if len(parts[-1]) < 2 * request.window:
        whole = PatchRelevance(_model(request).fit(ordinary.values[None])).explain(ordinary.values[None])
        return _Usual(np.empty(0), usual_of(whole.values[0], request.window), np.empty(0))
    heights = []
    relevance = []
    readings = []
    for k, part in enumerate(parts):
        fitted = _model(request).fit([other for i, other in enumerate(parts) if i != k])
        told = PatchRelevance(fitted).explain(part[None])
        scores = told.extras["positions"][0]
        heights.append(scores[np.sort(peaks(scores, request.window))])
        relevance.append(usual_of(told.values[0], request.window))
        readings.append(told.values[0].sum(axis=1))
    return _Usual(np.concatenate(heights), np.mean(relevance, axis=0), np.concatenate(readings))


def usual_of(relevance: Floats, window: int) -> Floats:
    """Return the relevance of a reading in the middle window of each channel: noise is relevant everywhere.

    Examples
    --------
    >>> usual_of(np.array([[1.0], [1.0], [1.0], [9.0]]), 2)
    array([1.])
    """
    sums = np.cumsum(np.vstack([np.zeros(relevance.shape[1]), relevance]), axis=0)
    return np.asarray(np.median(sums[window:] - sums[:-window], axis=0) / window)


@dataclass(frozen=True, eq=False)
class _Found:
    """What is known of a series after it was judged."""

    readings: Readings
    relevance: Floats  # (time, channels)
    usual: Floats  # relevance that a reading of each channel has anyway
    scores: Floats  # of each window
    chosen: Integers  # first readings of the stretches, the oddest first
    judged: Judged

    def n_told(self, request: SeriesRequest) -> int:
        """How many stretches are told."""
        return min(request.top, len(self.chosen))

    def beyond(self, low: int, high: int) -> Floats:
        """Relevance of readings beyond what is usual of their channel: noise is relevant in every window."""
        return np.asarray(np.clip(self.relevance[low:high] - self.usual, 0.0, None))

    def shares(self, start: int, window: int) -> Floats:
        """Share of each channel in what a stretch has beyond the usual."""
        by_channel = self.relevance[start : start + window].sum(axis=0)
        beyond = np.clip(by_channel - window * self.usual, 0.0, None)
        return np.asarray(beyond / (beyond.sum() or 1.0))

    @property
    def is_alarm(self) -> Any:
        threshold = self.judged.threshold
        scores = self.scores[self.chosen]
        return scores > threshold if threshold is not None else np.zeros(len(scores), dtype=bool)


def peaks(scores: Floats, window: int) -> Integers:
    """Return windows that share no reading, the highest first, each the highest of those around it.

    Half a window stays free between two of them: what is odd often reaches a little over the window that has
    most of it, and would be told twice.

    Examples
    --------
    >>> peaks(np.array([0.0, 5.0, 4.0, 0.0, 0.0, 3.0]), 2)
    array([1, 5])
    """
    is_free = np.ones(len(scores), dtype=bool)
    apart = window + window // 2
    found = []
    for start in np.argsort(-scores, kind="stable"):
        if is_free[start]:
            found.append(int(start))
            is_free[max(0, start - apart + 1) : start + apart] = False
    return np.array(found, dtype=np.int64)


def _item(found: _Found, k: int, window: int) -> Item:
    """The stretch of a window, with the channels that make it odd and what lies around it."""
    readings = found.readings
    start = int(found.chosen[k])
    stop = start + window
    low = max(0, start - AROUND * window)
    high = min(len(readings.values), stop + AROUND * window)
    shares = found.shares(start, window)
    order = np.argsort(-shares, kind="stable")
    named = [c for c in order if shares[c] >= LEAST_SHARE]
    places = [Place(readings.channels[c], float(shares[c]), (start - low, stop - low, int(c))) for c in named]
    p_values = found.judged.p_values
    return Item(
        name=f"{readings.times[start]} to {readings.times[stop - 1]}",
        score=float(found.scores[start]),
        is_alarm=bool(found.is_alarm[k]),
        places=places,
        p_value=None if p_values is None else float(p_values[k]),
        data=readings.values[low:high],
        relevance=found.beyond(low, high),
        labels=readings.channels,
        start=int(readings.rows[start]),
        ends=(readings.times[low], readings.times[high - 1]),
    )


def _run(table: Table, request: SeriesRequest, found: _Found, items: Sequence[Item]) -> MediaRun:
    settings = {**vars(request), "threshold_rule": found.judged.rule}
    settings["reference"] = None if request.reference is None else str(request.reference)[:200]
    n = int(found.is_alarm.sum())
    return MediaRun(
        kind="series",
        source=table.source,
        headline=_headline(n, items, is_told=found.judged.threshold is not None),
        summary=_summary(request, found),
        notices=found.readings.notices,
        settings=settings,
        items=items,
        names=[],
        scores=found.scores,
        threshold=found.judged.threshold,
        versions=versions(),
        created=clock.stamp(),
    )


def _headline(n_alarms: int, items: Sequence[Item], *, is_told: bool) -> str:
    first = items[0]
    channel = f", most of all in {first.places[0].text}" if first.places else ""
    if not is_told:
        return (
            f"The oddest stretch is {first.name}{channel}; there are too few stretches to tell whether it is "
            "odd beyond chance."
        )
    if n_alarms == 0:
        return f"No stretch is odd beyond chance; the oddest is {first.name}{channel}."
    verb = "stretch is" if n_alarms == 1 else "stretches are"
    return f"{n_alarms:,} {verb} odd; the oddest is {first.name}{channel}."


def _summary(request: SeriesRequest, found: _Found) -> str:
    against = "each other" if request.reference is None else "the reference"
    n_moments, n_channels = found.readings.values.shape
    return (
        f"{n_moments:,} moments of {n_channels} channel{'s' if n_channels != 1 else ''} were compared with "
        f"{against}, in windows of {request.window} readings, by a one-class SVM. {len(found.chosen):,} "
        f"stretches that do not overlap were judged. Alarms: {found.judged.rule}. Relevance: One-Class DTD "
        "of every window, added up, beyond what is usual of the channel."
    )
