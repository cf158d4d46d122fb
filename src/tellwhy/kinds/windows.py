"""From a table of readings in time to its odd stretches, and the channels that make them so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import versions
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.detectors import PatchModel
from tellwhy.explainers import PatchRelevance
from tellwhy.kinds.model import change_settings, find_first_place, kind
from tellwhy.kinds.readings import Readings, compute_fingerprint, read_readings, read_same
from tellwhy.kinds.table_rows import read_source
from tellwhy.results.notice import Notice, as_notices
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Reason, Result
from tellwhy.scoring.surprise import ForetoldHeights
from tellwhy.storage import clock
from tellwhy.storage.model_file import SavedAsFile
from tellwhy.verdicts.ordinary import Judged, judge


@dataclass(frozen=True)
class SeriesRequest:
    """How a series is judged.

    Attributes
    ----------
    time
        Column of the time; rows are put in its order.
    window
        Readings in a window.
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
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    top: int = 10
    n_windows: int = 3_000
    fdr: float | None = None
    random_state: int = 0

    def _require(self) -> Iterator[Fit]:
        yield "time", isinstance(self.time, str), True
        yield "window", self.window >= 2 and self.top >= 1, True


def _read(table: Table, request: SeriesRequest) -> Readings:
    """Channels of a table that holds two windows at least."""
    found = read_readings(table, request.time, columns=request.columns, exclude=request.exclude)
    return _check_length(found, table, request)


def _read_same(table: Table, channels: Sequence[str], request: SeriesRequest, what: str) -> Readings:
    """Channels of a model in another table."""
    return _check_length(read_same(table, channels, request.time, what), table, request)


def _check_length(found: Readings, table: Table, request: SeriesRequest) -> Readings:
    if len(found.values) < 2 * request.window:
        raise InvalidInput(
            f"{table.source} has {len(found.values):,} moments, fewer than two windows of "
            f"{request.window}. Take a shorter window."
        )
    return found


TRIMMED = 0.05  # share of the windows left out where a series is its own reference
FOLDS = 3  # parts of the reference that are judged by the others
AROUND = 2  # windows shown before and after a stretch
LEAST_SHARE = 0.1  # of a stretch's relevance, for a channel to be named


@dataclass(frozen=True, eq=False)
class SeriesModel(SavedAsFile):
    """How ordinary stretches of a series are.

    Attributes
    ----------
    source, fingerprint
        The table that it was fitted to, and the SHA-256 of its readings.
    request
        What was asked.
    channels
        Columns of readings.
    windows
        The model of windows.
    heights, relevance, readings
        Of the series itself, each third judged by the others: its highest points in the order of time, the
        relevance that a reading of each channel usually has, and that of each reading. Empty where only
        the series itself is judged.
    is_clean
        Whether somebody says that it is ordinary.
    said
        What is to be known of it.
    versions
        Of the packages that it was fitted with.
    """

    kind: ClassVar[str] = "series"

    source: str
    fingerprint: str
    request: SeriesRequest
    channels: tuple[str, ...]
    windows: PatchModel
    heights: Floats
    relevance: Floats
    readings: Floats
    is_clean: bool
    said: tuple[Notice, ...]
    versions: Mapping[str, str]

    def _require(self) -> Iterator[Fit]:
        yield "request", isinstance(self.request, SeriesRequest), True
        yield "channels", are_texts(*self.channels) and len(self.channels) > 0, True
        yield "windows", isinstance(self.windows, PatchModel), True
        size = tuple(self.windows.patch_rows_.windows.size)
        yield "windows", size, (self.request.window,)
        n_channels = self.windows.shape_[-1] if len(self.windows.shape_) == 2 else 1
        yield "channels", len(self.channels), n_channels
        yield "relevance", self.relevance.shape in ((n_channels,), (0,)), True
        yield "heights", self.heights.ndim == self.readings.ndim == 1, True
        yield "source", are_texts(self.source, self.fingerprint), True
        yield "said", all(isinstance(each, (str, Notice)) for each in self.said), True


