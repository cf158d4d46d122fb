"""--window: a series explained.

Readings of a table in the order of time: which columns are channels, what is averaged and filled in.

From a table of readings in time to its odd stretches, and the channels that make them so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.checks.in_time.clock import read_stamps, stamp_words
from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.detectors import PatchModel
from tellwhy.explainers import PatchRelevance
from tellwhy.kinds.table_result import versions
from tellwhy.kinds.table_rows import as_source
from tellwhy.results.media_run import Item, MediaRun, Place
from tellwhy.scoring.foretold import ForetoldHeights
from tellwhy.storage import clock
from tellwhy.verdicts.ordinary import Judged, judge

MOST_MISSING = 0.5  # share of a channel's readings that may be filled in


@dataclass(frozen=True)
class SeriesRequest:
    """How a series is judged.

    Attributes
    ----------
    time
        Column of the time; rows are put in its order.
    window
        Readings in a window.
    reference
        Another table of the same columns, of an ordinary time; None: the series is compared with itself.
    columns, exclude
        Columns to use, or not to use, as channels; by default all that hold numbers.
    top
        How many stretches are told.
    n_windows
        Windows to learn from.
    fdr
        Expected share of false alarms among the alarms.
    random_state
        Seed of every draw.
    """

    time: str
    window: int
    reference: str | Path | TableLike | None = None
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    top: int = 10
    n_windows: int = 3_000
    fdr: float | None = None
    random_state: int = 0


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings of channels in the order of time."""

    values: Floats  # (time, channels)
    channels: list[str]
    rows: Integers  # of the table
    times: list[str]
    notices: list[str]


def read_readings(table: Table, request: SeriesRequest) -> Readings:
    """Return channels in the order of time; rows of the same time are averaged, gaps are filled in."""
    if request.time not in table.frame:
        names = ", ".join(map(repr, table.frame.columns[:10]))
        raise InvalidInput(f"{table.source} has no column {request.time!r} for the time. It has: {names}.")
    stamps = read_stamps(table, request.time)
    frame = table.frame.iloc[stamps.order]
    notices = [*table.notices, *stamps.notices]
    keys = frame[request.time].to_numpy()
    channels, left_out = _channels(frame, request)
    if left_out:
        notices.append(f"Not used, since they hold no numbers: {', '.join(left_out[:10])}.")
    values, told = _filled(frame[channels].astype(np.float64), keys)
    notices += told
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    if len(first) < 2 * request.window:
        raise InvalidInput(
            f"{table.source} has {len(first):,} moments, fewer than two windows of {request.window}. Take a "
            "shorter window."
        )
    moments = stamps.shown
    times = [str(k) for k in keys[first]] if moments is None else [stamp_words(m) for m in moments[first]]
    return Readings(values, channels, stamps.order[first], times, notices)


def _channels(frame: pd.DataFrame, request: SeriesRequest) -> tuple[list[str], list[str]]:
    """Columns of readings, and those left out because they hold none."""
    named = request.columns
    for name in [*(named or []), *request.exclude]:
        if name not in frame:
            raise InvalidInput(f"There is no column {name!r}. There are: {', '.join(frame.columns[:10])}.")
    wanted = [c for c in named or frame.columns if c != request.time and c not in request.exclude]
    numeric = [c for c in wanted if pd.api.types.is_numeric_dtype(frame[c]) and frame[c].notna().any()]
    usable = [c for c in numeric if frame[c].isna().mean() <= MOST_MISSING]
    if not usable:
        raise InvalidInput(
            "No column holds readings: numbers, of which at most half are missing. Name the columns with "
            "--columns, or write decimals with points."
        )
    return usable, [c for c in wanted if c not in usable]


def _filled(frame: pd.DataFrame, keys: Any) -> tuple[Floats, list[str]]:
    notices = []
    if (keys[1:] == keys[:-1]).any():
        frame = frame.groupby(pd.Series(keys, index=frame.index), sort=False).mean()
        notices.append("Rows of the same time were averaged.")
    if np.isinf(frame.to_numpy()).any():
        frame = frame.replace([np.inf, -np.inf], np.nan)
    n_missing = int(frame.isna().sum().sum())
    if n_missing:
        notices.append(f"{n_missing:,} missing readings were filled in between their neighbours.")
        frame = frame.interpolate(limit_direction="both")
    return frame.to_numpy(dtype=np.float64), notices


def reference_readings(other: Any, readings: Readings, request: SeriesRequest) -> Readings:
    """Return the same channels of another table, of an ordinary time."""
    table = as_source(other)
    missing = [name for name in readings.channels if name not in table.frame]
    if missing:
        raise InvalidInput(f"The reference {table.source} lacks the columns {', '.join(missing)}.")
    named = SeriesRequest(request.time, request.window, columns=readings.channels)
    found = read_readings(table, named)
    if found.channels != readings.channels:
        raise InvalidInput(f"The reference {table.source} holds no numbers in some of the channels.")
    return found


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