@dataclass(frozen=True, eq=False)
class Series:
    """Readings to be judged, and what a model says of each.

    Attributes
    ----------
    table
        The table that they stand in.
    request
        What is asked of them.
    readings
        They themselves, in the order of time.
    is_own
        Whether the model was fitted to them.
    relevance
        Of each reading of each channel, and of each window; once they were scored.
    """

    table: Table
    request: SeriesRequest
    readings: Readings
    is_own: bool
    remembered: dict[str, Floats] = field(default_factory=dict)


def explain_series(
    data: str | Path | TableLike, *, reference: str | Path | TableLike | None = None, **settings: Any
) -> Result:
    """Find stretches of a series that look like no other, and tell when and in which channels.

    Parameters
    ----------
    data
        A table with a column of times and columns of readings.
    reference
        Another table of the same columns, of an ordinary time; None: the series is compared with itself.
    settings
        See `SeriesRequest`.

    Examples
    --------
    >>> import pandas as pd
    >>> wave = np.sin(np.arange(2000) / 5) + 0.05 * np.random.default_rng(0).normal(size=2000)
    >>> wave[900:920] = wave[900:920][::-1].copy()
    >>> frame = pd.DataFrame({"second": np.arange(2000), "level": wave})
    >>> found = explain_series(frame, time="second", window=20, top=1)
    >>> bool(abs(found.anomalies[0].row - 900) < 20), found.anomalies[0].is_alarm
    (True, True)
    """
    request = SeriesRequest(**settings)
    stage("reading the series")
    table = read_source(data)
    readings = _read(table, request)
    if reference is None:
        model = learn(table.source, readings, request, for_others=False)
    else:
        ordinary = _read_same(read_source(reference), readings.channels, request, "The reference")
        model = learn(str(reference)[:200], ordinary, request, clean=True)
    batch = Series(table, request, readings, is_own=reference is None)
    judging = SeriesKind()
    batch = judging.check(model, batch)
    found = judging.explain(model, batch, judging.score(model, batch))
    given = None if reference is None else model.source
    return replace(found, settings={**found.settings, "reference": given})


CHANGEABLE = ("time", "top", "fdr")


@kind("series")
class SeriesKind:
    """Stretches of a series: windows of readings in the order of time."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> SeriesModel:
        """Learn how windows look, and how high an ordinary stretch scores."""
        request = SeriesRequest(**settings)
        stage("reading the series")
        table = read_source(source)
        return learn(table.source, _read(table, request), request, clean=clean)

    def read(self, model: SeriesModel, source: Any, settings: Mapping[str, Any]) -> Series:
        """Read the same channels of another table."""
        kept = model.request
        request = replace(kept, **change_settings(kept, settings, CHANGEABLE))
        stage("reading the series")
        table = read_source(source)
        own = _read(table, request) if set(model.channels) <= set(table.frame) else None
        if own is not None and not model.is_clean and compute_fingerprint(own) == model.fingerprint:
            return Series(table, request, own, is_own=True)
        readings = _read_same(table, model.channels, request, "The series")
        return Series(table, request, readings, is_own=False)

    def check(self, model: SeriesModel, batch: Series) -> Series:
        """Say which channels never change in what was learned from."""
        batch.readings.said.extend(as_notices(model.said))
        return batch

    def score(self, model: SeriesModel, batch: Series) -> Floats:
        """Score the window that begins with each reading."""
        stage("explaining windows")
        told = PatchRelevance(model.windows).explain(batch.readings.values[None])
        batch.remembered["relevance"] = told.values[0]
        return np.asarray(told.extras["positions"][0])

    def explain(self, model: SeriesModel, batch: Series, scores: Floats) -> Result:
        """Tell stretches that share no reading, the highest first, and their channels."""
        request = batch.request
        relevance = batch.remembered["relevance"]
        chosen = find_peaks(scores, request.window)
        if batch.is_own:
            usual = measure_usual(relevance, request.window)
            judged = judge(scores[chosen], scores[chosen], fdr=request.fdr, is_clean=False, few="rank")
        else:
            usual = model.relevance
            law = partial(ForetoldHeights.learn, readings=model.readings)
            judged = judge(scores[chosen], model.heights, fdr=request.fdr, few="rank", learn=law)
        found = _Found(batch.readings, relevance, usual, scores, chosen, judged)
        return _make_result(batch, found)


def learn(
    source: str, readings: Readings, request: SeriesRequest, *, clean: bool = False, for_others: bool = True
) -> SeriesModel:
    """Learn from readings; `for_others` where others are to be judged too, which takes three fits more."""
    said = _find_at_rest(readings, " in the reference" if clean else "")
    stage("learning what is ordinary")
    usual = _judge_held_out(request, readings, clean=clean) if for_others else _NOTHING_HELD_OUT
    return SeriesModel(
        source=source,
        fingerprint=compute_fingerprint(readings),
        request=request,
        channels=tuple(readings.channels),
        windows=_make_model(request, clean=clean).fit(readings.values[None]),
        heights=usual.peaks,
        relevance=usual.relevance,
        readings=usual.readings,
        is_clean=clean,
        said=tuple(said),
        versions=versions(),
    )


def _find_at_rest(ordinary: Readings, where: str) -> list[Notice]:
    """Name channels that never change; an error where none does."""
    resting = [
        c for c, moves in zip(ordinary.channels, np.ptp(ordinary.values, axis=0), strict=True) if not moves
    ]
    if len(resting) == len(ordinary.channels):
        raise InvalidInput(
            f"No channel ever changes{where} ({', '.join(resting[:5])}), so that nothing tells what a small "
            "difference is. Pass readings that vary."
        )
    return [Notice("never_changes", {"columns": resting[:10], "where": where})] if resting else []


def _make_model(request: SeriesRequest, *, clean: bool) -> PatchModel:
    return PatchModel(
        patch_size=(request.window,),
        n_train_patches=request.n_windows,
        trim=0.0 if clean else TRIMMED,
        random_state=request.random_state,
    )


@dataclass(frozen=True, eq=False)
class _Usual:
    """Ordinary stretches."""

    peaks: Floats  # their highest points; of a reference: in the order of time
    relevance: Floats  # that a reading of each channel usually has
    readings: Floats  # relevance of each reading, all channels together


_NOTHING_HELD_OUT = _Usual(np.empty(0), np.empty(0), np.empty(0))


def _judge_held_out(request: SeriesRequest, ordinary: Readings, *, clean: bool) -> _Usual:
    """Judge each third of the reference by the others.

    A window that overlaps one that was learned from is almost that one: only parts that were not learned from
    at all tell how new readings score.
    """
    parts = np.array_split(ordinary.values, FOLDS)
    if len(parts[-1]) < 2 * request.window:
        whole = PatchRelevance(_make_model(request, clean=clean).fit(ordinary.values[None])).explain(
            ordinary.values[None]
        )
        return _Usual(np.empty(0), measure_usual(whole.values[0], request.window), np.empty(0))
    heights = []
    relevance = []
    readings = []
    for k, part in enumerate(parts):
        fitted = _make_model(request, clean=clean).fit([other for i, other in enumerate(parts) if i != k])
        told = PatchRelevance(fitted).explain(part[None])
        scores = told.extras["positions"][0]
        heights.append(scores[np.sort(find_peaks(scores, request.window))])
        relevance.append(measure_usual(told.values[0], request.window))
        readings.append(told.values[0].sum(axis=1))
    return _Usual(np.concatenate(heights), np.mean(relevance, axis=0), np.concatenate(readings))


def measure_usual(relevance: Floats, window: int) -> Floats:
    """Return the relevance of a reading in the middle window of each channel: noise is relevant everywhere.

    Examples
    --------
    >>> measure_usual(np.array([[1.0], [1.0], [1.0], [9.0]]), 2)
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

    def around(self, k: int, window: int) -> tuple[int, int]:
        """First and last (exclusive) of the readings that are shown with a stretch."""
        start = int(self.chosen[k])
        return max(0, start - AROUND * window), min(
            len(self.readings.values), start + window + AROUND * window
        )

    def drawn(self, k: int, window: int) -> list[tuple[str, Floats]]:
        """The readings around a stretch, and their relevance, by the names of arrays of a result."""
        low, high = self.around(k, window)
        return [(f"data.{k}", self.readings.values[low:high]), (f"relevance.{k}", self.beyond(low, high))]

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
        """Which stretches are above the line."""
        return self.judged.are_alarms(self.scores[self.chosen])


def find_peaks(scores: Floats, window: int) -> Integers:
    """Return windows that share no reading, the highest first, each the highest of those around it.

    Half a window stays free between two of them: what is odd often reaches a little over the window that has
    most of it, and would be told twice.

    Examples
    --------
    >>> find_peaks(np.array([0.0, 5.0, 4.0, 0.0, 0.0, 3.0]), 2)
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


def _make_anomaly(found: _Found, k: int, window: int) -> Anomaly:
    """The stretch of a window, with the channels that make it odd."""
    readings = found.readings
    start = int(found.chosen[k])
    stop = start + window
    low, high = found.around(k, window)
    shares = found.shares(start, window)
    named = [c for c in np.argsort(-shares, kind="stable") if shares[c] >= LEAST_SHARE]
    return Anomaly(
        Part(
            "span",
            row=int(readings.rows[start]),
            name=f"{readings.times[start]} to {readings.times[stop - 1]}",
        ),
        score=float(found.scores[start]),
        p_value=found.judged.p_value(k),
        is_alarm=bool(found.is_alarm[k]),
        reasons=[
            _make_reason(readings.channels[c], float(shares[c]), (start - low, stop - low, int(c)))
            for c in named
        ],
        shown={"labels": readings.channels, "ends": [readings.times[low], readings.times[high - 1]]},
    )


def _make_reason(channel: str, share: float, box: tuple[int, ...]) -> Reason:
    return Reason(channel, None, [], share, kind="channel", part=Part("span", column=channel, box=box))


def _make_result(batch: Series, found: _Found) -> Result:
    request = batch.request
    window = request.window
    n_told = min(request.top, len(found.chosen))
    anomalies = [_make_anomaly(found, k, window) for k in range(n_told)]
    alarms = AlarmRule(found.judged.rule, int(found.is_alarm.sum()), found.judged.expected_false)
    first = anomalies[0]
    facts = {
        "n_alarms": alarms.n_flagged,
        "first": first.id,
        "is_judged": found.judged.threshold is not None,
        "place": find_first_place(first),
    }
    n_moments, n_channels = found.readings.values.shape
    done = {
        "n_moments": n_moments,
        "n_channels": n_channels,
        "against": "each other" if batch.is_own else "the reference",
        "window": window,
        "n_stretches": len(found.chosen),
        "rule": found.judged.rule,
    }
    return Result(
        kind="series",
        source=batch.table.source,
        settings={**asdict(request), "threshold_rule": found.judged.rule},
        anomalies=anomalies,
        scores=found.scores,
        threshold=found.judged.threshold,
        alarms=alarms,
        columns=found.readings.channels,
        opening=Headline(len(found.chosen), alarms, is_written=True, more=[Notice("odd_stretches", facts)]),
        done=Notice("stretches_compared", done),
        notices=found.readings.said,
        arrays=dict(array for k in range(n_told) for array in found.drawn(k, window)),
        versions=versions(),
        fingerprint=batch.table.fingerprint,
        created=clock.stamp(),
    )
